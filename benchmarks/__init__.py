"""Measures the figures that hotmap promises: `python -m benchmarks`."""
