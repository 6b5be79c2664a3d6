"""Adds the agent to a pod template: values in, values out.

Modes:

    native-sidecar   an init container that stays (Kubernetes ≥ 1.29): starts before the
                     application, ends after it, lets Jobs complete
    sidecar          a regular container, for older clusters
    init             checks and publishes once, before the application starts
    supervisor       the agent is the application's parent process: an init container copies its
                     program, and the agent starts the container's command
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from hotmap.agent.act.stage import Stage
from hotmap.agent.settings.flags import parse_arguments
from hotmap.agent.settings.settings import Settings
from hotmap.cli.injection import volumes
from hotmap.cli.injection.agent_flags import (
    acts,
    complete_flags,
    flags_for_once,
    frozen_way,
    reject_reserved_flags,
    restarts_all,
    settings_of,
    signals,
    targets,
)
from hotmap.cli.injection.agent_paths import agent_path, is_reserved
from hotmap.cli.injection.application import (
    NothingToFollow,
    choose_application,
    read_pod_spec,
    source_variables,
    volume_of,
)
from hotmap.cli.injection.checkers import checker_needs, missing_program
from hotmap.cli.injection.containers import (
    AgentContainer,
    User,
    copy_container,
    first_container,
    memory_limit,
    once_container,
    sidecar_container,
)
from hotmap.cli.injection.environment import Conversion, convert_environment
from hotmap.cli.injection.pod_conflicts import (
    note_low_ports,
    note_other_reloaders,
    reject_ambiguous_processes,
    reject_uses_of_pid_1,
    reject_windows,
)
from hotmap.cli.injection.record import (
    ANNOTATION,
    POD_PATH,
    AgentNames,
    Change,
    ChangeRecorder,
    Path,
    Record,
    Texts,
)
from hotmap.cli.injection.stage_mounts import (
    StagePlan,
    count_sources,
    default_mode,
    is_live,
    plan_stage,
    staged_mounts,
)
from hotmap.cli.injection.supervisor_command import wrap_command
from hotmap.core.errors import ManifestError

__all__ = ["MODES", "Injection", "add_agent"]

MODES = ("native-sidecar", "sidecar", "init", "supervisor")

#: The agent's user where the pod names none, and any user will do.
_NOBODY = 65532


class Injection(NamedTuple):
    """How the agent is added."""

    #: The image of the agent's container: it has hotmap, and the checker if there is a check.
    image: str
    #: The container whose mounts are watched; "" for the only one that has any.
    container: str
    #: Flags of `hotmap agent`.
    flags: tuple[str, ...]
    mode: str = MODES[0]
    #: Files are mounted into the application only after they passed their check.
    stage: bool = False
    #: A supervisor leaves the container's environment as it is.
    keep_env: bool = False
    #: The user that the agent runs as; None for the application's.
    user: int | None = None
    #: Whether the image is the agent's own, which has no other program.
    plain_image: bool = False

    @classmethod
    def of_record(cls, fields: Sequence[Any]) -> Injection:
        """Read what the record of an injection has of it.

        Raises:
            ManifestError: another version wrote it.
        """
        if len(fields) != len(cls._fields):
            raise ManifestError(
                "another version of hotmap injected a later agent of the pod; remove all with "
                "--remove, and inject again"
            )
        found = cls(*fields)
        return found._replace(flags=tuple(found.flags))


def add_agent(
    template: dict[str, Any],
    injection: Injection,
    name: str,
    texts: Texts,
    *,
    names: AgentNames,
) -> tuple[dict[str, Any], list[str]]:
    """Add an agent to a pod template; returns the template and notes for the user.

    The application has none yet; `names` follow those of the agents of other containers. `name` is
    the object's, for the notes; `texts` gives values as they are written in the manifest,
    to be recorded for a removal.

    Raises:
        NothingToFollow: there is nothing that an agent could follow.
        ManifestError: the pod does not allow what was requested.
        SettingsError: the agent's flags are invalid.
    """
    editor = _TemplateEditor(copy.deepcopy(template), injection, name, texts, names)
    editor.add()
    return editor.template, [f"{name}: {note}" for note in editor.notes]


class _TemplateEditor:
    """Edits one pod template."""

    def __init__(
        self,
        template: dict[str, Any],
        injection: Injection,
        name: str,
        texts: Texts,
        names: AgentNames,
    ) -> None:
        self.template = template
        self.notes: list[str] = []
        self._injection = injection
        self._name = name
        self._names = names
        self._recorder = ChangeRecorder(texts)
        self._spec: dict[str, Any] = read_pod_spec(template, name, names)
        self._application = choose_application(self._spec, injection.container, name)
        self._given = parse_arguments(injection.flags).values
        self._supervises = injection.mode == "supervisor"
        self._once = injection.mode == "init"

    # The pod as it is

    def _live_mounts(self) -> list[dict[str, Any]]:
        """List the mounts whose files the kubelet rewrites while the container runs."""
        found = {
            self._agent_path(mount): mount["name"]
            for mount in self._application.get("volumeMounts") or ()
            if is_live(volume_of(self._spec, mount))
            and "subPath" not in mount
            and "subPathExpr" not in mount
        }
        return [{"name": name, "mountPath": path, "readOnly": True} for path, name in found.items()]

    def _source_count(
        self, mounts: list[dict[str, Any]], more: Sequence[dict[str, Any]] = ()
    ) -> int:
        """Count the ConfigMaps and Secrets in mounted volumes; `more` are not in the pod yet."""
        known = {item["name"]: item for item in (*(self._spec.get("volumes") or ()), *more)}
        return sum(count_sources(known.get(mount["name"], {})) for mount in mounts)

    def _agent_path(self, mount: dict[str, Any]) -> str:
        if self._supervises:
            return str(mount["mountPath"])  # it runs in the application's container
        return agent_path(mount["name"], mount["mountPath"])

    # Additions

    def add(self) -> None:
        """Determine all changes, then make them."""
        self._reject_unsupported()
        reject_windows(self._spec, self._name)
        stage = self._stage()
        watched = self._watched(stage)
        conversion = self._conversion()
        if not watched and conversion is None:
            if "restart-on" not in self._given or not self._frozen_uses(stage, conversion):
                raise NothingToFollow(self._nothing_to_follow())
            watched = [POD_PATH]  # only announcements are followed
        flags, settings = self._flags(watched, stage, conversion)
        way = frozen_way(settings)
        self._require_programs(settings)
        self._require_effective_restart(way, stage, conversion)
        places = self._places(settings)
        self._share_processes(settings)
        self._warn_of_unreadable_files(settings)
        self._warn_of_missing_action(settings)
        self.notes += note_other_reloaders(self._spec, self._application)
        if not self._supervises:
            checkers = [words[0].rpartition("/")[2] for words in settings.checks.commands]
            self.notes += note_low_ports(self._spec, self._application, checkers)
        self._annotate(settings, way)
        self._replace_mounts(stage, places)
        self._add_volumes_and_containers(flags, settings, stage, conversion)
        if settings.reports.listen and self._spec.get("hostNetwork"):
            self.notes.append(
                "the pod uses the host network, where port "
                f"{settings.reports.listen.port} may be in use; "
                "set --listen to another port or none"
            )

    def _reject_unsupported(self) -> None:
        injection, name = self._injection, self._name
        reject_reserved_flags(injection.flags, mode=injection.mode)
        if injection.mode == "sidecar" and self._runs_to_completion():
            raise ManifestError(
                f"{name} runs to completion, which a plain sidecar prevents; use --mode "
                "native-sidecar"
            )
        for mount in self._application.get("volumeMounts") or ():
            if is_reserved(mount["mountPath"]):
                raise ManifestError(
                    f"{name}: container {self._application['name']} mounts a volume at "
                    f"{mount['mountPath']}; injection uses the paths below /hotmap"
                )
        if self._supervises and not self._application.get("command"):
            raise ManifestError(
                f"{name}: container {self._application['name']} has no command; --mode supervisor "
                "needs one, so add the image's entrypoint to the manifest as command"
            )

    def _runs_to_completion(self) -> bool:
        return self._spec.get("restartPolicy") in ("Never", "OnFailure")

    def _nothing_to_follow(self) -> str:
        container = f"{self._name}: container {self._application['name']}"
        if self._supervises and not self._injection.keep_env:
            return f"{container} uses no file and no variable of a ConfigMap or Secret"
        return (
            f"{container} mounts no ConfigMap or Secret as a directory, so nothing changes while "
            "the pod runs"
        )

    def _stage(self) -> StagePlan | None:
        if not self._injection.stage:
            return None
        volumes = {volume["name"]: volume for volume in self._spec.get("volumes") or ()}
        mounts = self._application.get("volumeMounts") or []
        stage = plan_stage(volumes, mounts, self._names, apart=self._supervises)
        self.notes += stage.notes
        if not stage.mounts:
            raise NothingToFollow(self._nothing_to_follow())
        return stage

    def _watched(self, stage: StagePlan | None) -> list[str]:
        if stage is not None:
            return [mount["mountPath"] for mount in stage.mounts]
        return [mount["mountPath"] for mount in self._live_mounts()]

    def _conversion(self) -> Conversion | None:
        if not self._supervises or self._injection.keep_env:
            return None
        conversion = convert_environment(self._application, self._names)
        self.notes += conversion.notes
        return conversion if conversion.mounts else None

    def _flags(
        self, directories: list[str], stage: StagePlan | None, conversion: Conversion | None
    ) -> tuple[list[str], Settings]:
        seconds = self._spec.get("terminationGracePeriodSeconds")
        flags = complete_flags(
            directories,
            self._injection.flags,
            once=self._once,
            staged=stage is not None,
            environment=conversion.flags if conversion else [],
            grace=seconds if self._supervises and isinstance(seconds, int) else None,
        )
        flags += self._stop_signal()
        if "rules" in self._given:
            self.notes.append(
                "the rules file is read in the pod; if its rules send signals, set "
                "shareProcessNamespace and runAsUser yourself"
            )
        command = (
            [str(argument) for argument in self._application["command"]] if self._supervises else []
        )
        flags += self._free_port(settings_of(flags, command))
        return flags, settings_of(flags, command)

    def _stop_signal(self) -> list[str]:
        """Return the flag for the signal that ends a supervised application, if the pod has one."""
        lifecycle = self._application.get("lifecycle") or {}
        name = str(lifecycle.get("stopSignal") or "").removeprefix("SIG")
        if not (name and self._supervises) or "stop-signal" in self._given:
            return []
        return ["--stop-signal", name]

    def _free_port(self, settings: Settings) -> list[str]:
        """Return the flag for a port that no other agent of the pod has.

        Raises:
            ManifestError: the one that was given is another agent's.
        """
        annotations = (self.template.get("metadata") or {}).get("annotations") or {}
        others = str(annotations.get(ANNOTATION) or "") if self._names.number > 1 else ""
        taken = {int(port) for port in re.findall(r"port=([0-9]+)", others)}
        listen = settings.reports.listen
        if self._once or listen is None or listen.port not in taken:
            return []
        if "listen" in self._given:
            raise ManifestError(
                f"{self._name}: port {listen.port} is that of another agent in the pod; set "
                "--listen to another one"
            )
        port = listen.port
        while port in taken:
            port += 1
        return ["--listen", f":{port}"]

    def _require_programs(self, settings: Settings) -> None:
        """Reject commands whose program the agent's container does not have."""
        if self._supervises or not self._injection.plain_image:
            return
        if program := missing_program(settings):
            raise ManifestError(
                f"{self._name}: the agent runs {program}, which the image "
                f"{self._injection.image} does not have; set --image to one that has both, such as "
                f"one built from the application's image, or use --mode supervisor, which runs "
                f"{program} in the application's container"
            )

    def _require_effective_restart(
        self, way: str, stage: StagePlan | None, conversion: Conversion | None
    ) -> None:
        """Reject a restart of the child process where the container's start fixes what it uses."""
        left = self._frozen_uses(stage, conversion)
        if way == "supervised" and left:
            raise ManifestError(
                f"{self._name}: {left[0]} is fixed until the container restarts, and the "
                "supervisor restarts only its child process; use --restart all-containers"
            )

    def _frozen_uses(self, stage: StagePlan | None, conversion: Conversion | None) -> list[str]:
        """Name what is fixed when the application's container starts."""
        application = self._application
        found = source_variables(application, conversion.env_taken if conversion else ())
        if conversion is None and application.get("envFrom"):
            found.append("envFrom")
        for index, mount in enumerate(application.get("volumeMounts") or ()):
            part = "subPath" in mount or "subPathExpr" in mount
            staged = stage is not None and index in stage.directories
            if part and not staged and is_live(volume_of(self._spec, mount)):
                found.append(f"the mount {mount['mountPath']}")
        return found

    def _places(self, settings: Settings) -> dict[str, str]:
        if not settings.checks.stage:
            return {}
        return Stage(
            settings.checks.stage, settings.watch.directories, settings.checks.stage_mode
        ).places

    def _share_processes(self, settings: Settings) -> None:
        if self._supervises or self._once or not signals(settings):
            return
        reject_ambiguous_processes(self._spec, targets(settings), self._name)
        alone = not (self._spec.get("shareProcessNamespace") or self._spec.get("hostPID"))
        if alone:
            self.notes += reject_uses_of_pid_1(self._spec, self._name)
            self._recorder.record_replacement(("spec", "shareProcessNamespace"))
            self._spec["shareProcessNamespace"] = True
        if self._user(settings).number is None:
            self.notes.append(
                f"container {self._application['name']} has no runAsUser, and the agent must run "
                "as the same user to send signals: set runAsUser in the pod's securityContext, or "
                "use --user"
            )

    def _warn_of_unreadable_files(self, settings: Settings) -> None:
        """Warn of files that only their owner or group may read, where neither is known."""
        context = self._spec.get("securityContext") or {}
        if self._supervises:
            return  # it is the application's own user
        if self._user(settings).number not in (None, _NOBODY) or "fsGroup" in context:
            return
        for mount in self._application.get("volumeMounts") or ():
            mode = default_mode(volume_of(self._spec, mount))
            if mode is not None and not mode & 0o004:
                self.notes.append(
                    f"volume {mount['name']} has mode {mode:04o} and the application has no "
                    "runAsUser, so the agent may not be able to read it: set runAsUser, fsGroup "
                    "or --user"
                )

    def _warn_of_missing_action(self, settings: Settings) -> None:
        if self._once or acts(settings) or settings.checks.stage or "rules" in self._given:
            return
        self.notes.append(
            "the agent has no action (--for, --signal, --url, --exec, --restart), so the "
            "application must read changed files by itself"
        )

    def _annotate(self, settings: Settings, way: str) -> None:
        if self._once:
            return
        path = ("metadata", "annotations", ANNOTATION)
        if self._names.number == 1:
            self._recorder.record_addition(path)
        else:
            self._recorder.record_replacement(path)
        metadata = self.template.get("metadata")
        if not isinstance(metadata, dict):
            metadata = self.template["metadata"] = {}
        if not isinstance(metadata.get("annotations"), dict):
            metadata["annotations"] = {}
        port = f"port={settings.reports.listen.port};" if settings.reports.listen else ""
        others = metadata["annotations"].get(ANNOTATION) if self._names.number > 1 else ""
        entry = f"{port}container={self._application['name']};restart={way}"
        metadata["annotations"][ANNOTATION] = ",".join(filter(None, (others, entry)))

    def _replace_mounts(self, stage: StagePlan | None, places: dict[str, str]) -> None:
        if stage is None:
            return
        mounts = self._application["volumeMounts"]
        self._recorder.record_replacement(
            self._in_application("volumeMounts"), tuple(stage.directories)
        )
        self._application["volumeMounts"] = staged_mounts(mounts, stage, places, self._names)

    def _add_volumes_and_containers(
        self,
        flags: list[str],
        settings: Settings,
        stage: StagePlan | None,
        conversion: Conversion | None,
    ) -> None:
        added = [] if self._once else [volumes.pod_volume(self._names)]
        added.append(volumes.run_volume(self._names))
        sources = stage.mounts if stage else self._live_mounts()
        if stage is not None:
            added += [
                *stage.volumes,
                volumes.stage_volume(self._names, self._source_count(sources, stage.volumes)),
            ]
            sources = [*sources, volumes.stage_mount(self._names)]
        if self._supervises:
            added.append(volumes.program_volume(self._names))
            self.notes += wrap_command(
                self._application, self._recorder, flags, conversion,
                restarts_all=restarts_all(settings),
            )  # fmt: skip
            mounts = [
                *(sources if stage else ()),
                *(conversion.mounts if conversion else ()),
                *volumes.run_mounts(self._names, pod=True, scratch=False),
                volumes.program_mount(self._names),
            ]
            self._extend(self._in_application("volumeMounts"), mounts)
            added += conversion.volumes if conversion else []
        self._extend(("spec", "volumes"), added)
        self._add_containers(flags, settings, sources, staged=stage is not None)

    def _add_containers(
        self,
        flags: list[str],
        settings: Settings,
        sources: list[dict[str, Any]],
        *,
        staged: bool,
    ) -> None:
        own = volumes.run_mounts(self._names, pod=not self._once, scratch=True)
        user, needs = self._user(settings), checker_needs(settings)
        taken = {source["mountPath"].rstrip("/") for source in sources}
        own += volumes.checker_mounts(
            self._names, (path for path in needs.paths if path not in taken)
        )
        agent = AgentContainer(
            self._injection.image,
            user,
            [*sources, *own],
            memory_limit(
                max(self._source_count(sources), len(settings.watch.directories)),
                checks=bool(settings.checks.commands),
            ),
            capabilities=needs.capabilities if user.number in (None, 0) else (),
            names=self._names,
        )
        mode = self._injection.mode
        before = ("spec", "initContainers")
        gated = mode == "native-sidecar" and settings.reports.listen is not None
        if staged and not (self._once or self._supervises or gated):
            without_pod = agent._replace(mounts=[*sources, *own[1:]])
            self._extend(before, [first_container(without_pod, flags_for_once(flags))])
        where = ("spec", "containers") if mode == "sidecar" else before
        self._recorder.record_addition(where)
        changes = tuple(self._recorder.changes)
        agent = agent._replace(record=self._record(changes).to_json())
        self._spec[where[1]] = [
            *(self._spec.get(where[1]) or ()),
            self._agent_container(agent, flags, settings, gates=staged),
        ]

    def _agent_container(
        self, agent: AgentContainer, flags: list[str], settings: Settings, *, gates: bool
    ) -> dict[str, Any]:
        if self._supervises:
            return copy_container(agent)
        if self._once:
            return once_container(agent, flags)
        return sidecar_container(
            agent,
            flags,
            native=self._injection.mode == "native-sidecar",
            port=settings.reports.listen.port if settings.reports.listen else 0,
            gates=gates,
            restarts_all=restarts_all(settings),
        )

    def _user(self, settings: Settings) -> User:
        """Choose the agent's user.

        Signals reach only processes of the same user, and a volume's files may be readable by one
        user only, so it is the application's. Where the manifest names none, any user will do,
        unless the agent sends signals: then it is the image's, as it is for the application.
        """
        contexts = [item.get("securityContext") or {} for item in (self._application, self._spec)]
        group = next((item["runAsGroup"] for item in contexts if "runAsGroup" in item), None)
        if self._injection.user is not None:
            return User(self._injection.user, group)
        for context in contexts:
            if context.get("runAsUser") is not None:
                return User(int(context["runAsUser"]), group)
        return User(None if signals(settings) else _NOBODY, group)

    # Changes, recorded for a removal

    def _record(self, changes: tuple[Change, ...]) -> Record:
        again = tuple(self._injection) if self._names.number > 1 else ()
        return Record(self._application["name"], changes, again)

    def _in_application(self, key: str) -> Path:
        return ("spec", "containers", self._application["name"], key)

    def _extend(self, path: Path, items: list[dict[str, Any]]) -> None:
        if not items:
            return
        self._recorder.record_addition(path)
        holder = self._spec if len(path) == 2 else self._application
        holder[path[-1]] = [*(holder.get(path[-1]) or ()), *items]
