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
from typing import Any, NamedTuple

from hotmap.agent.flags import read_words
from hotmap.agent.settings import Settings
from hotmap.agent.stage import Stage
from hotmap.cli.injection import additions
from hotmap.cli.injection.additions import User
from hotmap.cli.injection.agent_flags import (
    complete_flags,
    flags_for_once,
    frozen_way,
    refuse_own_words,
    restarts_all,
    settings_of,
    signals,
)
from hotmap.cli.injection.record import (
    AGENT,
    ANNOTATION,
    FIRST,
    POD_PATH,
    Ledger,
    Path,
    Record,
    Texts,
    is_ours,
)
from hotmap.cli.injection.shape import require_shape
from hotmap.cli.injection.staging import Staging, default_mode, is_live, plan_stage, staged_mounts
from hotmap.cli.injection.variables import Conversion, convert_environment
from hotmap.cli.injection.wrapping import wrap
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
        self._ledger = Ledger(texts)
        self._spec: dict[str, Any] = self._pod_spec()
        self._application = self._choose_application()
        self._given = read_words(injection.flags).values
        self._supervises = injection.mode == "supervisor"
        self._once = injection.mode == "init"

    # What is there

    def _pod_spec(self) -> dict[str, Any]:
        require_shape(self.template, self._name)
        spec: dict[str, Any] = self.template["spec"]
        everyone = [*spec["containers"], *(spec.get("initContainers") or ())]
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
        if not using:
            raise NothingToDo(
                f"{self._name}: none of its containers uses a ConfigMap or Secret, so there is "
                "nothing to follow"
            )
        raise ManifestError(
            f"{self._name} has {len(containers)} containers ({', '.join(containers)}); name one "
            "with --container"
        )

    def _uses_sources(self, container: dict[str, Any]) -> bool:
        live = any(is_live(self._volume(one)) for one in container.get("volumeMounts") or ())
        return live or bool(container.get("envFrom") or _variables(container, ()))

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
        if not watched and conversion is None:
            if "restart-on" not in self._given or not self._frozen_uses(staging, conversion):
                raise NothingToDo(self._nothing())
            watched = [POD_PATH]  # announcements are all there is to follow
        flags, settings = self._flags(watched, staging, conversion)
        way = frozen_way(settings)
        self._require_renewal(way, staging, conversion)
        places = self._places(settings)
        self._share_processes(settings)
        self._warn_of_unreadable_files(settings)
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
        refuse_own_words(injection.flags, mode=injection.mode)
        if injection.mode == "sidecar" and self._ends():
            raise ManifestError(
                f"{name} ends when its containers do, and a plain sidecar does not end; use "
                "--mode native-sidecar"
            )
        if self._supervises and not self._application.get("command"):
            raise ManifestError(
                f"{name}: container {self._application['name']} has no command, and what its "
                "image starts is not in the manifest; write it there as command"
            )

    def _ends(self) -> bool:
        return self._spec.get("restartPolicy") in ("Never", "OnFailure")

    def _nothing(self) -> str:
        container = f"{self._name}: container {self._application['name']}"
        if self._supervises and not self._injection.keep_env:
            return f"{container} has no file and no variable of a ConfigMap or Secret to follow"
        return (
            f"{container} mounts no ConfigMap or Secret as a directory, so there is nothing that "
            "changes in a running pod"
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

    def _flags(
        self, directories: list[str], staging: Staging | None, conversion: Conversion | None
    ) -> tuple[list[str], Settings]:
        seconds = self._spec.get("terminationGracePeriodSeconds")
        flags = complete_flags(
            directories,
            self._injection.flags,
            once=self._once,
            staged=staging is not None,
            stage_mode=staging.mode if staging else "",
            environment=conversion.flags if conversion else [],
            grace=seconds if self._supervises and isinstance(seconds, int) else None,
        )
        if "rules" in self._given:
            self.notes.append(
                "the rules file is read in the pod; if its rules signal, set "
                "shareProcessNamespace and runAsUser yourself"
            )
        command = [str(one) for one in self._application["command"]] if self._supervises else []
        return flags, settings_of(flags, command)

    def _require_renewal(
        self, way: str, staging: Staging | None, conversion: Conversion | None
    ) -> None:
        """A restart of the child alone renews nothing of what the container was started with."""
        left = self._frozen_uses(staging, conversion)
        if way == "supervised" and left:
            raise ManifestError(
                f"{self._name}: {left[0]} is fixed until the container restarts, which a restart "
                "by the supervisor is not; use --restart all-containers"
            )

    def _frozen_uses(self, staging: Staging | None, conversion: Conversion | None) -> list[str]:
        """Name what is fixed when the application's container starts."""
        application = self._application
        found = _variables(application, conversion.env_taken if conversion else ())
        if conversion is None and application.get("envFrom"):
            found.append("envFrom")
        for index, mount in enumerate(application.get("volumeMounts") or ()):
            part = "subPath" in mount or "subPathExpr" in mount
            staged = staging is not None and index in staging.directories
            if part and not staged and is_live(self._volume(mount)):
                found.append(f"the mount {mount['mountPath']}")
        return found

    def _places(self, settings: Settings) -> dict[str, str]:
        if not settings.stage:
            return {}
        return Stage(settings.stage, settings.directories, settings.stage_mode).places

    def _share_processes(self, settings: Settings) -> None:
        if self._supervises or self._once or not signals(settings):
            return
        alone = not (self._spec.get("shareProcessNamespace") or self._spec.get("hostPID"))
        if alone:
            self._ledger.replacing(("spec", "shareProcessNamespace"))
            self._spec["shareProcessNamespace"] = True
        if self._user(settings).number is None:
            self.notes.append(
                f"container {self._application['name']} does not say which user it runs as; a "
                "signal needs the agent to be the same: set runAsUser in the pod's "
                "securityContext, or give --user"
            )

    def _warn_of_unreadable_files(self, settings: Settings) -> None:
        """Tell of files that only their owner or group may read, where neither is known."""
        context = self._spec.get("securityContext") or {}
        if self._supervises:
            return  # it is the application's own user
        if self._user(settings).number not in (None, _NOBODY) or "fsGroup" in context:
            return
        for mount in self._application.get("volumeMounts") or ():
            mode = default_mode(self._volume(mount))
            if mode is not None and not mode & 0o004:
                self.notes.append(
                    f"volume {mount['name']} has mode {mode:04o}, and the manifest does not say "
                    "whom the application runs as, so the agent may not be able to read it: set "
                    "runAsUser, fsGroup or --user"
                )

    def _annotate(self, settings: Settings, way: str) -> None:
        if self._once:
            return
        self._ledger.adding_to(("metadata", "annotations", ANNOTATION))
        metadata = self.template.get("metadata")
        if not isinstance(metadata, dict):
            metadata = self.template["metadata"] = {}
        if not isinstance(metadata.get("annotations"), dict):
            metadata["annotations"] = {}
        port = f"port={settings.listen.port};" if settings.listen else ""
        metadata["annotations"][ANNOTATION] = f"{port}restart={way}"

    def _replace_mounts(self, staging: Staging | None, places: dict[str, str]) -> None:
        if staging is None:
            return
        mounts = self._application["volumeMounts"]
        self._ledger.replacing(self._in_application("volumeMounts"), tuple(staging.directories))
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
            self.notes += wrap(
                self._application, self._ledger, flags, conversion,
                restarts_all=restarts_all(settings),
            )  # fmt: skip
            mounts = [
                *(sources if staging else ()),
                *(conversion.mounts if conversion else ()),
                *additions.run_mounts(pod=True, scratch=False),
                additions.program_mount(),
            ]
            self._extend(self._in_application("volumeMounts"), mounts)
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
        image, user = self._injection.image, self._user(settings)
        limit = additions.memory_limit(len(settings.directories), checks=bool(settings.checks))
        own = additions.run_mounts(pod=not self._once, scratch=True)
        mode = self._injection.mode
        before = ("spec", "initContainers")
        gated = mode == "native-sidecar" and settings.listen is not None
        if staged and not (self._once or self._supervises or gated):
            first = additions.first_container(
                image, flags_for_once(flags), user=user, mounts=[*sources, *own[1:]], limit=limit
            )
            self._extend(before, [first])
        where = ("spec", "containers") if mode == "sidecar" else before
        self._ledger.adding_to(where)
        record = Record(self._application["name"], tuple(self._ledger.changes)).written()
        if self._supervises:
            agent = additions.bringing_container(image, user=user, record=record)
        elif self._once:
            agent = additions.once_container(
                image, flags, user=user, mounts=[*sources, *own], record=record, limit=limit
            )
        else:
            agent = additions.sidecar_container(
                image, flags,
                native=mode == "native-sidecar", user=user, mounts=[*sources, *own],
                record=record, port=settings.listen.port if settings.listen else 0,
                gates=staged, limit=limit, restarts_all=restarts_all(settings),
            )  # fmt: skip
        self._spec[where[1]] = [*(self._spec.get(where[1]) or ()), agent]

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
        return User(None if signals(settings) else _NOBODY, group)

    # How it is put in, and what is noted of it

    def _in_application(self, key: str) -> Path:
        return ("spec", "containers", self._application["name"], key)

    def _extend(self, path: Path, items: list[dict[str, Any]]) -> None:
        if not items:
            return
        self._ledger.adding_to(path)
        holder = self._spec if len(path) == 2 else self._application
        holder[path[-1]] = [*(holder.get(path[-1]) or ()), *items]


def _variables(container: dict[str, Any], taken: tuple[int, ...]) -> list[str]:
    """Name the variables that come from a data key, but for those that are taken away."""
    return [
        f"variable {one['name']}"
        for index, one in enumerate(container.get("env") or ())
        if index not in taken
        and any(
            kind in (one.get("valueFrom") or {}) for kind in ("configMapKeyRef", "secretKeyRef")
        )
    ]
