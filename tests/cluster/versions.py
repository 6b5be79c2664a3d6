"""Which upstream programs the test bed runs, and at which version.

A version is written once, in the `go.mod` of its module set under `modules/`; everything else
reads it from there. What is built from a set, and with which linker flags, is decided here;
how, in `build.py`.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.errors import TestBedError

MODULES = Path(__file__).with_name("modules")
DEFAULT_MINOR = "1.36"

# What a cluster cannot do without, in the order in which it is useful to have them.
CONTROL_PLANE = ("kubectl", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
NODE = ("kubelet", "kube-proxy")


@dataclass(frozen=True)
class ModuleSet:
    """Programs that are built from one `go.mod`, because they can share all their versions."""

    folder: Path
    module: str  # the required module whose version names the set, e.g. "k8s.io/kubernetes"
    packages: dict[str, str]  # program → Go package; "." is the few lines beside go.mod
    tests: frozenset[str] = frozenset()  # programs that are tests of their package

    @property
    def name(self) -> str:
        """The set with its full version, e.g. "kubernetes-1.36.3"; names its cache folder."""
        return f"{self.folder.name.rpartition('-')[0]}-{self.version}"

    @property
    def version(self) -> str:
        """The pinned version without its "v", e.g. "1.36.3"."""
        found = re.search(rf"\b{re.escape(self.module)} v(\S+)", self._go_mod())
        if found is None:
            raise TestBedError(f"{self.folder / 'go.mod'} does not require {self.module}.")
        return found[1]

    @property
    def go(self) -> tuple[int, int]:
        """The oldest Go release that can build the set, e.g. (1, 26)."""
        found = re.search(r"^go (\d+)\.(\d+)", self._go_mod(), re.MULTILINE)
        if found is None:
            raise TestBedError(f"{self.folder / 'go.mod'} has no go line.")
        return int(found[1]), int(found[2])

    @property
    def linker_flags(self) -> str:
        """Flags that make the programs report their release.

        Without them they say v0.0.0-master, and kubectl and the components then reason about
        version skew from that (kubernetes: staging/src/k8s.io/component-base/version/base.go).
        """
        if self.module == "helm.sh/helm/v4":
            return f"-s -w -X {self.module}/internal/version.version=v{self.version}"
        if self.module != "k8s.io/kubernetes":
            return "-s -w"
        major, minor, _ = self.version.split(".")
        component = "k8s.io/component-base/version"
        return " ".join(
            [
                "-s -w",
                f"-X {component}.gitVersion=v{self.version}",
                f"-X {component}.gitMajor={major}",
                f"-X {component}.gitMinor={minor}",
                f"-X k8s.io/client-go/pkg/version.gitVersion=v{self.version}",
            ]
        )

    def _go_mod(self) -> str:
        return (self.folder / "go.mod").read_text()


def kubernetes_minors() -> list[str]:
    """List the minor releases that are pinned here, oldest first, e.g. ["1.35", "1.36", "1.37"]."""
    minors = (path.name.removeprefix("kubernetes-") for path in MODULES.glob("kubernetes-*"))
    return sorted(minors, key=lambda minor: [int(part) for part in minor.split(".")])


def kubernetes(minor: str = DEFAULT_MINOR) -> ModuleSet:
    """Return the module set of one Kubernetes minor release.

    Raises:
        TestBedError: the minor is not pinned; the message lists those that are.
    """
    if minor not in kubernetes_minors():
        raise TestBedError(
            f"Kubernetes {minor} is not pinned in {MODULES};"
            f" choose one of {', '.join(kubernetes_minors())}."
        )
    return ModuleSet(
        MODULES / f"kubernetes-{minor}",
        "k8s.io/kubernetes",
        {program: f"k8s.io/kubernetes/cmd/{program}" for program in (*CONTROL_PLANE, *NODE)},
    )


ETCD = ModuleSet(MODULES / "etcd-3.6", "go.etcd.io/etcd/server/v3", {"etcd": "."})
KWOK = ModuleSet(MODULES / "kwok-0.8", "sigs.k8s.io/kwok", {"kwok": "sigs.k8s.io/kwok/cmd/kwok"})
COREDNS = ModuleSet(
    MODULES / "coredns-1.15",
    "github.com/coredns/coredns",
    {"coredns": "github.com/coredns/coredns"},
)
# Upstream's own tests of a cluster, the program that their pods run, and that which runs them.
E2E = ModuleSet(
    MODULES / "e2e-1.36",
    "k8s.io/kubernetes",
    {
        "e2e.test": "k8s.io/kubernetes/test/e2e",
        "agnhost": "k8s.io/kubernetes/test/images/agnhost",
        "ginkgo": "github.com/onsi/ginkgo/v2/ginkgo",
    },
    frozenset({"e2e.test"}),
)
# A program in Go that uses an API server as operators do.
CLIENTS = ModuleSet(MODULES / "clients-0.24", "sigs.k8s.io/controller-runtime", {"clients": "."})
HELM = ModuleSet(MODULES / "helm-4.3", "helm.sh/helm/v4", {"helm": "helm.sh/helm/v4/cmd/helm"})


def set_of(program: str, *, minor: str = DEFAULT_MINOR) -> ModuleSet:
    """Return the module set that `program` is built from.

    Raises:
        TestBedError: nothing here builds a program of that name.
    """
    for modules in (kubernetes(minor), ETCD, KWOK, COREDNS, HELM, E2E, CLIENTS):
        if program in modules.packages:
            return modules
    raise TestBedError(f"The test bed does not build a program named {program}.")
