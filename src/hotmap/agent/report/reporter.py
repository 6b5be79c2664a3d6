"""Answers requests for health, metrics and status, and logs transitions."""

from __future__ import annotations

from hotmap.agent.report.pod_document import make_pod_document
from hotmap.agent.report.server import Server
from hotmap.agent.report.status import make_status
from hotmap.agent.runtime.errors import describe_unexpected
from hotmap.agent.runtime.program_output import omit_output, reveal_output

__all__ = ["Reporter"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from hotmap.agent.act.executor import Executor
    from hotmap.agent.decide.facts import Transition
    from hotmap.agent.decide.reconciler import Reconciler
    from hotmap.agent.runtime.log import Log
    from hotmap.agent.runtime.loop import Loop
    from hotmap.agent.settings.settings import ReportSettings
    from hotmap.agent.watch.observer import Observer

_TEXT = "text/plain; charset=utf-8"
_METRICS = "text/plain; version=0.0.4; charset=utf-8"


class Reporter:
    """Reports the current state of the other parts."""

    def __init__(
        self,
        loop: Loop,
        log: Log,
        settings: ReportSettings,
        *,
        observer: Observer,
        reconciler: Reconciler,
        executor: Executor,
    ) -> None:
        self._loop = loop
        self._log = log
        self._metrics_path = settings.metrics_path
        self._reload_method = settings.reload_method
        self._to_log = reveal_output if settings.log_checker_output else omit_output
        self._observer = observer
        self._reconciler = reconciler
        self._executor = executor
        #: Number of unexpected exceptions.
        self.internal_errors = 0
        #: The last logged failure of each rule (None: of the check) since any other line.
        self._logged_failures: dict[object, tuple[str, dict[str, object]]] = {}
        #: What keeps the server from answering, as logged last; None before the start logs it.
        self._logged_problem: str | None = None
        self._server = Server(
            loop, settings.listen, settings.socket, self.respond, web=settings.web
        )

    @property
    def port(self) -> int:
        """The TCP port that is listened on; 0 for none."""
        return self._server.port

    def listen(self) -> None:
        """Listen on each address that is not open yet; log a new problem of that."""
        self._server.listen()
        problem, logged = self._server.problem, self._logged_problem
        if problem and logged is not None and problem != logged:
            self._log.warning("port", problem)
        self._logged_problem = problem

    def close(self) -> None:
        """Stop listening."""
        self._server.close()

    def problems(self) -> list[str]:
        """Return what the agent cannot do, without effect on content; one sentence each."""
        problems = (
            self._server.problem,
            self._executor.state_problem,
            self._observer.problem,
            self._executor.application.problem,
            self._executor.application.unset_variables,
        )
        return [problem for problem in problems if problem]

    def log(self, transitions: Iterable[Transition]) -> None:
        """Log transitions, one line each.

        A failure that differs in omitted output only, such as a time, is not logged again.
        """
        for transition in transitions:
            text = self._to_log(transition.message)
            rule = transition.fields.get("rule")
            if transition.event == "check" or (transition.event == "failed" and rule):
                failure = text, transition.fields
                if self._logged_failures.get(rule) == failure:
                    continue
                self._logged_failures[rule] = failure
            else:
                self._logged_failures.clear()
            write = self._log.warning if transition.is_warning else self._log.info
            write(transition.event, text, **transition.fields)

    def count_error(self, error: Exception) -> None:
        """Log and count an unexpected exception."""
        self.internal_errors += 1
        self._log.warning("error", describe_unexpected(error))

    def status(self) -> dict[str, Any]:
        """Return the status document."""
        self._observer.look_for_updates()
        document = make_status(
            self._loop.now(),
            self._observer.status(),
            self._reconciler,
            self._executor.application.status(),
            self.problems(),
        )
        return {
            **document,
            "internal_errors": self.internal_errors,
            "log_lines_dropped": self._log.dropped,
        }

    def _pod_document(self) -> bytes:
        self._observer.look_for_updates()
        return make_pod_document(
            self._loop.now(),
            self._observer.pod_uid(),
            self._observer.status(),
            self._reconciler,
            self._executor.application.status(),
            has_results=self._executor.has_results,
        )

    def _reloader_metrics(self) -> str:
        from hotmap.agent.report.config_reloader_metrics import config_reloader_metrics
        from hotmap.agent.report.metric import format_metrics

        unknown = self._executor.unknown_variables
        return format_metrics(config_reloader_metrics(self.status(), self._reload_method, unknown))

    def respond(self, path: str, *, is_local: bool = False) -> tuple[int, str, bytes]:
        """Return status code, content type and body for a path.

        `is_local`: asked on the unix socket, where the words of checkers and programs are shown.
        """
        if path == self._metrics_path:
            from hotmap.agent.report.metrics import render_metrics  # needed by scrapes only

            page = render_metrics(self.status(), self._executor.calls)
            if self._reload_method:
                page += self._reloader_metrics()
            return 200, _METRICS, page.encode("utf-8", "backslashreplace")
        if path == "/status":
            import json  # not needed by probes and scrapes

            status = _map_texts(self.status(), reveal_output if is_local else omit_output)
            return 200, "application/json", json.dumps(status).encode() + b"\n"
        if path == "/v1/pod":
            return 200, "application/json", self._pod_document()
        if path == "/healthz":
            age = f"{self._observer.poll_age:.1f}\n".encode()
            return _code(self._observer.healthy), _TEXT, age
        if path == "/startupz":
            return _code(self._reconciler.has_content), _TEXT, b""
        if path == "/readyz":
            state = str(self.status()["state"])
            return _code(self._reconciler.directories.all_loaded_once), _TEXT, f"{state}\n".encode()
        return 404, _TEXT, b"try /status, /v1/pod, /metrics, /healthz, /startupz or /readyz\n"


def _map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Change every text in JSON values."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _map_texts(inner, change) for key, inner in value.items()}
    return [_map_texts(inner, change) for inner in value] if isinstance(value, list) else value


def _code(is_well: bool) -> int:
    return 200 if is_well else 503
