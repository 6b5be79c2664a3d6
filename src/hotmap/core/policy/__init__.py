"""Policies: what annotations and flags permit for a consumer."""
