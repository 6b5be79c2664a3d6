"""Works out a pod template with the agent in it: values in, values out.

Modes:

    native-sidecar   an init container that stays (Kubernetes ≥ 1.29): starts before the
                     application, ends after it, lets Jobs complete
    sidecar          one container more, for clusters before that
    init             checks and publishes once, before the application starts
    supervisor       the agent is the application's parent: its program is brought by an init
                     container, and the container's command goes behind it
"""

from __future__ import annotations

import copy
import re
from typing import Any, NamedTuple

from hotmap.agent.flags import read_words
from hotmap.agent.reading import read_settings
from hotmap.agent.settings import FROZEN, Settings
from hotmap.agent.stage import Stage
from hotmap.cli.injection import additions
from hotmap.cli.injection.additions import User
from hotmap.cli.injection.record import (
    AGENT,
    ANNOTATION,
    BIN,
    BIN_PATH,
    FIRST,
    POD_PATH,
    PROGRAM,
    RUN_PATH,
    STAGE_PATH,
    Change,
    Path,
    Record,
    Texts,
    is_ours,
    protected,
)
from hotmap.cli.injection.staging import Staging, is_live, plan_stage, staged_mounts
from hotmap.cli.injection.variables import Conversion, convert_environment
from hotmap.core.errors import ManifestError

__all__ = ["MODES", "Injection", "NothingToDo", "with_agent"]

MODES = ("native-sidecar", "sidecar", "init", "supervisor")

#: The agent's user where the pod names none, and it does not matter to whom it is near.
_NOBODY = 65532


class NothingToDo(ManifestError):
    """The pod has nothing for an agent; others of the manifest may."""


class Injection(NamedTuple):
    """What to add."""

    #: The image of the agent's container: it has hotmap, and the checker if there is a check.
    image: str
    #: The container whose mounts are watched; "" for the only one that has any.
    container: str
    #: Flags of `hotmap agent`.
    flags: tuple[str, ...]
    mode: str = MODES[0]
    #: The application finds its files only after they passed their check.
    stage: bool = False
    #: A supervisor leaves the container's environment as it is.
    keep_env: bool = False
    #: The user that the agent runs as; None for the application's.
    user: int | None = None


def with_agent(
    template: dict[str, Any], injection: Injection, name: str, texts: Texts
) -> tuple[dict[str, Any], list[str]]:
    """Add the agent to a pod template that has none; gives the template and what to tell a person.

    `name` is the object's, for those texts; `texts` gives values as they are written, to be kept
    for a removal.

    Raises:
        NothingToDo: the container has nothing that an agent could follow.
        ManifestError: the pod cannot take what is asked for.
        SettingsError: the agent's flags are wrong.
    """
    draft = _Draft(copy.deepcopy(template), injection, name, texts)
    draft.add()
    return draft.template, [f"{name}: {note}" for note in draft.notes]


class _Draft:
    """A pod template on its way."""

    def __init__(
        self, template: dict[str, Any], injection: Injection, name: str, texts: Texts
    ) -> None:
        self.template = template
        self.notes: list[str] = []
        self._injection = injection
        self._name = name
        self._texts = texts
        self._changes: list[Change] = []
        self._spec: dict[str, Any] = self._pod_spec()
        self._application = self._choose_application()
        self._supervises = injection.mode == "supervisor"
        self._once = injection.mode == "init"

    # What is there

    def _pod_spec(self) -> dict[str, Any]:
        spec = self.template.get("spec")
        containers = spec.get("containers") if isinstance(spec, dict) else None
        if not isinstance(spec, dict) or not isinstance(containers, list) or not containers:
            raise ManifestError(f"{self._name} has no containers in its pod template")
        everyone = [*containers, *(spec.get("initContainers") or ())]
        for one in everyone:
            if not isinstance(one, dict) or not isinstance(one.get("name"), str):
                raise ManifestError(f"{self._name} has a container without a name")
        names = [one["name"] for one in everyone if one["name"] in (AGENT, FIRST)]
        names += [one["name"] for one in spec.get("volumes") or () if is_ours(one)]
        if names:
            raise ManifestError(
                f"{self._name} has {names[0]}, which injection wants to add; rename it, or take "
                "it out if an older version has added it"
            )
        return spec

    def _choose_application(self) -> dict[str, Any]:
        wanted = self._injection.container
        containers: dict[str, dict[str, Any]] = {
            one["name"]: one for one in self._spec["containers"]
        }
        if wanted:
            if wanted not in containers:
                raise NothingToDo(
                    f"{self._name} has no container {wanted}: it has {', '.join(containers)}"
                )
            return containers[wanted]
        if len(containers) == 1:
            return next(iter(containers.values()))
        using = [one for one in containers.values() if self._uses_sources(one)]
        if len(using) == 1:
            return using[0]
        raise ManifestError(
            f"{self._name} has {len(containers)} containers ({', '.join(containers)}); name one "
            "with --container"
        )

    def _uses_sources(self, container: dict[str, Any]) -> bool:
        live = any(is_live(self._volume(one)) for one in container.get("volumeMounts") or ())
        return live or bool(_frozen_variables(container))

    def _volume(self, mount: dict[str, Any]) -> dict[str, Any]:
        volumes = self._spec.get("volumes") or ()
        return next((one for one in volumes if one.get("name") == mount.get("name")), {})

    def _live_mounts(self) -> list[dict[str, Any]]:
        """List the mounts whose files the kubelet rewrites while the container runs."""
        return [
            {"name": one["name"], "mountPath": one["mountPath"], "readOnly": True}
            for one in self._application.get("volumeMounts") or ()
            if is_live(self._volume(one)) and "subPath" not in one and "subPathExpr" not in one
        ]

    # What is added

    def add(self) -> None:
        """Work out everything, then put it in."""
        self._refuse_what_cannot_be()
        staging = self._staging()
        watched = self._watched(staging)
        conversion = self._conversion()
        directories = [word for path in watched for word in ("--dir", path)]
        if self._follows_announcements_alone(watched, conversion):
            directories = ["--dir", POD_PATH]
        elif not watched and not (conversion and conversion.mounts):
            raise NothingToDo(self._nothing())
        flags, settings = self._flags(directories, staging, conversion)
        way = _way(settings)
        self._require_renewal(way, staging, conversion)
        places = self._places(settings)
        self._share_processes(settings)
        self._annotate(settings, way)
        self._replace_mounts(staging, places)
        self._put_in_containers(flags, settings, staging, conversion)
        if settings.listen and self._spec.get("hostNetwork"):
            self.notes.append(
                f"the pod is on the node's network, where port {settings.listen.port} can be had "
                "only once; give --listen another port, or none"
            )

    def _refuse_what_cannot_be(self) -> None:
        injection, name = self._injection, self._name
        words = read_words(injection.flags)
        for flag in ("stage", "once", "env-from", "env", "target-file"):
            if flag in words.values:
                raise ManifestError(
                    f"{words.given[flag]} after -- is written by injection: use "
                    f"{_OWN_WORDS.get(flag, 'nothing, it always is')}"
                )
        if words.application:
            raise ManifestError(
                "the application's words stand in the manifest; --mode supervisor takes them from "
                "there"
            )
        if injection.mode == "sidecar" and self._ends():
            raise ManifestError(
                f"{name} ends when its containers do, and a plain sidecar does not end; use "
                "--mode native-sidecar"
            )
        if self._once and ("restart" in words.values or "restart-on" in words.values):
            raise ManifestError(
                "--mode init ends before the application starts, so it restarts nothing; use "
                "another mode"
            )
        if self._supervises and not self._application.get("command"):
            raise ManifestError(
                f"{name}: container {self._application['name']} has no command, and what its "
                "image starts is not in the manifest; write it there as command"
            )

    def _ends(self) -> bool:
        return self._spec.get("restartPolicy") in ("Never", "OnFailure")

    def _nothing(self) -> str:
        container = self._application["name"]
        return (
            f"{self._name}: container {container} mounts no ConfigMap or Secret as a directory, "
            "so there is nothing that changes in a running pod"
        )

    def _staging(self) -> Staging | None:
        if not self._injection.stage:
            return None
        volumes = {one["name"]: one for one in self._spec.get("volumes") or ()}
        mounts = self._application.get("volumeMounts") or []
        staging = plan_stage(volumes, mounts, apart=self._supervises)
        self.notes += staging.notes
        if not staging.mounts:
            raise NothingToDo(self._nothing())
        return staging

    def _watched(self, staging: Staging | None) -> list[str]:
        if staging is not None:
            return [one["mountPath"] for one in staging.mounts]
        return [one["mountPath"] for one in self._live_mounts()]

    def _conversion(self) -> Conversion | None:
        if not self._supervises or self._injection.keep_env:
            return None
        conversion = convert_environment(self._application)
        self.notes += conversion.notes
        return conversion if conversion.mounts else None

    def _follows_announcements_alone(
        self, watched: list[str], conversion: Conversion | None
    ) -> bool:
        """Tell whether there is nothing but environment, and an agent that restarts for it."""
        words = read_words(self._injection.flags)
        return (
            not watched
            and conversion is None
            and "restart-on" in words.values
            and bool(_frozen_variables(self._application))
        )

    def _flags(
        self, directories: list[str], staging: Staging | None, conversion: Conversion | None
    ) -> tuple[list[str], Settings]:
        given = read_words(self._injection.flags).values
        flags = [*directories, *self._injection.flags]
        if staging is not None:
            flags += ["--stage", STAGE_PATH]
            if staging.mode and "stage-mode" not in given:
                flags += ["--stage-mode", staging.mode]
        if self._once:
            flags += ["--once", "--listen", "none"]
        else:
            flags += ["--target-file", f"{POD_PATH}/annotations"]
            for flag, path in (("state", "state"), ("socket", "agent.sock")):
                if flag not in given:
                    flags += [f"--{flag}", f"{RUN_PATH}/{path}"]
        if conversion is not None:
            flags += conversion.flags
        seconds = self._spec.get("terminationGracePeriodSeconds")
        if self._supervises and isinstance(seconds, int) and "grace" not in given:
            # Before the kubelet's own KILL, so that the application's status is known.
            flags += ["--grace", f"{max(seconds - 2, 1)}s"]
        words = [*_without_rules(flags)]
        if "rules" in given:
            self.notes.append(
                "the rules file is read in the pod; if its rules signal, set "
                "shareProcessNamespace and runAsUser yourself"
            )
        if self._supervises:
            words += ["--", *map(str, self._application["command"])]
        return flags, read_settings(read_words(words))

    def _require_renewal(
        self, way: str, staging: Staging | None, conversion: Conversion | None
    ) -> None:
        """A restart of the child alone brings no new environment of the container."""
        if way != "supervised" or "restart-on" not in read_words(self._injection.flags).values:
            return
        taken = conversion.env_taken if conversion else ()
        left = _frozen_variables(self._application, converted=conversion is not None, taken=taken)
        if left:
            raise ManifestError(
                f"{self._name}: {left[0]} is fixed until the container restarts, which a restart "
                "by the supervisor is not; use --restart all-containers"
            )

    def _places(self, settings: Settings) -> dict[str, str]:
        if not settings.stage:
            return {}
        return Stage(settings.stage, settings.directories, settings.stage_mode).places

    def _share_processes(self, settings: Settings) -> None:
        if self._supervises or self._once or not _signals(settings):
            return
        if self._spec.get("shareProcessNamespace") is not True:
            self._note_change(("spec", "shareProcessNamespace"))
            self._spec["shareProcessNamespace"] = True
        if self._user(settings).number is None:
            self.notes.append(
                f"container {self._application['name']} does not say which user it runs as; a "
                "signal needs the agent to be the same: set runAsUser in the pod's "
                "securityContext, or give --user"
            )

    def _annotate(self, settings: Settings, way: str) -> None:
        if self._once:
            return
        self._note_addition(("metadata", "annotations", ANNOTATION))
        metadata = self.template.get("metadata")
        if not isinstance(metadata, dict):
            metadata = self.template["metadata"] = {}
        if not isinstance(metadata.get("annotations"), dict):
            metadata["annotations"] = {}
        port = settings.listen.port if settings.listen else 0
        metadata["annotations"][ANNOTATION] = f"port={port};restart={way}"

    def _replace_mounts(self, staging: Staging | None, places: dict[str, str]) -> None:
        if staging is None:
            return
        mounts = self._application["volumeMounts"]
        self._note_change(self._in_application("volumeMounts"), tuple(staging.directories))
        self._application["volumeMounts"] = staged_mounts(mounts, staging, places)

    def _put_in_containers(
        self,
        flags: list[str],
        settings: Settings,
        staging: Staging | None,
        conversion: Conversion | None,
    ) -> None:
        volumes: list[dict[str, Any]] = [] if self._once else [additions.pod_volume()]
        volumes.append(additions.run_volume())
        sources = staging.mounts if staging else self._live_mounts()
        if staging is not None:
            volumes += [*staging.volumes, additions.stage_volume(len(settings.directories))]
            sources = [*sources, additions.stage_mount()]
        if self._supervises:
            volumes.append(additions.program_volume())
            mine = sources if staging else []
            self._wrap(flags, settings, mine, conversion)
            volumes += conversion.volumes if conversion else []
        self._extend(("spec", "volumes"), volumes)
        self._put_in_agent(flags, settings, sources, staged=staging is not None)

    def _put_in_agent(
        self,
        flags: list[str],
        settings: Settings,
        sources: list[dict[str, Any]],
        *,
        staged: bool,
    ) -> None:
        image, user, checks = self._injection.image, self._user(settings), bool(settings.checks)
        own = additions.run_mounts(pod=not self._once, scratch=True)
        mode = self._injection.mode
        before = ("spec", "initContainers")
        if mode == "sidecar" and staged:
            first = additions.first_container(
                image, _only_once(flags), user=user, mounts=[*sources, *own[1:]], checks=checks
            )
            self._extend(before, [first])
        where = ("spec", "containers") if mode == "sidecar" else before
        self._note_addition(where)
        record = Record(self._application["name"], tuple(self._changes)).written()
        if self._supervises:
            agent = additions.bringing_container(image, user=user, record=record)
        elif self._once:
            agent = additions.once_container(
                image, flags, user=user, mounts=[*sources, *own], record=record, checks=checks
            )
        else:
            agent = additions.sidecar_container(
                image, flags,
                native=mode == "native-sidecar", user=user, mounts=[*sources, *own],
                record=record, port=settings.listen.port if settings.listen else 0,
                gates=staged, checks=checks, restarts_all=_restarts_all(settings),
            )  # fmt: skip
        self._spec[where[1]] = [*(self._spec.get(where[1]) or ()), agent]

    def _wrap(
        self,
        flags: list[str],
        settings: Settings,
        sources: list[dict[str, Any]],
        conversion: Conversion | None,
    ) -> None:
        """Put the agent in front of the application's command."""
        application = self._application
        if conversion is not None:
            self._take_variables(conversion)
        command = [protected(str(one)) for one in application["command"]]
        self._note_change(self._in_application("command"))
        arguments = [protected(one) for one in flags]
        application["command"] = ["python3", PROGRAM, *arguments, "--", *command]
        words = [str(one) for one in application.get("args") or ()]
        if [protected(one) for one in words] != words:
            self._note_change(self._in_application("args"))
            application["args"] = [protected(one) for one in words]
        if _restarts_all(settings):
            for key, value in (
                ("restartPolicy", "Always"),
                ("restartPolicyRules", additions.RESTART_RULES),
            ):
                self._note_change(self._in_application(key))
                application[key] = value
        mounts = [
            *sources,
            *(conversion.mounts if conversion else ()),
            *additions.run_mounts(pod=True, scratch=False),
            {"name": BIN, "mountPath": BIN_PATH, "readOnly": True},
        ]
        self._extend(self._in_application("volumeMounts"), mounts)
        self._warn_of_probes(conversion)

    def _take_variables(self, conversion: Conversion) -> None:
        for key, taken in (
            ("envFrom", conversion.env_from_taken),
            ("env", conversion.env_taken),
        ):
            if taken:
                self._note_change(self._in_application(key), taken)
                items = self._application[key]
                self._application[key] = [
                    one for index, one in enumerate(items) if index not in taken
                ]

    def _warn_of_probes(self, conversion: Conversion | None) -> None:
        if conversion is None:
            return
        hooks = self._application.get("lifecycle") or {}
        places = [
            *(f"{one}Probe" for one in ("startup", "liveness", "readiness")
              if "exec" in (self._application.get(f"{one}Probe") or {})),
            *(one for one in ("postStart", "preStop") if "exec" in (hooks.get(one) or {})),
        ]  # fmt: skip
        if places:
            self.notes.append(
                f"{' and '.join(places)} of container {self._application['name']} runs without "
                "the variables that come from files now; only the application has them"
            )

    def _user(self, settings: Settings) -> User:
        """Choose whom the agent runs as.

        A signal reaches processes of the same user only, and a volume's files may be for one
        user, so it is the application's. Where nobody says who that is, any will do, unless the
        agent signals: then it is what the image says, as it is for the application.
        """
        contexts = [one.get("securityContext") or {} for one in (self._application, self._spec)]
        group = next((one["runAsGroup"] for one in contexts if "runAsGroup" in one), None)
        if self._injection.user is not None:
            return User(self._injection.user, group)
        for context in contexts:
            if context.get("runAsUser") is not None:
                return User(int(context["runAsUser"]), group)
        return User(None if _signals(settings) else _NOBODY, group)

    # How it is put in, and what is noted of it

    def _in_application(self, key: str) -> Path:
        return ("spec", "containers", self._application["name"], key)

    def _extend(self, path: Path, items: list[dict[str, Any]]) -> None:
        if not items:
            return
        self._note_addition(path)
        holder = self._spec if len(path) == 2 else self._application
        holder[path[-1]] = [*(holder.get(path[-1]) or ()), *items]

    def _note_change(self, path: Path, taken: tuple[int, ...] = ()) -> None:
        """Note the text of a value that is about to be replaced, or that its key is new."""
        if not self._note_foreign(path):
            self._note(Change(path, self._texts(path), taken))

    def _note_addition(self, path: Path) -> None:
        """Note what taking away what we add to a value would not bring back."""
        self._note_foreign((*path, ""))

    def _note_foreign(self, path: Path) -> bool:
        """Note the first value on the way that is not there, empty, or written elsewhere (`*`)."""
        for length in range(1, len(path)):
            part = path[:length]
            text = self._texts(part)
            if text is None or text.strip().startswith("*") or _is_blank(text):
                if part[-2:-1] == ("containers",):  # an item: the list as a whole is put back
                    part = part[:-1]
                    text = self._texts(part)
                self._note(Change(part, text))
                return True
        return False

    def _note(self, change: Change) -> None:
        known = [one.path for one in self._changes]
        if not any(change.path[: len(one)] == one for one in known):
            self._changes.append(change)


#: By flag of the agent that injection writes itself: the flag of injection that asks for it.
_OWN_WORDS = {
    "stage": "--stage before it",
    "once": "--mode init",
    "env-from": "--mode supervisor",
    "env": "--mode supervisor",
}


def _is_blank(text: str) -> bool:
    """Tell whether a value's text means nothing: null, or an empty mapping or list."""
    nothing = r"\s*(~|null|Null|NULL|\[\s*\]|\{\s*\})?\s*(#.*)?"
    return re.fullmatch(nothing, text) is not None


def _frozen_variables(
    container: dict[str, Any], *, converted: bool = False, taken: tuple[int, ...] = ()
) -> list[str]:
    """Name the variables that come from ConfigMaps and Secrets, as ends of sentences."""
    found = []
    for index, one in enumerate(container.get("env") or ()):
        source = one.get("valueFrom") or {}
        if index not in taken and ("configMapKeyRef" in source or "secretKeyRef" in source):
            found.append(f"variable {one['name']}")
    if not converted and container.get("envFrom"):
        found.append("envFrom")
    return found


def _without_rules(flags: list[str]) -> list[str]:
    words, rest = [], list(flags)
    while rest:
        word = rest.pop(0)
        if word in ("--rules", "-rules"):
            rest[:1] = []
        elif not word.startswith(("--rules=", "-rules=")):
            words.append(word)
    return words


#: What matters to an agent that only checks and publishes.
_ONCE = (
    "dir", "rules", "for", "check", "check-timeout", "max-size", "not-empty", "syntax", "stage",
    "stage-mode", "work-dir",
)  # fmt: skip


def _only_once(flags: list[str]) -> list[str]:
    """Give the flags of the init container that fills the stage, from those of the sidecar."""
    values = read_words(flags).values
    kept = [
        word for name in _ONCE for value in values.get(name, ()) for word in (f"--{name}", value)
    ]
    return [*kept, "--once", "--listen", "none"]


def _actions(settings: Settings) -> list[Any]:
    return [action for rule in settings.rules for action in rule.actions]


def _signals(settings: Settings) -> bool:
    """Tell whether the agent has to see the application's processes."""
    by_name = any(probe.kind == "workers" for rule in settings.rules for probe in rule.probes)
    return by_name or any(action.target not in ("", "child") for action in _actions(settings))


def _way(settings: Settings) -> str:
    """Name the way in which the agent answers for frozen uses; "none" when it does not."""
    frozen = [action for rule in settings.rules if rule.name == FROZEN for action in rule.actions]
    return next((action.way for action in frozen if action.way), "none")


def _restarts_all(settings: Settings) -> bool:
    return any(action.way == "all-containers" for action in _actions(settings))
