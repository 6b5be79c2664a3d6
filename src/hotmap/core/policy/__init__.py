"""What annotations and flags permit for a consumer."""
