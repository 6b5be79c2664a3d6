"""Keys, tokens and kubeconfigs: made once, private, and accepted by a TLS client."""

import json
import socket
import ssl
import stat
import threading
from pathlib import Path

import pytest
import yaml
from tests.cluster import keys
from tests.cluster.layout import Layout, Settings
from tests.support.certificates import as_lenient_as_go


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path, Settings(base_port=20000, node=False))
    keys.make(made)
    return made


def handshake(layout: Layout, server_name: str) -> None:
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(layout.keys / "apiserver.crt", layout.keys / "apiserver.key")
    serving.load_verify_locations(layout.keys / "ca.crt")
    serving.verify_mode = ssl.CERT_REQUIRED
    asking = as_lenient_as_go(ssl.create_default_context(cafile=layout.keys / "ca.crt"))
    asking.load_cert_chain(layout.keys / "kubelet-client.crt", layout.keys / "kubelet-client.key")
    near, far = socket.socketpair()

    def serve() -> None:
        with far, serving.wrap_socket(far, server_side=True) as wrapped:
            wrapped.send(b"ok")

    server = threading.Thread(target=serve)
    server.start()
    with near, asking.wrap_socket(near, server_hostname=server_name) as wrapped:
        assert wrapped.recv(2) == b"ok"
    server.join()


@pytest.mark.parametrize("name", ["127.0.0.1", "10.99.0.1", "10.96.0.1", "kubernetes.default.svc"])
def test_server_and_client_certificates_are_accepted_by_each_other(
    layout: Layout, name: str
) -> None:
    """By every name under which the API server is reached, from the machine or from a pod."""
    handshake(layout, name)


def test_making_keys_again_changes_nothing(layout: Layout) -> None:
    """A second `up` must not lock out components that run with the first one's tokens."""
    before = {path.name: path.read_bytes() for path in layout.keys.iterdir()}
    keys.make(layout)
    assert {path.name: path.read_bytes() for path in layout.keys.iterdir()} == before


def test_incomplete_keys_are_created_again(tmp_path: Path) -> None:
    """The folder has its name only when it is complete."""
    layout = Layout(tmp_path, Settings(base_port=20000, node=False))
    (tmp_path / "keys.partial").mkdir()
    (tmp_path / "keys.partial" / "ca.key").write_text("half a k")
    keys.make(layout)
    handshake(layout, "localhost")


def test_secret_files_are_readable_by_owner_only(layout: Layout) -> None:
    """Keys, tokens and kubeconfigs, whatever the caller's umask."""
    private = [*layout.keys.glob("*.key"), *layout.keys.glob("tokens.*")]
    private += layout.folder.glob("*.kubeconfig")
    assert len(private) > 8
    assert {stat.S_IMODE(path.stat().st_mode) for path in private} == {0o600}


def test_kubeconfig_can_lead_through_another_address(layout: Layout) -> None:
    """It differs from the direct one in the server only, so that a proxy can sit in between."""
    direct = json.loads(layout.kubeconfig.read_text())
    path = layout.folder / "through.kubeconfig"
    keys.write_kubeconfig(layout, "admin", server="https://127.0.0.1:9", to=path)
    through = yaml.safe_load(path.read_text())
    assert through["clusters"][0]["cluster"].pop("server") == "https://127.0.0.1:9"
    assert direct["clusters"][0]["cluster"].pop("server") == "https://127.0.0.1:20003"
    assert through == direct


def test_each_user_has_a_token_of_its_own_in_the_api_servers_file(layout: Layout) -> None:
    """token,user,uid,"groups" (kubernetes: --token-auth-file)."""
    lines = (layout.keys / "tokens.csv").read_text().splitlines()
    rows = [line.split(",") for line in lines]
    assert len({row[0] for row in rows}) == len(keys.USERS)
    assert [keys.token(layout, "kubelet"), "system:node:node1", "system:node:node1"] in [
        row[:3] for row in rows
    ]
