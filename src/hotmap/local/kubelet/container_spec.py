"""What a container is started with: command, environment, mounts and user.

kubernetes: pkg/kubelet/kuberuntime, generateContainerConfig.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from hotmap.core.errors import NotFound
from hotmap.core.model.agent_program import agent_program
from hotmap.local.kubelet.accounts import find_account, groups_with
from hotmap.local.kubelet.environment import (
    SourceName,
    expand_command,
    make_environment,
    visible_services,
    wanted_files,
    wanted_sources,
    with_runtime_defaults,
)
from hotmap.local.kubelet.pod_names import process_hostname, write_name_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hotmap.local.kubelet.images import Image
    from hotmap.local.kubelet.mounts import PodVolumes
    from hotmap.local.kubelet.node_context import Node
    from hotmap.local.kubelet.sandbox import ContainerSpec, Mount
    from hotmap.local.kubelet.sources import SourceReader

__all__ = ["exec_spec", "start_spec"]


async def start_spec(
    pod: dict[str, Any],
    container: Mapping[str, Any],
    image: Image,
    *,
    node: Node,
    volumes: PodVolumes,
    address: str,
) -> ContainerSpec:
    """Compute command, environment and mounts from the current content of the sources.

    `address` is the pod's. The process whose namespace an ephemeral container joins is left out.

    Raises:
        HotmapError, OSError: a source or a volume is missing, or cannot be read.
    """
    metadata, pod_spec = pod["metadata"], pod["spec"]
    addresses = {
        "podIP": address,
        "podIPs": [{"ip": address}],
        "hostIP": node.address,
        "hostIPs": [{"ip": node.address}],
    }
    pod = {**pod, "status": {**pod.get("status", {}), **addresses}}
    hostname = process_hostname(pod)
    identity = _identity(pod_spec, container, image.root)
    own_env = make_environment(
        pod,
        container,
        await _fetch(node.sources, metadata["namespace"], wanted_sources(container)),
        services=visible_services(pod, node.services()),
        allocatable=node.allocatable,
        files=volumes.read(pod_spec, wanted_files(container)),
    )
    env = with_runtime_defaults(
        own_env,
        hostname=hostname,
        home=_home(identity["user"], image.root),
        tty=bool(container.get("tty")),
    )
    # $(HOSTNAME) and the like are not replaced: a kubelet does not know what its runtime adds.
    mounts = volumes.mounts_of(pod, container, own_env)
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    if image.places or agent_program(words):
        # The network is not the pod's own, its address is. An agent that is the parent process
        # of its application runs in the application's image.
        env.setdefault("HOTMAP_LISTEN_HOST", address)
    if image.is_hotmap:
        # As in the image, the command `hotmap` is on the path.
        env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
    mounts += _hidden_by(mounts, image.places)
    own = {mount["target"] for mount in mounts}
    shared = write_name_files(pod, address, volumes.directory)
    mounts += [mount for mount in shared if mount["target"] not in own]
    return {
        "argv": expand_command(image.command_of(container), own_env),
        "env": env,
        "cwd": container.get("workingDir") or "/",
        "hostname": hostname,
        "mounts": mounts,
        "root": image.root,
        **identity,
        "processes": str(metadata["uid"]) if pod_spec.get("shareProcessNamespace") else "",
        "beside": None,
    }


def exec_spec(
    pod_spec: Mapping[str, Any],
    container: Mapping[str, Any],
    command: Sequence[str],
    env: dict[str, str],
    *,
    root: str,
    tty: bool,
) -> ContainerSpec:
    """Compute what a command in a running container is started with.

    `env` and `root` are the container's.
    """
    return {
        "argv": list(command),
        "env": {"TERM": "xterm", **env} if tty else env,
        "cwd": container.get("workingDir") or "/",
        "hostname": "",
        "mounts": [],
        "root": "",
        "processes": "",
        "beside": None,
        **_identity(pod_spec, container, root),
    }


async def _fetch(
    sources: SourceReader, namespace: str, wanted: Iterable[SourceName]
) -> dict[SourceName, dict[str, Any] | NotFound]:
    """Read each source once, so that one container sees one state of it."""
    found: dict[SourceName, dict[str, Any] | NotFound] = {}
    for source in wanted:
        try:
            found[source] = await sources.get(namespace, source)
        except NotFound as missing:
            found[source] = missing
    return found


class _Identity(TypedDict):
    user: int | None
    group: int | None
    groups: list[int]


def _identity(spec: Mapping[str, Any], container: Mapping[str, Any], root: str) -> _Identity:
    """Return the user and groups of a container (core/v1 PodSecurityContext).

    A user of the image has its groups there as well (containerd: pkg/oci/spec_opts.go,
    WithUserID and WithAdditionalGIDs).
    """
    of_pod = spec.get("securityContext") or {}
    context = {**of_pod, **(container.get("securityContext") or {})}
    user, group = context.get("runAsUser"), context.get("runAsGroup")
    groups = [of_pod["fsGroup"]] if of_pod.get("fsGroup") is not None else []
    groups += of_pod.get("supplementalGroups") or ()
    account = None if user is None else find_account(root, user)
    if account is not None:
        group = account.group if group is None else group
        if of_pod.get("supplementalGroupsPolicy") != "Strict":
            groups += groups_with(root, account.name)
    return {"user": user, "group": group, "groups": groups}


def _home(user: int | None, root: str) -> str:
    """Return the home of a user as the image's /etc/passwd has it (runc)."""
    if not user:
        return "/root"
    account = find_account(root, user)
    return (account.home if account else "") or "/"


def _hidden_by(mounts: Sequence[Mount], places: Iterable[Path]) -> list[Mount]:
    """Mount read-only, at their own paths, the host's directories that volumes would hide."""
    targets = [Path(mount["target"]) for mount in mounts]
    return [
        {"source": str(place.resolve()), "target": str(place), "read_only": True}
        for place in places
        if any(place.is_relative_to(target) for target in targets)
    ]
