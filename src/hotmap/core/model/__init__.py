"""Kubernetes objects as hotmap decodes them, and the values that it keeps of them."""
