"""`hotmap stamp`: writes into pod templates which content of ConfigMaps and Secrets they use.

An apply of such a manifest rolls out a workload exactly when content that it uses has changed, as
a checksum annotation does, but by data key. It needs no cluster: the content is that of the
manifests.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from hotmap.agent.runtime.standard_streams import print_message
from hotmap.cli.command_options import StampOptions
from hotmap.cli.data_values import check_values, decode_value
from hotmap.cli.injection.manifest import FoundTemplate, Manifest, Planned
from hotmap.cli.injection.pod_templates import Template
from hotmap.cli.manifest_files import describe_file, read_manifests, write_manifests
from hotmap.core.decide.source_snapshot import without_replaced
from hotmap.core.errors import ManifestError, SettingsError, os_reason
from hotmap.core.fingerprint import FingerprintKey, fingerprint_key
from hotmap.core.model.annotations import AGENT, ANNOTATIONS, CONTENT, OURS, REREADS
from hotmap.core.model.limits import LimitExceeded
from hotmap.core.model.objects import ConfigMap, ObjectKey, PodSpec, PodTemplate, Secret
from hotmap.core.model.references import Keys
from hotmap.core.model.source import Source, source_from_config_map, source_from_secret
from hotmap.core.model.template_uses import find_uses
from hotmap.core.model.used_content import content_name, used_data_keys
from hotmap.core.policy.policy import ROLLABLE
from hotmap.core.policy.values import parse_rereads
from hotmap.core.text import join_names, quote_short

__all__ = ["run_stamp", "stamp"]

#: Known to everybody: without a key of the user's, a name is a digest, of ConfigMaps alone.
_PUBLIC_KEY = b"hotmap stamp: not a secret"

#: A shorter key could be guessed together with the content.
_SHORTEST_KEY = 16

#: Bytes; a device such as /dev/urandom never ends.
_LARGEST_KEY_FILE = 65536

#: kubernetes: apimachinery IsQualifiedName, with a domain.
_ANNOTATION = re.compile(
    r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/[A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?"
)


def run_stamp(options: StampOptions) -> int:
    """Write manifests with the annotation in the pod templates of their workloads.

    Nothing is written unless all manifests are valid.

    Raises:
        SettingsError: options cannot be used together, or the key cannot be read.
        ManifestError: a manifest cannot be read, edited or written.
    """
    _check_annotation(options.annotation)
    with_secrets = options.key_file is not None
    key = fingerprint_key(_PUBLIC_KEY if options.key_file is None else _read_key(options.key_file))
    texts = read_manifests(options.filename, options.output, in_place=options.in_place)
    results, notes = stamp(texts, options.annotation, key, with_secrets=with_secrets)
    write_manifests(texts, results, options.output, in_place=options.in_place)
    for note in notes:
        print_message(f"hotmap: note: {note}")
    return 0


def stamp(
    texts: Mapping[str, str], annotation: str, key: FingerprintKey, *, with_secrets: bool
) -> tuple[dict[str, str], list[str]]:
    """Set an annotation in every workload's pod template; returns the texts, and notes.

    Raises:
        ManifestError: a text is not valid YAML, an object is malformed, or there is no workload.
    """
    manifests = {place: Manifest(text, describe_file(place)) for place, text in texts.items()}
    sources = _Sources(manifests.values(), key, with_secrets=with_secrets)
    notes: list[str] = []
    workloads = 0
    for manifest in manifests.values():
        planned: list[Planned] = []
        for found in manifest.templates():
            # A Job's template cannot be changed, and the next run of a CronJob reads the content
            # anyway.
            if found.template.kind not in ROLLABLE:
                continue
            workloads += 1
            name = manifest.describe(found)
            used = _read_used(found, name, sources, with_secrets=with_secrets)
            if used.left_out:
                notes.append(f"{name}: not included: {'; '.join(used.left_out)}")
            if used.read:
                value = content_name(used.read, used.sources, key)
                planned.append((found, _annotated(found, name, annotation, value)))
        if planned and not manifest.edit(planned):
            raise ManifestError(
                f"{manifest.locate_refused(planned)}: cannot edit only the annotations of a pod "
                "template: write them out where they are used if an anchor (&) shares them, and "
                "end the file with a line break"
            )
    if not workloads:
        where = ", ".join(map(describe_file, texts))
        raise ManifestError(f"{where}: no {', '.join(ROLLABLE[:-1])} or {ROLLABLE[-1]} found")
    return {place: manifest.text for place, manifest in manifests.items()}, notes


class _Sources:
    """The ConfigMaps and Secrets of all manifests; of equal names the last one counts.

    Secrets that are not included may have placeholders, which a later step of a pipeline replaces.
    """

    def __init__(
        self, manifests: Iterable[Manifest], key: FingerprintKey, *, with_secrets: bool
    ) -> None:
        #: By kind and name, then by the namespace that the manifest gives, "" for none.
        self._found: dict[ObjectKey, dict[str, Source]] = {}
        for manifest in manifests:
            for data, place in manifest.objects():
                kind = data.get("kind") if data.get("apiVersion") == "v1" else None
                if kind not in ("ConfigMap", "Secret"):
                    continue
                check_values(data, f"{place}: {kind}/{_metadata(data, 'name')}")
                if kind == "ConfigMap" or with_secrets:
                    namespace, source = _read_source(data, place, key)
                    self._found.setdefault(source.key, {})[namespace] = source

    def find(self, source: ObjectKey, namespace: str) -> Source | None:
        """Find what a workload of a namespace uses.

        A manifest without a namespace goes to that of the command line, which may be this one.
        """
        found = self._found.get(source, {})
        if namespace in found:
            return found[namespace]
        return found.get("") if namespace else next(iter(found.values()), None)


def _read_source(data: dict[str, Any], place: str, key: FingerprintKey) -> tuple[str, Source]:
    """Reduce a ConfigMap or Secret to its marks; returns its namespace apart from them.

    So a name is the same in every namespace, and whether or not the manifest gives one.
    """
    kind = data["kind"]
    name, namespace = _metadata(data, "name"), _metadata(data, "namespace")
    try:
        fields = {field: _read_texts(data.get(field)) for field in ("data", "binaryData")}
        for text in fields["data" if kind == "Secret" else "binaryData"].values():
            decode_value(text)
        if kind == "Secret":
            texts = _read_texts(data.get("stringData"))
            given = {field: b64encode(text.encode()).decode() for field, text in texts.items()}
            fields = {"data": fields["data"] | given}
        named = {**fields, "metadata": {"name": name}}
        if kind == "Secret":
            return namespace, source_from_secret(msgspec.convert(named, Secret), [key])
        return namespace, source_from_config_map(msgspec.convert(named, ConfigMap), [key])
    except (msgspec.ValidationError, LimitExceeded) as error:
        raise ManifestError(f"{place}: {kind}/{name}: {_describe(error)}") from None
    except ValueError:
        raise ManifestError(f"{place}: {kind}/{name}: a value is not valid base64") from None


def _metadata(data: dict[str, Any], field: str) -> str:
    metadata = data.get("metadata")
    return str(metadata.get(field) or "") if isinstance(metadata, dict) else ""


def _read_texts(field: Any) -> dict[str, str]:
    """Read a field of texts by data key; one that is null is empty, as for the API server."""
    texts = msgspec.convert(field or {}, dict[str, str | None])
    return {name: text or "" for name, text in texts.items()}


class _UsedContent(NamedTuple):
    """What the containers of a pod template read, and what of it is not included, with reasons."""

    read: dict[ObjectKey, list[Keys]]
    sources: dict[ObjectKey, Source]
    left_out: list[str]


def _read_used(
    found: FoundTemplate, name: str, sources: _Sources, *, with_secrets: bool
) -> _UsedContent:
    spec = found.template.node.data.get("spec")
    try:
        template = PodTemplate(spec=msgspec.convert(spec, PodSpec))
        uses = find_uses(template, "")
    except (msgspec.ValidationError, LimitExceeded) as error:
        raise ManifestError(f"{name}: the pod template is invalid: {_describe(error)}") from None
    live = not _reloads_files(found.template)
    read = used_data_keys(uses, live=live)
    used = _UsedContent({}, {}, [])
    missing = []
    for source in read:
        if source.kind == "Secret" and not with_secrets:
            continue
        content = sources.find(source, found.template.namespace)
        if content is None:
            missing.append(f"{source.kind} {source.name}")
        else:
            used.sources[source] = content
    read = used_data_keys(without_replaced(uses, used.sources), live=live)
    used.read.update((source, read[source]) for source in used.sources)
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        used.left_out.append(f"{join_names(missing)}, which {verb} not in the manifests")
    secrets = [source.name for source in read if source.kind == "Secret"]
    if secrets and not with_secrets:
        used.left_out.append(f"Secret {join_names(secrets)} (use --key-file to include Secrets)")
    return used


def _reloads_files(template: Template) -> bool:
    """Return whether mounted files reach the processes without new pods."""
    try:
        rereads = parse_rereads(template.annotation(REREADS) or "false")
    except ValueError:
        rereads = None
    return rereads is not None or template.annotation(AGENT) != ""


def _annotated(found: FoundTemplate, name: str, annotation: str, value: str) -> dict[str, Any]:
    template = found.template.node.data
    metadata = _mapping(template, "metadata", f"{name}: metadata")
    annotations = _mapping(metadata, "annotations", f"{name}: metadata.annotations")
    annotations = {**annotations, annotation: value}
    return {**template, "metadata": {**metadata, "annotations": annotations}}


def _mapping(holder: dict[str, Any], key: str, place: str) -> dict[str, Any]:
    found = holder.get(key) or {}
    if not isinstance(found, dict):
        raise ManifestError(f"{place} in the pod template must be a mapping")
    return found


def _check_annotation(name: str) -> None:
    if not _ANNOTATION.fullmatch(name):
        raise SettingsError(
            f"--annotation: invalid name {quote_short(name)}: "
            f"expected DOMAIN/NAME, such as {CONTENT}"
        )
    if name != CONTENT and name in (*ANNOTATIONS, *OURS):
        raise SettingsError(f"--annotation: {name} has another meaning; choose a name of your own")


def _read_key(filename: str) -> bytes:
    if not filename:  # of a variable that is not set
        raise SettingsError('--key-file: invalid file "": expected the name of a file')
    try:
        with Path(filename).open("rb") as file:
            secret = file.read(_LARGEST_KEY_FILE + 1)
    except OSError as error:
        reason = os_reason(error)
        raise SettingsError(f"--key-file: cannot read {filename}: {reason}") from None
    if len(secret) > _LARGEST_KEY_FILE:
        raise SettingsError(f"--key-file: {filename} has more than {_LARGEST_KEY_FILE:,} bytes")
    secret = secret.strip()
    if len(secret) < _SHORTEST_KEY:
        raise SettingsError(
            f"--key-file: {filename} has {len(secret)} bytes; {_SHORTEST_KEY} or more are needed"
        )
    return secret


def _describe(error: Exception) -> str:
    return str(error).replace("`", "").replace("$.", "").replace("$", "the spec")
