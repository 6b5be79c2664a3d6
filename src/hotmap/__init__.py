"""hotmap delivers ConfigMap and Secret edits to every process that uses them."""

__version__ = "0.1.0"
