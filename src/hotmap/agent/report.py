"""What the agent shows: a JSON document, Prometheus' text format, and words for a terminal.

Names, times, digests that nobody else can compute, and errors in words; never content.
"""

from __future__ import annotations

__all__ = ["Calls", "describe_status", "overall", "render_metrics"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from hotmap.agent.values import Url


class Calls:
    """Counts calls of endpoints, under the names that configmap-reload gave them."""

    def __init__(self, urls: Iterable[Url]) -> None:
        self._webhooks = {str(url): _Webhook() for url in urls}

    def record(self, url: Url, status: int, seconds: float, error: str) -> None:
        """Take note of one call; status 0 means that there was no answer."""
        one = self._webhooks[str(url)]
        one.error = bool(error)
        if status:
            one.answers[status] = one.answers.get(status, 0) + 1
        if error:
            reason = "client_response" if status else "client_request_do"
            one.errors[reason] = one.errors.get(reason, 0) + 1
        else:
            one.seconds = seconds
            one.successes += 1

    def lines(self, watcher_errors: int) -> list[str]:
        """Write configmap-reload's metrics; none without a webhook."""
        if not self._webhooks:
            return []
        all_of_them = [({"webhook": name}, one) for name, one in self._webhooks.items()]
        return [
            *_family(
                "configmap_reload_last_reload_error", "gauge",
                "Whether the last call failed.",
                [(labels, int(one.error)) for labels, one in all_of_them],
            ),
            *_family(
                "configmap_reload_last_request_duration_seconds", "gauge",
                "How long the last successful call took.",
                [(labels, one.seconds) for labels, one in all_of_them],
            ),
            *_family(
                "configmap_reload_success_reloads_total", "counter",
                "Calls that succeeded.",
                [(labels, one.successes) for labels, one in all_of_them],
            ),
            *_family(
                "configmap_reload_request_errors_total", "counter",
                "Calls that failed, by reason.",
                [
                    ({**labels, "reason": reason}, count)
                    for labels, one in all_of_them
                    for reason, count in one.errors.items()
                ],
            ),
            *_family(
                "configmap_reload_requests_total", "counter",
                "Answers, by status.",
                [
                    ({**labels, "status_code": str(status)}, count)
                    for labels, one in all_of_them
                    for status, count in one.answers.items()
                ],
            ),
            *_family(
                "configmap_reload_watcher_errors_total", "counter",
                "Watches that were lost, and made again.",
                [({}, watcher_errors)],
            ),
        ]  # fmt: skip


class _Webhook:
    def __init__(self) -> None:
        self.error = False
        self.seconds = 0.0
        self.successes = 0
        self.answers: dict[int, int] = {}
        self.errors: dict[str, int] = {}


def overall(
    *,
    unreadable: str,
    check: str,
    check_error: str,
    rules: Iterable[Mapping[str, Any]],
    moving: bool,
) -> tuple[str, str]:
    """Put everything into one word and, where it is not well, one sentence.

    `waiting`, `refused`, `failing`, `pending` (`moving`: content is not decided on), `loaded`;
    what is listed first hides what comes after it.
    """
    if unreadable:
        return "waiting", unreadable
    if check == "failed":
        return "refused", "the present content did not pass its check and is not loaded"
    if check == "trouble":
        return "waiting", check_error
    for rule in rules:
        if rule["state"] == "failing":
            return "failing", f"{rule['name']}: {rule['error']}"
    if moving or any(rule["state"] == "pending" for rule in rules):
        return "pending", ""
    return "loaded", ""


def render_metrics(status: Mapping[str, Any], calls: Calls) -> str:
    """Write the status as Prometheus' text format, with configmap-reload's names beside ours."""
    rules = [({"rule": rule["name"]}, rule) for rule in status["rules"]]
    detector, check = status["detector"], status["check"]
    labels = {"mode": detector["mode"], "reason": detector["reason"]}
    lines = [
        *_family(
            "hotmap_agent_loaded", "gauge",
            "Whether the process has loaded what is published.",
            [(labels, int(rule["state"] == "loaded")) for labels, rule in rules],
        ),
        *_family(
            "hotmap_agent_pending_seconds", "gauge",
            "For how long it has not; 0 when it has.",
            [(labels, rule["pending_seconds"]) for labels, rule in rules],
        ),
        *_family(
            "hotmap_agent_loads_total", "counter",
            "Times that it loaded something.",
            [(labels, rule["loads"]) for labels, rule in rules],
        ),
        *_family(
            "hotmap_agent_failures_total", "counter",
            "Attempts that failed.",
            [(labels, rule["failures"]) for labels, rule in rules],
        ),
        *_family(
            "hotmap_agent_last_load_timestamp_seconds", "gauge",
            "When it last loaded something.",
            [(labels, rule["loaded_at"]) for labels, rule in rules if rule["loaded_at"]],
        ),
        *_family(
            "hotmap_agent_in_step", "gauge",
            "Whether a directory holds what was announced to the pod.",
            [
                ({"directory": one["directory"], "evidence": one["evidence"]},
                 int(one["target"] == "matched"))
                for one in status["directories"]
                if one["evidence"]
            ],
        ),
        *_family(
            "hotmap_agent_directory_pending_seconds", "gauge",
            "For how long a directory has held something that is not loaded.",
            [
                ({"directory": one["directory"]}, one["pending_seconds"])
                for one in status["directories"]
            ],
        ),
        *_family(
            "hotmap_agent_check_passed", "gauge",
            "Whether the present content passed its check.",
            [({}, int(check["state"] == "passed"))],
        ),
        *_family(
            "hotmap_agent_checks_total", "counter",
            "Checks, by result.",
            [({"result": result}, count) for result, count in check["counts"].items()],
        ),
        *_family(
            "hotmap_agent_detector_info", "gauge",
            "How changes are noticed, and why only so.",
            [(labels, 1)],
        ),
        *_family(
            "hotmap_agent_swaps_total", "counter",
            "Times that a directory was published anew.",
            [({}, detector["swaps"])],
        ),
        *_family(
            "hotmap_agent_watches_lost_total", "counter",
            "Watches that ended and were made again.",
            [({}, detector["watches_lost"])],
        ),
        *_family(
            "hotmap_agent_overflows_total", "counter",
            "Event queues that ran full.",
            [({}, detector["overflows"])],
        ),
        *_family(
            "hotmap_agent_last_pass_age_seconds", "gauge",
            "Since the directories were last looked at.",
            [({}, status["last_pass_age_seconds"])],
        ),
        *_family(
            "hotmap_agent_application_starts_total", "counter",
            "Starts of the supervised application.",
            [({}, status["application"]["starts"])],
        ),
        *calls.lines(detector["watches_lost"]),
    ]  # fmt: skip
    return "\n".join([*lines, ""])


def _family(
    name: str, kind: str, text: str, samples: Iterable[tuple[Mapping[str, str], float]]
) -> list[str]:
    lines = [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
    for labels, value in samples:
        inside = ",".join(f'{key}="{_escaped(label)}"' for key, label in labels.items())
        lines.append(f"{name}{{{inside}}} {value:g}" if inside else f"{name} {value:g}")
    return lines


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def describe_status(status: Mapping[str, Any]) -> str:
    """Put the status into words for a terminal, a fact on each line, what is wrong at the top."""
    lines = [f"{status['state']}: {status['message']}" if status["message"] else status["state"]]
    check = status["check"]
    if check["error"]:
        lines += _indented("  ", f"check {check['state']}: {check['error']}")
    lines += [f"  problem: {one}" for one in status["problems"]]
    for one in status["directories"]:
        lines += _directory_lines(one, said=check["error"])
    for rule in status["rules"]:
        waiting = f" for {rule['pending_seconds']:.0f} s" if rule["state"] != "loaded" else ""
        error = f": {rule['error']}" if rule["error"] else ""
        lines += _indented("  ", f"rule {rule['name']}: {rule['state']}{waiting}{error}")
    target = status["target"]
    if target["relation"] != "none":
        lines.append(f"  announced: {target['announced']}, {target['relation']}")
    detector = status["detector"]
    reason = f" ({detector['reason']})" if detector["reason"] else ""
    lines.append(f"  detector: {detector['mode']}{reason}")
    return "\n".join(lines)


def _directory_lines(one: Mapping[str, Any], *, said: str) -> list[str]:
    pending = f", pending for {one['pending_seconds']:.0f} s" if one["pending_seconds"] else ""
    lines = [
        f"  {one['directory']}: {one['kind']}, seen by {one['detector']}",
        f"    projected {one['projected'] or '-'}",
        f"    loaded    {one['loaded'] or '-'}{pending}",
    ]
    if one["evidence"]:
        lines.append(f"    target    {one['target']} ({one['evidence']})")
    for text in (one["note"], one["error"]):
        if text and text != said:
            lines += _indented("    ", text)
    return lines


def _indented(margin: str, text: str) -> list[str]:
    """Put a text of several lines under a margin, those after the first a bit further in."""
    first, *rest = text.splitlines() or [""]
    return [margin + first, *(f"{margin}  {line}" for line in rest)]
