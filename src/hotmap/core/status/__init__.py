"""The status of a consumer and its pods: desired, projected, loaded."""
