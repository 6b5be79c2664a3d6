"""The controller: one per cluster, watches sources, finds consumers, makes changes real.

The way of one change (docs/architecture.md draws it):

1. `kube.reflector` puts a changed ConfigMap or Secret, reduced to marks, into a store.
2. `index` finds the consumers that may be concerned and puts their object keys into two queues:
   `refresh` at once, `reconcile` after the settle time.
3. `reconcile` observes what is true now, judges it by `core.freshness` and makes a `core.plan`.
4. `executor` carries out the plan's actions; `records` keeps what was asked.
5. `journal` keeps the reason, `kube.recorder` writes it as an Event, `server` shows it.

What is decided does not live here (core), nor how Kubernetes is spoken to (kube).
"""
