"""Clients of other people against a local plane, and the environment of those in Python."""
