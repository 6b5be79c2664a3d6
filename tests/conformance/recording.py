"""Sends the cases to an API server and keeps what it answers, without what must differ.

`python -m tests.conformance.recording KUBECONFIG` writes the answers of a real kube-apiserver into
`tests/conformance/answers`. Its controllers and scheduler have to be stopped, so that nothing
changes an object between two requests; `--bed` starts a control plane of the test bed like that.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import io
import json
import re
import ssl
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import aiohttp
import yaml
import yarl
from tests.conformance.cases import SUBJECTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.conformance.cases.call import Call

ANSWERS = Path(__file__).with_name("answers")
#: The field manager of all writes that name none.
_USER_AGENT = "conformance/1.0"
# For one request.
_SECONDS = 20
# Headers that differ from answer to answer, or that the transport sets.
_VOLATILE_HEADERS = {
    "audit-id",
    "content-length",
    "date",
    "server",
    "transfer-encoding",
    "x-kubernetes-pf-flowschema-uid",
    "x-kubernetes-pf-prioritylevel-uid",
}
# Fields whose values differ from server to server; times as well, by the form of the text.
_VOLATILE_FIELDS = {"continue", "resourceVersion", "token", "uid"}
# Fields that are not compared; the columns of a Table have descriptions as well, which are other
# people's sentences.
_LEFT_OUT = {"storageVersionHash"}
_MASKS = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r"^(\d+[ydhms])+$"), "AGE"),
    (re.compile(r"\bmade-[a-z0-9]{5}\b"), "made-RANDOM"),
    (re.compile(r'\b(resource ?[vV]ersion:? "?)\d+'), r"\1N"),
    (re.compile(r"(Too large resource version: N, current: )\d+"), r"\1N"),
    (re.compile(r"(ResourceVersion in record \()\d+"), r"\1N"),
    # Go's difference of the two specs follows.
    (re.compile(r"(was previously negative\)).*", re.DOTALL), r"\1"),
    (re.compile(r"\bkube-api-access-[a-z0-9]{5}\b"), "kube-api-access-RANDOM"),
    # The object in Go's order of fields.
    (
        re.compile(r'patch: Invalid value: "\{.*\}": (strict|json|converting|no kind|couldn)'),
        r'patch: Invalid value: "OBJECT": \1',
    ),
    (
        re.compile(r'^Invalid value: "\{.*\}": (strict|json|conv|no kind|couldn)'),
        r'Invalid value: "OBJECT": \1',
    ),
    (re.compile(r"https?://127\.0\.0\.1:\d+"), "SERVER"),
    (re.compile(r"^127\.0\.0\.1:\d+$"), "SERVER"),
)
_REFERENCE = re.compile(r"\$\{([^:}]+):([^}]+)\}")


class Server(NamedTuple):
    """Where an API server is, and who asks it."""

    url: str
    ca: str  # PEM
    token: str


class Answer(NamedTuple):
    """What a server answered; a stream is a list of its lines."""

    status: int
    headers: dict[str, list[str]]
    body: Any


def read_kubeconfig(path: Path) -> Server:
    """Read the server, its CA and the token of a kubeconfig."""
    settings = yaml.safe_load(path.read_text())
    cluster, user = settings["clusters"][0]["cluster"], settings["users"][0]["user"]
    if "certificate-authority" in cluster:
        ca = Path(cluster["certificate-authority"]).read_text()
    else:
        ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
    return Server(cluster["server"], ca, user["token"])


async def replay(server: Server, subjects: Iterable[str]) -> dict[str, dict[str, Answer]]:
    """Send the requests of the subjects; return subject → name → masked answer."""
    trust = ssl.create_default_context(cadata=server.ca)
    headers = {"Authorization": f"Bearer {server.token}", "User-Agent": _USER_AGENT}
    connector = aiohttp.TCPConnector(ssl=trust)
    async with aiohttp.ClientSession(
        connector=connector,
        headers=headers,
        skip_auto_headers=("Content-Type", "Accept-Encoding"),
        auto_decompress=False,
        timeout=aiohttp.ClientTimeout(total=_SECONDS),
    ) as session:
        return {
            subject: await _Replay(session, server).run(subject, SUBJECTS[subject])
            for subject in subjects
        }


class _Replay:
    """The requests of one subject, each of which may refer to earlier answers."""

    def __init__(self, session: aiohttp.ClientSession, server: Server) -> None:
        self._session = session
        self._server = server
        self._answers: dict[str, Answer] = {}

    async def run(self, subject: str, calls: list[Call]) -> dict[str, Answer]:
        await self._prepare(subject)
        for watches, some in groupby(calls, key=_is_watch):
            if watches:
                await asyncio.gather(*(self._send(call) for call in some))
            else:
                for call in some:
                    await self._send(call)
        return {call.name: masked(self._answers[call.name]) for call in calls}

    async def _prepare(self, subject: str) -> None:
        """Create the namespace, and the account without which there are no pods in it."""
        url = f"{self._server.url}/api/v1/namespaces"
        for target, name in (("", subject), (f"/{subject}/serviceaccounts", "default")):
            body = {"metadata": {"name": name}}
            async with self._session.post(f"{url}{target}", json=body) as response:
                # The plane makes the account with the namespace, Kubernetes' controllers later.
                if response.status not in (201, 409):
                    raise RuntimeError(f"{subject} cannot be prepared: {await response.text()}")

    async def _send(self, call: Call) -> None:
        for _ in range(50):
            try:
                answer = await self._send_once(call)
            except TimeoutError:
                raise TimeoutError(f"{call.method} {call.path} ({call.name}) did not end") from None
            if call.until in json.dumps(answer.body):
                break
            await asyncio.sleep(0.1)
        self._answers[call.name] = answer

    async def _send_once(self, call: Call) -> Answer:
        body = call.body
        if body is not None and not isinstance(body, str):
            body = json.dumps(body)
        # aiohttp warns of large bodies that are plain bytes.
        data = None if body is None else io.BytesIO(self._resolve(body).encode())
        headers = {"Accept": call.accept, **dict(call.headers)}
        if data is not None and call.content_type:
            headers["Content-Type"] = call.content_type
        url = yarl.URL(self._server.url + self._resolve(call.path), encoded=True)
        async with self._session.request(
            call.method, url, data=data, headers=headers, allow_redirects=False
        ) as response:
            text = (await response.read()).decode()
            found: dict[str, list[str]] = {}
            for name, value in response.headers.items():
                found.setdefault(name, []).append(value)
            return Answer(response.status, found, _decode(text))

    def _resolve(self, text: str) -> str:
        """Replace what stands for a field of an earlier answer."""

        def value(match: re.Match[str]) -> str:
            found = self._answers[match[1]].body
            for field in match[2].split("."):
                found = found[field] if isinstance(found, dict) and field in found else "absent"
            return str(found)

        return _REFERENCE.sub(value, text)


def _is_watch(call: Call) -> bool:
    return "timeoutSeconds=1" in call.path


def _decode(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return [json.loads(line) for line in text.splitlines()] or ""
    except ValueError:
        return text


def masked(answer: Answer) -> Answer:
    """Replace what must differ between two servers."""
    headers = {
        name.lower(): [_masked(value) for value in values]
        for name, values in sorted(answer.headers.items())
        if name.lower() not in _VOLATILE_HEADERS
    }
    return Answer(answer.status, headers, _masked(answer.body))


def _masked(value: Any, field: str = "") -> Any:
    if isinstance(value, dict):
        return {
            _masked(key): _masked(each, key)
            for key, each in value.items()
            if key not in _LEFT_OUT and not (key == "description" and "priority" in value)
        }
    if isinstance(value, list):
        found = [_masked(each) for each in value]
        # Kubernetes sorts managers by times, which two writes of one second share and those of two
        # do not; the causes of a conflict come in no order.
        return sorted(found, key=_identity) if field in ("managedFields", "causes") else found
    if isinstance(value, str):
        if field in _VOLATILE_FIELDS and value:
            return field.upper()
        for pattern, instead in _MASKS:
            value = pattern.sub(instead, value)
    return value


def _identity(entry: Any) -> str:
    return json.dumps(entry, sort_keys=True)


def differences(expected: Any, other: Any, at: str = "") -> Iterator[str]:
    """Yield a line for each place in which two values differ."""
    if isinstance(expected, dict) and isinstance(other, dict):
        for key in sorted(expected.keys() | other.keys()):
            yield from differences(
                expected.get(key, "absent"), other.get(key, "absent"), f"{at}.{key}"
            )
    elif isinstance(expected, list) and isinstance(other, list) and len(expected) == len(other):
        for index, (left, right) in enumerate(zip(expected, other, strict=True)):
            yield from differences(left, right, f"{at}[{index}]")
    elif expected != other or isinstance(expected, bool) != isinstance(other, bool):
        yield f"{at}: {json.dumps(expected)} instead of {json.dumps(other)}"


def read_answers(subject: str) -> dict[str, Answer]:
    """Read what the real server answered, by the requests' names."""
    recorded = json.loads((ANSWERS / f"{subject}.json").read_text())
    # Masked once more, by what was added since they were recorded.
    return {
        each["name"]: Answer(each["status"], each["headers"], _masked(each["body"]))
        for each in recorded
    }


def write_answers(subject: str, answers: dict[str, Answer]) -> None:
    """Write the answers of a subject, one to a line."""
    lines = [
        json.dumps({"name": name, **answer._asdict()}, ensure_ascii=False, sort_keys=True)
        for name, answer in answers.items()
    ]
    ANSWERS.mkdir(exist_ok=True)
    (ANSWERS / f"{subject}.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")


def main() -> None:
    """Record the answers of a server."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.recording")
    parser.add_argument("--kubeconfig", type=Path, help="default: a new control plane")
    parser.add_argument("subject", nargs="*", help="default: all")
    options = parser.parse_args()
    if options.kubeconfig:
        _record(options.kubeconfig, options.subject)
        return
    # Only here, since replaying needs nothing of the test bed.
    from tests.cluster import layout
    from tests.cluster.fixtures import private_control_plane

    with private_control_plane(layout.Settings(0).minor) as cluster:
        for component in ("kube-controller-manager", "kube-scheduler"):
            cluster.stop(component)
        _record(cluster.kubeconfig, options.subject)


def _record(kubeconfig: Path, subjects: list[str]) -> None:
    answers = asyncio.run(replay(read_kubeconfig(kubeconfig), subjects or list(SUBJECTS)))
    for subject, found in answers.items():
        write_answers(subject, found)
    print(f"{sum(map(len, answers.values()))} answers in {ANSWERS}")


if __name__ == "__main__":
    main()
