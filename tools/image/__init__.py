"""Makes the images of the controller and the agent for both architectures: `make image`."""
