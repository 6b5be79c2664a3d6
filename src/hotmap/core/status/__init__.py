"""What is told of a consumer and its pods: desired, projected, loaded."""
