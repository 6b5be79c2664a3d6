"""Credential plugins: programs that a kubeconfig names to log a user in (client-go: auth/exec).

The program prints an ExecCredential with a token, a client certificate, or both. It runs once for
all requests at the same time, again when its credentials expire, and when the server refuses them.
What it prints is never shown; the last line that it wrote to standard error is.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from hotmap.core.errors import SettingsError
from hotmap.core.text import printable
from hotmap.kube.config import Credentials, error_text, is_token

__all__ = ["ExecCredentials", "ExecPlugin"]

#: The versions of the protocol; v1alpha1 was removed in Kubernetes 1.24.
_GROUP = "client.authentication.k8s.io"
API_VERSIONS = (f"{_GROUP}/v1", f"{_GROUP}/v1beta1")

#: Seconds for one run; a user who has to log in gets longer.
_TIMEOUT, _INTERACTIVE_TIMEOUT = 60.0, 600.0

#: Seconds that something else may hold the pipes of a process that was killed.
_KILL_TIMEOUT = 1.0

#: Seconds before credentials expire in which they are not used any more.
_EARLY = 10.0

#: Bytes of a run's output, and characters of its last words, that are read.
_MAX_OUTPUT, _MAX_WORDS = 1 << 20, 300

_MODES = ("Never", "IfAvailable", "Always")


class ExecPlugin(NamedTuple):
    """How to run a credential plugin."""

    api_version: str
    command: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    install_hint: str = ""
    #: Never, IfAvailable or Always.
    interactive_mode: str = "IfAvailable"
    #: What the plugin is told of the cluster; None: nothing.
    cluster: Mapping[str, Any] | None = None
    #: Who names it, for messages.
    title: str = "the kubeconfig"

    def validated(self) -> ExecPlugin:
        """Return this plugin if it can be run.

        Raises:
            SettingsError: its settings are incomplete, or of another version.
        """
        if not self.command:
            raise SettingsError(f"{self.title} has an exec plugin without a command")
        if self.api_version not in API_VERSIONS:
            raise SettingsError(
                f"{self.title} has an exec plugin of apiVersion {self.api_version or '(none)'!r},"
                f" which is not supported: use {' or '.join(API_VERSIONS)}"
            )
        if self.interactive_mode not in _MODES:
            given = repr(self.interactive_mode) if self.interactive_mode else "none"
            raise SettingsError(
                f"{self.title} has an exec plugin with an invalid interactiveMode ({given}):"
                f" expected {', '.join(_MODES)}"
            )
        return self


class _Status(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: str | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    status: _Status | None = None


class _Login(NamedTuple):
    """What a plugin has given."""

    token: str
    certificate: tuple[bytes, bytes] | None
    #: POSIX seconds of this machine; None: until they are refused.
    expires: float | None


class ExecCredentials(Credentials):
    """The credentials that a plugin gives."""

    def __init__(self, plugin: ExecPlugin) -> None:
        self._plugin = plugin
        self._login: _Login | None = None
        #: The run in progress, which all requests share.
        self._run: asyncio.Task[_Login] | None = None

    def authorization(self) -> str:
        token = self._login.token if self._login else ""
        return f"Bearer {token}" if token else ""

    def client_certificate(self) -> tuple[bytes, bytes] | None:
        return self._login.certificate if self._login else None

    async def prepare(self) -> None:
        """Run the plugin if there are no credentials, or they have expired.

        Raises:
            SettingsError: it cannot be run, fails, or prints no credentials.
        """
        if self._login is None or _is_over(self._login):
            await self._log_in()

    async def renew(self, refused: str) -> bool:
        before = self._login
        if self.authorization() == refused:
            await self._log_in()
        certificate = before.certificate if before else None
        return (self.authorization(), self.client_certificate()) != (refused, certificate)

    async def _log_in(self) -> None:
        """Wait for the plugin; its run goes on if the time of a request is over before that.

        Else a plugin that takes longer than the requests may would never end.
        """
        if self._run is None:
            self._run = asyncio.create_task(_log_in(self._plugin))
            self._run.add_done_callback(self._use)
        await asyncio.shield(self._run)

    def _use(self, run: asyncio.Task[_Login]) -> None:
        self._run = None
        if not run.cancelled() and run.exception() is None:
            self._login = run.result()


def _is_over(login: _Login) -> bool:
    return login.expires is not None and time.time() >= login.expires - _EARLY


async def _log_in(plugin: ExecPlugin) -> _Login:
    interactive = _is_interactive(plugin)
    output = await _run(plugin, interactive=interactive)
    return _read(plugin, output)


def _is_interactive(plugin: ExecPlugin) -> bool:
    """Return whether the plugin may ask the user (client-go: exec.go, isInteractive)."""
    if plugin.interactive_mode == "Never":
        return False
    available = sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
    if plugin.interactive_mode == "Always" and not available:
        raise _failure(plugin, "requires a terminal, but standard input is not one")
    return available


# -- the process -----------------------------------------------------------------------------------


async def _run(plugin: ExecPlugin, *, interactive: bool) -> bytes:
    """Run the program and return what it prints."""
    environment = {**os.environ, **dict(plugin.env)}
    if shutil.which(plugin.command, path=environment.get("PATH")) is None:
        # Path.exists raises, as for a name that is too long.
        if os.sep in plugin.command and os.path.exists(plugin.command):  # noqa: PTH110
            raise _failure(plugin, "is not an executable file")
        hint = f": {_one_line(plugin.install_hint, 1000)}" if plugin.install_hint else ""
        raise _failure(plugin, f"is not installed, or not in PATH{hint}")
    environment["KUBERNETES_EXEC_INFO"] = _exec_info(plugin, interactive=interactive)
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            env=environment,
            stdin=None if interactive else DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            # A group of its own, to end what it starts; but that cannot read from the terminal.
            start_new_session=not interactive,
        )
    except (OSError, ValueError) as error:
        raise _failure(plugin, f"cannot be run: {error_text(error)}") from error
    seconds = _INTERACTIVE_TIMEOUT if interactive else _TIMEOUT
    try:
        async with asyncio.timeout(seconds):
            output, words = await asyncio.gather(
                _read_output(plugin, process), _read_stderr(process)
            )
            await process.wait()
    except BaseException as error:
        await _kill(process, group=not interactive)
        if isinstance(error, TimeoutError):
            raise _failure(plugin, f"returned no credentials within {seconds:g} s") from None
        raise
    if process.returncode:
        raise _failure(plugin, f"{_ended(process.returncode)}{f': {words}' if words else ''}")
    return output


def _exec_info(plugin: ExecPlugin, *, interactive: bool) -> str:
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.cluster is not None:
        spec["cluster"] = plugin.cluster
    info = {"kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": spec}
    return msgspec.json.encode(info).decode()


async def _read_output(plugin: ExecPlugin, process: Process) -> bytes:
    assert process.stdout is not None
    output = b""
    while chunk := await process.stdout.read(1 << 16):
        output = (output + chunk)[: _MAX_OUTPUT + 1]
    if len(output) > _MAX_OUTPUT:
        raise _failure(plugin, f"printed more than {_MAX_OUTPUT >> 20} MiB")
    return output


async def _read_stderr(process: Process) -> str:
    """Return the last line of standard error; a person at a terminal sees all of it at once."""
    assert process.stderr is not None
    shows = sys.stderr is not None and sys.stderr.isatty()
    tail = b""
    while chunk := await process.stderr.read(1 << 12):
        tail = (tail + chunk)[-(1 << 12) :]
        if shows:
            sys.stderr.write(chunk.decode(errors="replace"))
            sys.stderr.flush()
    lines = [line for line in tail.decode(errors="replace").splitlines() if line.strip()]
    return _one_line(lines[-1], _MAX_WORDS) if lines else ""


async def _kill(process: Process, *, group: bool) -> None:
    """Kill the process, and its child processes as far as they are known."""
    with suppress(ProcessLookupError, PermissionError):
        if group:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    # A pipe that is full has to be emptied before the end of its process is noticed.
    with suppress(TimeoutError):
        async with asyncio.timeout(_KILL_TIMEOUT):
            await process.communicate()


def _ended(status: int) -> str:
    if status < 0:
        return f"was terminated by signal {-status}"
    return f"failed with exit status {status}"


# -- its answer ------------------------------------------------------------------------------------


def _read(plugin: ExecPlugin, output: bytes) -> _Login:
    try:
        answer = msgspec.json.decode(output, type=_ExecCredential)
    except msgspec.ValidationError as error:
        raise _failure(plugin, f"printed an invalid ExecCredential: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # The decoder's text may quote what was printed.
        raise _failure(plugin, "did not print an ExecCredential") from None
    if answer.kind != "ExecCredential":
        raise _failure(plugin, "did not print an ExecCredential")
    if answer.api_version != plugin.api_version:
        raise _failure(
            plugin,
            f"printed an ExecCredential of apiVersion {printable(answer.api_version, 80)!r},"
            f" and not {plugin.api_version!r}",
        )
    return _login(plugin, answer.status or _Status())


def _login(plugin: ExecPlugin, status: _Status) -> _Login:
    certificate, key = status.client_certificate_data, status.client_key_data
    if not status.token and not certificate and not key:
        raise _failure(plugin, "returned neither a token nor a client certificate")
    if bool(certificate) != bool(key):
        missing = "its key" if certificate else "its certificate"
        raise _failure(plugin, f"returned an incomplete client certificate, without {missing}")
    if not is_token(status.token or ""):
        raise _failure(plugin, "returned a token that contains white space")
    expires = None
    if status.expiration_timestamp:
        try:
            expires = datetime.fromisoformat(status.expiration_timestamp).timestamp()
        except ValueError:
            raise _failure(plugin, "returned an expirationTimestamp that is not RFC 3339") from None
    pair = (certificate.encode(), key.encode()) if certificate and key else None
    return _Login(status.token or "", pair, expires)


def _failure(plugin: ExecPlugin, what: str) -> SettingsError:
    return SettingsError(f"{plugin.title}: credential plugin {printable(plugin.command)} {what}")


def _one_line(text: str, limit: int) -> str:
    return printable(" ".join(text.split()), limit)
