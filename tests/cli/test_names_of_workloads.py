"""What a person may write to mean a workload."""

from __future__ import annotations

import pytest

from hotmap.cli.names import Name, read_name
from hotmap.core.errors import SettingsError


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("web", Name("", "shop", "web")),
        ("deploy/web", Name("Deployment", "shop", "web")),
        ("Deployment/web", Name("Deployment", "shop", "web")),
        ("deployments.apps/web", Name("Deployment", "shop", "web")),
        ("sts/db", Name("StatefulSet", "shop", "db")),
        ("ds/log", Name("DaemonSet", "shop", "log")),
        ("cj/nightly", Name("CronJob", "shop", "nightly")),
        ("ops/web", Name("", "ops", "web")),
        ("sts/ops/db", Name("StatefulSet", "ops", "db")),
        ("pod/pod/pod", Name("Pod", "pod", "pod")),
    ],
)
def test_a_name_is_read(text: str, name: Name) -> None:
    """With a kind as kubectl calls it, with a namespace, with both or with neither."""
    assert read_name(text, "shop") == name


def test_a_name_is_written_as_it_is_asked_for() -> None:
    """`?consumer=[KIND/]NAMESPACE/NAME`."""
    assert str(read_name("web", "shop")) == "shop/web"
    assert str(read_name("sts/db", "shop")) == "StatefulSet/shop/db"


@pytest.mark.parametrize("text", ["", "/", "web/", "/web", "a//b", "a/b/c", "a/b/c/d"])
def test_what_is_no_name(text: str) -> None:
    """Empty parts, too many of them, and three of which the first is no kind."""
    with pytest.raises(SettingsError):
        read_name(text, "shop")
