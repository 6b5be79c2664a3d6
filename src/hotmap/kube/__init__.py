"""The only HTTP client of a Kubernetes API server: settings, calls, watches, stores and queues.

The path of one watched object: `client` (bytes) → `watch` (watch events) → `reflector` (existing
objects) → `store` (objects by key) → listeners → `workqueue` (when). Nothing here interprets a
ConfigMap; `core` does.
"""
