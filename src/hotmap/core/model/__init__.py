"""What the API server's objects say to hotmap: only what is read, and what is kept of it."""
