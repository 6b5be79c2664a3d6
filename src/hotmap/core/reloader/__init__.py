"""Reloader's annotations, and its two strategies of writing a rollout."""
