"""`hotmap inject`: adds the agent to a manifest, and takes it out again.

Works on the text: documents without a pod template are printed as they are, comments and quotes of
the others are kept. Injecting twice is injecting once; `--remove` undoes exactly what was added.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError

from hotmap import __version__
from hotmap.agent.flags import read_words
from hotmap.agent.reading import read_settings
from hotmap.agent.settings import ALL_CONTAINERS_STATUS, Settings
from hotmap.core.errors import ManifestError

__all__ = ["Injection", "run_inject"]

_AGENT = "hotmap-agent"
_POD, _RUN = "hotmap-pod", "hotmap-run"
_POD_PATH, _RUN_PATH = "/hotmap/pod", "/hotmap/run"
_PORT = 9533

#: On the pod template: an agent answers for live changes (docs/reference/annotations.md).
_ANNOTATION = "hotmap.dev/agent"

#: What `--remove` cannot know from names: which fields of the pod we have set.
_NOTE = "HOTMAP_INJECTED"

#: Where each kind keeps its pod template; a Pod is one itself.
_TEMPLATES = {
    "Deployment": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "Rollout": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    "Pod": (),
}


class Injection(NamedTuple):
    """What to add."""

    #: The image of the agent's container: it has hotmap, and the checker if there is a check.
    image: str
    #: The container whose mounts are watched; "" for the only one.
    container: str
    #: Flags of `hotmap agent`.
    flags: tuple[str, ...]


def run_inject(filename: str, injection: Injection | None) -> int:
    """Print a manifest with the agent added, or, without an injection, taken out."""
    text = sys.stdin.read() if filename == "-" else _read(filename)
    output, notes = inject(text, injection, filename)
    sys.stdout.write(output)
    for note in notes:
        sys.stderr.write(f"hotmap: {note}\n")
    return 0


def default_image() -> str:
    """Name the image of this version of hotmap."""
    return f"hotmap:{__version__}"


def _read(filename: str) -> str:
    try:
        return Path(filename).read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ManifestError(f"{filename} cannot be read: {str(reason).lower()}") from None


def inject(text: str, injection: Injection | None, place: str) -> tuple[str, list[str]]:
    """Edit every pod template of a manifest; gives the text and what a person should know.

    Raises:
        ManifestError: the text is no YAML, or a pod template cannot take an agent.
    """
    output, notes = "", []
    found = False
    for document in _documents(text):
        edited = document
        loaded = _load(document, place)
        if isinstance(loaded, CommentedMap) and loaded.get("kind") in _TEMPLATES:
            found = True
            template = _template(loaded)
            name = f"{loaded['kind']}/{(loaded.get('metadata') or {}).get('name', '')}"
            changed = _remove(template)
            if injection is not None:
                notes += _add(template, injection, name)
                changed = True
            if changed:
                edited = _dump(loaded, document)
        output += edited
    if not found:
        raise ManifestError(f"{place} holds no pod template, so there is nothing to inject into")
    return output, notes


def _documents(text: str) -> Iterator[str]:
    """Split a YAML stream into its documents, separators with the document after them."""
    starts = [match.start() for match in re.finditer(r"^---(?=\s|$)", text, re.MULTILINE)]
    edges = sorted({0, *starts, len(text)})
    for begin, end in pairwise(edges):
        yield text[begin:end]


def _yaml(text: str) -> YAML:
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 1 << 16
    # As the person indents lists: `- ` below the key, or two spaces further in.
    first = re.search(r"^( *)[^\s#-][^\n]*:[ \t]*\n( *)- ", text, re.MULTILINE)
    if first and len(first[2]) > len(first[1]):
        yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml


def _load(text: str, place: str) -> Any:
    try:
        return _yaml(text).load(text)
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1} of its document" if mark else ""
        raise ManifestError(f"{place} is no YAML{where}") from None


def _dump(document: CommentedMap, text: str) -> str:
    output = StringIO()
    _yaml(text).dump(document, output)
    separator = re.match(r"---[^\n]*\n", text)
    written = output.getvalue()
    if separator and not written.startswith("---"):
        written = separator[0] + written
    return written


def _template(document: CommentedMap) -> CommentedMap:
    template = document
    for part in _TEMPLATES[document["kind"]]:
        template = template.get(part) or CommentedMap()
    if not isinstance(template.get("spec"), CommentedMap) or not template["spec"].get("containers"):
        raise ManifestError(f"{document['kind']} has no containers in its pod template")
    return template


# Taking it out


def _remove(template: CommentedMap) -> bool:
    """Take everything out that was added before; tell whether there was anything."""
    spec = template["spec"]
    old = next((one for one in spec.get("initContainers") or () if one["name"] == _AGENT), None)
    if old is None:
        return False
    noted = next((one["value"] for one in old.get("env") or () if one["name"] == _NOTE), "")
    _drop(spec, "initContainers", {_AGENT})
    _drop(spec, "volumes", {_POD, _RUN})
    if "shareProcessNamespace" in noted.split(","):
        spec.pop("shareProcessNamespace", None)
    metadata = template.get("metadata") or CommentedMap()
    annotations = metadata.get("annotations") or CommentedMap()
    annotations.pop(_ANNOTATION, None)
    for place, field in (
        (metadata, "annotations"), (template, "metadata"),
    ):  # fmt: skip
        if field in noted.split(",") and not place.get(field):
            place.pop(field, None)
    return True


def _drop(spec: CommentedMap, field: str, names: set[str]) -> None:
    items = spec.get(field)
    for index in reversed(range(len(items or ()))):
        if items[index].get("name") in names:
            del items[index]
    if not items:
        spec.pop(field, None)


# Putting it in


def _add(template: CommentedMap, injection: Injection, name: str) -> list[str]:
    spec = template["spec"]
    application = _application(spec, injection.container, name)
    mounts = _live_mounts(spec, application)
    if not mounts:
        raise ManifestError(
            f"{name}: container {application['name']} mounts no ConfigMap or Secret as a "
            "directory, so there is nothing that changes in a running pod"
        )
    flags = _flags(injection, mounts)
    settings = read_settings(read_words(flags))
    notes, noted = [], []
    if _signals(settings) and not spec.get("shareProcessNamespace"):
        spec["shareProcessNamespace"] = True
        noted.append("shareProcessNamespace")
    if "metadata" not in template:
        template.insert(0, "metadata", CommentedMap())
        noted.append("metadata")
    if not template["metadata"].get("annotations"):
        template["metadata"]["annotations"] = CommentedMap()
        noted.append("annotations")
    template["metadata"]["annotations"][_ANNOTATION] = f"port={_PORT};restart={_way(settings)}"
    user = _user(spec, application)
    if user is None and _signals(settings):
        notes.append(
            f"{name}: container {application['name']} does not say which user it runs as; a "
            "signal needs the agent to be the same: set runAsUser in the pod's securityContext"
        )
    container = _container(injection, flags, mounts, user, settings, noted)
    for field, items in (("initContainers", [container]), ("volumes", _volumes())):
        if not spec.get(field):
            spec[field] = CommentedSeq()
        spec[field].extend(items)
    return notes


def _application(spec: CommentedMap, wanted: str, name: str) -> CommentedMap:
    containers: dict[str, CommentedMap] = {one["name"]: one for one in spec["containers"]}
    if wanted in containers:
        return containers[wanted]
    if wanted:
        raise ManifestError(f"{name} has no container {wanted}: it has {', '.join(containers)}")
    if len(containers) > 1:
        raise ManifestError(f"{name} has {len(containers)} containers; name one with --container")
    return next(iter(containers.values()))


def _live_mounts(spec: CommentedMap, application: CommentedMap) -> list[CommentedMap]:
    """List the mounts whose files the kubelet rewrites while the container runs."""
    volumes = {volume["name"]: volume for volume in spec.get("volumes") or ()}
    found = []
    for mount in application.get("volumeMounts") or ():
        volume = volumes.get(mount["name"], {})
        if "subPath" in mount or "subPathExpr" in mount:
            continue
        sources = (volume.get("projected") or {}).get("sources") or ()
        # A volume of tokens alone is swapped every few minutes, and no concern of ours.
        projected = any("configMap" in one or "secret" in one for one in sources)
        if "configMap" in volume or "secret" in volume or projected:
            mine = CommentedMap(name=mount["name"], mountPath=mount["mountPath"], readOnly=True)
            found.append(mine)
    return found


def _flags(injection: Injection, mounts: Sequence[CommentedMap]) -> list[str]:
    flags = [word for mount in mounts for word in ("--dir", mount["mountPath"])]
    return [
        *flags,
        *injection.flags,
        *("--target-file", f"{_POD_PATH}/annotations"),
        *("--state", f"{_RUN_PATH}/state", "--socket", f"{_RUN_PATH}/agent.sock"),
    ]


def _actions(settings: Settings) -> list[Any]:
    return [action for rule in settings.rules for action in rule.actions]


def _signals(settings: Settings) -> bool:
    """Tell whether the agent has to see the application's processes."""
    by_name = any(probe.kind == "workers" for rule in settings.rules for probe in rule.probes)
    return by_name or any(action.target not in ("", "child") for action in _actions(settings))


def _way(settings: Settings) -> str:
    return next((action.way for action in _actions(settings) if action.way), "none")


def _user(spec: CommentedMap, application: CommentedMap) -> int | None:
    for place in (application, spec):
        user = (place.get("securityContext") or {}).get("runAsUser")
        if user is not None:
            return int(user)
    return None


def _container(
    injection: Injection,
    flags: Sequence[str],
    mounts: Sequence[CommentedMap],
    user: int | None,
    settings: Settings,
    noted: Sequence[str],
) -> CommentedMap:
    container = CommentedMap(
        name=_AGENT,
        image=injection.image,
        restartPolicy="Always",
    )
    if _way(settings) == "all-containers":
        # Kubernetes 1.36: the agent's own end restarts every container of the pod (KEP-5532).
        container["restartPolicyRules"] = [
            {
                "action": "RestartAllContainers",
                "exitCodes": {"operator": "In", "values": [ALL_CONTAINERS_STATUS]},
            }
        ]
    container["args"] = ["agent", *flags]
    if noted:
        container["env"] = [{"name": _NOTE, "value": ",".join(noted)}]
    container["ports"] = [{"name": "hotmap", "containerPort": _PORT}]
    container["livenessProbe"] = {"httpGet": {"path": "/healthz", "port": _PORT}}
    container["resources"] = {
        "requests": {"cpu": "5m", "memory": "24Mi"},
        "limits": {"memory": "64Mi"},
    }
    container["securityContext"] = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "seccompProfile": {"type": "RuntimeDefault"},
        **({"runAsUser": user, "runAsNonRoot": user != 0} if user is not None else {}),
    }
    container["volumeMounts"] = [
        *mounts,
        {"name": _POD, "mountPath": _POD_PATH, "readOnly": True},
        {"name": _RUN, "mountPath": _RUN_PATH},
        # Many a checker wants to write: nginx -t makes its pid file.
        {"name": _RUN, "mountPath": "/tmp", "subPath": "tmp"},
    ]
    return container


def _volumes() -> list[Any]:
    annotations = {"path": "annotations", "fieldRef": {"fieldPath": "metadata.annotations"}}
    return [
        {"name": _POD, "downwardAPI": {"items": [annotations]}},
        {"name": _RUN, "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
    ]
