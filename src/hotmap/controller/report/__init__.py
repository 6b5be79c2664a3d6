"""Tells: Events, log, status, metrics, webhooks."""
