"""Reconciles consumers with their sources."""
