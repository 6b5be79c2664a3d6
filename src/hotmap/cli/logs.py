"""The format of log lines: one line each, for people (`text`) or for machines (`json`).

Both have the time in RFC 3339 (UTC), the level, the message, and the fields that the record has:
`workload` and `source` name objects, `change` is the revision that is applied. So all lines about
one change, or one workload, are found by one search. A source that the message names is a field in
JSON only.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime

from hotmap.core.text import printable

__all__ = ["set_up_logging"]

#: Fields that log calls may pass as `extra`.
_FIELDS = ("workload", "source", "namespace", "change")


#: Characters of a message: whatever it quotes, a line stays readable and a log small.
_MAX_MESSAGE = 1024


class _TextFormatter(logging.Formatter):
    """`2006-01-02T15:04:05.000Z INFO Deployment default/web: message change=…`"""

    def format(self, record: logging.LogRecord) -> str:
        fields = _fields(record)
        workload = fields.pop("workload", "")
        message = _message(record)
        text = " ".join(
            [
                _time(record),
                record.levelname,
                f"{workload}: {message}" if workload else message,
                *(
                    f"{name}={_value(value)}"
                    for name, value in fields.items()
                    if name != "source" or value not in message
                ),
            ]
        )
        return f"{text}\n{_traceback(record)}" if record.exc_info else text


class _JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
            **_fields(record),
        }
        if record.exc_info:
            line["exception"] = _traceback(record)
        return json.dumps(line, ensure_ascii=False)


def _time(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _message(record: logging.LogRecord) -> str:
    text = printable(record.getMessage())
    return text if len(text) <= _MAX_MESSAGE else text[: _MAX_MESSAGE - 1] + "…"


def _fields(record: logging.LogRecord) -> dict[str, str]:
    values = ((name, getattr(record, name, "")) for name in _FIELDS)
    return {name: printable(str(value)) for name, value in values if value}


def _value(text: str) -> str:
    return json.dumps(text, ensure_ascii=False) if " " in text else text


def _traceback(record: logging.LogRecord) -> str:
    """Format the exception of a record, and those that it followed, without their messages.

    A message may quote what was being read, such as a value of a Secret.
    """
    assert record.exc_info is not None
    lines: list[str] = []
    error, seen = record.exc_info[1], set[int]()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        frames = "".join(traceback.format_tb(error.__traceback__)).splitlines()
        reason = error.strerror if isinstance(error, OSError) else None
        name = f"{type(error).__name__}: {reason}" if reason else type(error).__name__
        lines = ["Traceback (most recent call last):", *frames, name, *lines]
        error = error.__cause__ or error.__context__
    return "\n".join(printable(line) for line in lines)


def set_up_logging(log_format: str, *, level: int = logging.INFO) -> None:
    """Send our log lines to standard error, as `text` or `json`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if log_format == "json" else _TextFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("hotmap").setLevel(level)
    logging.getLogger("asyncio").addFilter(_is_relevant)


def _is_relevant(record: logging.LogRecord) -> bool:
    """Leave out that a connection that was just lost is written to: asyncio closes it itself."""
    return not record.getMessage().endswith(".send() raised exception.")
