"""The environment, command and arguments with which a container starts; pure.

kubernetes: pkg/kubelet/kubelet_pods.go (makeEnvironmentVariables),
third_party/forked/golang/expansion/expand.go, pkg/kubelet/envvars. Computed at every start of
a container, so a restart sees the current content of its sources. The sources are fetched before,
by `sources`; `wanted_sources` says which.
"""

from __future__ import annotations

import base64
import os
import posixpath
from collections import ChainMap
from typing import TYPE_CHECKING, Any, NamedTuple

from hotmap.core.errors import HotmapError, ManifestError, NotFound
from hotmap.core.expansion import expand
from hotmap.local.kubelet.downward import field_text, resource_text
from hotmap.local.kubelet.env_file import EnvFileError, find_variable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: containerd: oci/spec.go, defaultUnixEnv.
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class ConfigError(HotmapError):
    """Raised when a container cannot be created; shown as CreateContainerConfigError."""


class SourceName(NamedTuple):
    """A ConfigMap or Secret of the pod's namespace."""

    kind: str
    name: str


class FileName(NamedTuple):
    """A file of environment variables in a volume of the pod."""

    volume: str
    path: str


if TYPE_CHECKING:
    #: Each requested source: the object, or the error that it does not exist.
    Sources = Mapping[SourceName, dict[str, Any] | NotFound]
    #: Each requested file whose volume there is: its text, or why it cannot be read.
    Files = Mapping[FileName, str | EnvFileError]

_REFERENCES = {"configMapRef": "ConfigMap", "secretRef": "Secret"}
_KEY_REFERENCES = {"configMapKeyRef": "ConfigMap", "secretKeyRef": "Secret"}


def wanted_sources(container: Mapping[str, Any]) -> list[SourceName]:
    """List the sources that a container's environment refers to, each once."""
    found: dict[SourceName, None] = {}
    for entry in container.get("envFrom") or ():
        for field, kind in _REFERENCES.items():
            if field in entry:
                found[SourceName(kind, entry[field]["name"])] = None
    for entry in container.get("env") or ():
        for field, kind in _KEY_REFERENCES.items():
            if field in (entry.get("valueFrom") or {}):
                found[SourceName(kind, entry["valueFrom"][field]["name"])] = None
    return list(found)


def wanted_files(container: Mapping[str, Any]) -> list[FileName]:
    """List the files in volumes that a container's environment refers to."""
    return [
        FileName(reference["volumeName"], reference["path"])
        for entry in container.get("env") or ()
        if (reference := (entry.get("valueFrom") or {}).get("fileKeyRef"))
    ]


def make_environment(
    pod: Mapping[str, Any],
    container: Mapping[str, Any],
    sources: Sources,
    *,
    services: Iterable[Mapping[str, Any]] = (),
    allocatable: Mapping[str, str] | None = None,
    files: Files | None = None,
) -> dict[str, str]:
    """Compute the environment of a container, numbered as the kubelet does it.

    1. the variables of Services are known, but the pod's own win over them
    2. envFrom, in order: prefix + data key; a later one wins; `binaryData` is ignored
    3. env, in order: a value is expanded against what is known so far, so a name may refer to
       its earlier value; text from a source or field is taken as it is
    4. an optional data key or object that is missing neither sets nor clears the name

    `services` are those that the pod may see (`visible_services`). Bytes that are not valid UTF-8
    are kept as os.fsdecode does. What the container runtime adds is in `with_runtime_defaults`.

    Raises:
        ConfigError: a source or data key that is not optional is missing, or a field cannot be
            referred to. The text is the kubelet's.
    """
    service_env = service_variables(services)
    env: dict[str, str] = {}
    for entry in container.get("envFrom") or ():
        prefix = entry.get("prefix", "")
        for key, value in _all_keys(entry, sources).items():
            env[prefix + key] = value
    known = ChainMap(env, service_env)
    for entry in container.get("env") or ():
        if entry.get("value"):
            env[entry["name"]] = expand(entry["value"], known.get)
        elif entry.get("valueFrom"):
            origin = entry["valueFrom"]
            if "fileKeyRef" in origin:
                text = _file_value(origin["fileKeyRef"], files or {})
            else:
                text = _referred(pod, container, origin, sources, allocatable or {})
            if text is not None:
                env[entry["name"]] = text
        else:
            env[entry["name"]] = ""
    return {**service_env, **env}


def with_runtime_defaults(
    env: Mapping[str, str], *, hostname: str, home: str, tty: bool = False
) -> dict[str, str]:
    """Add what a container runtime sets unless the pod does: PATH, HOSTNAME, HOME and TERM."""
    terminal = {"TERM": "xterm"} if tty else {}
    return {"PATH": DEFAULT_PATH, "HOSTNAME": hostname, "HOME": home, **terminal, **env}


def expand_command(container: Mapping[str, Any], env: Mapping[str, str]) -> list[str]:
    """Return the command and its arguments, each expanded against the container's environment."""
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    return [expand(word, env.get) for word in words]


def expand_sub_path(expression: str, env: Mapping[str, str]) -> str:
    """Expand a subPathExpr; unlike elsewhere every name in it must be known and not empty.

    Raises:
        ConfigError: a variable is missing or empty, or the result leaves the volume.
    """

    def required(name: str) -> str:
        value = env.get(name)
        if not value:
            raise ConfigError(f"missing value for {name}")
        return value

    path = expand(expression, required)
    if path.startswith("/"):
        raise ConfigError(f"subPath `{path}` must not be an absolute path")
    if ".." in path.split("/"):
        raise ConfigError(f"subPath `{path}` must not contain '..'")
    return posixpath.normpath(path)


def visible_services(
    pod: Mapping[str, Any], services: Iterable[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Choose the Services whose variables a pod gets: default/kubernetes, and its namespace's.

    Those of the namespace only with `enableServiceLinks` (default true); a Service without a
    cluster IP has none (kubernetes: pkg/kubelet/kubelet_pods.go, getServiceEnvVarMap).
    """
    links = pod["spec"].get("enableServiceLinks", True)
    chosen = []
    for service in services:
        metadata = service["metadata"]
        master = (metadata["namespace"], metadata["name"]) == ("default", "kubernetes")
        same_namespace = metadata["namespace"] == pod["metadata"]["namespace"]
        address = service["spec"].get("clusterIP")
        if address and address != "None" and (master or (links and same_namespace)):
            chosen.append(service)
    return chosen


def service_variables(services: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Name each Service's address in the two forms of kubernetes: pkg/kubelet/envvars."""
    env: dict[str, str] = {}
    for service in services:
        prefix = service["metadata"]["name"].upper().replace("-", "_")
        address, ports = service["spec"]["clusterIP"], service["spec"].get("ports") or []
        env[f"{prefix}_SERVICE_HOST"] = address
        if ports:
            env[f"{prefix}_SERVICE_PORT"] = str(ports[0]["port"])
        for port in ports:
            if port.get("name"):
                name = port["name"].upper().replace("-", "_")
                env[f"{prefix}_SERVICE_PORT_{name}"] = str(port["port"])
        env.update(_link_variables(prefix, address, ports))
    return env


def _link_variables(
    prefix: str, address: str, ports: Sequence[Mapping[str, Any]]
) -> dict[str, str]:
    env: dict[str, str] = {}
    for position, port in enumerate(ports):
        protocol, number = port.get("protocol", "TCP"), str(port["port"])
        url = f"{protocol.lower()}://{address}:{number}"
        if position == 0:
            env[f"{prefix}_PORT"] = url
        name = f"{prefix}_PORT_{number}_{protocol}"
        env |= {
            name: url,
            f"{name}_PROTO": protocol.lower(),
            f"{name}_PORT": number,
            f"{name}_ADDR": address,
        }
    return env


def _all_keys(entry: Mapping[str, Any], sources: Sources) -> dict[str, str]:
    for field, kind in _REFERENCES.items():
        if field in entry:
            reference = entry[field]
            source = sources[SourceName(kind, reference["name"])]
            if isinstance(source, NotFound):
                if reference.get("optional"):
                    return {}
                raise ConfigError(str(source))
            data = source.get("data") or {}
            return {key: _text(kind, data[key]) for key in data}
    return {}


def _referred(
    pod: Mapping[str, Any],
    container: Mapping[str, Any],
    origin: Mapping[str, Any],
    sources: Sources,
    allocatable: Mapping[str, str],
) -> str | None:
    """Resolve one valueFrom; None leaves the variable unchanged."""
    try:
        if "fieldRef" in origin:
            return field_text(pod, origin["fieldRef"]["fieldPath"])
        if "resourceFieldRef" in origin:
            reference = origin["resourceFieldRef"]
            return resource_text(_named(pod, container, reference), reference, allocatable)
    except ManifestError as error:
        raise ConfigError(str(error)) from error
    for field, kind in _KEY_REFERENCES.items():
        if field in origin:
            return _key_value(pod, SourceName(kind, origin[field]["name"]), origin[field], sources)
    raise ConfigError(f"unsupported valueFrom: {', '.join(origin)}")


def _named(
    pod: Mapping[str, Any], container: Mapping[str, Any], reference: Mapping[str, Any]
) -> Mapping[str, Any]:
    name = reference.get("containerName")
    if not name:
        return container
    everyone = [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]
    for candidate in everyone:
        if candidate["name"] == name:
            return dict(candidate)
    raise ManifestError(f"container {name} not found")


def _key_value(
    pod: Mapping[str, Any],
    source_name: SourceName,
    reference: Mapping[str, Any],
    sources: Sources,
) -> str | None:
    source = sources[source_name]
    key = reference["key"]
    if isinstance(source, NotFound):
        if reference.get("optional"):
            return None
        raise ConfigError(str(source))
    data = source.get("data") or {}
    if key in data:
        return _text(source_name.kind, data[key])
    if reference.get("optional"):
        return None
    namespace = pod["metadata"]["namespace"]
    raise ConfigError(
        f"couldn't find key {key} in {source_name.kind} {namespace}/{source_name.name}"
    )


def _file_value(reference: Mapping[str, Any], files: Files) -> str | None:
    """Return the value of a variable in a file; an empty one counts as missing."""
    volume, key = reference["volumeName"], reference["key"]
    text = files.get(FileName(volume, reference["path"]))
    if text is None:
        raise ConfigError(f'cannot find the volume "{volume}" referenced by FileKeyRef')
    try:
        if isinstance(text, EnvFileError):
            raise text
        value = find_variable(text, key)
    except EnvFileError:
        # Without the reason, as upstream, which logs it: it could show a part of the file.
        raise ConfigError("couldn't parse env file") from None
    if value or reference.get("optional"):
        return value or None
    path = reference["path"]
    raise ConfigError(f'environment variable key "{key}" not found in file "{path}"')


def _text(kind: str, value: str) -> str:
    return os.fsdecode(base64.b64decode(value)) if kind == "Secret" else value
