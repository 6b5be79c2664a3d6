"""The only HTTP client of a Kubernetes API server: settings, calls, watches, stores and queues.

The way of one watched object: `client` (bytes) → `watch` (watch events) → `reflector`
(what exists) → `store` (objects by key) → listeners → `workqueue` (when). Nothing here knows
what a ConfigMap means; that is decided in `core`.
"""
