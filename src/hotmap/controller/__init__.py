"""The controller: one per cluster, watches sources, finds consumers, delivers changes.

The path of one change (see docs/architecture.md):

1. `kube.reflector` stores a changed ConfigMap or Secret, reduced to fingerprints.
2. `watch.changes` finds the affected consumers and adds their object keys to two queues:
   `refresh` at once, `reconcile` after the settle time.
3. `reconcile` takes a snapshot (`watch.observation`) and calls `core.decide`.
4. `reconcile.executor` carries out the actions; `storage.records` keeps what was applied.
5. `report` logs the reason, writes it as an Event, and serves it as the status.

Decisions are in `core`, the API client is in `kube`.
"""
