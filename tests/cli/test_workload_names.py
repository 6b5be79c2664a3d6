"""Names of workloads on the command line."""

from __future__ import annotations

import pytest

from hotmap.cli.workload_names import (
    SourceName,
    WorkloadName,
    parse_source_name,
    parse_workload_name,
)
from hotmap.core.errors import SettingsError


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("web", WorkloadName("", "shop", "web")),
        ("deploy/web", WorkloadName("Deployment", "shop", "web")),
        ("Deployment/web", WorkloadName("Deployment", "shop", "web")),
        ("deployments.apps/web", WorkloadName("Deployment", "shop", "web")),
        ("sts/db", WorkloadName("StatefulSet", "shop", "db")),
        ("ds/log", WorkloadName("DaemonSet", "shop", "log")),
        ("cj/nightly", WorkloadName("CronJob", "shop", "nightly")),
        ("ops/web", WorkloadName("", "ops", "web")),
        ("sts/ops/db", WorkloadName("StatefulSet", "ops", "db")),
        ("pod/pod/pod", WorkloadName("Pod", "pod", "pod")),
    ],
)
def test_name_is_parsed(text: str, name: WorkloadName) -> None:
    """With a kind as in kubectl, with a namespace, with both or with neither."""
    assert parse_workload_name(text, "shop") == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("cm/app", SourceName("ConfigMap", "shop", "app")),
        ("ConfigMaps/app", SourceName("ConfigMap", "shop", "app")),
        ("secret/ops/db", SourceName("Secret", "ops", "db")),
        (
            "secretproviderclasses.secrets-store.csi.x-k8s.io/vault",
            SourceName("SecretProviderClass", "shop", "vault"),
        ),
        ("app", None),
        ("cm/", None),
        ("ops/web", None),
        ("deploy/secret", None),
        ("cm/a/b/c", None),
    ],
)
def test_name_of_a_source_is_parsed(text: str, name: SourceName | None) -> None:
    assert parse_source_name(text, "shop") == name


@pytest.mark.parametrize("text", ["cm/app", "secret/ops/db"])
def test_name_of_a_source_is_not_a_name_of_a_workload(text: str) -> None:
    with pytest.raises(SettingsError, match=f"'hotmap status {text}' shows the workloads"):
        parse_workload_name(text, "shop")


def test_name_is_formatted_for_the_status_query() -> None:
    """`?workload=[KIND/]NAMESPACE/NAME`."""
    assert str(parse_workload_name("web", "shop")) == "shop/web"
    assert str(parse_workload_name("sts/db", "shop")) == "StatefulSet/shop/db"


@pytest.mark.parametrize("text", ["", "/", "web/", "/web", "a//b", "a/b/c", "a/b/c/d"])
def test_invalid_name_is_an_error(text: str) -> None:
    """Empty parts, too many parts, or an unknown kind."""
    with pytest.raises(SettingsError):
        parse_workload_name(text, "shop")
