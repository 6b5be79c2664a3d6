"""Pretended nodes run pretended pods, so that a controller can be measured at scale."""

from collections.abc import Iterator

import pytest
from tests.cluster import versions
from tests.cluster.cluster import Cluster
from tests.cluster.fixtures import private_control_plane

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def pretended() -> Iterator[Cluster]:
    with private_control_plane(versions.DEFAULT_MINOR, kwok_nodes=3) as cluster:
        yield cluster


def test_pods_of_a_deployment_become_ready(pretended: Cluster) -> None:
    """By status only, on more than one node, and a rolling update goes through."""
    pretended.kubectl("create", "deployment", "web", "--image=none:1", "--replicas=30")
    pretended.kubectl("rollout", "status", "deployment/web", "--timeout=60s", seconds=70)
    nodes = "--output=jsonpath={.items[*].spec.nodeName}"
    assert len(set(pretended.kubectl("get", "pods", nodes).split())) == 3
    pretended.kubectl("rollout", "restart", "deployment/web")
    pretended.kubectl("rollout", "status", "deployment/web", "--timeout=60s", seconds=70)


def test_pod_can_be_deleted(pretended: Cluster) -> None:
    """The last of the stages: no other program confirms the end of its containers."""
    pretended.kubectl("run", "alone", "--image=none:1")
    pretended.kubectl("wait", "--for=condition=Ready", "pod/alone", "--timeout=30s")
    pretended.kubectl("delete", "pod", "alone", "--timeout=30s")
