"""Reloader's annotations, and its two ways of writing a rollout."""
