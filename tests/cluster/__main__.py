"""The test bed's command line: `python -m tests.cluster up | down | status | build | logs | …`.

A real Kubernetes of upstream's own programs, beside the project. The way of one `up`:

1. build.py        programs from source into the cache folder, once per version
2. packages.py     containerd, runc, CNI plugins, iptables (a node only)
3. keys.py         certificates, tokens, kubeconfigs
4. controlplane.py etcd → API server → controllers and scheduler
5. footprint.py    what a node changes on the machine, and what `down` puts back
6. images.py       pause, busybox, python, nginx, hotmap, without a registry
7. node.py         containerd → images → kubelet, kube-proxy, CoreDNS
8. kwok.py         pretended nodes

cluster.py walks it; components.py knows the processes; proxy.py and compare.py are tools for
the tests that run on it.
"""

import argparse
import os
import sys
from pathlib import Path

from tests.cluster import compare, components, layout, pin, versions
from tests.cluster.build import Programs
from tests.cluster.cluster import Cluster
from tests.cluster.components import State
from tests.cluster.errors import TestBedError, disk_sentence
from tests.cluster.layout import Settings


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.run(options)
    except TestBedError as error:
        print(f"error: {error}", file=sys.stderr)
    except BrokenPipeError:  # the reader has seen enough, as in `status | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        if (sentence := disk_sentence(error)) is None:
            raise
        print(f"error: {sentence}", file=sys.stderr)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    else:
        return code
    return 1


def _up(options: argparse.Namespace) -> int:
    folder = _folder(options)
    base = options.base_port or layout.default_settings(node=options.node).base_port
    settings = Settings(
        base, options.node, options.version, kwok_nodes=options.kwok, dns=options.dns
    )
    Cluster(folder, settings).up(_say)
    return 0


def _down(options: argparse.Namespace) -> int:
    if options.after is not None:
        _wait_for_end(options.after)
    cluster = _present_or_stray(_folder(options))
    if cluster is None:
        print(f"There is no cluster in {_folder(options)}.")
        return 0
    cluster.down(_say, keep=options.keep)
    return 0


def _status(options: argparse.Namespace) -> int:
    cluster = Cluster.present(_folder(options))
    if cluster is None:
        print(f"There is no cluster in {_folder(options)}.")
        return 3  # as for a service that does not run (LSB)
    settings = cluster.layout.settings
    release = versions.kubernetes(settings.minor).version
    print(f"Kubernetes {release}, ports from {settings.base_port}", end=", ")
    print(f"KUBECONFIG={cluster.kubeconfig}")
    found = cluster.status()
    for status in found:
        pid = status.process.pid if status.process else "-"
        told = "healthy" if status.problem is None else status.problem
        if status.state is not State.RUNNING:
            told = ""
        memory = f"{status.resident / 2**20:.0f} MiB" if status.resident else "-"
        print(f"{status.name:24} {status.state:12} {pid!s:>8} {memory:>9}  {told}".rstrip())
    return 0 if all(status.problem is None for status in found) else 1


def _build(options: argparse.Namespace) -> int:
    if options.programs:
        Programs(options.version).build(options.programs)
        return 0
    settings = Settings(
        0, options.node, options.version, kwok_nodes=int(options.kwok > 0), dns=options.dns
    )
    cluster = Cluster(_folder(options), settings)
    wanted = cluster.programs()
    cluster.layout.programs.build(wanted)
    print(f"{len(wanted)} programs in {cluster.layout.programs.folder}")
    return 0


def _logs(options: argparse.Namespace) -> int:
    processes = components.Processes(_folder(options))
    if options.component is None:
        for path in sorted((_folder(options) / "log").glob("*.log")):
            print(f"{path.stem:24} {path.stat().st_size:>10} bytes  {path}")
        return 0
    try:
        lines = processes.log(options.component).read_text(errors="replace").splitlines()
    except FileNotFoundError:
        raise TestBedError(f"There is no log of {options.component} in this cluster.") from None
    print("\n".join(lines[-options.lines :]))
    return 0


def _compare(options: argparse.Namespace) -> int:
    script = compare.read_script(options.script.read_text())
    left, right = (
        compare.run(script, options.kubectl, kubeconfig)
        for kubeconfig in (options.left, options.right)
    )
    found = compare.differences(left, right, names=(str(options.left), str(options.right)))
    print(found or f"no differences in {len(script)} commands")
    return 1 if found else 0


def _pin(options: argparse.Namespace) -> int:
    print(pin.pin_kubernetes(options.release))
    return 0


def _folder(options: argparse.Namespace) -> Path:
    return (options.dir or layout.default_folder(node=options.node)).absolute()


def _present_or_stray(folder: Path) -> Cluster | None:
    """Return the cluster of a folder, also when the folder was removed under its processes."""
    if (cluster := Cluster.present(folder)) is not None:
        return cluster
    stray = Cluster(folder, layout.default_settings(node=os.geteuid() == 0))
    return stray if stray.processes.leftovers() else None


def _wait_for_end(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except (ProcessLookupError, FileNotFoundError):
        return
    components.wait_gone(descriptor, None)
    os.close(descriptor)


def _say(line: str) -> None:
    print(line, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    where = argparse.ArgumentParser(add_help=False)
    where.add_argument("--dir", type=Path, help="the cluster's folder (default: in the cache)")
    where.add_argument(
        "--no-node", dest="node", action="store_false", help="the control plane alone; no root"
    )
    what = argparse.ArgumentParser(add_help=False)
    what.add_argument("--kwok", type=int, default=0, metavar="N", help="add N pretended nodes")
    what.add_argument("--dns", action="store_true", help="add CoreDNS")
    what.add_argument(
        "--version", default=versions.DEFAULT_MINOR, choices=versions.kubernetes_minors()
    )

    up = commands.add_parser("up", parents=[where, what], help="start, or restart what died")
    up.add_argument("--base-port", type=int, help=f"first of {len(layout.PORTS)} ports")
    up.set_defaults(run=_up)
    down = commands.add_parser("down", parents=[where], help="end what up started")
    down.add_argument("--keep", action="store_true", help="keep the cluster's objects")
    down.add_argument("--after", type=int, metavar="PID", help="first wait for a process to end")
    down.set_defaults(run=_down)
    status = commands.add_parser("status", parents=[where], help="what runs, and is it healthy")
    status.set_defaults(run=_status)
    build = commands.add_parser("build", parents=[where, what], help="build programs only")
    build.add_argument(
        "programs", nargs="*", metavar="PROGRAM", help="such as helm (default: a cluster's)"
    )
    build.set_defaults(run=_build)
    logs = commands.add_parser("logs", parents=[where], help="show a component's log")
    logs.add_argument("component", nargs="?", help="without it, the logs there are")
    logs.add_argument("--lines", type=int, default=50)
    logs.set_defaults(run=_logs)
    compared = commands.add_parser("compare", help="run kubectl commands on two clusters")
    compared.add_argument("--kubectl", type=Path, required=True)
    compared.add_argument("left", type=Path, help="kubeconfig")
    compared.add_argument("right", type=Path, help="kubeconfig")
    compared.add_argument("script", type=Path, help="one kubectl command per line")
    compared.set_defaults(run=_compare)
    pinned = commands.add_parser("pin", help="pin a Kubernetes release in modules/")
    pinned.add_argument("release", help='for example "1.36.3"')
    pinned.set_defaults(run=_pin)
    return parser


if __name__ == "__main__":
    sys.exit(main())
