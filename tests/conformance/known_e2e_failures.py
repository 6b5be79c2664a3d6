"""Specs of upstream's e2e.test that a local plane cannot run, or fails, each with its reason."""

from __future__ import annotations

#: An expression over the specs' texts → why they are not run; most would wait for minutes.
OUT_OF_REACH: tuple[tuple[str, str], ...] = (
    (r"ConversionWebhook|CustomResourceFieldSelectors", "Custom resources are not converted."),
    (r"Aggregator|Aggregated APIServer", "There is no aggregation of API servers."),
    (
        r"compacted away",
        "It waits for the compaction that etcd's API server does every five minutes.",
    ),
    (
        r"priority and fairness should ensure",
        "Requests are not queued by priority; the objects are only stored.",
    ),
    (
        r"ValidatingAdmissionPolicy.*should type check",
        "No controller checks the types of expressions; the spec waits for it without a bound.",
    ),
    (r"MutatingAdmissionPolicy", "Mutating policies are not supported."),
    (
        r"negotiate watch and report errors with accept \"application/vnd.kubernetes.protobuf\"",
        "Answers are JSON; protobuf is read, not written.",
    ),
    (r"90 percent of 100 namespaces", "A test of speed, not required for conformance."),
    (r"NodeAuthenticator", "The kubelet has no port of its own."),
    (
        r"ServiceAccountIssuerDiscovery|InClusterConfig with token rotation",
        "The pods need DNS, which the plane does not have.",
    ),
    (
        r"StatefulSet .*Should recreate evicted statefulset",
        "The kubelet rejects no pod whose host port is taken; the spec waits for that.",
    ),
)

_OPENAPI = "[sig-api-machinery] CustomResourcePublishOpenAPI [Privileged:ClusterAdmin]"

#: The spec's whole text → why it fails.
FAILURES: dict[str, str] = {
    f"{_OPENAPI} works for CRD with validation schema [Conformance]": (
        "kubectl explain shows no descriptions of metadata: those are texts of upstream."
    ),
    "[sig-apps] Daemon set [Serial] should rollback without unnecessary restarts [Conformance]": (
        "A plane has one node."
    ),
    "[sig-architecture] Conformance Tests should have at least two untainted nodes "
    "[Conformance]": "A plane has one node.",
}
