"""The meta-info ConfigMap has the settings that are in effect under Reloader's names."""

from __future__ import annotations

import json
from typing import Any

from hotmap import __version__
from hotmap.cli.main import hotmap
from hotmap.cli.reloader_flags import ReloaderFlags
from hotmap.cli.reloader_meta_info import read_meta_info
from hotmap.cli.reloader_settings import read_reloader_flags
from hotmap.controller.settings import MetaInfo

ENVIRONMENT = {"RELOADER_NAMESPACE": "tools", "RELOADER_DEPLOYMENT_NAME": "reloader"}


def read(*arguments: str, **environment: str) -> tuple[MetaInfo | None, str]:
    """Read what one call would write."""
    controller = hotmap.commands["controller"]
    with controller.make_context("controller", list(arguments)) as context:
        values = {name: context.params[name] for name in ReloaderFlags._fields}
    flags = ReloaderFlags(**values)
    return read_meta_info(flags, read_reloader_flags(flags, environment), environment)


def options(*arguments: str) -> dict[str, Any]:
    """Read the options that one call would write."""
    found, _ = read("--reloader-compat", *arguments, **ENVIRONMENT)
    assert found is not None
    document: dict[str, Any] = json.loads(found.data["reloaderOptions"])
    return document


def test_meta_info_needs_compat_and_its_namespace() -> None:
    """What has no effect is a warning."""
    assert read() == (None, "")
    assert read("--reloader-compat") == (None, "")
    assert read(**ENVIRONMENT) == (
        None,
        "RELOADER_NAMESPACE has no effect without --reloader-compat",
    )
    found, warning = read("--reloader-compat", RELOADER_NAMESPACE="a/b")
    assert found is None
    assert warning.endswith("; not writing the meta-info ConfigMap")


def test_build_and_deployment_are_named() -> None:
    """The version is hotmap's, and says so."""
    found, warning = read("--reloader-compat", **ENVIRONMENT)
    assert found is not None
    assert (found.namespace, warning) == ("tools", "")
    build = json.loads(found.data["buildInfo"])
    assert (build["releaseVersion"], build["edition"]) == (f"hotmap-{__version__}", "hotmap")
    assert json.loads(found.data["deploymentInfo"])["name"] == "reloader"


def test_defaults_are_reloaders() -> None:
    """As its own ConfigMap has them."""
    assert options() == {
        "autoReloadAll": False,
        "configmapUpdateOnChangeAnnotation": "configmap.reloader.stakater.com/reload",
        "secretUpdateOnChangeAnnotation": "secret.reloader.stakater.com/reload",
        "reloaderAutoAnnotation": "reloader.stakater.com/auto",
        "ignoreResourceAnnotation": "reloader.stakater.com/ignore",
        "configmapReloaderAutoAnnotation": "configmap.reloader.stakater.com/auto",
        "secretReloaderAutoAnnotation": "secret.reloader.stakater.com/auto",
        "configmapExcludeReloaderAnnotation": "configmaps.exclude.reloader.stakater.com/reload",
        "secretExcludeReloaderAnnotation": "secrets.exclude.reloader.stakater.com/reload",
        "autoSearchAnnotation": "reloader.stakater.com/search",
        "searchMatchAnnotation": "reloader.stakater.com/match",
        "rolloutStrategyAnnotation": "reloader.stakater.com/rollout-strategy",
        "pauseDeploymentAnnotation": "deployment.reloader.stakater.com/pause-period",
        "pauseDeploymentTimeAnnotation": "deployment.reloader.stakater.com/paused-at",
        "logFormat": "",
        "logLevel": "info",
        "isArgoRollouts": False,
        "reloadStrategy": "env-vars",
        "reloadOnCreate": False,
        "reloadOnDelete": False,
        "syncAfterRestart": False,
        "enableHA": False,
        "webhookUrl": "",
        "resourcesToIgnore": [],
        "workloadTypesToIgnore": [],
        "namespaceSelectors": [],
        "resourceSelectors": [],
        "namespacesToIgnore": [],
        "enablePProf": False,
        "pprofAddr": "",
        "enableCSIIntegration": False,
    }


def test_settings_are_those_in_effect() -> None:
    """Whatever way they were written; a webhook's URL has no path, which is a credential."""
    found = options(
        "--auto-reload-all=T",
        "--reload-on-create=True",
        "--is-Argo-Rollouts=true",
        "--resources-to-ignore=Secrets",
        "--ignored-workload-types=jobs",
        "--namespaces-to-ignore=a,b",
        "--namespace-selector=team:*",
        "--webhook-url=https://user:planted@example.com/planted?planted",
        "--auto-annotation=acme.com/auto",
        "--log-format=json",
    )
    changed = {name: value for name, value in found.items() if value != options()[name]}
    assert changed == {
        "autoReloadAll": True,
        "isArgoRollouts": True,
        "resourcesToIgnore": ["secrets"],
        "workloadTypesToIgnore": ["jobs"],
        "namespacesToIgnore": ["a", "b"],
        "namespaceSelectors": ["team"],
        "webhookUrl": "https://example.com",
        "reloaderAutoAnnotation": "acme.com/auto",
        "logFormat": "json",
    }
