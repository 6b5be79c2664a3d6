"""Patterns of source names: exact names, globs (`secret/db-*`) and Reloader's expressions.

Globs and expressions are matched by RE2, Go's own engine, in one combined expression: linear time,
so that no annotation can stall the controller by backtracking. These are bounded here: items of a
list, the program that an expression becomes, and the memory to run it. Without these bounds 4,400
bytes of `\\pL{900}x` took 94 s.

Names of objects are ASCII, so expressions are compiled for single bytes (Latin-1): classes such as
`\\pL` become a hundredth of what they are in UTF-8 and match the same names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from hotmap.core.model.objects import ObjectKey
from hotmap.core.text import printable

# Imported when the first pattern is read: 1.7 MB that a controller without patterns does not need.
if TYPE_CHECKING:
    import re2

__all__ = [
    "LONGEST_VALUE",
    "MAX_ITEMS",
    "NO_SOURCES",
    "PatternTooLarge",
    "SourcePatterns",
    "glob_patterns",
    "is_plain_name",
    "merge_patterns",
    "name_patterns",
    "split_items",
]

#: Characters of an annotation's value that are read.
LONGEST_VALUE = 4096

#: Items of one list.
MAX_ITEMS = 64

#: Why a text that has no operator of an expression matches nothing, such as `my_app` or `shop/app`.
_NO_NAME = 'names have only a-z, 0-9, "-" and "."'
_OPERATOR = re.compile(r"[\\^$.|?*+()\[\]{}]")

#: Instructions of one item's RE2 program, and of all items of a list together. Literal text takes
#: one for each character.
_MAX_PROGRAM = 200
_MAX_PROGRAMS = 1000

#: Bytes for checking one item: enough for a program of 680 instructions, so that a larger one
#: fails early.
_CHECK_MEMORY = 16 * 1024

#: Bytes for a combined expression and its automaton, which is built while it matches.
_MATCH_MEMORY = 256 * 1024


class PatternTooLarge(ValueError):
    """Raised when a list has more patterns, or more complex ones, than are matched."""


class SourcePatterns(NamedTuple):
    """A set of sources, given by their kinds, their names, and expressions for names.

    Hashable, so that equal policies are shared; compiled expressions are cached separately.
    """

    #: Kinds of which every source is included.
    kinds: frozenset[str] = frozenset()
    #: (kind, name) of those that are named exactly, whether they exist or not.
    names: frozenset[tuple[str, str]] = frozenset()
    #: (kind, RE2 expressions that match a name as a whole), one entry for a kind.
    expressions: tuple[tuple[str, tuple[str, ...]], ...] = ()
    #: Instructions of all expressions, which is what a character of a name may cost.
    size: int = 0

    def covers(self, source: ObjectKey) -> bool:
        """Return whether a source is included."""
        if source.kind in self.kinds or (source.kind, source.name) in self.names:
            return True
        return any(
            kind == source.kind and _matcher(expressions)(source.name)
            for kind, expressions in self.expressions
        )

    def __bool__(self) -> bool:
        """Return whether any source can be included."""
        return bool(self.kinds or self.names or self.expressions)


NO_SOURCES = SourcePatterns()


def merge_patterns(*patterns: SourcePatterns) -> SourcePatterns:
    """Return the union of some patterns."""
    if len(found := [pattern for pattern in patterns if pattern]) < 2:
        return found[0] if found else NO_SOURCES
    expressions: dict[str, tuple[str, ...]] = {}
    for item in found:
        for kind, texts in item.expressions:
            expressions[kind] = expressions.get(kind, ()) + texts
    return SourcePatterns(
        frozenset().union(*(item.kinds for item in found)),
        frozenset().union(*(item.names for item in found)),
        tuple(expressions.items()),
        sum(item.size for item in found),
    )


def split_items(text: str) -> list[str]:
    """Split a comma list into its items; "" holds none."""
    return [item for part in text.split(",") if (item := part.strip())]


_PLAIN_NAME = re.compile(r"[-.a-z0-9]+")


def is_plain_name(text: str) -> bool:
    """Return whether a text may be the name of an object."""
    return len(text) <= 253 and _PLAIN_NAME.fullmatch(text) is not None


# -- globs ---------------------------------------------------------------------------------------

_KINDS = {
    "configmap": "ConfigMap",
    "configmaps": "ConfigMap",
    "cm": "ConfigMap",
    "secret": "Secret",
    "secrets": "Secret",
    "secretproviderclass": "SecretProviderClass",
    "secretproviderclasses": "SecretProviderClass",
    "spc": "SecretProviderClass",
}

_GLOB_CHARACTERS = re.compile(r"[-.a-z0-9*?\[\]!]+")


def glob_patterns(text: str) -> SourcePatterns:
    """Parse a list such as `configmap/app, secret/db-*, spc/vault`.

    Raises:
        ValueError: an item is not of that form, or there are too many; the message names it.
    """
    names: set[tuple[str, str]] = set()
    expressions: dict[str, list[str]] = {}
    for item in _bounded(split_items(text)):
        kind, slash, name = item.partition("/")
        kind = _KINDS.get(kind.lower(), "")
        shown = printable(item, 80)
        if not slash or not kind:
            expected = "configmap/NAME, secret/NAME or spc/NAME"
            raise ValueError(f'invalid item "{shown}": expected {expected}')
        if is_plain_name(name):
            names.add((kind, name))
        elif expression := _glob_expression(name):
            expressions.setdefault(kind, []).append(expression)
        else:
            raise ValueError(
                f'invalid item "{shown}": expected a name of lowercase letters, digits, "-" and '
                '".", or a glob with *, ? or [...]'
            )
    checked = [check_expression(entry) for texts in expressions.values() for entry in texts]
    size = sum(entry.size for entry in checked)
    if any(entry.reason for entry in checked) or size > _MAX_PROGRAMS:
        raise PatternTooLarge("the patterns are too complex")
    return SourcePatterns(
        names=frozenset(names),
        expressions=tuple((kind, tuple(texts)) for kind, texts in expressions.items()),
        size=size,
    )


def _bounded(items: list[str]) -> list[str]:
    if len(items) > MAX_ITEMS:
        raise PatternTooLarge(f"the list has {len(items)} items (limit {MAX_ITEMS})")
    return items


def _glob_expression(glob: str) -> str:
    """Translate a glob as Python's fnmatch reads it into an expression.

    Returns "" where it has a character that no name has, such as a bracket that is not closed:
    it would match nothing.
    """
    if not _GLOB_CHARACTERS.fullmatch(glob):
        return ""
    parts: list[str] = []
    position = 0
    while position < len(glob):
        sign = glob[position]
        position += 1
        if sign == "*":
            if not parts or parts[-1] != ".*":
                parts.append(".*")
        elif sign == "?":
            parts.append(".")
        elif sign == "[" and (end := _class_end(glob, position)):
            parts.append(_class(glob[position:end]))
            position = end + 1
        elif is_plain_name(sign):
            parts.append(re.escape(sign))
        else:
            return ""
    return "".join(parts)


def _class_end(glob: str, start: int) -> int:
    """Find the bracket that closes a class; 0 where none does."""
    # The first character of a class, or the one after its "!", may be a closing bracket.
    first = start + 1 if glob[start : start + 1] == "!" else start
    return max(0, glob.find("]", first + 1))


def _class(text: str) -> str:
    """Translate the content of a class; a range from high to low is empty."""
    negated = text.startswith("!")
    characters = text[1:] if negated else text
    parts: list[str] = []
    position = 0
    while position < len(characters):
        low = characters[position]
        if characters[position + 1 : position + 2] == "-" and position + 2 < len(characters):
            high = characters[position + 2]
            if low <= high:
                parts.append(f"{re.escape(low)}-{re.escape(high)}")
            position += 3
        else:
            parts.append(re.escape(low))
            position += 1
    if not parts:
        return "." if negated else _NOTHING
    return f"[{'^' if negated else ''}{''.join(parts)}]"


#: Matches nothing.
_NOTHING = r"[^\x00-\xff]"


# -- Reloader's expressions ------------------------------------------------------------------------


class CheckedExpression(NamedTuple):
    """The result of checking an expression."""

    #: Why it cannot be matched, in RE2's words; "" when it can.
    reason: str
    #: Instructions of its program.
    size: int


def name_patterns(kind: str, items: Iterable[str]) -> tuple[SourcePatterns, list[tuple[str, str]]]:
    """Make patterns of expressions; each has to match a whole name.

    An expression that cannot be matched, or matches no name, costs only itself: returned too is
    (item, reason) of each.
    A text that may be a name is one, also before an object of that name exists.
    """
    names: set[tuple[str, str]] = set()
    expressions: list[str] = []
    refused: list[tuple[str, str]] = []
    left = _MAX_PROGRAMS
    for item in items:
        if is_plain_name(item):
            names.add((kind, item))
            if "." not in item:
                continue
        elif not _OPERATOR.search(item):
            refused.append((item, _NO_NAME))
            continue
        checked = check_expression(item)
        if checked.reason or checked.size > left:
            refused.append((item, checked.reason or "the list is too complex"))
        else:
            left -= checked.size
            expressions.append(item)
    patterns = SourcePatterns(
        names=frozenset(names),
        expressions=((kind, tuple(expressions)),) if expressions else (),
        size=_MAX_PROGRAMS - left,
    )
    return patterns, refused


# Failures are kept too: they cost more than what compiles.
@lru_cache(maxsize=1024)
def check_expression(text: str) -> CheckedExpression:
    """Check whether an expression can be matched by itself, and how large its program is.

    By itself, so that `a)|(b` is refused and not completed by the expressions around it.
    """
    import re2

    try:
        size = _compile(text, _CHECK_MEMORY).programsize
    except re2.error as error:
        told = error.args[0]
        reason = told.decode(errors="replace") if isinstance(told, bytes) else str(told)
        return CheckedExpression(reason.removesuffix(f": {text}"), 0)
    if size > _MAX_PROGRAM:
        return CheckedExpression("pattern too large", 0)
    return CheckedExpression("", size)


# Bounds the memory of what is compiled: 128 × _MATCH_MEMORY.
@lru_cache(maxsize=128)
def _matcher(expressions: tuple[str, ...]) -> Callable[[str], bool]:
    """Compile valid expressions into one that matches whole names."""
    import re2

    # `\Q` quotes up to the end of its item, and would go on into the next one.
    if not any(r"\Q" in text for text in expressions):
        try:
            combined = _compile("|".join(f"(?:{text})" for text in expressions), _MATCH_MEMORY)
        except re2.error:
            pass  # two groups of the same name, say
        else:
            return lambda name: combined.fullmatch(name.encode()) is not None
    each = [_compile(text, _MATCH_MEMORY) for text in expressions]
    return lambda name: any(part.fullmatch(name.encode()) is not None for part in each)


def _compile(text: str, memory: int) -> re2._Regexp:
    import re2

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    options.never_capture = True
    options.max_mem = memory
    return re2.compile(text.encode(errors="surrogatepass"), options)
