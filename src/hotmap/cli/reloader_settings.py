"""The controller's settings from Reloader's flags and environment variables.

Without `--reloader-compat` only flags that are set count, and all defaults are hotmap's. With it
the defaults are Reloader's (stakater/Reloader 1.4.21, internal/pkg/util/util.go
ConfigureReloaderFlags and internal/pkg/cmd/reloader.go). An invalid value ends the start with one
sentence that names the flag; what is accepted without effect is logged once.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from hotmap.cli.alert_settings import read_url
from hotmap.cli.controller_flags import ControllerFlags
from hotmap.cli.lease_timing import read_lease_timing
from hotmap.cli.options import declared, flag_name, invalid_value
from hotmap.cli.reloader_flags import RENAMED_ANNOTATIONS, ReloaderFlags
from hotmap.controller.settings import ReloaderSurface, WebhookSettings
from hotmap.core.errors import SettingsError
from hotmap.core.model.provider_class import PROVIDER_CLASS
from hotmap.core.policy.policy import OnChange
from hotmap.core.reloader.annotations import DialectSettings, Names, Writing
from hotmap.core.reloader.go_values import parse_bool, split_list, unquote
from hotmap.core.text import quote_short
from hotmap.kube.leaderelection import DEFAULT_TIMING, LeaseTiming

__all__ = ["ReloaderSettings", "namespace_name", "read_reloader_flags"]

T = TypeVar("T")

_FORMATS = {"text": "text", "json": "json", "": "text"}

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
    """What Reloader's flags and variables set."""

    dialect: DialectSettings = DialectSettings()
    catch_up: bool = False
    #: The reason, in words, why changes are only reported; "" where they are acted on.
    muted: str = ""
    #: Defaults of the annotation `hotmap.dev/on-change`.
    on_change: frozenset[OnChange] = frozenset()
    watch_namespaces: tuple[str, ...] = ()
    ignored_namespaces: tuple[str, ...] = ()
    namespace_selector: str = ""
    source_selector: str = ""
    webhooks: WebhookSettings = WebhookSettings()
    #: HOST:PORT for metrics and health; None for hotmap's default.
    listen: str | None = None
    log_level: int = logging.INFO
    #: `text` or `json`.
    log_format: str = "text"
    #: None without --reloader-compat.
    surface: ReloaderSurface | None = None
    #: Whether replicas elect a leader; None: not set.
    leader_elect: bool | None = None
    lease: LeaseTiming = DEFAULT_TIMING
    #: Warnings to log once: what is accepted without effect.
    warnings: tuple[str, ...] = ()


def read_reloader_flags(flags: ReloaderFlags, environment: Mapping[str, str]) -> ReloaderSettings:
    """Read flags and environment variables as Reloader does.

    Raises:
        SettingsError: a value or a combination is invalid; the text names the flag.
    """
    compat = flags.reloader_compat
    values = _Values(flags)
    dialect = _read_dialect(values)
    scope = _read_scope(values, environment)
    sync = values.boolean("sync_after_restart")
    if sync and not dialect.reload_on_create:
        values.warnings.append("--sync-after-restart has no effect without --reload-on-create=true")
    webhooks = WebhookSettings(
        change_url=read_url("--webhook-url", flags.webhook_url),
        on_create=dialect.reload_on_create,
        on_delete=dialect.reload_on_delete,
    )
    _warn_of_ignored_settings(values, environment)
    return ReloaderSettings(
        dialect=dialect,
        catch_up=bool(sync) and dialect.reload_on_create,
        muted="--webhook-url is set" if webhooks.change_url else "",
        on_change=frozenset((OnChange.RUN_NOW, OnChange.RECREATE)) if compat else frozenset(),
        watch_namespaces=scope.namespaces,
        ignored_namespaces=scope.ignored,
        namespace_selector=scope.selector,
        source_selector=values.selector("resource_label_selector"),
        webhooks=webhooks,
        listen=_COMPAT_LISTEN if compat else None,
        log_level=values.word("log_level", _LEVELS, "info"),
        log_format=values.word("log_format", _FORMATS, "text"),
        leader_elect=_read_leader_elect(values, environment),
        lease=read_lease_timing(flags),
        surface=_read_surface(environment) if compat else None,
        warnings=tuple(values.warnings),
    )


def _read_surface(environment: Mapping[str, str]) -> ReloaderSurface:
    return ReloaderSurface(
        counts_by_namespace=environment.get("METRICS_COUNT_BY_NAMESPACE") == "enabled"
    )


_COMPAT_LISTEN = declared(ControllerFlags)["listen"].compat_default


class _Scope(NamedTuple):
    namespaces: tuple[str, ...]
    ignored: tuple[str, ...]
    selector: str


def _read_scope(values: _Values, environment: Mapping[str, str]) -> _Scope:
    namespaces = values.namespaces("namespaces")
    own = environment.get("KUBERNETES_NAMESPACE")
    if not namespaces and values.flags.reloader_compat and own:
        namespaces = (namespace_name("KUBERNETES_NAMESPACE", own),)
    elif not namespaces and own:
        values.warnings.append(
            "KUBERNETES_NAMESPACE has no effect without --reloader-compat; use --watch-namespace "
            "to serve one namespace"
        )
    ignored = values.namespaces("namespaces_to_ignore", lenient=values.flags.reloader_compat)
    selector = values.selector("namespace_selector")
    if namespaces and (ignored or selector):
        values.warnings.append(
            "--namespaces-to-ignore and --namespace-selector have no effect with a list of "
            "namespaces"
        )
        return _Scope(namespaces, (), "")
    return _Scope(namespaces, ignored, selector)


def _read_dialect(values: _Values) -> DialectSettings:
    compat = values.flags.reloader_compat
    writings = {writing.value: writing for writing in Writing}
    ignored_workloads = set(_read_ignored_workloads(values))
    rollouts = values.exactly_true("is_argo_rollouts")
    if rollouts is False or (compat and rollouts is None):
        ignored_workloads.add("Rollout")
    created = values.exactly_true("reload_on_create")
    default = Writing.ENV_VARS if compat else Writing.REVISION
    return DialectSettings(
        names=_read_names(values),
        auto_reload_all=bool(values.boolean("auto_reload_all")),
        ignored_sources=_read_ignored_sources(values),
        ignored_workloads=frozenset(ignored_workloads),
        writing=values.choice("reload_strategy", writings, default),
        reload_on_create=not compat if created is None else created,
        reload_on_delete=bool(values.exactly_true("reload_on_delete")),
        pauses=compat,
    )


def _read_ignored_workloads(values: _Values) -> list[str]:
    """Read kinds of workloads; with --reloader-compat an unknown one is a warning, as there."""
    kinds = {"jobs": "Job", "cronjobs": "CronJob"}
    if not values.flags.reloader_compat:
        return values.choices("ignored_workload_types", kinds, fold=str.lower)
    items = values.items("ignored_workload_types")
    values.warnings.extend(
        f"--ignored-workload-types: unknown value {quote_short(text)}; ignoring it"
        for text in items
        if text.lower() not in kinds
    )
    return [kinds[text.lower()] for text in items if text.lower() in kinds]


def _read_names(values: _Values) -> Names:
    names = {}
    for field, name in RENAMED_ANNOTATIONS.items():
        if (text := values.text(field)) is None:
            continue
        if not _ANNOTATION.fullmatch(text):
            raise invalid_value(
                values.flag(field),
                "annotation name",
                text,
                "a name such as example.com/reload",
            )
        names[name] = text
    return Names()._replace(**names)


def _read_ignored_sources(values: _Values) -> frozenset[str]:
    kinds = {"configmaps": "ConfigMap", "secrets": "Secret"}
    ignored = frozenset(values.choices("resources_to_ignore", kinds, fold=str.lower))
    if len(ignored) > 1:
        raise SettingsError("--resources-to-ignore: configmaps or secrets can be ignored, not both")
    return ignored if values.boolean("enable_csi_integration") else ignored | {PROVIDER_CLASS}


def _read_leader_elect(values: _Values, environment: Mapping[str, str]) -> bool | None:
    enabled = values.boolean("enable_ha")
    for name in ("POD_NAME", "POD_NAMESPACE"):
        if enabled and not environment.get(name):
            raise SettingsError(f"--enable-ha requires the environment variable {name}")
    if enabled is None and values.flags.reloader_compat:
        return False
    return enabled


def _warn_of_ignored_settings(values: _Values, environment: Mapping[str, str]) -> None:
    if values.boolean("enable_pprof") or values.flags.pprof_addr is not None:
        values.warnings.append(
            "--enable-pprof and --pprof-addr have no effect: there are no debug endpoints"
        )
    counts = environment.get("METRICS_COUNT_BY_NAMESPACE", "")
    if counts == "enabled" and not values.flags.reloader_compat:
        values.warnings.append("METRICS_COUNT_BY_NAMESPACE has no effect without --reloader-compat")
    elif counts not in ("", "enabled", "disabled"):
        values.warnings.append(
            f"METRICS_COUNT_BY_NAMESPACE is {quote_short(counts)}, not enabled; not counting by "
            "namespace"
        )


# -- values -----------------------------------------------------------------------------------

#: A qualified name and a label's value (k8s.io/apimachinery/pkg/util/validation).
_NAME = r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
_VALUE = r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
#: Annotations are validated in lower case (k8s.io/apimachinery/pkg/api/validation).
_ANNOTATION = re.compile(_NAME, re.IGNORECASE)
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LONGEST_NAMESPACE = 63

#: One requirement of a label selector (k8s.io/apimachinery/pkg/labels Parse).
_REQUIREMENT = re.compile(
    rf"!?\s*{_NAME}"
    rf"|{_NAME}\s*(=|==|!=)\s*{_VALUE}"
    rf"|{_NAME}\s*[<>]\s*\d+"
    rf"|{_NAME}\s+(not)?in\s*\(\s*{_VALUE}(\s*,\s*{_VALUE})*\s*\)"
)
_OUTSIDE_OF_BRACKETS = re.compile(r",(?![^()]*\))")


def namespace_name(name: str, text: str) -> str:
    """Return the name of a namespace, without quotes.

    Raises:
        SettingsError: it is invalid; the text names the flag or environment variable `name`.
    """
    namespace = unquote(text)
    if len(namespace) > _LONGEST_NAMESPACE or not _NAMESPACE.fullmatch(namespace):
        raise invalid_value(
            name,
            "namespace name",
            namespace,
            f"at most {_LONGEST_NAMESPACE} lowercase letters, digits and hyphens",
        )
    return namespace


class _Values:
    """Reads the value of one flag after the other; an error names the flag."""

    def __init__(self, flags: ReloaderFlags) -> None:
        self.flags = flags
        self.warnings: list[str] = []
        self._declared = declared(ReloaderFlags)

    def flag(self, field: str) -> str:
        """Name the flag of a field."""
        return flag_name(field, self._declared[field])

    def text(self, field: str) -> str | None:
        """Read a text; None where the flag is not set."""
        text: str | None = getattr(self.flags, field)
        return text if text is None else unquote(text)

    def boolean(self, field: str) -> bool | None:
        """Read a flag that is a boolean for Reloader; None where it is not set."""
        if (text := self.text(field)) is None:
            return None
        try:
            return parse_bool(text)
        except ValueError:
            raise invalid_value(self.flag(field), "boolean", text, "true or false") from None

    def exactly_true(self, field: str) -> bool | None:
        """Read a flag that is a text for Reloader, and on only as `true`."""
        text = self.text(field)
        if text not in ("true", "false", "", None):
            self.warnings.append(
                f"{self.flag(field)}: {text!r} is not true; treating as off, as Reloader does"
            )
        return None if text is None else text == "true"

    def choice(self, field: str, choices: Mapping[str, T], default: T) -> T:
        """Read a value that has to be one of some words."""
        text = self.text(field)
        return default if text is None else self._choose(field, text, choices)

    def word(self, field: str, choices: Mapping[str, T], default: str) -> T:
        """Read one of some words in any case; with --reloader-compat an unknown one is a warning.

        Reloader logs one, too, and uses its default (internal/pkg/cmd/reloader.go).
        """
        text = self.text(field)
        if text is None:
            return choices[default]
        word = text.strip().lower()
        if self.flags.reloader_compat and word not in choices:
            self.warnings.append(
                f"{self.flag(field)}: unknown value {quote_short(text)}; using {default}"
            )
            word = default
        return self._choose(field, word, choices)

    def choices(
        self, field: str, choices: Mapping[str, T], *, fold: Callable[[str], str] = str
    ) -> list[T]:
        """Read a list of some words, each of them folded before."""
        return [self._choose(field, fold(text), choices) for text in self.items(field)]

    def _choose(self, field: str, text: str, choices: Mapping[str, T]) -> T:
        if text not in choices:
            *others, last = filter(None, choices)
            expected = f"{', '.join(others)} or {last}"
            raise invalid_value(self.flag(field), "value", text, expected)
        return choices[text]

    def items(self, field: str) -> tuple[str, ...]:
        """Read a list: the flag repeated, or a value with commas."""
        texts: tuple[str, ...] = getattr(self.flags, field)
        try:
            return split_list(texts)
        except ValueError:
            raise invalid_value(
                self.flag(field), "list", ",".join(texts), "items separated by commas"
            ) from None

    def namespaces(self, field: str, *, lenient: bool = False) -> tuple[str, ...]:
        """Read a list of namespaces; an empty text names none.

        With `lenient` an invalid name, which no namespace can have, is left out with a warning.

        Raises:
            SettingsError: a name is invalid, or there are only commas, which would select all.
        """
        found = []
        for text in self.items(field):
            try:
                found.append(namespace_name(self.flag(field), text))
            except SettingsError as error:
                if not lenient:
                    raise
                self.warnings.append(f"{error}; ignoring it")
        names = tuple(found)
        text = ",".join(getattr(self.flags, field))
        if "," in text and not names and not lenient:
            raise invalid_value(self.flag(field), "list", text, "namespaces separated by commas")
        return names

    def selector(self, field: str) -> str:
        """Join label selectors; `k:v`, `k:*` and `k=*` are Reloader's own ways to write them."""
        requirements = []
        for text in _OUTSIDE_OF_BRACKETS.split(",".join(self.items(field))):
            requirement = text.strip()
            if not requirement:
                continue
            requirement = re.sub(r"\s*[:=]\s*\*$", "", requirement).replace(":", "=", 1)
            if not _REQUIREMENT.fullmatch(requirement):
                raise invalid_value(
                    self.flag(field), "label selector", text.strip(), "a selector such as team=a"
                )
            requirements.append(requirement)
        return ",".join(requirements)
