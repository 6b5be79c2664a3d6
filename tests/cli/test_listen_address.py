"""Where the controller listens on a network that other pods share."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

from tests.walkthroughs.local import running_plane


def test_port_alone_is_at_the_address_of_the_pod(tmp_path: Path) -> None:
    """Two replicas on the local plane have one port, each at its own address."""
    with (
        running_plane(tmp_path / "plane") as plane,
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        port = other.getsockname()[1]
        command = [sys.executable, "-m", "hotmap", "controller", f"--listen=:{port}"]
        environment = {
            **os.environ,
            "KUBECONFIG": str(plane.kubeconfig),
            "HOTMAP_LISTEN_HOST": "127.0.0.9",
        }
        with subprocess.Popen(
            command, env=environment, stderr=subprocess.PIPE, text=True
        ) as controller:
            try:
                assert controller.stderr is not None
                lines = []
                for line in controller.stderr:
                    lines.append(line)
                    if "ready" in line:
                        break
                else:
                    raise AssertionError("".join(lines))
                socket.create_connection(("127.0.0.9", port), timeout=5).close()
            finally:
                controller.terminate()


def test_name_that_does_not_resolve_is_said(tmp_path: Path) -> None:
    """In words, which depend on whether there is a name server."""
    with running_plane(tmp_path / "plane") as plane:
        done = subprocess.run(
            [sys.executable, "-m", "hotmap", "controller", "--listen=nosuch.invalid:9533"],
            env={**os.environ, "KUBECONFIG": str(plane.kubeconfig)},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert re.fullmatch(
        r"hotmap: cannot serve metrics and health on nosuch\.invalid:9533: [a-z ]+; choose another "
        r"address with --listen, or --listen none\n",
        done.stderr,
    )
