"""One small single-threaded process that forks every container of a kubelet.

`python -m hotmap.local.kubelet.zygote FD WORKSPACE`, started and controlled by `runtime`. A
process with an event loop and threads cannot fork safely, and a fresh interpreter per container
would cost more than the container; a fork of this one costs a millisecond.

Nothing outlives the kubelet, however it ends: the zygote is process 1 of a PID namespace, it
ends when its socket is closed, and the kernel then kills everything in the namespace; mounts are
private to the processes.

    kubelet ── outer (waits) ── zygote, process 1 ─┬─ container, process 1 of its own namespace
                                                   ├─ container …
                                                   ├─ command of an exec, in a container
                                                   └─ process 1 of a pod that shares its namespace

Messages are one JSON object per packet:

    to the zygote     {op: start|exec, id, …} with four descriptors: specification, stdin,
                      stdout, stderr; {op: signal, id, signal}
    from the zygote   {op: ready, root, rootless} or {op: refused, message}, once;
                      per id: {op: started} or {op: failed, message}, then {op: exited, code}

The specification (`sandbox.ContainerSpec`) comes as a memory file, since an environment may be
larger than a packet. Standard library only.
"""

# Runs in forks between namespaces, on paths that have changed their meaning: plain system calls.
# ruff: noqa: PTH103

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import select
import signal
import socket
import sys
import termios

from hotmap.local.kubelet import linux, sandbox
from hotmap.local.kubelet.error_text import error_text
from hotmap.local.kubelet.shared_processes import SharedProcesses, own_mounts
from hotmap.local.kubelet.user_namespaces import (
    UserNamespaces,
    enter_new_user_namespace,
    has_other_users,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from hotmap.local.kubelet.sandbox import ContainerSpec

MAX_PACKET = 1 << 16
#: Exit code of a process that could not be set up; containerd reports the same.
SETUP_FAILED = 128
#: Maximum bytes of the failure message; small enough for one write to a pipe.
MAX_FAILURE = 2048


class Child:
    """A process that the zygote forked and has not reaped yet.

    `failure` is the read end of a pipe that its exec closes; None once the outcome is known.
    """

    __slots__ = ("failed", "failure", "id", "pid", "pidfd")

    def __init__(self, id: int, pid: int, failure: int) -> None:
        self.id = id
        self.pid = pid
        self.pidfd = os.pidfd_open(pid)
        self.failure: int | None = failure
        self.failed = False


class Zygote:
    """Serves one control socket until the other end closes it."""

    def __init__(self, control: socket.socket, workspace: str, root: str) -> None:
        self._control = control
        self._workspace = workspace
        self._root = root
        self._self = os.pidfd_open(os.getpid())
        self._children: dict[int, Child] = {}
        self._shared = SharedProcesses()
        #: None: containers take the users themselves.
        self._users = None if has_other_users() else UserNamespaces()
        self._poll = select.poll()

    def serve(self) -> None:
        wakeup, wakeup_sender = socket.socketpair()
        wakeup.setblocking(False)
        wakeup_sender.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakeup_sender.fileno(), warn_on_full_buffer=False)
        self._poll.register(self._control, select.POLLIN)
        self._poll.register(wakeup, select.POLLIN)
        while True:
            ready = {fd for fd, _ in self._poll.poll()}
            if wakeup.fileno() in ready:
                with contextlib.suppress(BlockingIOError):
                    wakeup.recv(4096)
                self._reap()
            for child in list(self._children.values()):
                if child.failure in ready:
                    self._learn_outcome(child)
            if self._control.fileno() in ready and not self._answer():
                return

    def _answer(self) -> bool:
        """Handle one message; return False when the socket is closed."""
        data, fds, flags, _ = socket.recv_fds(self._control, MAX_PACKET, 4)
        if not data:
            return False
        for fd in fds:
            # Python 3.11 does not pass flags on, so MSG_CMSG_CLOEXEC would do nothing.
            os.set_inheritable(fd, False)
        message = json.loads(data)
        try:
            if flags & socket.MSG_CTRUNC:  # the kernel drops descriptors for which there is no room
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            if message["op"] == "signal":
                self._signal(message["id"], message["signal"])
            else:
                self._spawn(message, fds)
        except OSError as error:
            self._send(id=message["id"], op="failed", message=error_text(error))
        finally:
            for fd in fds:
                os.close(fd)
        return True

    def _signal(self, id: int, number: int) -> None:
        child = self._children.get(id)
        if child is not None:
            signal.pidfd_send_signal(child.pidfd, number)

    def _spawn(self, message: dict[str, Any], fds: list[int]) -> None:
        specification, stdio = fds[0], fds[1:]
        with open(specification, "rb", closefd=False) as file:
            spec: ContainerSpec = json.loads(file.read())
        if self._users is not None:
            self._users.prepare(spec.get("user"), spec.get("group"))
        try:
            if message["op"] == "exec":
                self._start_command(message, spec, stdio)
            elif shared := spec.get("processes"):
                self._start_beside_others(message["id"], spec, stdio, shared)
            elif (target := spec.get("beside")) is not None:
                self._start_as_guest(message["id"], spec, stdio, target)
            else:
                linux.unshare(linux.CLONE_NEWPID)
                self._fork(message["id"], spec, stdio, lambda: self._isolate(spec))
        finally:
            linux.setns(self._self, linux.CLONE_NEWPID)

    def _start_command(
        self, message: dict[str, Any], spec: ContainerSpec, stdio: list[int]
    ) -> None:
        container = self._children.get(message["container"])
        if container is None or container.failed:
            raise ProcessLookupError("the container is not running")
        linux.setns(container.pidfd, linux.CLONE_NEWPID)

        def prepare() -> None:
            linux.setns(container.pidfd, linux.CLONE_NEWNS | linux.CLONE_NEWUTS)

        self._fork(message["id"], spec, stdio, prepare)

    def _start_beside_others(
        self, id: int, spec: ContainerSpec, stdio: list[int], namespace: str
    ) -> None:
        self._shared.enter(namespace, self._self)
        child, mounts = self._fork_isolated(id, spec, stdio)
        self._shared.add(namespace, child.pidfd, mounts)

    def _start_as_guest(self, id: int, spec: ContainerSpec, stdio: list[int], target: int) -> None:
        """Start a container in the PID namespace of another one, which ends with that one."""
        host = self._children.get(target)
        if host is None or host.failed:
            raise ProcessLookupError("the target container is not running")
        linux.setns(host.pidfd, linux.CLONE_NEWPID)
        child, mounts = self._fork_isolated(id, spec, stdio)
        self._shared.add_guest(child.pidfd, mounts)

    def _fork_isolated(self, id: int, spec: ContainerSpec, stdio: list[int]) -> tuple[Child, int]:
        """Fork a container that is not process 1; return also its `own_mounts`."""
        reader, writer = os.pipe()
        try:
            try:
                child = self._fork(id, spec, stdio, lambda: self._isolate(spec, writer))
            finally:
                os.close(writer)
            # Written before anything of the container runs; closed unwritten if nothing will run.
            mounts = os.read(reader, MAX_FAILURE)
        finally:
            os.close(reader)
        return child, int(mounts or 0)

    def _isolate(self, spec: ContainerSpec, writer: int | None = None) -> None:
        """Create mount and host name namespaces for this fork; return the mount namespace."""
        linux.unshare(linux.CLONE_NEWNS | linux.CLONE_NEWUTS)
        if writer is not None:
            os.write(writer, str(own_mounts()).encode())
        socket.sethostname(spec["hostname"])
        sandbox.enter_root(self._root, self._workspace, spec["mounts"], spec.get("root", ""))

    def _fork(
        self, id: int, spec: ContainerSpec, stdio: list[int], prepare: Callable[[], None]
    ) -> Child:
        failure, failure_writer = os.pipe()
        try:
            pid = os.fork()
            if pid == 0:
                _exec_container(spec, stdio, failure_writer, prepare, self._users)
        finally:
            os.close(failure_writer)
        child = self._children[id] = Child(id, pid, failure)
        self._poll.register(failure, select.POLLIN)
        return child

    def _learn_outcome(self, child: Child) -> None:
        """Report whether the command was executed: exec closes the pipe; else it has the error."""
        if child.failure is None:
            return
        message = os.read(child.failure, MAX_FAILURE).decode(errors="replace")
        self._poll.unregister(child.failure)
        os.close(child.failure)
        child.failure = None
        child.failed = bool(message)
        if message:
            self._send(id=child.id, op="failed", message=message)
        else:
            self._send(id=child.id, op="started")

    def _reap(self) -> None:
        """Reap processes that have exited: our children, and orphans that process 1 inherits."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            child = next((c for c in self._children.values() if c.pid == pid), None)
            if child is None:
                continue
            self._learn_outcome(child)
            del self._children[child.id]
            self._shared.ended(child.pidfd)
            os.close(child.pidfd)
            if not child.failed:
                code = os.waitstatus_to_exitcode(status)
                self._send(id=child.id, op="exited", code=code if code >= 0 else 128 - code)

    def _send(self, **message: object) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._control.send(json.dumps(message).encode())


def _exec_container(
    spec: ContainerSpec,
    stdio: list[int],
    failure: int,
    prepare: Callable[[], None],
    users: UserNamespaces | None,
) -> NoReturn:
    """Turn this new fork into the command of `spec`; write any failure to `failure`."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        for target, fd in enumerate(stdio):
            os.dup2(fd, target)
        if os.isatty(0):
            # The controlling terminal of the new session, so that it gets interrupts typed there.
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        prepare()
        _enter_directory(spec["cwd"])
        user, group = spec.get("user"), spec.get("group")
        if users is not None:
            users.enter(user, group)
        else:
            _take_identity(user, group, spec.get("groups"))
        os.umask(0o022)
        _execute(spec["argv"], spec["env"])
    except BaseException as error:
        os.write(failure, error_text(error).encode(errors="replace")[:MAX_FAILURE])
        os._exit(SETUP_FAILED)


def _enter_directory(path: str) -> None:
    """Change to the working directory, made if it is missing, as containerd does."""
    os.makedirs(path, exist_ok=True)
    os.chdir(path)


def _take_identity(user: int | None, group: int | None, groups: list[int] | None) -> None:
    try:
        if groups or group is not None or user is not None:
            os.setgroups(groups or [])
        if group is not None or user is not None:
            # A user without a group has the root group (CRI: LinuxContainerSecurityContext).
            os.setgid(group or 0)
        if user is not None:
            os.setuid(user)
    except OSError as error:
        text = f"run as user {user or 0} and group {group or 0}: {error.strerror}"
        raise OSError(error.errno, text) from None


def _execute(argv: list[str], env: dict[str, str]) -> NoReturn:
    try:
        os.execvpe(argv[0], argv, env)
    except FileNotFoundError:
        place = (
            "no such file or directory" if "/" in argv[0] else "executable file not found in $PATH"
        )
        raise OSError(f'exec: "{argv[0]}": {place}') from None
    except PermissionError:
        raise OSError(f'exec: "{argv[0]}": permission denied') from None


def _enter_namespaces() -> bool:
    """Leave the host's mount and PID namespaces, by a user namespace if not root.

    Returns whether a user namespace was needed.

    Raises:
        OSError: neither is allowed.
    """
    wanted = linux.CLONE_NEWNS | linux.CLONE_NEWPID
    try:
        linux.unshare(wanted)
    except PermissionError:
        enter_new_user_namespace(0, 0, others=wanted)
        return True
    return False


def _serve(control: socket.socket, workspace: str, *, rootless: bool) -> None:
    """Run as process 1 of the namespace: report what is possible, then serve."""
    linux.die_with_parent()
    _check_kernel()
    # Follow the host's unmounts, so that no file system stays busy because of us.
    linux.mount("none", "/", flags=linux.MS_REC | linux.MS_SLAVE)
    overlay = not rootless and sandbox.probe_overlay(workspace)
    root = sandbox.OVERLAY if overlay else sandbox.BIND
    zygote = Zygote(control, workspace, root)
    control.send(json.dumps({"op": "ready", "root": root, "rootless": rootless}).encode())
    zygote.serve()


def _check_kernel() -> None:
    """Check the newest system call in use: joining namespaces by a pidfd, Linux 5.8."""
    pidfd = os.pidfd_open(os.getpid())
    try:
        linux.setns(pidfd, linux.CLONE_NEWPID)
    except OSError as error:
        raise OSError(error.errno, "Linux 5.8 or newer is needed") from None
    finally:
        os.close(pidfd)


def main() -> int:
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    workspace = sys.argv[2]
    try:
        rootless = _enter_namespaces()
        pid = os.fork()
        if pid == 0:
            _serve(control, workspace, rootless=rootless)
            os._exit(0)
    except ConnectionError:
        # The kubelet was killed meanwhile, so there is nothing to report and nothing to serve.
        return 1
    except OSError as error:
        control.send(json.dumps({"op": "refused", "message": error_text(error)}).encode())
        return 1
    control.close()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    sys.exit(main())
