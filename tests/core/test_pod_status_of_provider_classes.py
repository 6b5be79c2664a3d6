"""What pods have mounted of a SecretProviderClass, as its CSI driver reports it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.pod_stages import ENV_CONTENT, NOW, observed_pod

from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.provider_class import ClassMounts, MountedPod
from hotmap.core.status.desired import DesiredClass
from hotmap.core.status.pods import pod_proofs
from hotmap.core.status.stage import Confidence, PodState

VAULT = ObjectKey("SecretProviderClass", "shop", "vault")


@pytest.mark.parametrize(
    ("mounted", "is_known", "is_reread", "confidence", "state"),
    [
        pytest.param((), True, False, Confidence.UNKNOWN, PodState.UNKNOWN, id="not reported"),
        pytest.param((True,), True, False, Confidence.INFERRED, PodState.CURRENT, id="at start"),
        pytest.param((True,), False, False, Confidence.UNKNOWN, PodState.UNKNOWN, id="unknown"),
        pytest.param((False,), True, False, Confidence.UNKNOWN, PodState.UNKNOWN, id="others"),
        pytest.param((False,), True, True, Confidence.UNKNOWN, PodState.UNKNOWN, id="behind"),
        pytest.param(
            (True, True, 1100.0), True, False, Confidence.UNKNOWN, PodState.UNKNOWN, id="updated"
        ),
        pytest.param(
            (True, True, None), True, False, Confidence.UNKNOWN, PodState.UNKNOWN, id="no time"
        ),
        pytest.param(
            (True, True, 900.0), True, False, Confidence.INFERRED, PodState.CURRENT, id="restarted"
        ),
        pytest.param(
            (True, True, 1100.0), True, True, Confidence.INFERRED, PodState.DELIVERED, id="re-read"
        ),
    ],
)
def test_pod_of_class_is_current_only_by_what_it_mounted(
    mounted: tuple[Any, ...],
    is_known: bool,
    is_reread: bool,
    confidence: Confidence,
    state: PodState,
) -> None:
    """The times of the class prove nothing, and neither does the kubelet's sync."""
    pods = (MountedPod("web-1", *mounted),) if mounted else ()
    wanted = DesiredClass(VAULT, ClassMounts(is_known, True, pods), is_reread)
    content = ENV_CONTENT._replace(start_changes=(), classes=(wanted,), rereads=is_reread)
    (proof,) = pod_proofs(content, [observed_pod(1000.0)], now=NOW)
    assert (proof.loaded.confidence, proof.state) == (confidence, state)
