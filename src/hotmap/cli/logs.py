"""How our log lines look: one line each, for people or for machines."""

from __future__ import annotations

import json
import logging
import sys
import time

__all__ = ["set_up_logging"]


#: Characters of a message: whatever it quotes, a line stays readable and a log small.
_LONGEST = 1024


def _message(record: logging.LogRecord) -> str:
    text = record.getMessage()
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%H:%M:%S", time.localtime(record.created))
        level = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        consumer = getattr(record, "consumer", "")
        change = getattr(record, "change", "")
        about = f"{consumer}: " if consumer else ""
        tail = f" [{change}]" if change else ""
        text = f"{at}.{record.msecs:03.0f} {level}{about}{_message(record)}{tail}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        for name in ("consumer", "change"):
            if value := getattr(record, name, ""):
                line[name] = value
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def set_up_logging(log_format: str, *, level: int = logging.INFO) -> None:
    """Send our log lines to standard error, as `text` or `json`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if log_format == "json" else _Text())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("hotmap").setLevel(level)
