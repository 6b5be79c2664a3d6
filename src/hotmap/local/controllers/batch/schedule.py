"""When a CronJob is due (github.com/robfig/cron/v3: parser.go, spec.go, constantdelay.go)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import NamedTuple, Protocol
from zoneinfo import ZoneInfo

__all__ = ["Schedule", "parse_schedule"]

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_NAMES: tuple[dict[str, int], ...] = (
    {},
    {},
    {},
    {name: number for number, name in enumerate(_MONTHS, 1)},
    {name: number for number, name in enumerate(_DAYS)},
)
_BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
# A schedule that no day of these years meets is never due.
_YEARS = 5


class Schedule(Protocol):
    def next_after(self, moment: float) -> float | None:
        """Return the next due time after a moment, both in POSIX seconds; None for never."""
        ...


class _Every(NamedTuple):
    """`@every DURATION`: counted from the last time, in whole seconds."""

    seconds: int

    def next_after(self, moment: float) -> float | None:
        return float(int(moment) + self.seconds)


class _Calendar(NamedTuple):
    """Five fields, each with the numbers that it permits."""

    fields: tuple[frozenset[int], ...]
    #: Whether day of month, or day of week, permits every day by `*`: then both must match.
    is_any_day: bool
    zone: tzinfo

    def next_after(self, moment: float) -> float | None:
        start = datetime.fromtimestamp(int(moment), self.zone)
        return next((time for time in self._times(start.date()) if time > moment), None)

    def _times(self, first: date) -> Iterator[float]:
        minutes, hours, *_ = map(sorted, self.fields)
        for days in range(_YEARS * 366):
            day = first + timedelta(days=days)
            if not self._permits(day):
                continue
            # Where a clock is set back, an hour comes twice.
            found = {
                self._moment(day, hour, minute, fold)
                for hour in hours
                for minute in minutes
                for fold in (0, 1)
            }
            yield from sorted(time for time in found if time is not None)

    def _permits(self, day: date) -> bool:
        _, _, days, months, weekdays = self.fields
        if day.month not in months:
            return False
        matches = day.day in days, day.isoweekday() % 7 in weekdays
        return all(matches) if self.is_any_day else any(matches)

    def _moment(self, day: date, hour: int, minute: int, fold: int) -> float | None:
        """Return POSIX seconds; None where a clock that is set forward leaves this time out."""
        local = datetime(day.year, day.month, day.day, hour, minute, tzinfo=self.zone, fold=fold)
        seconds = local.timestamp()
        back = datetime.fromtimestamp(seconds, self.zone)
        return seconds if (back.hour, back.minute) == (hour, minute) else None


def parse_schedule(text: str, zone: str = "") -> Schedule:
    """Read a schedule, by default in UTC.

    Raises:
        ValueError: it is none, or the time zone is not known.
    """
    prefix = re.match(r"(?:CRON_)?TZ=(\S*) *", text)
    if prefix is not None:
        zone, text = prefix[1], text[prefix.end() :]
    place = _find_zone(zone)
    if text.startswith("@every "):
        return _Every(max(1, int(_seconds(text.removeprefix("@every ")))))
    texts = _DESCRIPTORS.get(text, text).split()
    if len(texts) != len(_BOUNDS):
        raise ValueError(f"expected exactly 5 fields, found {len(texts)}: {text}")
    fields = [_numbers(field, number) for number, field in enumerate(texts)]
    is_any_day = any(_is_any(texts[number]) for number in (2, 4))
    return _Calendar(tuple(fields), is_any_day, place)


def _find_zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name) if name else UTC
    except (KeyError, OSError) as error:
        raise ValueError(f"unknown time zone {name}") from error


def _is_any(field: str) -> bool:
    return any(re.fullmatch(r"[*?](/0*1)?", part) for part in field.split(","))


def _numbers(field: str, position: int) -> frozenset[int]:
    least, most = _BOUNDS[position]
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        if first in ("*", "?"):
            start, end = least, most
        else:
            start = _number(first, position)
            end = _number(last, position) if last else (most if step else start)
        every = int(step or 1)
        if not least <= start <= end <= most or every < 1:
            raise ValueError(f"out of range: {part}")
        found.update(range(start, end + 1, every))
    return frozenset(found)


def _number(text: str, position: int) -> int:
    names = _NAMES[position]
    return names[text.lower()] if text.lower() in names else int(text)


def _seconds(text: str) -> float:
    """Read a duration of Go, such as `1h30m`."""
    parts = re.findall(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(h|ms|us|µs|ns|m|s)", text)
    if not parts or "".join(map("".join, parts)) != text:
        raise ValueError(f"invalid duration {text}")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
