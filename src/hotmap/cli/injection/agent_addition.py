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
from collections.abc import Iterable
from typing import Any

from hotmap.agent.act.stage import Stage
from hotmap.agent.settings.settings import Settings
from hotmap.cli.injection import volumes
from hotmap.cli.injection.agent_flags import (
    complete_flags,
    flags_for_once,
    frozen_way,
    reject_reserved_flags,
    restarts_all,
    restarts_for_files,
    settings_of,
    signals,
    targets,
    used_files,
)
from hotmap.cli.injection.application import NothingToFollow
from hotmap.cli.injection.checkers import checker_needs
from hotmap.cli.injection.containers import (
    AgentContainer,
    copy_container,
    first_container,
    memory_limit,
    once_container,
    sidecar_container,
)
from hotmap.cli.injection.environment import Conversion, convert_environment
from hotmap.cli.injection.injection import Injection
from hotmap.cli.injection.pod_conflicts import (
    note_low_ports,
    note_other_reloaders,
    reject_ambiguous_processes,
    reject_uses_of_pid_1,
    reject_windows,
)
from hotmap.cli.injection.pod_inspection import PodInspection
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
from hotmap.cli.injection.shared_mounts import plan_shared_mounts
from hotmap.cli.injection.stage_mounts import (
    StagePlan,
    plan_stage,
    staged_mounts,
)
from hotmap.cli.injection.supervisor_command import wrap_command

__all__ = ["add_agent"]


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
        self._pod = PodInspection(template, injection, name, names)
        self._spec, self._application = self._pod.spec, self._pod.application

    # -- additions -----------------------------------------------------------------------------

    def add(self) -> None:
        """Determine all changes, then make them.

        Raises:
            NothingToFollow: the application uses no source that an agent could reload.
            ManifestError: an agent cannot work in this pod; nothing was changed.
        """
        reject_reserved_flags(self._injection.flags, mode=self._injection.mode)
        stage = self._stage()
        watched = self._watched(stage)
        conversion = self._conversion()
        if not watched and conversion is None:
            if "restart-on" not in self._pod.given or not self._pod.frozen_uses(stage, conversion):
                raise NothingToFollow(self._pod.nothing_to_follow())
            watched = [POD_PATH]  # only announcements are followed
        self._pod.reject_unsupported()  # a pod without anything to follow may be any
        reject_windows(self._spec, self._name)
        flags, settings = self._flags(watched, stage, conversion)
        way = frozen_way(settings)
        self._pod.require_programs(settings)
        self._pod.require_effective_restart(way, stage, conversion)
        places = self._places(settings)
        self._share_processes(settings)
        self.notes += self._pod.note_unreadable_files(settings)
        self.notes += self._pod.note_missing_action(settings)
        self.notes += note_other_reloaders(self._spec, self._application)
        if not self._pod.supervises:
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

    def _stage(self) -> StagePlan | None:
        if not self._injection.stage:
            return None
        volumes = {volume["name"]: volume for volume in self._spec.get("volumes") or ()}
        mounts = self._application.get("volumeMounts") or []
        stage = plan_stage(volumes, mounts, self._names, apart=self._pod.supervises)
        self.notes += stage.notes
        if not stage.mounts:
            raise NothingToFollow(self._pod.nothing_to_follow())
        return stage

    def _watched(self, stage: StagePlan | None) -> list[str]:
        if stage is not None:
            return [mount["mountPath"] for mount in stage.mounts]
        return [mount["mountPath"] for mount in self._pod.live_mounts()]

    def _conversion(self) -> Conversion | None:
        if not self._pod.supervises or self._injection.keep_env:
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
            once=self._pod.once,
            staged=stage is not None,
            environment=conversion.flags if conversion else [],
            grace=seconds if self._pod.supervises and isinstance(seconds, int) else None,
        )
        flags += self._pod.stop_signal()
        if "rules" in self._pod.given:
            self.notes.append(
                "the rules file is read in the pod; if its rules send signals, set "
                "shareProcessNamespace and runAsUser yourself"
            )
        command = list(map(str, self._application["command"])) if self._pod.supervises else []
        flags += self._pod.free_port(settings_of(flags, command))
        return flags, settings_of(flags, command)

    def _places(self, settings: Settings) -> dict[str, str]:
        if not settings.checks.stage:
            return {}
        return Stage(
            settings.checks.stage, settings.watch.directories, settings.checks.stage_mode
        ).places

    def _share_processes(self, settings: Settings) -> None:
        if self._pod.supervises or self._pod.once or not signals(settings):
            return
        reject_ambiguous_processes(self._spec, targets(settings), self._name)
        alone = not (self._spec.get("shareProcessNamespace") or self._spec.get("hostPID"))
        if alone:
            self.notes += reject_uses_of_pid_1(self._spec, self._name)
            self._recorder.record_replacement(("spec", "shareProcessNamespace"))
            self._spec["shareProcessNamespace"] = True
        if self._pod.user(settings).number is None:
            self.notes.append(
                f"container {self._application['name']} has no runAsUser, and the agent must run "
                "as the same user to send signals: set runAsUser in the pod's securityContext, or "
                "use --user"
            )

    def _annotate(self, settings: Settings, way: str) -> None:
        if self._pod.once:
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
        if way != "supervised" and restarts_for_files(settings):
            entry += ";files=restart"
        metadata["annotations"][ANNOTATION] = ",".join(filter(None, (others, entry)))

    def _replace_mounts(self, stage: StagePlan | None, places: dict[str, str]) -> None:
        if stage is None:
            return
        mounts = self._application["volumeMounts"]
        self._recorder.record_replacement(self._mounts_path(), tuple(stage.directories))
        self._application["volumeMounts"] = staged_mounts(mounts, stage, places, self._names)

    def _add_volumes_and_containers(
        self,
        flags: list[str],
        settings: Settings,
        stage: StagePlan | None,
        conversion: Conversion | None,
    ) -> None:
        added = [] if self._pod.once else [volumes.pod_volume(self._names)]
        added.append(volumes.run_volume(self._names))
        sources = stage.mounts if stage else self._pod.live_mounts()
        if stage is not None:
            added += [
                *stage.volumes,
                volumes.stage_volume(self._names, self._pod.count_sources(sources, stage.volumes)),
            ]
            sources = [*sources, volumes.stage_mount(self._names)]
        if self._pod.supervises:
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
            self._extend(self._mounts_path(), mounts)
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
        own = volumes.run_mounts(self._names, pod=not self._pod.once, scratch=True)
        user, needs = self._pod.user(settings), checker_needs(settings)
        taken = {source["mountPath"].rstrip("/") for source in sources}
        if not self._pod.supervises:
            shared = self._shared_mounts(settings, taken)
            own += shared
            taken.update(mount["mountPath"].rstrip("/") for mount in shared)
        own += volumes.checker_mounts(
            self._names, (path for path in needs.paths if path not in taken)
        )
        agent = AgentContainer(
            self._injection.image,
            user,
            [*sources, *own],
            memory_limit(
                max(self._pod.count_sources(sources), len(settings.watch.directories)),
                checks=bool(settings.checks.commands),
            ),
            capabilities=needs.capabilities if user.number in (None, 0) else (),
            names=self._names,
        )
        mode = self._injection.mode
        before = ("spec", "initContainers")
        gated = mode == "native-sidecar" and settings.reports.listen is not None
        if staged and not (self._pod.once or self._pod.supervises or gated):
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

    def _shared_mounts(self, settings: Settings, taken: Iterable[str]) -> list[dict[str, Any]]:
        """Mount the application's sockets, pid files and the like for the agent.

        So are directories of `--dir` that no ConfigMap or Secret fills, such as git-sync's.
        """
        mounts = self._application.get("volumeMounts") or ()
        application = f"container {self._application['name']}"
        watched = plan_shared_mounts(mounts, self._pod.given.get("dir", ()), taken)
        self.notes += [
            f"the agent watches {path}, and its container has no volume there: it loads nothing "
            f"until that directory exists; set --dir to one in a volume that {application} mounts"
            for path in watched.missing
        ]
        files = () if self._pod.once else used_files(settings)  # it does not act
        used = plan_shared_mounts(mounts, files, taken)
        self.notes += [
            f"the agent uses {path}, and its container has no volume there: put the file into a "
            f"volume that {application} mounts at a directory such as /shared"
            for path in used.missing
        ]
        found = {mount["mountPath"]: mount for mount in (*watched.mounts, *used.mounts)}
        return list(found.values())

    def _agent_container(
        self, agent: AgentContainer, flags: list[str], settings: Settings, *, gates: bool
    ) -> dict[str, Any]:
        if self._pod.supervises:
            return copy_container(agent)
        if self._pod.once:
            return once_container(agent, flags)
        return sidecar_container(
            agent,
            flags,
            native=self._injection.mode == "native-sidecar",
            port=settings.reports.listen.port if settings.reports.listen else 0,
            gates=gates,
            restarts_all=restarts_all(settings),
        )

    # -- changes, recorded for a removal -------------------------------------------------------

    def _record(self, changes: tuple[Change, ...]) -> Record:
        again = tuple(self._injection) if self._names.number > 1 else ()
        return Record(self._application["name"], changes, again)

    def _mounts_path(self) -> Path:
        return ("spec", "containers", self._application["name"], "volumeMounts")

    def _extend(self, path: Path, items: list[dict[str, Any]]) -> None:
        if not items:
            return
        self._recorder.record_addition(path)
        holder = self._spec if len(path) == 2 else self._application
        holder[path[-1]] = [*(holder.get(path[-1]) or ()), *items]
