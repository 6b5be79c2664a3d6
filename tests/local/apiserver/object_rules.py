"""What kube-apiserver says of objects, good and bad: `data/object_rules`, a file for each kind.

A case changes the file's object and creates it, or updates it once it is there. Its answer is that
of a real kube-apiserver: the code, and either the message or what was stored otherwise than sent.

    python -m tests.local.apiserver.object_rules KUBECONFIG [FILE...]

writes the answers of a running cluster into the files.
"""

from __future__ import annotations

import asyncio
import base64
import copy
import json
import re
import ssl
import sys
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from tests.local.apiserver.api import Api, Reply

JsonObject = dict[str, Any]

FILES = sorted((Path(__file__).parent / "data/object_rules").glob("*.json"))
# What no two servers give the same.
_OF_SERVER = ("uid", "resourceVersion", "creationTimestamp", "managedFields")
_MASKS = (
    (r"\\n@@ .*?(?=, volumeMode|\]?\"}$)", ""),
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID"),
    (r', "lastPhaseTransitionTime": "[^"]*"', ""),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME"),
    (r"\b(10\.96|127)(\.\d{1,3}){2,3}\b", "ADDRESS"),
)


def changed(obj: JsonObject, changes: JsonObject) -> JsonObject:
    """Return an object with other values at some paths; None takes the field away."""
    made = copy.deepcopy(obj)
    for path, value in changes.items():
        *parents, last = (name.replace("~1", "/") for name in path.split("/"))
        at: Any = made
        for name in parents:
            at = at[int(name)] if isinstance(at, list) else at.setdefault(name, {})
        if value is None:
            at.pop(last, None)
        else:
            at[int(last) if isinstance(at, list) else last] = value
    return made


def differences(sent: Any, stored: Any, path: str = "") -> JsonObject:
    """List the paths at which a stored object is not what was sent; None where nothing is left."""
    if isinstance(sent, dict) and isinstance(stored, dict):
        found: JsonObject = {}
        for name in sorted({*sent, *stored}):
            at = f"{path}/{name.replace('/', '~1')}" if path else name.replace("/", "~1")
            found |= differences(sent.get(name), stored.get(name), at)
        return found
    if isinstance(sent, list) and isinstance(stored, list) and len(sent) == len(stored):
        found = {}
        for index, (before, after) in enumerate(zip(sent, stored, strict=True)):
            found |= differences(before, after, f"{path}/{index}")
        return found
    return {} if sent == stored else {path: _without_nulls(stored)}


def _without_nulls(value: Any) -> Any:
    """Return a value without fields that are null, which is what absent ones are."""
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _answer(sent: JsonObject, reply: Reply) -> JsonObject:
    if reply.status >= 300:
        found = {"code": reply.status, "message": reply.message}
    else:
        for obj in (sent, reply.body):
            for field in _OF_SERVER:
                obj["metadata"].pop(field, None)
        found = {"code": reply.status, "stored": differences(sent, reply.body)}
    text = json.dumps(found)
    for pattern, mask in _MASKS:
        text = re.sub(pattern, mask, text)
    masked: JsonObject = json.loads(text)
    return masked


async def answers(api: Api, document: JsonObject) -> dict[str, JsonObject]:
    """Carry out the cases of a file without leaving anything behind; return the answers by name."""
    path, obj = document["path"], document["object"]
    at = f"{path}/{obj['metadata']['name']}"
    cases: JsonObject = document["cases"]
    found: dict[str, JsonObject] = {}
    for name, case in cases.items():
        if "create" in case:
            sent = changed(obj, case["create"])
            found[name] = _answer(sent, await api.post(path, sent, dryRun="All"))
    if len(found) == len(cases):
        return found
    made = await api.post(path, obj)
    assert made.status == 201, made.body
    if "status" in document:
        await api.patch(f"{at}/status", {"status": document["status"]})
    for name, case in cases.items():
        while name not in found:
            sent = changed((await api.get(at)).body, case["update"])
            reply = await api.request("PUT", at, sent, dryRun="All")
            if reply.status != 409:
                found[name] = _answer(sent, reply)
    await api.request("DELETE", at)
    return found


def written(document: JsonObject) -> str:
    """Write a file: a line for each case."""
    cases = ",\n".join(
        f"    {json.dumps(name)}: {json.dumps(case, ensure_ascii=False)}"
        for name, case in document["cases"].items()
    )
    head = {name: value for name, value in document.items() if name != "cases"}
    lines = [f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()]
    return "{\n" + ",\n".join(lines) + ',\n  "cases": {\n' + cases + "\n  }\n}\n"


def _connection(kubeconfig: Path) -> tuple[str, ssl.SSLContext, str]:
    config = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    authority = cluster.get("certificate-authority-data")
    trust = ssl.create_default_context(
        cafile=cluster.get("certificate-authority"),
        cadata=authority and base64.b64decode(authority).decode(),
    )
    return cluster["server"], trust, user["token"]


async def real_answers(kubeconfig: Path, documents: list[JsonObject]) -> list[JsonObject]:
    """Return what a cluster answers to the cases of files."""
    url, trust, token = _connection(kubeconfig)
    connector = aiohttp.TCPConnector(ssl=trust)
    async with aiohttp.ClientSession(connector=connector, read_bufsize=2**22) as session:
        api = Api(session, url, token)
        return [await answers(api, document) for document in documents]


def _record(kubeconfig: Path, files: list[Path]) -> None:
    documents = [json.loads(file.read_text()) for file in files]
    for file, document, found in zip(
        files, documents, asyncio.run(real_answers(kubeconfig, documents)), strict=True
    ):
        for name, answer in found.items():
            case = document["cases"][name]
            verb = "create" if "create" in case else "update"
            document["cases"][name] = {verb: case[verb], **answer}
        file.write_text(written(document))


if __name__ == "__main__":
    _record(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]] or FILES)
