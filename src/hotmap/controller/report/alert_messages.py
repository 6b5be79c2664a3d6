"""Words alerts, and formats them for their receivers.

The sentence is Reloader's (internal/pkg/handler/upgrade.go), followed by the reason. Formats:

* slack: a message with one attachment, as Reloader sends it (internal/pkg/alerts/slack_alert.go);
  services that read Slack's webhooks take it, too
* teams: a message with an Adaptive Card, which both kinds of Teams' webhooks take: workflows, and
  the connectors that Microsoft retires. Workflows refuse Reloader's `{"text": …}`
* gchat: `{"text": …}`
* raw: plain text, without the asterisks

Names of variables in the reason are almost any text, so nothing in an alert may become a mention,
a link or other markup.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from hotmap.controller.settings import AlertSink
from hotmap.core.model.objects import ObjectKey
from hotmap.core.text import printable

__all__ = ["LONGEST_MESSAGE", "Alert", "Message", "format_alerts"]

#: Characters of a message. Google Chat takes 4,096 characters of text, Teams 28 KB.
LONGEST_MESSAGE = 3500

#: Characters of a reason, and of the text before the sentence.
_LONGEST_REASON = 1000
_LONGEST_INFO = 200

#: Sources that one alert names.
_MAX_SOURCES = 5

_TYPES = {"ConfigMap": "CONFIGMAP", "Secret": "SECRET"}


class Alert(NamedTuple):
    """One workload that was rolled out."""

    workload: ObjectKey
    sources: tuple[ObjectKey, ...]
    reason: str


class Message(NamedTuple):
    """The body of one request."""

    body: bytes
    content_type: str


class _Span(NamedTuple):
    text: str
    bold: bool = False


def format_alerts(
    sink: AlertSink, alerts: Sequence[Alert], *, info: str = "", dropped: int = 0
) -> Message:
    """Format some alerts as one message, one line each.

    `info` precedes each sentence. `dropped` is how many alerts before these were not sent.
    """
    lines = [list(_sentence(alert, info)) for alert in alerts]
    if dropped:
        lines.append([_Span(f"{dropped} earlier alerts were not sent: the receiver is too slow.")])
    if sink is AlertSink.RAW:
        return Message(_plain(lines).encode(), "text/plain")
    document = {
        AlertSink.SLACK: _slack_message,
        AlertSink.TEAMS: _teams_message,
        AlertSink.GCHAT: _gchat_message,
    }[sink](lines)
    return Message(msgspec.json.encode(document), "application/json")


def _sentence(alert: Alert, info: str) -> Iterator[_Span]:
    kind, namespace, name = alert.workload
    if info:
        yield _Span(f"{printable(info, _LONGEST_INFO)} : ")
    yield _Span("Reloader detected changes in ")
    for number, source in enumerate(alert.sources[:_MAX_SOURCES]):
        if number:
            yield _Span(" and ")
        yield from (_Span(source.name, True), _Span(" of type "))
        yield _Span(_TYPES.get(source.kind, source.kind.upper()), True)
    if (more := len(alert.sources) - _MAX_SOURCES) > 0:
        yield _Span(f" and {more} more")
    yield from (_Span(" in namespace "), _Span(namespace, True))
    yield from (
        _Span(". Hence reloaded "),
        _Span(name, True),
        _Span(" of type "),
        _Span(kind, True),
    )
    yield from (_Span(" in namespace "), _Span(namespace, True), _Span(". "))
    yield _Span(printable(alert.reason, _LONGEST_REASON))


def _plain(lines: Sequence[Sequence[_Span]]) -> str:
    return "\n".join("".join(span.text for span in line) for line in lines)


def _marked(lines: Sequence[Sequence[_Span]], escapes: dict[int, str]) -> str:
    """Write spans with `*…*` for bold ones; `escapes` replaces characters of their texts."""
    return "\n".join(
        "".join(
            f"*{span.text.translate(escapes)}*" if span.bold else span.text.translate(escapes)
            for span in line
        )
        for line in lines
    )


#: Slack reads `<!channel>`, `<@user>` and `<url|text>`, and names these three entities.
_SLACK_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})

#: Google Chat reads `<users/all>` and `<url|text>`, and has no escape for them.
_GCHAT_ESCAPES = str.maketrans({"<": "‹", ">": "›"})


def _slack_message(lines: Sequence[Sequence[_Span]]) -> dict[str, Any]:
    attachment = {
        "text": _marked(lines, _SLACK_ESCAPES),
        "fallback": _plain(lines).translate(_SLACK_ESCAPES),
        "color": "good",
        "author_name": "Reloader",
        "mrkdwn_in": ["text"],
    }
    return {"attachments": [attachment]}


def _gchat_message(lines: Sequence[Sequence[_Span]]) -> dict[str, Any]:
    return {"text": _marked(lines, _GCHAT_ESCAPES)}


def _teams_message(lines: Sequence[Sequence[_Span]]) -> dict[str, Any]:
    """Write text runs, since a TextBlock reads Markdown, with links and images."""
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.2",
        "msteams": {"width": "Full"},
        "body": [
            {"type": "RichTextBlock", "inlines": list(map(_text_run, line))} for line in lines
        ],
    }
    attachment = {
        "contentType": "application/vnd.microsoft.card.adaptive",
        "contentUrl": None,
        "content": card,
    }
    return {"type": "message", "attachments": [attachment]}


def _text_run(span: _Span) -> dict[str, str]:
    run = {"type": "TextRun", "text": span.text}
    return {**run, "weight": "bolder"} if span.bold else run
