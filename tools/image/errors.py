"""The error of making images."""

__all__ = ["ImageError"]


class ImageError(Exception):
    """An image cannot be made; the text says why, and what to do."""
