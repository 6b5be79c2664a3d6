"""The document that the controller reads (GET /v1/pod): the state of the pod's content.

`hotmap.core.status.agent_answers` describes it. It has no output of checks, since that
may quote content and the port is served without authentication.
"""

from __future__ import annotations

from hotmap.agent.decide.announcement import MATCHED, NOT_PROJECTED

__all__ = ["PROTOCOL", "make_pod_document"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hotmap.agent.decide.directory_states import DirectoryState
    from hotmap.agent.decide.reconciler import Reconciler
    from hotmap.agent.decide.rule_state import RuleState
    from hotmap.agent.process.application import ApplicationStatus
    from hotmap.agent.watch.observer import ObserverStatus

#: The version of the document.
PROTOCOL = 1


def make_pod_document(
    now: float,
    uid: str,
    observer: ObserverStatus,
    reconciler: Reconciler,
    application: ApplicationStatus,
    *,
    has_results: bool = False,
) -> bytes:
    """Make the document; `now` is seconds since boot. JSON by hand: `json` takes 1 MB.

    `has_results`: something has happened that `reconciler` does not know yet, for example that a
    restart was undone. So nothing counts as loaded.
    """
    announcement = reconciler.directories.announcement
    directories = []
    for path, row in reconciler.directories.rows.items():
        state = _directory_state(path, row, observer, reconciler, application)
        if has_results and state in ("loaded", "told"):
            state = "loading"
        directories.append(_directory(now, row, state, path, reconciler))
    gate = reconciler.gate
    failed = gate.state in ("refused", "error")
    fields = (
        f'"protocol":{PROTOCOL}',
        f'"uid":{_quoted(uid)}',
        f'"live":{_quoted(announcement.live if announcement else "")}',
        f'"frozen":{_quoted(announcement.frozen if announcement else "")}',
        f'"exitStatus":{"null" if gate.exit_status is None or not failed else gate.exit_status}',
        f'"restart":{_restart(reconciler, application, has_results=has_results)}',
        f'"directories":[{",".join(directories)}]',
    )
    return f"{{{','.join(fields)}}}\n".encode("ascii")


def _directory(
    now: float, row: DirectoryState, state: str, path: str, reconciler: Reconciler
) -> str:
    evidence = row.target.evidence
    if evidence == "order" and (
        reconciler.directories.order_is_assumed or row.target.state != MATCHED
    ):
        evidence = "assumed"
    payload = reconciler.directories.payload(path) if evidence == "exact" else ""
    age = "null" if row.changed_at is None else f"{max(now - row.changed_at, 0.0):.3f}"
    shown = f'"state":"{state}"'
    if row.target.state == NOT_PROJECTED and row.projected is not None:
        shown = f'"state":"waiting","present":"{state}"'
    return f'{{{shown},"evidence":"{evidence}","payload":{_quoted(payload)},"age":{age}}}'


def _directory_state(
    path: str,
    row: DirectoryState,
    observer: ObserverStatus,
    reconciler: Reconciler,
    application: ApplicationStatus,
) -> str:
    """Return how far the files of one directory are; the first thing that keeps them unloaded."""
    if row.projected is None or observer.unreadable_directory == path:
        return "unreadable" if observer.unreadable else "settling"
    if observer.changing:
        return "settling"
    if row.projected != row.passed:
        gate = {
            "refused": "refused", "error": "check-failed", "running": "checking",
        }  # fmt: skip
        return gate.get(reconciler.gate.state, "settling")
    rules = [rule for rule in reconciler.rules if path in rule.directories]
    if any(rule.state == "failing" for rule in rules):
        return "failed"
    # A process may have read other content, which is to be loaded over once all of it has passed.
    exposed = any(rule.progress.exposed_since is not None for rule in rules)
    if exposed or not row.is_loaded:
        return "restarting" if any(_is_restarting(rule) for rule in rules) else "loading"
    if application.may_be_undone and any(rule.restarts for rule in rules):
        return "restarting"
    is_confirmed = all(rule.is_confirmed for rule in rules) and not row.changed_without_rule
    return "loaded" if is_confirmed else "told"


def _is_restarting(rule: RuleState) -> bool:
    return rule.restarts and rule.progress.pending


def _restart(reconciler: Reconciler, application: ApplicationStatus, *, has_results: bool) -> str:
    """Return how far the restart for announced frozen content is."""
    rule = next((rule for rule in reconciler.rules if rule.is_frozen), None)
    if rule is None or rule.progress.desired is None:
        return '{"state":"none"}'
    states = {"loaded": "loaded", "failing": "failed"}
    state = states.get(rule.state, "restarting")
    if state == "loaded" and (has_results or application.may_be_undone):
        state = "restarting"
    # Content that was announced before the agent started was not restarted for.
    restarted_for = "" if rule.loaded_by_itself else rule.progress.loaded or ""
    return f'{{"state":"{state}","fingerprint":{_quoted(restarted_for)}}}'


#: What uids, fingerprints and digests consist of.
_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=")


def _quoted(text: str) -> str:
    """Quote a name; an annotation of another writer may contain anything."""
    return '"' + "".join(letter for letter in text[:128] if letter in _PLAIN) + '"'
