"""The controller's persistent state, in Secrets of its own namespace."""
