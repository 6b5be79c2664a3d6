"""The link by which a kubelet publishes a volume: all that readers share with the writer."""

__all__ = ["DATA_LINK"]

#: The link that a reader resolves once to see one revision, and that a watcher watches.
DATA_LINK = "..data"
