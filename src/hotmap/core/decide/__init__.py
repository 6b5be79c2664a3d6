"""Decides from a snapshot of one consumer, and builds its next record."""
