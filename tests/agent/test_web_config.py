"""TLS and headers on the agent's port, from the web configuration of Prometheus' exporters."""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.error
import urllib.request
from base64 import b64encode
from pathlib import Path

import pytest
from tests.agent.agents import Volume, eventually
from tests.agent.test_drop_in_command_lines import RELOADER, drop_in, run
from tests.support.certificates import Authority, as_lenient_as_go, encrypted

from hotmap.agent.report.basic_auth import BasicAuth
from hotmap.agent.settings.web_config_file import load_web_config, parse_block_yaml
from hotmap.core.errors import SettingsError

TLS = """\
# written by an operator
tls_server_config:
  cert_file: server.pem
  key_file: "server.key"   # beside this file
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: ca.pem
  min_version: TLS13
  cipher_suites:
  - TLS_AES_128_GCM_SHA256
http_server_config:
  http2: true
  headers:
    X-Frame-Options: deny
    Strict-Transport-Security: 'max-age=1; preload'
"""


def write_certificates(folder: Path) -> ssl.SSLContext:
    """Write a server's certificate, an authority and a client's; returns the client's context."""
    authority = Authority("an authority")
    (folder / "ca.pem").write_bytes(authority.pem)
    for name, pair in (("server", authority.issue("127.0.0.1")), ("client", authority.issue("c"))):
        (folder / f"{name}.pem").write_bytes(pair.certificate)
        (folder / f"{name}.key").write_bytes(pair.key)
    context = as_lenient_as_go(ssl.create_default_context(cafile=str(folder / "ca.pem")))
    context.check_hostname = False
    context.load_cert_chain(folder / "client.pem", folder / "client.key")
    return context


def test_port_has_tls_client_certificates_and_headers(tmp_path: Path) -> None:
    """A client without certificate, one without TLS and one that hangs get nothing."""
    trusted = write_certificates(tmp_path)
    config, volume = tmp_path / "web.yaml", Volume(tmp_path / "volume", a="1")
    config.write_text(TLS)
    flags = (f"--watched-dir={volume}", f"--web-config-file={config}")
    with drop_in(tmp_path, RELOADER, *flags) as running:
        address = f"https://127.0.0.1:{running.port}/metrics"

        def get() -> http.client.HTTPResponse | None:
            try:
                page: http.client.HTTPResponse = urllib.request.urlopen(
                    address, context=trusted, timeout=5
                )
            except OSError:
                return None
            return page

        page = eventually(get)
        with page:
            assert b"reloader_watches 1" in page.read()
            assert page.headers["X-Frame-Options"] == "deny"
            assert page.headers["Strict-Transport-Security"] == "max-age=1; preload"
        stranger = as_lenient_as_go(ssl.create_default_context(cafile=str(tmp_path / "ca.pem")))
        stranger.check_hostname = False
        with pytest.raises(OSError, match=r"(?i)alert|reset|closed|EOF"):
            urllib.request.urlopen(address, context=stranger, timeout=5).read()
        with pytest.raises((OSError, http.client.HTTPException)):
            urllib.request.urlopen(address.replace("https", "http"), timeout=5).read()
        with eventually(get) as again:
            assert again.status == 200


@pytest.mark.parametrize(
    ("key", "reason"),
    [("missing", "no such file or directory"), ("encrypted", "the private key is encrypted")],
)
def test_unusable_certificate_is_reported_until_it_is_renewed(
    tmp_path: Path, key: str, reason: str
) -> None:
    """The port does not answer, and this program has no other one on which to say why."""
    trusted = write_certificates(tmp_path)
    config, place, volume = (
        tmp_path / "web.yaml",
        tmp_path / key,
        Volume(tmp_path / "volume", a="1"),
    )
    config.write_text(f"tls_server_config:\n  cert_file: server.pem\n  key_file: {key}\n")
    good = (tmp_path / "server.key").read_bytes()
    if key == "encrypted":
        place.write_bytes(encrypted(good))
    flags = (f"--watched-dir={volume}", f"--web-config-file={config}")
    with drop_in(tmp_path, RELOADER, *flags) as running:
        files = f"{tmp_path}/server.pem, {place}"
        eventually(lambda: f"TLS cannot start with {files}: {reason}" in running.log)

        def health() -> int | None:
            address = f"https://127.0.0.1:{running.port}/healthz"
            try:
                with urllib.request.urlopen(address, context=trusted, timeout=5) as page:
                    return int(page.status)
            except OSError:
                return None

        place.write_bytes(good)
        assert eventually(health) == 200
        place.write_bytes(b"not a key")
        eventually(lambda: health() is None and f"{files}: not in PEM form" in running.log)
        place.write_bytes(good)
        assert eventually(health) == 200


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rate_limit:\n  burst: 1\n", "rate_limit is not supported"),
        (
            "basic_auth_users:\n  a: secret\n",
            "basic_auth_users: the value of 'a' is not a hash of bcrypt",
        ),
        (
            f"basic_auth_users:\n  a: $2y$04${'!' * 53}\n",
            "basic_auth_users: the value of 'a' is not a hash of bcrypt",
        ),
        (
            f"basic_auth_users:\n  a: $2y$31${'x' * 53}\n",
            "basic_auth_users: the hash of 'a' has cost 31; 4 to 14 are supported",
        ),
        ("tls_server_config:\n  cert: x\n", "tls_server_config.cert is not supported"),
        (
            "tls_server_config:\n  cert_file: x\n",
            "tls_server_config requires cert_file and key_file",
        ),
        (
            "tls_server_config: \n  cert_file: x\n  key_file: y\n"
            "  client_auth_type: RequireAndVerifyClientCert\n",
            "tls_server_config.client_auth_type RequireAndVerifyClientCert requires client_ca_file",
        ),
        ("a\n", "line 1: expected a key and a value"),
        ("a: b\n   c: d\n", "line 2: unexpected indentation"),
        ("a: |\n  b\n", "line 1: | is not supported"),
        ("http_server_config:\n  headers:\n    X-Y: z\n", "the header 'X-Y' is not supported"),
    ],
)
def test_invalid_web_config_is_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    """Nothing that would leave the port more open than the file says is ignored."""
    config = tmp_path / "web.yaml"
    config.write_text(text)
    with pytest.raises(SettingsError) as caught:
        load_web_config(str(config), "--web-config-file")
    assert str(caught.value) == f"--web-config-file: {config}: {message}"


#: Of the password "secret", with the lowest cost.
HASH = "$2b$04$NUwo74TP0NOfdcKx0n5mJ.pjy..R4LEcJTmF4PKjcmY95N92omoEG"


def authorization(name: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + b64encode(f"{name}:{password}".encode()).decode()}


def test_port_asks_for_a_password(tmp_path: Path) -> None:
    """Health included, as exporters do; the unix socket is the pod's own."""
    config, volume = tmp_path / "web.yaml", Volume(tmp_path / "volume", a="1")
    users = f"  scraper: {HASH}\n  older: {HASH.replace('$2b$', '$2$')}\n"
    config.write_text(f"basic_auth_users:\n{users}")
    flags = (f"--watched-dir={volume}", f"--web-config-file={config}")
    with drop_in(tmp_path, RELOADER, *flags) as running:

        def status(path: str, headers: dict[str, str]) -> int | None:
            address = f"http://127.0.0.1:{running.port}{path}"
            try:
                with urllib.request.urlopen(
                    urllib.request.Request(address, headers=headers), timeout=5
                ) as page:
                    return int(page.status)
            except urllib.error.HTTPError as error:
                challenge = error.headers["WWW-Authenticate"]
                error.close()
                assert (challenge == "Basic") is (error.code == 401)
                return error.code
            except OSError:
                return None

        assert eventually(lambda: status("/metrics", {})) == 401
        assert status("/healthz", {}) == 401
        assert status("/metrics", authorization("scraper", "secret")) == 200
        assert eventually(lambda: status("/metrics", authorization("scraper", "wrong")) == 401)
        assert eventually(lambda: status("/metrics", authorization("other", "secret")) == 401)
        assert eventually(lambda: status("/metrics", authorization("older", "secret")) == 200)
        assert status("/metrics", authorization("scraper", "secret")) == 200


def test_comparisons_take_a_tenth_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guessed passwords do not keep the agent from its work; known users get in meanwhile."""
    now = [0.0]
    compared = []

    def compare(password: bytes, known: bytes) -> bool:
        now[0] += 0.1
        compared.append(password)
        return password == b"secret" and known == HASH.encode()

    monkeypatch.setattr("hotmap.agent.report.basic_auth.bcrypt.checkpw", compare)
    auth = BasicAuth((("scraper", HASH),), clock=lambda: now[0])

    def status(name: str, password: str) -> int:
        header = authorization(name, password)["Authorization"]
        return auth.status(f"GET / HTTP/1.1\r\nauthorization: {header}\r\n\r\n".encode())

    assert status("scraper", "secret") == 200
    assert status("scraper", "guess") == 429
    assert status("scraper", "secret") == 200
    now[0] += 1
    assert status("scraper", "guess") == 401
    assert compared == [b"secret", b"guess"]
    for number in range(200):
        now[0] += 1
        assert status("stranger", f"{number}") == 401
    assert status("scraper", "secret") == 200
    assert auth.status(b"GET / HTTP/1.1\r\nAuthorization: Basic ***\r\n\r\n") == 401
    assert auth.status(b"GET / HTTP/1.1\r\nAuthorization: Basic x\r\n\r\n") == 401


def test_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The port is not opened without the passwords that the file asks for."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    config = tmp_path / "web.yaml"
    config.write_text(f"basic_auth_users:\n  scraper: {HASH}\n")
    with pytest.raises(SettingsError, match=r"install hotmap\[bcrypt\]"):
        load_web_config(str(config), "--web-config-file")


def test_unreadable_web_config_ends_the_start(tmp_path: Path) -> None:
    """With exit status 2."""
    status, _, text = run(RELOADER, f"--watched-dir={tmp_path}", "--web-config-file=/nowhere")
    assert status == 2
    assert text.endswith("--web-config-file: cannot read /nowhere: no such file or directory\n")


def test_web_config_may_have_a_byte_order_mark(tmp_path: Path) -> None:
    """As editors write it; other encodings are named in plain words."""
    config = tmp_path / "web.yaml"
    config.write_text("http_server_config:\n  http2: true\n", encoding="utf-8-sig")
    load_web_config(str(config), "--web-config-file")
    config.write_text("http_server_config:\n", encoding="utf-16")
    with pytest.raises(SettingsError, match=r"^--web-config-file: \S+ is not valid UTF-8$"):
        load_web_config(str(config), "--web-config-file")


def test_empty_web_config_is_plain_http(tmp_path: Path) -> None:
    """As of exporters: no TLS without a table for it; JSON is taken as well."""
    config = tmp_path / "web.json"
    config.write_text(json.dumps({"tls_server_config": {}, "basic_auth_users": {}}))
    assert load_web_config(str(config), "x").certificate == ""


def test_block_yaml_is_parsed() -> None:
    """What an operator's marshaller writes."""
    assert parse_block_yaml(
        "a:\n  b: [x, 'y z']\n  c:\n  - d\n  - e\n  f:\n    g: h: i\nj: ~\n"
    ) == {
        "a": {"b": ["x", "y z"], "c": ["d", "e"], "f": {"g": "h: i"}},
        "j": None,
    }
