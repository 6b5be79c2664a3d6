"""kubeconfig files and in-cluster settings: what is found, and one clear sentence if it is not."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.certificates import Authority

from hotmap.core.errors import SettingsError
from hotmap.kube.config import ClusterConfig, TokenFile, in_cluster_config
from hotmap.kube.kubeconfig import load_config, load_kubeconfig

GROUP = "client.authentication.k8s.io"


def kubeconfig(
    *, cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, **context: Any
) -> dict[str, Any]:
    """One context `here` of one cluster and one user."""
    return {
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": "https://c:6443/", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", **context}}],
    }


def write(path: Path, content: dict[str, Any]) -> str:
    path.write_text(yaml.safe_dump(content))
    return str(path)


@pytest.fixture(autouse=True)
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person without any settings."""
    home = tmp_path / "home"
    (home / ".kube").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_PORT", raising=False)
    return home


def test_current_context_is_read(tmp_path: Path) -> None:
    """Server, credentials and namespace of one context."""
    path = write(tmp_path / "k", kubeconfig(user={"token": "t"}, namespace="shop"))
    config = load_config(path)
    assert config.server == "https://c:6443"
    assert config.namespace == "shop"
    assert config.credentials.authorization() == "Bearer t"
    assert config.origin == f"kubeconfig {path}, context 'here'"


def test_first_file_to_name_a_thing_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """KUBECONFIG is merged as kubectl does it; files that do not exist are passed over."""
    first = kubeconfig(user={"token": "first"})
    del first["current-context"]
    second = kubeconfig(user={"token": "second"})
    second["contexts"].append({"name": "there", "context": {"cluster": "c2", "user": "u"}})
    second["clusters"].append({"name": "c2", "cluster": {"server": "https://c2"}})
    second["current-context"] = "there"
    paths = [str(tmp_path / "absent"), write(tmp_path / "1", first), write(tmp_path / "2", second)]
    monkeypatch.setenv("KUBECONFIG", ":".join(paths))
    config = load_config()
    assert config.server == "https://c2"
    assert config.credentials.authorization() == "Bearer first"
    assert load_config(context="here").server == "https://c:6443"


def test_default_file_is_used_without_any_hint(empty_home: Path) -> None:
    """~/.kube/config, as kubectl."""
    write(empty_home / ".kube" / "config", kubeconfig(user={"token": "t"}))
    assert load_config().server == "https://c:6443"


def test_named_context_is_looked_for_in_files(
    empty_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even in a pod is it silently replaced by the service account."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    with pytest.raises(SettingsError, match=r"^kubeconfig .*/.kube/config cannot be read: "):
        load_config(context="prod")


def test_server_may_have_an_at_sign_in_its_path(tmp_path: Path) -> None:
    """Only one before the host separates a user or password from it."""
    path = write(tmp_path / "k", kubeconfig(cluster={"server": "https://c:6443/teams/shop@eu"}))
    assert load_config(path).server == "https://c:6443/teams/shop@eu"


def test_paths_are_relative_to_their_file(tmp_path: Path, authority: Authority) -> None:
    """And data in the file itself wins over a path."""
    pair = authority.issue("client")
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    (tmp_path / "client.crt").write_bytes(pair.certificate)
    path = write(
        tmp_path / "k",
        kubeconfig(
            cluster={"certificate-authority": "ca.crt", "tls-server-name": "api.example"},
            user={
                "client-certificate": "client.crt",
                "client-key": "absent.key",
                "client-key-data": base64.b64encode(pair.key).decode(),
            },
        ),
    )
    config = load_kubeconfig(path)
    assert config.tls == (authority.pem, pair.certificate, pair.key, False, "api.example")
    assert config.ssl_context() is not None


def test_impersonation_becomes_headers(tmp_path: Path) -> None:
    """as, as-uid, as-groups and as-user-extra, in client-go's headers."""
    user = {
        "token": "t",
        "as": "jane",
        "as-uid": "7",
        "as-groups": ["dev", "ops"],
        "as-user-extra": {"example.com/why": ["x"]},
    }
    config = load_kubeconfig(write(tmp_path / "k", kubeconfig(user=user)))
    assert config.impersonate == (
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "dev"),
        ("Impersonate-Group", "ops"),
        ("Impersonate-Extra-example.com%2Fwhy", "x"),
    )


def test_nothing_of_a_client_certificate_stays_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, authority: Authority
) -> None:
    """OpenSSL wants a file; it is gone when the context is made."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    pair = authority.issue("client")
    data = {
        "client-certificate-data": base64.b64encode(pair.certificate).decode(),
        "client-key-data": base64.b64encode(pair.key).decode(),
    }
    config = load_kubeconfig(write(tmp_path / "k", kubeconfig(user=data)))
    config.ssl_context()
    assert "PRIVATE KEY" not in repr(config)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("hotmap")] == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            kubeconfig(user={"exec": {"apiVersion": f"{GROUP}/v1"}}),
            "user 'u' in kubeconfig {path} has an exec plugin without a command",
        ),
        (
            kubeconfig(user={"exec": {"command": "aws", "apiVersion": f"{GROUP}/v1alpha1"}}),
            "user 'u' in kubeconfig {path} has an exec plugin of apiVersion"
            f" '{GROUP}/v1alpha1', which is not supported: use {GROUP}/v1 or {GROUP}/v1beta1",
        ),
        (
            kubeconfig(user={"exec": {"command": "aws"}}),
            "user 'u' in kubeconfig {path} has an exec plugin of apiVersion '(none)', which is"
            f" not supported: use {GROUP}/v1 or {GROUP}/v1beta1",
        ),
        (
            kubeconfig(user={"exec": {"command": "aws", "apiVersion": f"{GROUP}/v1"}}),
            "user 'u' in kubeconfig {path} has an exec plugin with an invalid interactiveMode"
            " (none): expected Never, IfAvailable, Always",
        ),
        (
            kubeconfig(
                user={
                    "exec": {
                        "command": "aws",
                        "apiVersion": f"{GROUP}/v1",
                        "interactiveMode": "Maybe",
                    }
                }
            ),
            "user 'u' in kubeconfig {path} has an exec plugin with an invalid interactiveMode"
            " ('Maybe'): expected Never, IfAvailable, Always",
        ),
        (
            kubeconfig(user={"auth-provider": {"name": "gcp", "config": {"x": "geheim"}}}),
            "user 'u' in kubeconfig {path} uses auth-provider 'gcp', which is not"
            " supported: use the exec plugin gke-gcloud-auth-plugin"
            " ('gcloud container clusters get-credentials')",
        ),
        (
            kubeconfig(user={"auth-provider": {"name": "other"}}),
            "user 'u' in kubeconfig {path} uses auth-provider 'other', which is not"
            " supported: use an exec plugin, a token or a client certificate",
        ),
        (
            kubeconfig(user={"username": "x", "password": "geheim"}),
            "user 'u' in kubeconfig {path} uses 'username', which is not supported: use"
            " a token; Kubernetes removed passwords in 1.19",
        ),
        (
            kubeconfig(user={"tokenFile": "absent"}),
            "user 'u' in kubeconfig {path}: token file {folder}/absent cannot be used:"
            " no such file or directory",
        ),
        (
            kubeconfig(user={"tokenFile": "/dev/zero"}),
            "user 'u' in kubeconfig {path}: token file /dev/zero cannot be used: it has more than"
            " 16 MiB",
        ),
        (
            kubeconfig(cluster={"certificate-authority": "absent"}),
            "cluster 'c' in kubeconfig {path}: certificate-authority {folder}/absent cannot be"
            " read: no such file or directory",
        ),
        (
            kubeconfig(cluster={"certificate-authority-data": "%%%"}),
            "cluster 'c' in kubeconfig {path}: certificate-authority-data is not valid base64",
        ),
        (
            kubeconfig(
                cluster={"certificate-authority-data": "eA==", "insecure-skip-tls-verify": True}
            ),
            "cluster 'c' in kubeconfig {path} has both a certificate-authority and"
            " insecure-skip-tls-verify: remove one",
        ),
        (
            kubeconfig(user={"client-certificate-data": "eA=="}),
            "user 'u' in kubeconfig {path} has no client-key; a client certificate needs both",
        ),
        (
            kubeconfig(cluster={"server": "c:6443"}),
            "cluster 'c' in kubeconfig {path} needs a server like https://host:6443, but has"
            " 'c:6443'",
        ),
        (
            kubeconfig(cluster={"server": "https://ann:geheim@[c"}),
            "cluster 'c' in kubeconfig {path} has a server with a user or password, which is not"
            " supported: use a token",
        ),
        (
            kubeconfig(cluster={"server": "https://geheim@c:6443/k8s"}),
            "cluster 'c' in kubeconfig {path} has a server with a user or password, which is not"
            " supported: use a token",
        ),
        (
            kubeconfig(cluster={"server": "https://ann:geh/eim@c:6443"}),
            "cluster 'c' in kubeconfig {path} has a server with a user or password, which is not"
            " supported: use a token",
        ),
        (
            kubeconfig(cluster={"proxy-url": "socks4://p"}),
            "cluster 'c' in kubeconfig {path} has a proxy-url that is not a URL with one of the"
            " schemes http, https, socks5, socks5h",
        ),
        (
            kubeconfig(cluster={"server": ["geheim"]}),
            "kubeconfig {path} is not valid: Expected `str | null`, got `array` - at"
            " `$.clusters[0].cluster.server`",
        ),
        (
            {**kubeconfig(), "current-context": "gone"},
            "kubeconfig {path} has no context 'gone': it has here",
        ),
        (
            {**kubeconfig(), "current-context": ""},
            "kubeconfig {path} has no current-context: choose one of here",
        ),
        (
            {**kubeconfig(), "clusters": []},
            "context 'here' in kubeconfig {path} names cluster 'c', which does not exist:"
            " there is none",
        ),
        (
            {**kubeconfig(), "users": None},
            "context 'here' in kubeconfig {path} names user 'u', which does not exist:"
            " there is none",
        ),
        (
            kubeconfig(user={"as-groups": ["dev"]}),
            "user 'u' in kubeconfig {path} has as-uid, as-groups or as-user-extra without as:"
            " add as",
        ),
    ],
)
def test_unsupported_entry_error_is_one_sentence(
    tmp_path: Path, content: dict[str, Any], message: str
) -> None:
    """What, where and what to do; never a credential."""
    path = write(tmp_path / "k", content)
    with pytest.raises(SettingsError) as caught:
        load_kubeconfig(path)
    assert str(caught.value) == message.format(path=path, folder=tmp_path)
    assert "geheim" not in str(caught.value)


def test_invalid_yaml_is_reported_with_its_line(tmp_path: Path) -> None:
    """The content is not quoted: it may be a token."""
    path = tmp_path / "k"
    path.write_text("users:\n- {token: geheim\n")
    with pytest.raises(SettingsError) as caught:
        load_kubeconfig(str(path))
    assert str(caught.value) == f"kubeconfig {path} is not valid YAML at line 3, column 1"


@pytest.mark.parametrize("name", ["absent", "."])
def test_unreadable_file_is_reported(tmp_path: Path, name: str) -> None:
    """Absent, or a directory."""
    with pytest.raises(SettingsError, match=f"^kubeconfig {tmp_path / name} cannot be read: "):
        load_kubeconfig(str(tmp_path / name))


def test_invalid_certificates_are_reported(tmp_path: Path) -> None:
    """Base64 that is fine, of something that is not PEM."""
    cluster = {"certificate-authority-data": base64.b64encode(b"nonsense").decode()}
    config = load_kubeconfig(write(tmp_path / "k", kubeconfig(cluster=cluster)))
    with pytest.raises(
        SettingsError, match=r"certificate authority in kubeconfig .* is not valid PEM"
    ):
        config.ssl_context()
    pair = {"client-certificate-data": "eA==", "client-key-data": "eA=="}
    config = load_kubeconfig(write(tmp_path / "k", kubeconfig(user=pair)))
    with pytest.raises(SettingsError, match=r"client certificate or key in kubeconfig .* PEM"):
        config.ssl_context()


def test_kubeconfig_of_a_pipe_is_read_once() -> None:
    """A shell gives one for `<(sops decrypt …)`, and some commands load the settings again."""
    reading, writing = os.pipe()
    os.write(writing, yaml.safe_dump(kubeconfig()).encode())
    os.close(writing)
    first, second = (load_kubeconfig(f"/dev/fd/{reading}") for _ in range(2))
    os.close(reading)
    assert first.server == second.server == "https://c:6443"


def test_missing_kubeconfig_error_names_the_options(empty_home: Path) -> None:
    """A person who has nothing learns what to set and what to start."""
    with pytest.raises(SettingsError) as caught:
        load_config()
    assert str(caught.value) == (
        "no cluster is configured: --kubeconfig and KUBECONFIG are not set,"
        f" {empty_home}/.kube/config does not exist, and this is not a pod;"
        " 'hotmap local up' starts a cluster and prints its kubeconfig"
    )


#: As root, with the rights of another user: only after the imports, which that one may not read.
AS_OTHER_USER = """
import os, yaml
from hotmap.kube.kubeconfig import load_config
os.geteuid() or os.seteuid(65534)
load_config()
"""


def load_with_closed_home(home: Path, **environ: str) -> str:
    """Load the settings where the home may not be entered; returns how that failed."""
    home.mkdir(mode=0o000)
    done = subprocess.run(
        [sys.executable, "-c", AS_OTHER_USER],
        env={"HOME": str(home), "PYTHONPATH": os.environ.get("PYTHONPATH", ""), **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    home.rmdir()
    return done.stderr.splitlines()[-1]


def test_home_of_another_user_in_a_pod_is_not_a_kubeconfig(tmp_path: Path) -> None:
    """As in an image of root's that runs as another user: the service account is used."""
    pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    problem = load_with_closed_home(tmp_path / "closed", **pod)
    assert "/var/run/secrets/kubernetes.io/serviceaccount" in problem


def test_closed_home_is_named(tmp_path: Path) -> None:
    """Elsewhere, and for KUBECONFIG in a pod too."""
    closed = tmp_path / "closed"
    problem = load_with_closed_home(closed)
    assert problem.endswith(f"kubeconfig {closed}/.kube/config cannot be read: permission denied")
    named = f"{closed}/k"
    problem = load_with_closed_home(closed, KUBERNETES_SERVICE_HOST="10.0.0.1", KUBECONFIG=named)
    assert problem.endswith(f"kubeconfig {named} cannot be read: permission denied")


def in_pod(directory: Path, host: str = "10.0.0.1") -> ClusterConfig:
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"}
    return in_cluster_config(directory=directory, environ=environ)


def test_pod_finds_its_service_account(tmp_path: Path, authority: Authority) -> None:
    """Address from the environment, the rest from the mounted volume."""
    (tmp_path / "token").write_text("t\n")
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    (tmp_path / "namespace").write_text("shop\n")
    config = in_pod(tmp_path)
    assert config.server == "https://10.0.0.1:443"
    assert config.namespace == "shop"
    assert config.credentials.authorization() == "Bearer t"
    assert in_pod(tmp_path, "fd00::1").server == "https://[fd00::1]:443"


def test_missing_service_account_is_an_error(tmp_path: Path) -> None:
    """automountServiceAccountToken: false, for example."""
    with pytest.raises(SettingsError, match=f"^token file {tmp_path}/token cannot be used: no"):
        in_pod(tmp_path)
    with pytest.raises(SettingsError, match=r"^not in a pod: KUBERNETES_SERVICE_HOST and"):
        in_cluster_config(directory=tmp_path, environ={})


async def test_token_file_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """After a minute, and at once after a 401; an unreadable one leaves the last token."""
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    path = tmp_path / "token"
    path.write_text("one")
    token = TokenFile(path)
    assert token.authorization() == "Bearer one"
    path.write_text("two")
    now += 59
    assert token.authorization() == "Bearer one"
    now += 1
    assert token.authorization() == "Bearer two"
    assert not await token.renew("Bearer two")
    assert await token.renew("Bearer one")
    path.write_text("three")
    assert await token.renew("Bearer two")
    path.unlink()
    now += 60
    assert token.authorization() == "Bearer three"
    for _ in range(3):  # logged once, and not for each request, nor for each that is refused
        assert token.authorization() == "Bearer three"
        assert not await token.renew("Bearer three")
    assert caplog.text.count("using the last token") == 1
    now += 60
    path.write_text("four\nfive")
    assert token.authorization() == "Bearer three"
    assert "it contains white space" in caplog.text


def test_authority_file_is_read_again(tmp_path: Path, authority: Authority) -> None:
    """A file that the kubeconfig names may be replaced; what it holds itself may not."""
    (tmp_path / "ca.crt").write_bytes(Authority("former authority").pem)
    named = kubeconfig(cluster={"certificate-authority": "ca.crt"})
    config = load_kubeconfig(write(tmp_path / "k", named))
    assert config.with_current_ca() is config
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    assert config.with_current_ca().tls.ca == authority.pem
    (tmp_path / "ca.crt").write_bytes(b"")  # being written: not a reason to trust the system's
    with pytest.raises(SettingsError, match="it is empty"):
        config.with_current_ca()
    data = base64.b64encode(authority.pem).decode()
    both = {"certificate-authority": "ca.crt", "certificate-authority-data": data}
    assert load_kubeconfig(write(tmp_path / "k", kubeconfig(cluster=both))).ca_file is None


def test_client_certificate_files_are_read_again(tmp_path: Path, authority: Authority) -> None:
    """Whoever renews a certificate replaces its files, one after the other."""
    certificate, key = tmp_path / "client.crt", tmp_path / "client.key"
    old, new = authority.issue("jane"), authority.issue("jane")
    certificate.write_bytes(old.certificate)
    key.write_bytes(old.key)
    user = {"client-certificate": "client.crt", "client-key": "client.key"}
    config = load_kubeconfig(write(tmp_path / "k", kubeconfig(user=user)))
    assert config.with_current_certificate() is config
    certificate.write_bytes(new.certificate)
    with pytest.raises(SettingsError, match="do not belong together"):
        config.with_current_certificate()
    key.write_bytes(new.key)
    tls = config.with_current_certificate().tls
    assert (tls.certificate, tls.key) == new
    data = {
        name: base64.b64encode(pem).decode()
        for name, pem in zip(("client-certificate-data", "client-key-data"), old, strict=True)
    }
    both = load_kubeconfig(write(tmp_path / "k", kubeconfig(user={**user, **data})))
    assert both.certificate_files is None
