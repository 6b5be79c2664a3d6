"""The state directory of a local cluster: its content and its owner.

A clean end removes everything that is worth no more than the run it belongs to; what a killed run
left is removed by the next start. Where state is kept, store, volumes, logs and pki outlive the
run.

    kubeconfig   for kubectl and hotmap, with the administrator's token
    run.json     which process runs here
    pki/         the authority's certificate, the server's certificate and key
    pods/        volumes, as a node keeps them; pods/<uid>/volumes/kubernetes.io~configmap/…
    logs/        what containers print
    sandbox/     where containers find their root
    store/       every object, where state is kept (see `journal`)
    volumes/     what claims of the class local-path have got
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
from pathlib import Path
from typing import NamedTuple

from hotmap.core.errors import SettingsError, os_reason

_DIRECTORIES = ("pods", "sandbox")
_KEPT = ("pki", "volumes", "logs")
_FILES = ("kubeconfig", "run.json")


class _Owner(NamedTuple):
    """A process, identified by its pid and its start time (clock ticks), since pids are reused.

    `made` says whether it made the directory, so that the next start knows whether to remove it.
    """

    pid: int
    started: int
    made: bool


def default_directory() -> Path:
    """Return the user's default state directory (XDG base directories)."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "hotmap" / "local"


class StateDirectory:
    """A directory that belongs to one running cluster at a time."""

    def __init__(self, path: Path, *, keep: bool) -> None:
        """Name a directory; `keep` says that what outlives a run is kept in it."""
        self.path = path.absolute()
        self.keep = keep
        self.store = self.path / "store"
        self.kubeconfig = self.path / "kubeconfig"
        self.pki = self.path / "pki"
        self.volumes = self.path / "volumes"
        self._run = self.path / "run.json"
        self._made = False

    def claim(self) -> None:
        """Claim the directory for this process, and remove what a killed run left in it.

        Raises:
            SettingsError: it belongs to a running cluster, or cannot be written.
        """
        try:
            self._made = not self.path.exists()
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            while not self._write_owner():
                self._remove_left_over()
        except OSError as error:
            reason = "not a directory" if isinstance(error, FileExistsError) else os_reason(error)
            raise SettingsError(
                f"the state directory {self.path} cannot be used: {reason}; "
                "choose a directory that can be written"
            ) from None

    def release(self) -> None:
        """Remove everything that the run kept here, and the directory if the run made it."""
        self._remove_contents()
        if self._made and not self.keep:
            # A user may have put files of their own into it.
            with contextlib.suppress(OSError):
                self.path.rmdir()

    def discard(self) -> None:
        """Remove what a start that failed has written; what an earlier run kept stays."""
        if not self._made:
            return
        for path in (self.store, *(self.path / name for name in _KEPT)):
            shutil.rmtree(path, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.path.rmdir()

    def write_kubeconfig(self, server: str, authority: str, token: str) -> None:
        """Write the kubeconfig; only its owner may read it, for it holds the token."""
        text = _kubeconfig(server, base64.b64encode(authority.encode()).decode(), token)
        written = self.path / f"kubeconfig.{os.getpid()}"
        try:
            descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(text)
            # Renamed, so that readers never see half of it.
            written.replace(self.kubeconfig)
        except OSError as error:
            raise SettingsError(
                f"{self.kubeconfig} cannot be written: {os_reason(error)}"
            ) from None

    def keep_token(self, token: str) -> str:
        """Return the kept token of the administrator, or keep `token`."""
        path = self.pki / "administrator.token"
        with contextlib.suppress(OSError):
            if self.keep and (kept := path.read_text().strip()):
                return kept
        if self.keep:
            self.pki.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.touch(mode=0o600)
            path.write_text(token)
        return token

    def _write_owner(self) -> bool:
        """Write run.json unless it is there; a link makes content and name appear at once."""
        owner = _Owner(os.getpid(), _start_of(os.getpid()) or 0, self._made)
        written = self.path / f"run.json.{owner.pid}"
        try:
            written.write_text(json.dumps(owner._asdict()))
            self._run.hardlink_to(written)
        except FileExistsError:
            return False
        finally:
            # Not even the file is there if the directory cannot be written.
            written.unlink(missing_ok=True)
        return True

    def _remove_left_over(self) -> None:
        owner = self._owner()
        if owner is not None and _start_of(owner.pid) == owner.started:
            raise SettingsError(
                f"a local control plane is already running in {self.path} (process {owner.pid}); "
                "stop it, or choose another directory with --dir"
            )
        self._remove_contents()
        self._made = owner is not None and owner.made

    def _owner(self) -> _Owner | None:
        try:
            found = json.loads(self._run.read_text())
            return _Owner(int(found["pid"]), int(found["started"]), bool(found["made"]))
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def _remove_contents(self) -> None:
        for name in _DIRECTORIES if self.keep else (*_DIRECTORIES, *_KEPT):
            shutil.rmtree(self.path / name, ignore_errors=True)
        # run.json is removed last: until then the directory has an owner.
        for name in _FILES:
            (self.path / name).unlink(missing_ok=True)


def _start_of(pid: int) -> int | None:
    """Return when a process started, in ticks since boot; None if it does not exist."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name in parentheses may hold anything; starttime is field 22, the 20th after it.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])


def _kubeconfig(server: str, authority: str, token: str) -> str:
    return f"""\
apiVersion: v1
kind: Config
current-context: hotmap-local
clusters:
- name: hotmap-local
  cluster:
    server: {server}
    certificate-authority-data: {authority}
contexts:
- name: hotmap-local
  context:
    cluster: hotmap-local
    user: hotmap-local
users:
- name: hotmap-local
  user:
    token: {token}
"""
