"""What an injection has to know of a pod template; changes nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from hotmap.agent.settings.flags import parse_arguments
from hotmap.agent.settings.settings import Settings
from hotmap.agent.settings.values import InvalidValue, parse_stop_signal
from hotmap.cli.injection.agent_flags import acts, signals
from hotmap.cli.injection.agent_paths import agent_path, is_reserved
from hotmap.cli.injection.application import (
    choose_application,
    read_pod_spec,
    source_variables,
    volume_of,
)
from hotmap.cli.injection.checkers import missing_program
from hotmap.cli.injection.containers import User
from hotmap.cli.injection.environment import Conversion
from hotmap.cli.injection.injection import Injection
from hotmap.cli.injection.record import ANNOTATION, AgentNames
from hotmap.cli.injection.stage_mounts import StagePlan, count_sources, default_mode, is_live
from hotmap.core.errors import ManifestError

__all__ = ["PodInspection"]

#: The agent's user where the pod names none, and any user will do.
_NOBODY = 65532


class PodInspection:
    """One pod template, before an agent is added to one of its containers."""

    def __init__(
        self, template: dict[str, Any], injection: Injection, name: str, names: AgentNames
    ) -> None:
        """`name` is the object's, for messages; `names` are the agent's in the pod.

        Raises:
            NothingToFollow: there is nothing that an agent could follow.
            ManifestError: the pod does not allow what was requested.
            SettingsError: the agent's flags are invalid.
        """
        self._template = template
        self._injection = injection
        self._name = name
        self._names = names
        self.spec: dict[str, Any] = read_pod_spec(template, name, names)
        #: The container whose files are followed.
        self.application = choose_application(self.spec, injection.container, name)
        #: The agent's flags that the user gave.
        self.given = parse_arguments(injection.flags).values
        #: Whether the agent is the parent process of the application.
        self.supervises = injection.mode == "supervisor"
        #: Whether the agent ends before the application starts.
        self.once = injection.mode == "init"

    def live_mounts(self) -> list[dict[str, Any]]:
        """List the mounts whose files the kubelet rewrites while the container runs."""
        found = {
            self._agent_path(mount): mount["name"]
            for mount in self.application.get("volumeMounts") or ()
            if is_live(volume_of(self.spec, mount))
            and "subPath" not in mount
            and "subPathExpr" not in mount
        }
        return [{"name": name, "mountPath": path, "readOnly": True} for path, name in found.items()]

    def count_sources(
        self, mounts: list[dict[str, Any]], more: Sequence[dict[str, Any]] = ()
    ) -> int:
        """Count the ConfigMaps and Secrets in mounted volumes; `more` are not in the pod yet."""
        known = {item["name"]: item for item in (*(self.spec.get("volumes") or ()), *more)}
        return sum(count_sources(known.get(mount["name"], {})) for mount in mounts)

    def _agent_path(self, mount: dict[str, Any]) -> str:
        if self.supervises:
            return str(mount["mountPath"])  # it runs in the application's container
        return agent_path(mount["name"], mount["mountPath"])

    def reject_unsupported(self) -> None:
        """Reject pods in which the agent of this mode cannot work.

        Raises:
            ManifestError: it is one; the message says what to do instead.
        """
        name = self._name
        if self._injection.mode == "sidecar" and self._runs_to_completion():
            raise ManifestError(
                f"{name} runs to completion, which a plain sidecar prevents; use --mode "
                "native-sidecar"
            )
        for mount in self.application.get("volumeMounts") or ():
            if is_reserved(mount["mountPath"]):
                raise ManifestError(
                    f"{name}: container {self.application['name']} mounts a volume at "
                    f"{mount['mountPath']}; injection uses the paths below /hotmap"
                )
        if not self.supervises:
            return
        if not self.application.get("command"):
            raise ManifestError(
                f"{name}: container {self.application['name']} has no command; --mode supervisor "
                "needs one, so add the image's entrypoint to the manifest as command"
            )
        if not str(self.application["command"][0]):
            raise ManifestError(
                f"{name}: the command of container {self.application['name']} starts with an "
                "empty word, so it cannot start; set the program to run as its first word"
            )

    def _runs_to_completion(self) -> bool:
        return self.spec.get("restartPolicy") in ("Never", "OnFailure")

    def nothing_to_follow(self) -> str:
        """Return why there is nothing that an agent could follow."""
        container = f"{self._name}: container {self.application['name']}"
        if self.supervises and not self._injection.keep_env:
            return f"{container} uses no file and no variable of a ConfigMap or Secret"
        missing = next(
            (
                f" (spec.volumes has no {mount['name']})"
                for mount in self.application.get("volumeMounts") or ()
                if not volume_of(self.spec, mount)
            ),
            "",
        )
        return (
            f"{container} mounts no ConfigMap or Secret as a directory{missing}, so nothing "
            "changes while the pod runs"
        )

    def stop_signal(self) -> list[str]:
        """Return the flag for the signal that ends a supervised application, if the pod has one."""
        lifecycle = self.application.get("lifecycle") or {}
        name = str(lifecycle.get("stopSignal") or "").removeprefix("SIG")
        if not (name and self.supervises) or "stop-signal" in self.given:
            return []
        try:
            parse_stop_signal(name)
        except InvalidValue:
            return []  # it ends the agent as it would end the application
        return ["--stop-signal", name]

    def free_port(self, settings: Settings) -> list[str]:
        """Return the flag for a port that no other agent of the pod has.

        Raises:
            ManifestError: the one that was given is another agent's.
        """
        annotations = (self._template.get("metadata") or {}).get("annotations") or {}
        others = str(annotations.get(ANNOTATION) or "") if self._names.number > 1 else ""
        taken = {int(port) for port in re.findall(r"port=([0-9]+)", others)}
        listen = settings.reports.listen
        if self.once or listen is None or listen.port not in taken:
            return []
        if "listen" in self.given:
            raise ManifestError(
                f"{self._name}: port {listen.port} is that of another agent in the pod; set "
                "--listen to another one"
            )
        port = listen.port
        while port in taken:
            port += 1
        return ["--listen", f":{port}"]

    def require_programs(self, settings: Settings) -> None:
        """Reject commands whose program is not in the image of the agent's container.

        Raises:
            ManifestError: it is one; the message says what to do instead.
        """
        if self.supervises or not self._injection.plain_image:
            return
        if program := missing_program(settings):
            raise ManifestError(
                f"{self._name}: the agent runs {program}, which the image "
                f"{self._injection.image} does not have; set --image to one that has both, such as "
                f"one built from the application's image, or use --mode supervisor, which runs "
                f"{program} in the application's container"
            )

    def require_effective_restart(
        self, way: str, stage: StagePlan | None, conversion: Conversion | None
    ) -> None:
        """Reject a restart of the child process that would not update what it uses.

        Raises:
            ManifestError: it is one; the message says what to do instead.
        """
        left = self.frozen_uses(stage, conversion)
        if way == "supervised" and left:
            raise ManifestError(
                f"{self._name}: {left[0]} is fixed until the container restarts, and the "
                "supervisor restarts only its child process; use --restart all-containers"
            )

    def frozen_uses(self, stage: StagePlan | None, conversion: Conversion | None) -> list[str]:
        """Name what is fixed when the application's container starts."""
        application = self.application
        found = source_variables(application, conversion.env_taken if conversion else ())
        if conversion is None and application.get("envFrom"):
            found.append("envFrom")
        for index, mount in enumerate(application.get("volumeMounts") or ()):
            part = "subPath" in mount or "subPathExpr" in mount
            staged = stage is not None and index in stage.directories
            if part and not staged and is_live(volume_of(self.spec, mount)):
                found.append(f"the mount {mount['mountPath']}")
        return found

    def note_unreadable_files(self, settings: Settings) -> Iterator[str]:
        """Note the volumes that only their owner or group may read, where neither is known."""
        context = self.spec.get("securityContext") or {}
        if self.supervises:
            return  # it is the application's own user
        if self.user(settings).number not in (None, _NOBODY) or "fsGroup" in context:
            return
        for mount in self.application.get("volumeMounts") or ():
            mode = default_mode(volume_of(self.spec, mount))
            if mode is not None and not mode & 0o004:
                yield (
                    f"volume {mount['name']} has mode {mode:04o} and the application has no "
                    "runAsUser, so the agent may not be able to read it: set runAsUser, fsGroup "
                    "or --user"
                )

    def note_missing_action(self, settings: Settings) -> Iterator[str]:
        """Note that nothing makes the application load changed files."""
        if self.once or acts(settings) or settings.checks.stage or "rules" in self.given:
            return
        yield (
            "the agent has no action (--for, --signal, --url, --exec, --restart), so the "
            "application must read changed files by itself"
        )

    def user(self, settings: Settings) -> User:
        """Choose the agent's user.

        Signals reach only processes of the same user, and a volume's files may be readable by one
        user only, so it is the application's. Where the manifest names none, any user will do,
        unless the agent sends signals: then it is the image's, as it is for the application.
        """
        contexts = [item.get("securityContext") or {} for item in (self.application, self.spec)]
        group = next((item["runAsGroup"] for item in contexts if "runAsGroup" in item), None)
        if self._injection.user is not None:
            return User(self._injection.user, group)
        for context in contexts:
            if context.get("runAsUser") is not None:
                return User(int(context["runAsUser"]), group)
        return User(None if signals(settings) else _NOBODY, group)
