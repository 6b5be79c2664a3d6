"""Reports: Events, log, status, metrics, webhooks."""
