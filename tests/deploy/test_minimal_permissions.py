"""deploy/base on a real Kubernetes: the controller is a pod, and has the rights of its roles only.

The walkthroughs are those of tests/walkthroughs; `backend` is the installed controller's here.
"""

from __future__ import annotations

import json
import subprocess

import pytest
from tests.deploy.installation import Installation
from tests.walkthroughs.test_w05_edits_by_themselves import (
    test_environment_of_a_running_pod_is_unchanged,
    test_files_do_not_follow_at_once,
    test_files_follow_after_the_sync_period,
)
from tests.walkthroughs.test_w06_rollout_by_hand import (
    test_annotation_rolls_out_and_undo_restores,
)
from tests.walkthroughs.test_w07_rollout_by_variable import (
    test_variable_of_one_container_rolls,
)
from tests.walkthroughs.test_w09_restart_controller import (
    test_config_map_that_is_not_named_restarts_nothing,
    test_edit_of_either_config_map_restarts_pod,
)
from tests.walkthroughs.test_w10_instant_refresh import (
    test_annotation_of_pod_brings_files,
    test_directory_watch_reports_one_refresh_in_order,
    test_hotmap_annotates_the_pod_by_itself,
)

__all__ = [
    "test_annotation_of_pod_brings_files",
    "test_annotation_rolls_out_and_undo_restores",
    "test_config_map_that_is_not_named_restarts_nothing",
    "test_directory_watch_reports_one_refresh_in_order",
    "test_edit_of_either_config_map_restarts_pod",
    "test_environment_of_a_running_pod_is_unchanged",
    "test_files_do_not_follow_at_once",
    "test_files_follow_after_the_sync_period",
    "test_hotmap_annotates_the_pod_by_itself",
    "test_variable_of_one_container_rolls",
]

pytestmark = pytest.mark.cluster


def test_controller_becomes_the_ready_leader(base: Installation) -> None:
    """It sees all that it asks for, and holds the Lease under its pod's name."""
    (ready,) = [json.loads(answer) for answer in base.ask("readyz")]
    assert ready == {
        "ready": True,
        "role": "leader",
        "notSynced": [],
        "refused": {},
        "problems": [],
    }
    (pod,) = base.pods()
    assert base.leader().startswith(pod["metadata"]["name"] + "_")
    assert base.restarts() == 0


@pytest.mark.parametrize(
    "asked",
    [
        "get secrets --namespace=default",
        "get secrets/other --namespace=hotmap",
        "update secrets/other --namespace=hotmap",
        "update secrets/hotmap-key --namespace=default",
        "create secrets --namespace=default",
        "delete secrets/hotmap-key --namespace=hotmap",
        "update leases.coordination.k8s.io/other --namespace=hotmap",
        "create pods --namespace=hotmap",
        "delete pods --namespace=default",
        "create pods --subresource=exec --namespace=default",
        "update deployments.apps --namespace=default",
        "patch configmaps --namespace=default",
        "patch namespaces",
        "impersonate serviceaccounts --namespace=hotmap",
        "get nodes",
    ],
)
def test_other_requests_are_denied(base: Installation, asked: str) -> None:
    """What the controller could abuse and does not need, the API server denies it."""
    assert not may(base, asked)


def test_own_secrets_are_readable_by_name(base: Installation) -> None:
    """The last shard as well as the key; so the denials above are no other mistake's."""
    for name in ("hotmap-key", "hotmap-state-31"):
        assert may(base, f"get secrets/{name} --namespace=hotmap")


def may(installation: Installation, asked: str) -> bool:
    """Ask the API server about a right of the controller's ServiceAccount."""
    cluster = installation.cluster
    account = "--as=system:serviceaccount:hotmap:hotmap"
    done = subprocess.run(
        [
            *(cluster.kubectl_path, f"--kubeconfig={cluster.kubeconfig}"),
            *("auth", "can-i", account, *asked.split()),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout in ("yes\n", "no\n"), done.stderr
    return done.stdout == "yes\n"
