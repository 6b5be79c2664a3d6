"""The part of Kubernetes' test program agnhost that needs no cluster of its own.

Commands, flags and output as in kubernetes: test/images/agnhost, in which tests of volumes,
environment and services are written. One file, standard library only: it runs in containers.
"""

from __future__ import annotations

import argparse
import http.server
import os
import signal
import socket
import stat
import sys
import threading
import time
import urllib.parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def pause(_: list[str]) -> None:
    """Wait for a signal."""
    _say("Paused")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(0))
    while True:
        signal.pause()


def entrypoint_tester(arguments: list[str]) -> None:
    """Print the arguments, as Go prints a slice, with the program's own path."""
    _say(f"[/agnhost entrypoint-tester {' '.join(arguments)}]".replace(" ]", "]"))


def mounttest(arguments: list[str]) -> None:
    """Print the mount type, content, mode and owner of files, in upstream's order.

    Several questions may come together, so one that fails does not end the others.
    """
    parser = argparse.ArgumentParser("mounttest")
    for name in _QUESTIONS:
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--file_content_in_loop", default="")
    parser.add_argument("--break_on_expected_content", default="true")
    parser.add_argument("--retry_time", type=int, default=180)
    options = parser.parse_args(_flags(arguments))
    os.umask(0)
    failed = False
    for name, answer in _QUESTIONS.items():
        path = getattr(options, name)
        if path:
            failed |= not _answer_for(path, answer)
    if options.file_content_in_loop:
        breaks = options.break_on_expected_content.lower() in ("1", "t", "true")
        _follow_content(options.file_content_in_loop, options.retry_time, breaks=breaks)
    sys.exit(1 if failed else 0)


def _flags(arguments: list[str]) -> list[str]:
    """Accept Go's spelling of flags, `-name=value`, as well."""
    return [f"-{a}" if a.startswith("-") and not a.startswith("--") else a for a in arguments]


def _answer_for(path: str, answer: Callable[[str], None]) -> bool:
    try:
        answer(path)
    except OSError as error:
        _say(f"error with file {_quoted(path)}: {error.strerror}")
        return False
    return True


def _write_new(mode: int) -> Callable[[str], None]:
    def answer(path: str) -> None:
        flags = os.O_CREAT | os.O_WRONLY | os.O_TRUNC
        with os.fdopen(os.open(path, flags, mode), "w") as file:
            file.write(_NEW)
        _print_content(path)

    return answer


def _print_mount_type(path: str) -> None:
    best = kind = ""
    with open("/proc/self/mounts", encoding="utf-8") as mounts:  # noqa: PTH123
        for line in mounts:
            _, point, found, *_ = line.split(" ")
            inside = path == point or path.startswith(point.rstrip("/") + "/")
            if inside and len(point) >= len(best):
                best, kind = point, found
    _say(f"mount type of {_quoted(path)}: {kind}")


def _print_mode(path: str) -> None:
    _say(f"mode of file {_quoted(path)}: {_go_mode(os.lstat(path).st_mode)}")


def _print_permissions(path: str) -> None:
    mode = stat.S_IMODE(os.lstat(path).st_mode) & 0o777
    _say(f"perms of file {_quoted(path)}: {_go_mode(mode)}")


def _go_mode(mode: int) -> str:
    """Write a mode as Go's fs.FileMode does."""
    kinds = ((stat.S_ISDIR(mode), "d"), (stat.S_ISLNK(mode), "L"))
    masks = ((stat.S_ISUID, "u"), (stat.S_ISGID, "g"), (stat.S_ISVTX, "t"))
    letters = "".join(letter for holds, letter in kinds if holds)
    letters += "".join(letter for mask, letter in masks if mode & mask)
    bits = "".join("rwx"[i % 3] if mode >> (8 - i) & 1 else "-" for i in range(9))
    return (letters or "-") + bits


def _print_content(path: str) -> None:
    with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        _say(f"content of file {_quoted(path)}: {file.read()}")


def _print_owner(path: str) -> None:
    found = os.stat(path)  # noqa: PTH116
    _say(f"owner UID of {_quoted(path)}: {found.st_uid}")
    _say(f"owner GID of {_quoted(path)}: {found.st_gid}")


def _follow_content(path: str, seconds: int, *, breaks: bool) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if _answer_for(path, _print_content) and breaks:
            with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
                if file.read() == _NEW:
                    return
        time.sleep(2)


_NEW = "mount-tester new file\n"
_QUESTIONS: dict[str, Callable[[str], None]] = {
    "fs_type": _print_mount_type,
    "new_file_0644": _write_new(0o644),
    "new_file_0666": _write_new(0o666),
    "new_file_0660": _write_new(0o660),
    "new_file_0777": _write_new(0o777),
    "file_mode": _print_mode,
    "file_perm": _print_permissions,
    "file_owner": _print_owner,
    "file_content": _print_content,
}


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers of netexec and serve-hostname."""

    protocol_version = "HTTP/1.1"
    hostname_only = False

    def do_GET(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        query = urllib.parse.parse_qs(url.query)
        status, text = self._answer(url.path, query)
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _answer(self, path: str, query: dict[str, list[str]]) -> tuple[int, str]:
        first = {name: values[0] for name, values in query.items()}
        if self.hostname_only or path in ("/hostname", "/hostName"):
            return 200, socket.gethostname()
        match path:
            case "/":
                return 200, f"NOW: {time.strftime('%Y-%m-%d %H:%M:%S')}"
            case "/echo":
                return int(first.get("code", "200")), first.get("msg", "")
            case "/clientip":
                return 200, f"{self.client_address[0]}:{self.client_address[1]}"
            case "/healthz":
                return 200, ""
            case "/header":
                return 200, self.headers.get(first.get("key", ""), "")
            case "/exit":
                threading.Timer(0.1, os._exit, (int(first.get("code", "0")),)).start()
                return 200, ""
        return 404, "404 page not found\n"

    def log_message(self, format: str, *args: object) -> None:
        _say(format % args)


def netexec(arguments: list[str]) -> None:
    """Serve HTTP: echo, hostname, clientip, header, exit."""
    parser = argparse.ArgumentParser("netexec")
    parser.add_argument("--http-port", type=int, default=8080)
    parser.add_argument("--http-override", default="")
    parser.add_argument("--udp-port", type=int, default=8081)
    parser.add_argument("--delay-shutdown", type=int, default=0)
    options = parser.parse_args(_flags(arguments))
    _say(f"Started HTTP server on port {options.http_port}")
    _serve(options.http_port, _Handler)


def serve_hostname(arguments: list[str]) -> None:
    """Serve the host's name by HTTP."""
    parser = argparse.ArgumentParser("serve-hostname")
    parser.add_argument("--port", type=int, default=9376)
    options = parser.parse_args(_flags(arguments))

    class OnlyHostname(_Handler):
        hostname_only = True

    _say(f"Serving on port {options.port}.")
    _serve(options.port, OnlyHostname)


def _serve(port: int, handler: type[_Handler]) -> None:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    # The network is the machine's: only the pod's own address belongs to this pod.
    address = os.environ.get("HOTMAP_LISTEN_HOST", "")
    http.server.ThreadingHTTPServer((address, port), handler).serve_forever()


_COMMANDS = {
    "entrypoint-tester": entrypoint_tester,
    "mounttest": mounttest,
    "netexec": netexec,
    "pause": pause,
    "serve-hostname": serve_hostname,
}


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] not in _COMMANDS:
        known = ", ".join(_COMMANDS)
        sys.stderr.write(f"agnhost: unknown command; this node knows {known}\n")
        return 1
    _COMMANDS[arguments[0]](arguments[1:])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
