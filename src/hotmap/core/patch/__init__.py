"""Bodies of the requests that carry out an action."""
