"""Kubeconfig files: found, merged and resolved as kubectl does it (client-go: tools/clientcmd).

Credential plugins run in `exec_plugin`; what Kubernetes itself has dropped is refused with an error
that says what to do instead.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import msgspec

from hotmap.core.errors import SettingsError
from hotmap.core.text import printable
from hotmap.kube.config import (
    TLS,
    BearerToken,
    ClusterConfig,
    Credentials,
    TokenFile,
    in_cluster_config,
    is_token,
    read_file,
)
from hotmap.kube.exec_plugin import ExecCredentials, ExecPlugin
from hotmap.kube.proxy import PROXY_SCHEMES, is_proxy, proxy_from_environment

__all__ = ["load_config", "load_kubeconfig"]


class _Entry(msgspec.Struct, rename="kebab"):
    """A part of a kubeconfig, and the file it came from: relative paths start there."""

    origin: str = ""


_E = TypeVar("_E", bound=_Entry)


class _Extension(msgspec.Struct):
    name: str = ""
    extension: Any = None


class _Cluster(_Entry):
    server: str | None = None
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool = False
    tls_server_name: str | None = None
    proxy_url: str | None = None
    disable_compression: bool = False
    extensions: list[_Extension] | None = None


class _Variable(msgspec.Struct):
    name: str
    value: str = ""


class _Exec(msgspec.Struct, rename="camel"):
    command: str = ""
    args: list[str] | None = None
    env: list[_Variable] | None = None
    api_version: str = ""
    install_hint: str | None = None
    provide_cluster_info: bool = False
    interactive_mode: str | None = None


class _AuthProvider(msgspec.Struct):
    name: str = ""


class _User(_Entry):
    token: str | None = None
    token_file: str | None = msgspec.field(default=None, name="tokenFile")
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    username: str | None = None
    exec: _Exec | None = None
    auth_provider: _AuthProvider | None = None
    impersonate: str | None = msgspec.field(default=None, name="as")
    impersonate_uid: str | None = msgspec.field(default=None, name="as-uid")
    impersonate_groups: list[str] | None = msgspec.field(default=None, name="as-groups")
    impersonate_extra: dict[str, list[str]] | None = msgspec.field(
        default=None, name="as-user-extra"
    )


class _Context(_Entry):
    cluster: str = ""
    user: str = ""
    namespace: str | None = None


class _NamedCluster(msgspec.Struct):
    name: str = ""
    cluster: _Cluster | None = None


class _NamedUser(msgspec.Struct):
    name: str = ""
    user: _User | None = None


class _NamedContext(msgspec.Struct):
    name: str = ""
    context: _Context | None = None


class _File(msgspec.Struct, rename="kebab"):
    current_context: str | None = None
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None


class _Merged:
    """All files merged: the first file with an entry wins (client-go: clientcmd/loader.go)."""

    def __init__(self, paths: list[Path]) -> None:
        self.current_context = ""
        self.clusters: dict[str, _Cluster] = {}
        self.users: dict[str, _User] = {}
        self.contexts: dict[str, _Context] = {}
        for path in paths:
            self._add(path, _read_kubeconfig(path))

    def _add(self, path: Path, file: _File) -> None:
        self.current_context = self.current_context or file.current_context or ""
        for cluster in file.clusters or ():
            self._add_first(self.clusters, cluster.name, cluster.cluster or _Cluster(), path)
        for user in file.users or ():
            self._add_first(self.users, user.name, user.user or _User(), path)
        for context in file.contexts or ():
            self._add_first(self.contexts, context.name, context.context or _Context(), path)

    @staticmethod
    def _add_first(into: dict[str, _E], name: str, entry: _E, path: Path) -> None:
        entry.origin = str(path)
        into.setdefault(name, entry)


def load_config(kubeconfig: str | None = None, context: str | None = None) -> ClusterConfig:
    """Load the settings of the named file, KUBECONFIG, ~/.kube/config or the own pod.

    Raises:
        SettingsError: no settings were found, or they cannot be used.
    """
    named = kubeconfig or context or os.environ.get("KUBECONFIG", "").strip(os.pathsep)
    in_pod = os.environ.get("KUBERNETES_SERVICE_HOST")
    if named or _may_exist(_default_path(), unless_closed=bool(in_pod)):
        return load_kubeconfig(kubeconfig, context=context)
    if in_pod:
        return in_cluster_config()
    raise SettingsError(
        f"no cluster is configured: --kubeconfig and KUBECONFIG are not set, {_default_path()} does"
        " not exist, and this is not a pod; 'hotmap local up' starts a cluster and prints its"
        " kubeconfig"
    )


def load_kubeconfig(path: str | None, *, context: str | None = None) -> ClusterConfig:
    """Read one context of a kubeconfig; the current one when `context` is None.

    Without `path`, the files of KUBECONFIG are merged as kubectl does it (missing ones are
    skipped), else ~/.kube/config is read.

    Raises:
        SettingsError: a file, the context or its cluster or user cannot be used; the text
            names the file and what to change.
    """
    paths = _kubeconfig_paths(path)
    files = ":".join(map(str, paths))
    merged = _Merged(paths)
    if not merged.contexts:
        raise SettingsError(f"kubeconfig {files} has no contexts, so it names no cluster")
    name = context or merged.current_context
    if not name:
        raise SettingsError(
            f"kubeconfig {files} has no current-context: choose one of {_names(merged.contexts)}"
        )
    chosen = merged.contexts.get(name)
    if chosen is None:
        raise SettingsError(
            f"kubeconfig {files} has no context {name!r}: it has {_names(merged.contexts)}"
        )
    cluster = merged.clusters.get(chosen.cluster)
    if cluster is None:
        raise SettingsError(
            f"context {name!r} in kubeconfig {chosen.origin} names cluster {chosen.cluster!r},"
            f" which does not exist: there is {_names(merged.clusters)}"
        )
    user = merged.users.get(chosen.user) if chosen.user else _User()
    if user is None:
        raise SettingsError(
            f"context {name!r} in kubeconfig {chosen.origin} names user {chosen.user!r},"
            f" which does not exist: there is {_names(merged.users)}"
        )
    return _resolve(name, chosen, cluster, user)


def _default_path() -> Path:
    return Path("~/.kube/config").expanduser()


def _may_exist(path: Path, *, unless_closed: bool = False) -> bool:
    """Return whether a file exists, or is below a directory that may not be entered.

    Reading it gives the error then. `unless_closed`: such a file counts as missing, since the image
    of a pod may have the home of another user than it runs as.
    """
    try:
        return path.exists()
    except PermissionError:
        return not unless_closed


def _kubeconfig_paths(path: str | None) -> list[Path]:
    if path:
        return [Path(path).expanduser()]
    listed = [part for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    if not listed:
        return [_default_path()]
    existing = [Path(part) for part in listed if _may_exist(Path(part))]
    if not existing:
        raise SettingsError(f"KUBECONFIG names no file that exists: {os.pathsep.join(listed)}")
    return existing


def _read_kubeconfig(path: Path) -> _File:
    import yaml  # costs 15 ms, which a pod with a service account does not need

    text = _read_pipe(path) if _is_pipe(path) else read_file(path, "kubeconfig")
    try:
        content = yaml.safe_load(text) or {}
        if not isinstance(content, dict):
            raise SettingsError(
                f"{path} is not a kubeconfig: expected clusters, contexts and users in YAML"
            )
        return msgspec.convert(content, _File)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise SettingsError(f"kubeconfig {path} is not valid YAML{where}") from error
    except RecursionError:
        raise SettingsError(f"kubeconfig {path} is not valid YAML: nested too deeply") from None
    except msgspec.ValidationError as error:
        raise SettingsError(f"kubeconfig {path} is not valid: {error}") from error


def _is_pipe(path: Path) -> bool:
    try:
        return path.is_fifo()
    except OSError:  # reading it says why
        return False


@cache
def _read_pipe(path: Path) -> bytes:
    """Read what can be read only once, as of `--kubeconfig <(sops decrypt …)`."""
    return read_file(path, "kubeconfig")


def _resolve(name: str, context: _Context, cluster: _Cluster, user: _User) -> ClusterConfig:
    _refuse_unsupported(context.user, user)
    origin = f"kubeconfig {context.origin}, context {name!r}"
    cluster_name = f"cluster {context.cluster!r} in kubeconfig {cluster.origin}"
    server = (cluster.server or "").rstrip("/")
    if _may_have_user(server):  # would be in messages, logs and the status
        raise SettingsError(
            f"{cluster_name} has a server with a user or password, which is not supported: use a"
            " token"
        )
    if not _is_server(server):
        raise SettingsError(
            f"{cluster_name} needs a server like https://host:6443, but has {server!r}"
        )
    proxy = cluster.proxy_url or proxy_from_environment(server, os.environ)
    if not is_proxy(proxy or "http://none"):
        raise SettingsError(
            f"{cluster_name} has a proxy-url that is not a URL with one of the schemes"
            f" {', '.join(PROXY_SCHEMES)}"
        )
    tls = _tls(cluster_name, cluster, context.user, user)
    return ClusterConfig(
        server=server,
        origin=origin,
        credentials=_credentials(context.user, user, cluster, tls),
        tls=tls,
        namespace=context.namespace or "default",
        proxy=proxy,
        ca_file=_ca_file(cluster),
        certificate_files=_certificate_files(user),
        impersonate=tuple(_impersonation(context.user, user)),
    )


def _ca_file(cluster: _Cluster) -> Path | None:
    """Name the file of the authority to trust; None where the kubeconfig holds it, or none."""
    if cluster.certificate_authority_data or not cluster.certificate_authority:
        return None
    return _beside(cluster, cluster.certificate_authority)


def _certificate_files(user: _User) -> tuple[Path, Path] | None:
    """Name the files of the client certificate and its key; None where there are not both.

    They are read again, since whoever renews the certificate replaces them (client-go:
    transport/cert_rotation.go). A plugin renews its own.
    """
    if user.client_certificate_data or user.client_key_data or user.exec is not None:
        return None
    if not user.client_certificate or not user.client_key:
        return None
    return _beside(user, user.client_certificate), _beside(user, user.client_key)


def _is_server(url: str) -> bool:
    """Return whether a URL is one of an HTTP server."""
    try:
        parts = urlsplit(url)
        named = bool(parts.hostname) and parts.port != 0  # raises for a port out of range
    except ValueError:
        return False
    return parts.scheme in ("https", "http") and named and not any(map(str.isspace, url))


def _may_have_user(url: str) -> bool:
    """Return whether a URL has a user before its host, or might, since it is not valid."""
    return "@" in url and (not _is_server(url) or "@" in urlsplit(url).netloc)


#: What to use instead of a kind of login that Kubernetes has dropped, by auth-provider.
_INSTEAD = {
    "gcp": "the exec plugin gke-gcloud-auth-plugin ('gcloud container clusters get-credentials')",
    "azure": "the exec plugin kubelogin ('kubelogin convert-kubeconfig')",
    "oidc": "an exec plugin for OIDC, such as kubelogin ('kubectl oidc-login setup')",
}


def _refuse_unsupported(name: str, user: _User) -> None:
    title = _user_title(name, user)
    if user.auth_provider is not None:
        provider = user.auth_provider.name
        instead = _INSTEAD.get(provider, "an exec plugin, a token or a client certificate")
        raise SettingsError(
            f"{title} uses auth-provider {printable(provider, 80)!r}, which is not supported:"
            f" use {instead}"
        )
    if user.username is not None:
        raise SettingsError(
            f"{title} uses 'username', which is not supported: use a token; Kubernetes"
            " removed passwords in 1.19"
        )


def _credentials(name: str, user: _User, cluster: _Cluster, tls: TLS) -> Credentials:
    """Choose the credentials; a token overrides a plugin (client-go: exec.go, RoundTrip)."""
    title = _user_title(name, user)
    if not is_token(user.token or ""):
        raise SettingsError(
            f"the token of user {name!r} in kubeconfig {user.origin} contains white space"
        )
    if user.token_file is not None:
        credentials = TokenFile(_beside(user, user.token_file), fallback=user.token or "")
        try:
            credentials.authorization()
        except SettingsError as error:
            raise SettingsError(f"{title}: {error}") from error
        return credentials
    if user.exec is not None and not user.token:
        return ExecCredentials(_plugin(title, user, user.exec, cluster, tls))
    return BearerToken(user.token or "")


def _plugin(title: str, user: _User, plugin: _Exec, cluster: _Cluster, tls: TLS) -> ExecPlugin:
    command = plugin.command
    if os.sep in command:
        # Without a directory, the name would be looked up in PATH (client-go: ResolveLocalPaths).
        command = str(_beside(user, command).absolute())
    mode = plugin.interactive_mode
    if mode is None:
        # Required since v1 (client-go: clientcmd/validation.go, validateAuthInfo).
        mode = "IfAvailable" if plugin.api_version.endswith("/v1beta1") else ""
    return ExecPlugin(
        plugin.api_version,
        command,
        tuple(plugin.args or ()),
        tuple((variable.name, variable.value) for variable in plugin.env or ()),
        plugin.install_hint or "",
        mode,
        _cluster_info(cluster, tls) if plugin.provide_cluster_info else None,
        title,
    ).validated()


def _cluster_info(cluster: _Cluster, tls: TLS) -> dict[str, Any]:
    """Describe the cluster to a plugin (client-go: pkg/apis/clientauthentication/v1, Cluster)."""
    extensions = {extension.name: extension.extension for extension in cluster.extensions or ()}
    info = {
        "server": cluster.server,
        "tls-server-name": tls.server_name,
        "insecure-skip-tls-verify": tls.insecure,
        "certificate-authority-data": base64.b64encode(tls.ca or b"").decode(),
        "proxy-url": cluster.proxy_url,
        "disable-compression": cluster.disable_compression,
        "config": extensions.get("client.authentication.k8s.io/exec"),
    }
    return {name: value for name, value in info.items() if value}


def _user_title(name: str, user: _User) -> str:
    return f"user {name!r} in kubeconfig {user.origin}"


def _tls(cluster_name: str, cluster: _Cluster, user_name: str, user: _User) -> TLS:
    user_title = _user_title(user_name, user)
    ca = _pem(
        cluster_name,
        "certificate-authority",
        cluster,
        cluster.certificate_authority,
        cluster.certificate_authority_data,
    )
    if ca is not None and cluster.insecure_skip_tls_verify:
        raise SettingsError(
            f"{cluster_name} has both a certificate-authority and insecure-skip-tls-verify:"
            " remove one"
        )
    certificate = _pem(
        user_title,
        "client-certificate",
        user,
        user.client_certificate,
        user.client_certificate_data,
    )
    key = _pem(user_title, "client-key", user, user.client_key, user.client_key_data)
    if (certificate is None) != (key is None):
        missing = "client-key" if key is None else "client-certificate"
        raise SettingsError(f"{user_title} has no {missing}; a client certificate needs both")
    return TLS(
        ca=ca,
        certificate=certificate,
        key=key,
        insecure=cluster.insecure_skip_tls_verify,
        server_name=cluster.tls_server_name or "",
    )


def _impersonation(name: str, user: _User) -> Iterable[tuple[str, str]]:
    """Yield the headers of client-go: transport/round_trippers.go, impersonatingRoundTripper."""
    if not user.impersonate:
        if user.impersonate_uid or user.impersonate_groups or user.impersonate_extra:
            raise SettingsError(
                f"user {name!r} in kubeconfig {user.origin} has as-uid, as-groups or"
                " as-user-extra without as: add as"
            )
        return
    yield "Impersonate-User", user.impersonate
    if user.impersonate_uid:
        yield "Impersonate-Uid", user.impersonate_uid
    for group in user.impersonate_groups or ():
        yield "Impersonate-Group", group
    for key, values in (user.impersonate_extra or {}).items():
        for value in values:
            yield f"Impersonate-Extra-{quote(key, safe='')}", value


def _pem(title: str, field: str, entry: _Entry, path: str | None, data: str | None) -> bytes | None:
    """Read a `field` or `field-data`; the data wins (client-go: clientcmd/api/types.go)."""
    if data:
        try:
            return base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError) as error:
            raise SettingsError(f"{title}: {field}-data is not valid base64") from error
    if path:
        return read_file(_beside(entry, path), f"{title}: {field}")
    return None


def _beside(entry: _Entry, path: str) -> Path:
    return Path(entry.origin).parent / path


def _names(entries: Mapping[str, object]) -> str:
    return ", ".join(sorted(entries)) or "none"
