"""configmap-reload 0.15: calls webhooks when a mounted ConfigMap changes."""

from __future__ import annotations

from hotmap.agent.drop_in.go_flags import parse_go_flags
from hotmap.agent.settings.flags import ALIASES, Arguments, lay_out_flag
from hotmap.agent.settings.loader import load_settings
from hotmap.core.errors import SettingsError

__all__ = ["FLAGS", "help_text", "load"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotmap.agent.settings.settings import Action, Settings

#: The flags of that program, with what they do here.
FLAGS = {
    "volume-dir": "Directory of a mounted ConfigMap or Secret to watch. Repeatable, required.",
    "webhook-url": "URL to call after a change. Repeatable, required.",
    "webhook-method": "HTTP method. Default: POST.",
    "webhook-status-code": "Status code of a successful call. Default: 200.",
    "webhook-retries": "No effect: a call is repeated until it succeeds or the content changes.",
    "web.listen-address": "Address of metrics, health and status. Default: :9533.",
    "web.telemetry-path": "URL path of the metrics. Default: /metrics.",
}

_REPEATABLE = ("volume-dir", "webhook-url")

#: Redirects that Go's HTTP client follows.
_REDIRECTS = 10


def help_text() -> str:
    """Describe the flags."""
    lines = [
        "Usage: configmap-reload [FLAGS]",
        "",
        "hotmap agent with the command line of configmap-reload.",
        "",
    ]
    for name, text in FLAGS.items():
        lines += lay_out_flag(f"-{name}", text)
    return "\n".join(lines)


def load(words: Sequence[str]) -> Settings:
    """Translate a command line; of a flag with one value, the last one counts.

    Raises:
        SettingsError: a flag is unknown or invalid, or a required one is missing.
    """
    given = parse_go_flags(words, FLAGS)
    for name in _REPEATABLE:
        if name not in given:
            raise SettingsError(f"-{name} is required")
    values = {
        ALIASES[name]: list(dict.fromkeys(texts)) if name in _REPEATABLE else texts[-1:]
        for name, texts in given.items()
    }
    settings = load_settings(Arguments(values, {ALIASES[name]: f"-{name}" for name in given}, ()))
    rules = tuple(
        rule._replace(actions=tuple(map(_follow_redirects, rule.actions)))
        for rule in settings.rules
    )
    return settings._replace(rules=rules)


def _follow_redirects(action: Action) -> Action:
    assert action.call is not None
    return action._replace(call=action.call._replace(redirects=_REDIRECTS))
