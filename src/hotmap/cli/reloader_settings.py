"""What Reloader's flags and environment variables ask of the controller.

Without `--reloader-compat` each flag that is said counts, and the rest is hotmap's own. With it
the rest is Reloader's too (stakater/Reloader 1.4.21, internal/pkg/util/util.go
ConfigureReloaderFlags and internal/pkg/cmd/reloader.go). What cannot be meant ends the start with
one sentence that names the flag; what is accepted without an effect is said once.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar
from urllib.parse import urlsplit

from hotmap.cli.reloader_flags import ReloaderFlags
from hotmap.controller.settings import AlertSettings, WebhookSettings
from hotmap.core.errors import SettingsError
from hotmap.core.policy.policy import OnChange
from hotmap.core.reloader.annotations import DialectSettings, Names, Writing
from hotmap.core.reloader.go_values import parse_bool, split_list, unquote

__all__ = ["ReloaderSettings", "namespace_name", "read_reloader_flags"]

T = TypeVar("T")

_LEVELS = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "fatal": logging.CRITICAL,
    "panic": logging.CRITICAL,
}


class ReloaderSettings(NamedTuple):
    """What the controller is told in Reloader's words."""

    dialect: DialectSettings = DialectSettings()
    catch_up: bool = False
    #: What allows no more than a report, in words.
    muted: str = ""
    #: What kinds without a rollout may have done to them where no annotation speaks.
    on_change: frozenset[OnChange] = frozenset()
    watch_namespaces: tuple[str, ...] = ()
    ignored_namespaces: tuple[str, ...] = ()
    namespace_selector: str = ""
    source_selector: str = ""
    webhooks: WebhookSettings = WebhookSettings()
    #: Where metrics and health are served unless another flag says so.
    listen: str = "127.0.0.1:9533"
    log_level: int = logging.INFO
    #: Whether one of several replicas acts; None: nothing was said.
    replicas: bool | None = None
    #: What is accepted without an effect, to be said once.
    notes: tuple[str, ...] = ()


def read_reloader_flags(flags: ReloaderFlags, environment: Mapping[str, str]) -> ReloaderSettings:
    """Read flags and environment variables as Reloader does.

    Raises:
        SettingsError: a value or a combination cannot be meant; the text names the flag.
    """
    notes: list[str] = []
    compat = flags.reloader_compat
    dialect = _read_dialect(flags, notes)
    namespaces = _read_namespaces("--namespaces", flags.namespaces)
    if not namespaces and compat and (one := environment.get("KUBERNETES_NAMESPACE")):
        namespaces = (namespace_name("KUBERNETES_NAMESPACE", one),)
    ignored = _read_namespaces("--namespaces-to-ignore", flags.namespaces_to_ignore)
    selector = _read_selector("--namespace-selector", flags.namespace_selector)
    if namespaces and (ignored or selector):
        notes.append(
            "--namespaces-to-ignore and --namespace-selector have no effect where the namespaces "
            "are listed"
        )
        ignored, selector = (), ""
    sync = _boolean("--sync-after-restart", flags.sync_after_restart)
    if sync and not dialect.reload_on_create:
        notes.append("--sync-after-restart has no effect without --reload-on-create=true")
    url = _read_url("--webhook-url", flags.webhook_url)
    alert = _read_alert(environment, notes)
    _note_what_has_no_effect(flags, environment, notes)
    return ReloaderSettings(
        dialect=dialect,
        catch_up=bool(sync) and dialect.reload_on_create,
        muted="--webhook-url is set" if url else "",
        on_change=frozenset((OnChange.RUN_NOW, OnChange.RECREATE)) if compat else frozenset(),
        watch_namespaces=namespaces,
        ignored_namespaces=ignored,
        namespace_selector=selector,
        source_selector=_read_selector("--resource-label-selector", flags.resource_label_selector),
        webhooks=WebhookSettings(
            change_url=url,
            on_create=dialect.reload_on_create,
            on_delete=dialect.reload_on_delete,
            alert=alert,
        ),
        listen=":9090" if compat else "127.0.0.1:9533",
        log_level=_one_of("--log-level", flags.log_level, _LEVELS, logging.INFO),
        replicas=_read_replicas(flags, environment),
        notes=tuple(notes),
    )


def _read_dialect(flags: ReloaderFlags, notes: list[str]) -> DialectSettings:
    compat = flags.reloader_compat
    writings = {writing.value: writing for writing in Writing}
    default = Writing.ENV_VARS if compat else Writing.REVISION
    ignored_workloads = {
        _choice("--ignored-workload-types", one, {"jobs": "Job", "cronjobs": "CronJob"})
        for one in _read_list("--ignored-workload-types", flags.ignored_workload_types)
    }
    rollouts = _exactly_true("--is-Argo-Rollouts", flags.is_argo_rollouts, notes)
    if rollouts is False or (compat and rollouts is None):
        ignored_workloads.add("Rollout")
    created = _exactly_true("--reload-on-create", flags.reload_on_create, notes)
    deleted = _exactly_true("--reload-on-delete", flags.reload_on_delete, notes)
    return DialectSettings(
        names=_read_names(flags),
        auto_reload_all=bool(_boolean("--auto-reload-all", flags.auto_reload_all)),
        ignored_sources=_read_ignored_sources(flags),
        ignored_workloads=frozenset(ignored_workloads),
        writing=_one_of("--reload-strategy", flags.reload_strategy, writings, default),
        reload_on_create=not compat if created is None else created,
        reload_on_delete=bool(deleted),
    )


#: A qualified name and a label's value (k8s.io/apimachinery/pkg/util/validation).
_NAME = r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
_VALUE = r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
_ANNOTATION = re.compile(_NAME)
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LONGEST_NAMESPACE = 63


def _read_names(flags: ReloaderFlags) -> Names:
    names = Names()
    said = {
        "config_map": ("--configmap-annotation", flags.configmap_annotation),
        "secret": ("--secret-annotation", flags.secret_annotation),
        "auto": ("--auto-annotation", flags.auto_annotation),
        "config_map_auto": ("--configmap-auto-annotation", flags.configmap_auto_annotation),
        "secret_auto": ("--secret-auto-annotation", flags.secret_auto_annotation),
        "ignore": ("--ignore-annotation", flags.ignore_annotation),
        "search": ("--auto-search-annotation", flags.auto_search_annotation),
        "match": ("--search-match-annotation", flags.search_match_annotation),
        "pause_period": ("--pause-deployment-annotation", flags.pause_deployment_annotation),
        "paused_at": (
            "--pause-deployment-time-annotation",
            flags.pause_deployment_time_annotation,
        ),
    }
    for field, (flag, text) in said.items():
        if text is None:
            continue
        name = unquote(text)
        if not _ANNOTATION.fullmatch(name):
            raise SettingsError(f"{flag}: {name!r} is no name of an annotation")
        names = names._replace(**{field: name})
    return names


def _read_ignored_sources(flags: ReloaderFlags) -> frozenset[str]:
    flag, kinds = "--resources-to-ignore", {"configmaps": "ConfigMap", "secrets": "Secret"}
    items = _read_list(flag, flags.resources_to_ignore)
    ignored = frozenset(_choice(flag, one.lower(), kinds) for one in items)
    if len(ignored) > 1:
        raise SettingsError(f"{flag}: configmaps or secrets can be ignored, not both")
    return ignored


#: One requirement of a label selector (k8s.io/apimachinery/pkg/labels Parse).
_REQUIREMENT = re.compile(
    rf"!?\s*{_NAME}"
    rf"|{_NAME}\s*(=|==|!=)\s*{_VALUE}"
    rf"|{_NAME}\s+(not)?in\s*\(\s*{_VALUE}(\s*,\s*{_VALUE})*\s*\)"
)
_OUTSIDE_OF_BRACKETS = re.compile(r",(?![^()]*\))")


def _read_selector(flag: str, texts: Sequence[str]) -> str:
    """Join selectors into one; `k:v`, `k:*` and `k=*` are Reloader's own ways to write them."""
    requirements = []
    for text in _OUTSIDE_OF_BRACKETS.split(",".join(_read_list(flag, texts))):
        requirement = text.strip()
        if not requirement:
            continue
        requirement = re.sub(r"\s*[:=]\s*\*$", "", requirement).replace(":", "=", 1)
        if not _REQUIREMENT.fullmatch(requirement):
            raise SettingsError(f"{flag}: {text.strip()!r} is no label selector")
        requirements.append(requirement)
    return ",".join(requirements)


def _read_url(flag: str, text: str | None) -> str:
    """Check a URL without ever showing it: its path is often a password."""
    url = unquote(text or "").strip()
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if url and not good:
        raise SettingsError(f"{flag}: this is no http or https URL (it is not shown here)")
    return url


def _read_alert(environment: Mapping[str, str], notes: list[str]) -> AlertSettings | None:
    wanted = environment.get("ALERT_ON_RELOAD", "")
    if wanted != "true":
        if wanted not in ("", "false"):
            notes.append(f"ALERT_ON_RELOAD: {wanted!r} is not true, so no alerts are sent")
        return None
    sink = environment.get("ALERT_SINK", "").strip().lower()
    if sink in ("slack", "teams", "gchat"):
        notes.append(f"ALERT_SINK={sink} comes in a later version; no alerts are sent")
        return None
    if sink not in ("", "raw"):
        notes.append(f"ALERT_SINK={sink} is not known; alerts are sent as raw text")
    url = _read_url("ALERT_WEBHOOK_URL", environment.get("ALERT_WEBHOOK_URL"))
    if not url:
        raise SettingsError("ALERT_ON_RELOAD=true needs ALERT_WEBHOOK_URL, where alerts go")
    return AlertSettings(
        url,
        info=environment.get("ALERT_ADDITIONAL_INFO", "").strip(),
        proxy=_read_url("ALERT_WEBHOOK_PROXY", environment.get("ALERT_WEBHOOK_PROXY")),
    )


def _read_replicas(flags: ReloaderFlags, environment: Mapping[str, str]) -> bool | None:
    replicas = _boolean("--enable-ha", flags.enable_ha)
    for name in ("POD_NAME", "POD_NAMESPACE"):
        if replicas and not environment.get(name):
            raise SettingsError(f"--enable-ha needs the environment variable {name}")
    if replicas is None and flags.reloader_compat:
        return False
    return replicas


def _note_what_has_no_effect(
    flags: ReloaderFlags, environment: Mapping[str, str], notes: list[str]
) -> None:
    if _boolean("--enable-pprof", flags.enable_pprof) or flags.pprof_addr is not None:
        notes.append("--enable-pprof and --pprof-addr have no effect: there is no debug surface")
    if _boolean("--enable-csi-integration", flags.enable_csi_integration):
        notes.append("--enable-csi-integration has no effect yet; it comes in a later version")
    if environment.get("RELOADER_NAMESPACE"):
        notes.append("RELOADER_NAMESPACE has no effect yet: no meta-info ConfigMap is written")
    if environment.get("METRICS_COUNT_BY_NAMESPACE") == "enabled":
        notes.append("METRICS_COUNT_BY_NAMESPACE has no effect yet")


# -- values -----------------------------------------------------------------------------------


def namespace_name(flag: str, text: str) -> str:
    """Return the name of a namespace as it was said.

    Raises:
        SettingsError: it is none; the text names the flag or the environment variable.
    """
    name = unquote(text)
    if len(name) > _LONGEST_NAMESPACE or not _NAMESPACE.fullmatch(name):
        raise SettingsError(
            f"{flag}: {name!r} is no name of a namespace (lower-case letters, digits and hyphens)"
        )
    return name


def _read_namespaces(flag: str, texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(namespace_name(flag, one) for one in _read_list(flag, texts))


def _read_list(flag: str, texts: Sequence[str]) -> tuple[str, ...]:
    try:
        return split_list(texts)
    except ValueError as error:
        raise SettingsError(f"{flag}: {error}") from error


def _boolean(flag: str, text: str | None) -> bool | None:
    """Read a flag that is a boolean for Reloader."""
    if text is None:
        return None
    try:
        return parse_bool(unquote(text))
    except ValueError as error:
        raise SettingsError(f"{flag}: {error} (write true or false)") from error


def _exactly_true(flag: str, text: str | None, notes: list[str]) -> bool | None:
    """Read a flag that is a text for Reloader and on only as `true`."""
    if text is None:
        return None
    value = unquote(text)
    if value not in ("true", "false", ""):
        notes.append(f"{flag}: {value!r} is not true, so it is off, as it is for Reloader")
    return value == "true"


def _one_of(flag: str, text: str | None, choices: Mapping[str, T], default: T) -> T:
    return default if text is None else _choice(flag, unquote(text), choices)


def _choice(flag: str, text: str, choices: Mapping[str, T]) -> T:
    if text not in choices:
        raise SettingsError(f"{flag}: {text!r} is none of {', '.join(choices)}")
    return choices[text]
