"""deploy/ha on a real Kubernetes: two replicas, and the one that acts is killed."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator

import pytest
from tests.cluster.cluster import Cluster
from tests.deploy.installation import Installation, installed, refusals
from tests.walkthroughs.backend import until
from tests.walkthroughs.cluster import ClusterBackend
from tests.walkthroughs.manifests import CONFIG, ENVIRONMENT
from tests.walkthroughs.steps import replaced, running_pod, variable

pytestmark = pytest.mark.cluster

FOLLOW = {"metadata": {"annotations": {"hotmap.dev/follow": "auto"}}}


@pytest.fixture(scope="module")
def ha(real_cluster: Cluster) -> Iterator[Installation]:
    with installed(real_cluster, "ha.yaml", namespace="hotmap") as installation:
        yield installation


def test_one_replica_leads_and_one_is_standby(ha: Installation) -> None:
    """Both are ready, so both count for the PodDisruptionBudget; one may be evicted."""
    answers = [json.loads(answer) for answer in ha.ask("readyz")]
    assert sorted(answer["role"] for answer in answers) == ["leader", "standby"]
    assert all(answer["ready"] for answer in answers)
    allowed = "--output=jsonpath={.status.disruptionsAllowed}"
    assert ha.kubectl("get", "poddisruptionbudget", "hotmap", allowed) == "1"


async def test_edit_between_leaders_is_delivered_once(ha: Installation) -> None:
    """The leader is killed, a ConfigMap edited before another one leads: one rollout."""
    async with ClusterBackend(ha.cluster, f"ha-{uuid.uuid4().hex[:8]}") as backend:
        await backend.create(CONFIG + ENVIRONMENT)
        await backend.patch("Deployment", "my-nginx", FOLLOW)
        first = await running_pod(backend, "my-nginx")
        workload = (await backend.get("Deployment", "my-nginx"))["metadata"]["uid"]

        async def recorded() -> bool | None:
            return workload in ha.state() or None

        # An edit of what no leader has recorded yet is adopted, without a rollout.
        await until(recorded, "the workload is recorded")
        killed = ha.leader()
        ha.kill_leader()
        await backend.patch("ConfigMap", "env-config", {"data": {"log_level": "DEBUG"}})
        assert ha.leader() == killed
        second = await replaced(backend, "my-nginx", first)
        assert await variable(backend, second, "log_level") == "DEBUG"
        assert await backend.history("my-nginx") == [1, 2]
        assert ha.leader() != killed
        assert ha.restarts() == 1

        async def both() -> bool | None:
            statuses = [pod["status"]["containerStatuses"][0] for pod in ha.pods()]
            return [status["ready"] for status in statuses] == [True, True] or None

        await until(both, "the killed replica is back")
        assert [refusals(metrics) for metrics in ha.ask("metrics")] == [[], []]
