"""What the controller keeps, in Secrets of its own namespace."""
