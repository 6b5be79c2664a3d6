"""Every program is pinned to an exact version, written once, in the go.mod of its set."""

import re

import pytest
from tests.cluster import pin, versions
from tests.cluster.errors import TestBedError
from tests.cluster.versions import CLIENTS, COREDNS, E2E, ETCD, HELM, KWOK, ModuleSet

SETS = [
    *map(versions.kubernetes, versions.kubernetes_minors()),
    ETCD,
    KWOK,
    COREDNS,
    HELM,
    E2E,
    CLIENTS,
]
UPSTREAM = """\
module k8s.io/kubernetes

go 1.26.0

godebug default=go1.26

require (
	github.com/some/thing v1.2.3
	k8s.io/api v0.0.0
)

replace (
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/kubelet => ./staging/src/k8s.io/kubelet
)
"""


@pytest.mark.parametrize("modules", SETS, ids=lambda modules: modules.folder.name)
def test_set_names_one_exact_version_and_has_its_sums(modules: ModuleSet) -> None:
    """A version has three numbers, and go.sum holds the sum of exactly that module."""
    assert re.fullmatch(r"\d+\.\d+\.\d+", modules.version)
    assert f"{modules.module} v{modules.version} h1:" in (modules.folder / "go.sum").read_text()


@pytest.mark.parametrize("modules", SETS, ids=lambda modules: modules.folder.name)
def test_folder_is_named_after_release_line_it_pins(modules: ModuleSet) -> None:
    """kubernetes-1.36 pins a 1.36 release, so that no other release is used."""
    assert modules.version.startswith(modules.folder.name.rpartition("-")[2] + ".")


@pytest.mark.parametrize("modules", SETS, ids=lambda modules: modules.folder.name)
def test_sets_name_no_download_location(modules: ModuleSet) -> None:
    """Modules come from wherever the user's Go looks for them; no file here says where."""
    text = "".join((modules.folder / name).read_text() for name in ("go.mod", "go.sum"))
    assert "://" not in text
    assert "GOPROXY" not in text


def test_kubernetes_programs_report_the_release_they_are_built_from() -> None:
    """The linker flags carry the pinned version; else the programs say v0.0.0-master."""
    modules = versions.kubernetes("1.36")
    assert f"version.gitVersion=v{modules.version}" in modules.linker_flags
    assert "version.gitMinor=36" in modules.linker_flags


def test_unpinned_minor_is_refused_with_choices() -> None:
    """The sentence lists what can be chosen instead."""
    with pytest.raises(TestBedError, match=r"Kubernetes 1\.2 is not pinned .* 1\.35, 1\.36"):
        versions.kubernetes("1.2")


def test_pinning_replaces_each_staging_module_by_its_published_version() -> None:
    """Release 1.X.Y publishes its staging modules as v0.X.Y, and go.mod must say so for each."""
    text = pin.kubernetes_go_mod(UPSTREAM, "1.36.3")
    assert "require k8s.io/kubernetes v1.36.3\n" in text
    assert "\tk8s.io/api => k8s.io/api v0.36.3\n" in text
    assert "\tk8s.io/kubelet => k8s.io/kubelet v0.36.3\n" in text
    assert "github.com/some/thing" not in text
    assert "\tk8s.io/kubernetes/cmd/kubelet\n" in text
