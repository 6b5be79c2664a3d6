"""The options of single commands: `hotmap status`, `dashboard`, `inject`, `stamp`, `local up`."""

from typing import Annotated, Literal, NamedTuple

import click

from hotmap import __version__
from hotmap.cli.options import Flag, QuotedChoice, namespace_flag

__all__ = [
    "DEFAULT_IMAGE",
    "DashboardOptions",
    "InjectOptions",
    "LocalDirectory",
    "LocalOptions",
    "StampOptions",
    "StatusOptions",
]

#: The image of this version, for the agent's container.
DEFAULT_IMAGE = f"hotmap-agent:{__version__}"


class StatusOptions(NamedTuple):
    """What `hotmap status` shows, and how long it waits."""

    all_namespaces: Annotated[bool, Flag("Show workloads of all namespaces.", short="-A")] = False
    #: A duration, or "" not to wait.
    wait: Annotated[
        str,
        Flag(
            "Maximum time to wait until everything is current.", "DURATION", default="do not wait"
        ),
    ] = ""
    awaited: Annotated[
        str,
        Flag(
            "State that all workloads must reach for exit status 0: current; or delivered, where "
            "files are updated and nothing shows whether applications use them.",
            "current|delivered",
            name="--for",
            type=QuotedChoice(["current", "delivered"]),
        ),
    ] = "current"
    selector: Annotated[
        str,
        Flag(
            "Show workloads whose labels match, such as app=web,tier!=cache.", "LABELS", short="-l"
        ),
    ] = ""
    watch: Annotated[bool, Flag("Print the state, then each change.", short="-w")] = False
    quiet: Annotated[bool, Flag("Print nothing; the exit status shows the result.", short="-q")] = (
        False
    )


class DashboardOptions(NamedTuple):
    """What `hotmap dashboard` shows, and where it listens."""

    #: "" for the context's own.
    namespace: Annotated[
        str,
        namespace_flag("Namespace of the workloads."),
    ] = ""
    all_namespaces: Annotated[bool, Flag("Show workloads of all namespaces.", short="-A")] = False
    address: Annotated[
        str,
        Flag(
            "Address to listen on; 0.0.0.0 lets other machines connect, without encryption.",
            "ADDRESS",
        ),
    ] = "127.0.0.1"
    port: Annotated[
        int,
        Flag("Port to listen on; 0 picks a free one.", "PORT", type=click.IntRange(0, 65535)),
    ] = 0


class PreviewOptions(NamedTuple):
    """Which edit `hotmap preview` asks about, and how the answer is printed."""

    filename: Annotated[
        tuple[str, ...],
        Flag(
            "Manifest, or directory of manifests, whose ConfigMaps and Secrets are compared with "
            "the cluster's; - reads standard input. May be repeated.",
            "FILE",
            short="-f",
        ),
    ] = ()
    key: Annotated[
        tuple[str, ...],
        Flag("Data key that changes. May be repeated.", "KEY", default="every data key"),
    ] = ()
    remove_key: Annotated[
        tuple[str, ...], Flag("Data key that is removed. May be repeated.", "KEY")
    ] = ()
    #: "" for the context's own.
    namespace: Annotated[
        str,
        namespace_flag("Namespace of the ConfigMap or Secret."),
    ] = ""
    output: Annotated[
        str,
        Flag(
            "Output format.",
            "table|wide|json|yaml",
            short="-o",
            type=QuotedChoice(["table", "wide", "json", "yaml"]),
        ),
    ] = "table"


#: The flags of commands that read manifests and write them again.
_Manifests = Annotated[
    tuple[str, ...],
    Flag(
        "Manifest, or directory of manifests; - reads standard input. May be repeated.",
        "FILE",
        short="-f",
        default="required",
    ),
]
_OutputFile = Annotated[
    str | None, Flag("Output file.", "FILE", short="-o", default="standard output")
]
_InPlace = Annotated[
    bool, Flag("Write each manifest back to the file it was read from.", short="-i")
]


class InjectOptions(NamedTuple):
    """What `hotmap inject` reads, adds and writes."""

    filename: _Manifests = ()
    mode: Annotated[
        str,
        Flag(
            "How the agent is added: native-sidecar, sidecar, init or supervisor.",
            "MODE",
            type=QuotedChoice(["native-sidecar", "sidecar", "init", "supervisor"]),
        ),
    ] = "native-sidecar"
    program: Annotated[
        str | None,
        Flag(
            "Program, which determines check, action and verification: nginx, nginx-conf.d, "
            "haproxy, prometheus, postgres, gunicorn or redis.",
            "PROGRAM",
            name="--for",
        ),
    ] = None
    container: Annotated[
        str | None,
        Flag(
            "Application container.",
            "NAME",
            default="the only one, or the only one that uses ConfigMaps or Secrets",
        ),
    ] = None
    stage: Annotated[
        bool, Flag("Mount files into the application only after they passed the check.")
    ] = False
    restart_on: Annotated[
        str | None,
        Flag(
            "Restart when the content of environment variables or subPath mounts changes.", "frozen"
        ),
    ] = None
    restart: Annotated[
        str | None,
        Flag(
            "How to restart: supervised, all-containers or term.",
            "MODE",
            default="supervised with --mode supervisor, else all-containers",
        ),
    ] = None
    keep_env: Annotated[
        bool,
        Flag(
            "With --mode supervisor: keep the container's environment instead of building it "
            "from files."
        ),
    ] = False
    user: Annotated[
        int | None,
        Flag(
            "UID for the agent.",
            "UID",
            type=click.IntRange(0, 2**31 - 1),
            default="the application's runAsUser, else 65532",
        ),
    ] = None
    image: Annotated[
        str | None, Flag("Image for the agent's container.", "IMAGE", default=DEFAULT_IMAGE)
    ] = None
    remove: Annotated[bool, Flag("Remove the agent instead of adding it.")] = False
    output: _OutputFile = None
    in_place: _InPlace = False


class StampOptions(NamedTuple):
    """What `hotmap stamp` reads and writes."""

    filename: _Manifests = ()
    annotation: Annotated[str, Flag("Annotation of the pod template that is set.", "NAME")] = (
        "hotmap.dev/content"
    )
    key_file: Annotated[
        str | None,
        Flag(
            "File with a secret key of 16 bytes or more; with it, Secrets are included too.",
            "FILE",
            default="Secrets are not included",
        ),
    ] = None
    output: _OutputFile = None
    in_place: _InPlace = False


class LocalDirectory(NamedTuple):
    """Which local control plane."""

    directory: Annotated[
        str | None,
        Flag("State directory.", "DIR", name="--dir", default="$XDG_STATE_HOME/hotmap/local"),
    ] = None


class LocalOptions(NamedTuple):
    """Where a local control plane keeps its state and listens."""

    directory: Annotated[
        str | None,
        Flag(
            "Directory in which objects are kept across restarts. Without it they are kept in "
            "memory.",
            "DIR",
            name="--dir",
            default="$XDG_STATE_HOME/hotmap/local, in memory",
        ),
    ] = None
    etcd: Annotated[
        str | None,
        Flag(
            "Store objects in this etcd, as Kubernetes does, instead of in DIR or in memory.",
            "URL",
        ),
    ] = None
    authorization: Annotated[
        str,
        Flag(
            "Authorization mode: rbac enforces roles and bindings; allow permits every request "
            "with a valid token.",
            "allow|rbac",
            type=QuotedChoice(("allow", "rbac")),
        ),
    ] = "allow"
    port: Annotated[
        int,
        Flag(
            "Port of the API server on 127.0.0.1; 0 picks a free one.",
            "PORT",
            type=click.IntRange(0, 65535),
        ),
    ] = 0
    image: Annotated[
        tuple[str, ...],
        Flag(
            "The content of an image: host:CMD for a program of this machine, or a directory with "
            "its root file system. May be repeated. Some well-known images are predefined.",
            "NAME=host[:CMD]|DIR[:CMD]",
        ),
    ] = ()
    images: Annotated[
        str | None,
        Flag("File with one image per line, as with --image.", "FILE"),
    ] = None
    controllers: Annotated[
        str,
        Flag(
            "Controllers to run: * stands for all, -NAME disables one, such as "
            "*,-daemonset-controller.",
            "LIST",
        ),
    ] = "*"
    sync_period: Annotated[
        str,
        Flag(
            "Interval at which the kubelet updates mounted files, plus up to half of it at random.",
            "DURATION",
        ),
    ] = "1m"
    change_detection_strategy: Annotated[
        Literal["Watch", "Cache", "Get"],
        Flag(
            "How the kubelet reads ConfigMaps and Secrets when it updates mounted files: Watch "
            "takes what a watch has shown, Get asks the API server, Cache keeps an answer for the "
            "TTL in the node's annotation node.alpha.kubernetes.io/ttl, 60 s without it.",
            "Watch|Cache|Get",
            type=QuotedChoice(("Watch", "Cache", "Get")),
        ),
    ] = "Watch"
    max_pods: Annotated[
        int,
        Flag(
            "Number of pods that the node takes; further ones stay Pending.",
            "N",
            type=click.IntRange(1, 65000),
        ),
    ] = 110
