"""The content of Reloader's meta-info ConfigMap, from the flags of this controller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from hotmap import __version__
from hotmap.cli.reloader_flags import ReloaderFlags
from hotmap.cli.reloader_settings import ReloaderSettings, namespace_name
from hotmap.controller.settings import MetaInfo
from hotmap.core.errors import SettingsError
from hotmap.core.reloader.annotations import EXCLUDES, ROLLOUT_STRATEGY
from hotmap.core.reloader.go_values import parse_bool, unquote
from hotmap.core.reloader.meta_info import meta_info_data
from hotmap.core.text import shorten

__all__ = ["read_meta_info"]

#: Characters of a name of a Deployment.
_LONGEST_NAME = 253


class _Found(NamedTuple):
    meta_info: MetaInfo | None = None
    warning: str = ""


def read_meta_info(
    flags: ReloaderFlags, settings: ReloaderSettings, environment: Mapping[str, str]
) -> _Found:
    """Return what to write, and where; nothing without --reloader-compat and RELOADER_NAMESPACE.

    The path of the webhook's URL, which is a credential, is left out: the ConfigMap has many
    readers.
    """
    text = environment.get("RELOADER_NAMESPACE", "")
    if not text:
        return _Found()
    if not flags.reloader_compat:
        return _Found(warning="RELOADER_NAMESPACE has no effect without --reloader-compat")
    try:
        namespace = namespace_name("RELOADER_NAMESPACE", text)
    except SettingsError as error:
        return _Found(warning=f"{error}; not writing the meta-info ConfigMap")
    deployment = shorten(environment.get("RELOADER_DEPLOYMENT_NAME", ""), _LONGEST_NAME)
    data = meta_info_data(
        _options(flags, settings), version=__version__, namespace=namespace, deployment=deployment
    )
    return _Found(MetaInfo(namespace, data))


def _options(flags: ReloaderFlags, settings: ReloaderSettings) -> dict[str, Any]:
    """List the settings that are in effect under the names of Reloader's ReloaderOptions."""
    dialect = settings.dialect
    names = dialect.names
    sources = {"ConfigMap": "configmaps", "Secret": "secrets"}
    workloads = {"Job": "jobs", "CronJob": "cronjobs"}
    return {
        "autoReloadAll": dialect.auto_reload_all,
        "configmapUpdateOnChangeAnnotation": names.config_map,
        "secretUpdateOnChangeAnnotation": names.secret,
        "reloaderAutoAnnotation": names.auto,
        "ignoreResourceAnnotation": names.ignore,
        "configmapReloaderAutoAnnotation": names.config_map_auto,
        "secretReloaderAutoAnnotation": names.secret_auto,
        "configmapExcludeReloaderAnnotation": EXCLUDES["ConfigMap"],
        "secretExcludeReloaderAnnotation": EXCLUDES["Secret"],
        "autoSearchAnnotation": names.search,
        "searchMatchAnnotation": names.match,
        "rolloutStrategyAnnotation": ROLLOUT_STRATEGY,
        "pauseDeploymentAnnotation": names.pause_period,
        "pauseDeploymentTimeAnnotation": names.paused_at,
        "logFormat": "json" if settings.log_format == "json" else "",
        "logLevel": unquote(flags.log_level or "info"),
        "isArgoRollouts": "Rollout" not in dialect.ignored_workloads,
        "reloadStrategy": dialect.writing.value,
        "reloadOnCreate": dialect.reload_on_create,
        "reloadOnDelete": dialect.reload_on_delete,
        "syncAfterRestart": settings.catch_up,
        "enableHA": bool(settings.leader_elect),
        "webhookUrl": _without_path(settings.webhooks.change_url),
        "resourcesToIgnore": sorted(
            sources[kind] for kind in dialect.ignored_sources if kind in sources
        ),
        "workloadTypesToIgnore": sorted(
            workloads[kind] for kind in dialect.ignored_workloads if kind in workloads
        ),
        "namespaceSelectors": [settings.namespace_selector] if settings.namespace_selector else [],
        "resourceSelectors": [settings.source_selector] if settings.source_selector else [],
        "namespacesToIgnore": list(settings.ignored_namespaces),
        "enablePProf": False,
        "pprofAddr": "",
        "enableCSIIntegration": _is_on(flags.enable_csi_integration),
    }


def _without_path(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}" if url else ""


def _is_on(text: str | None) -> bool:
    return text is not None and parse_bool(unquote(text))
