"""What the environment of one container uses, and where its variables end up by `$(NAME)`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from hotmap.core.model.limits import StepCounter
from hotmap.core.model.objects import (
    Container,
    EnvFromSource,
    EnvVar,
    EnvVarSource,
    ObjectKey,
)
from hotmap.core.model.references import (
    LONGEST_NAME,
    Keys,
    Override,
    Use,
    UseKind,
    share_keys,
    source_key,
)
from hotmap.core.reloader.patch import is_reloader_variable
from hotmap.core.text import printable

__all__ = ["Environment", "environment_sources", "environment_uses", "expansions"]

#: Maximum number of places of a variable that are named.
_PLACES_SHOWN = 4

#: Later envFrom entries that are compared with one. With more, a data key may count as used
#: although it is replaced, which is one rollout too many and never one too few.
_OVERRIDES = 8

#: The first places in order, one more than is named where there are more.
_Places = tuple[str, ...]


class Environment:
    """The variables of one container, and values that are computed once for all of them."""

    def __init__(self, container: Container, steps: StepCounter) -> None:
        self.container = container
        self.entries: Sequence[EnvVar] = container.env or ()
        self._steps = steps
        self._hidden: dict[str, Keys] = {}
        self._through: dict[str, str] = {}
        # Computed at most once each; not cached properties, which take a lock before Python 3.12.
        self._found_places: Mapping[str, _Places] | None = None
        self._found_replaced: list[str] | None = None
        self._found_literals: Mapping[str, str] | None = None

    def imported_keys(self, prefix: str) -> Keys:
        """Select the data keys that an envFrom with a prefix brings in."""
        keys = self._hidden.get(prefix)
        if keys is None:
            replaced = self._replaced_names
            self._steps.add(len(replaced))
            hidden = {
                printable(name[len(prefix) :], LONGEST_NAME)
                for name in replaced
                if name.startswith(prefix) and len(name) > len(prefix)
            }
            keys = self._hidden[prefix] = share_keys(Keys(hidden=frozenset(hidden), binary=False))
        return keys

    def overrides_of(self, number: int, namespace: str) -> tuple[Override, ...]:
        """List the sources of later envFrom entries, which win (kubernetes: kubelet_pods.go)."""
        entries = self.container.env_from or ()
        later = entries[number + 1 : number + 1 + _OVERRIDES]
        if not later:
            return ()
        prefix = entries[number].prefix
        own = {
            Override(source_key(kind, namespace, name))
            for kind, name in _imported_sources(entries[number])
        }
        self._steps.add(len(later))
        found = {
            override
            for entry in later
            for kind, name in _imported_sources(entry)
            if (override := _make_override(source_key(kind, namespace, name), prefix, entry.prefix))
        }
        # A source that is imported twice is used as a whole, whichever of the two counts.
        return tuple(sorted(found - own))

    def places_of_imported(self, prefix: str) -> str:
        """Return the places where imported variables are used by `$(NAME)`."""
        words = self._through.get(prefix)
        if words is None:
            everywhere = self._places
            self._steps.add(len(everywhere))
            own = {entry.name for entry in self.entries} if everywhere else ()
            places: _Places = ()
            for name, found in everywhere.items():
                # Text such as `$(cat file)` names no variable that a data key could be.
                is_key = _DATA_KEY.fullmatch(name, len(prefix)) is not None
                if is_key and name.startswith(prefix) and name not in own:
                    places = _merged(places, found)
            words = self._through[prefix] = _describe_expansion(places)
        return words

    def places_of(self, name: str) -> str:
        """Return the places where a variable is used by `$(NAME)`."""
        return _describe_expansion(self._places.get(name, ())) if self._places else ""

    @property
    def _replaced_names(self) -> list[str]:
        """Return the variables that hide an imported value of the same name.

        An entry hides the imported variable when it certainly sets one (a literal or a reference
        that is not optional) and no entry up to it reads the imported value by `$(NAME)`
        (kubernetes: expansion uses the variables set so far, so `A: $(A)2` reads the imported A).

        A variable that a rollout in Reloader's format wrote hides nothing: rollouts add and remove
        it, and writing a rollout must not change what a template uses.
        """
        if self._found_replaced is None:
            self._found_replaced = self._find_replaced_names()
        return self._found_replaced

    def find_replaced_entries(self) -> frozenset[int]:
        """Return the indexes of the entries that a later entry of the same name replaces.

        By the same rules as for imported variables: the later one certainly sets it, and nothing
        up to it reads the earlier one.
        """
        entries = self.entries
        if len({entry.name for entry in entries}) == len(entries):
            return frozenset()
        replaced: set[int] = set()
        unread: dict[str, list[int]] = {}
        for number, entry in enumerate(entries):
            for name in self._expansions(entry.value) if entry.value else ():
                unread.pop(name, None)
            if _sets_certainly(entry):
                replaced.update(unread.pop(entry.name, ()))
            unread.setdefault(entry.name, []).append(number)
        return frozenset(replaced)

    def _find_replaced_names(self) -> list[str]:
        names: dict[str, None] = {}
        read: set[str] = set()
        for entry in self.entries:
            if value := entry.value:
                read.update(self._expansions(value))
            if _sets_certainly(entry) and entry.name not in read:
                names[entry.name] = None
        return list(names)

    @property
    def _places(self) -> Mapping[str, _Places]:
        """Map each variable to the places where it is used by `$(NAME)`, also through others."""
        if self._found_places is None:
            self._found_places = self._find_places()
        return self._found_places

    def _find_places(self) -> Mapping[str, _Places]:
        """Only as many places are kept as are named, or 6,000 chained variables have 18 million."""
        places: dict[str, _Places] = {}
        container = self.container
        for field, texts in (("command", container.command), ("args", container.args)):
            for number, text in enumerate(texts or ()):
                for name in self._expansions(text):
                    places[name] = _merged(places.get(name, ()), (f"{field}[{number}]",))
        for mount in container.volume_mounts or ():
            if mount.sub_path_expr:
                here = (f"subPathExpr of {printable(mount.mount_path, LONGEST_NAME)}",)
                for name in self._expansions(mount.sub_path_expr):
                    places[name] = _merged(places.get(name, ()), here)
        # An entry can only read entries before it, so one pass from the end closes the chain.
        for entry in reversed(self.entries):
            names = self._expansions(entry.value) if entry.value else ()
            if names:
                entry_places = _merged((f"env[{_shown(entry.name)}]",), places.get(entry.name, ()))
                for name in names:
                    if name != entry.name:
                        places[name] = _merged(places.get(name, ()), entry_places)
        return places

    def literal_path(self, expression: str) -> str | None:
        """Expand a subPathExpr from literal variables, or None when it needs anything else.

        None also where it would be longer than a path may be: such a pod does not start.
        """
        names = self._expansions(expression)
        literals = self._literals
        if any(name not in literals for name in names):
            return None
        if len(expression) + sum(len(literals[name]) for name in names) > _LONGEST_PATH:
            return None
        # In one pass: an escape or a value that looks like an expansion is not one.
        return _EXPANSION.sub(
            lambda match: "$" if match[0] == "$$" else literals[match[0][2:-1]], expression
        )

    @property
    def _literals(self) -> Mapping[str, str]:
        if self._found_literals is None:
            self._found_literals = self._find_literals()
        return self._found_literals

    def _find_literals(self) -> Mapping[str, str]:
        literals: dict[str, str] = {}
        if not self.container.env_from:
            for entry in self.entries:
                if entry.value_from is None and "$" not in (entry.value or ""):
                    literals[entry.name] = entry.value or ""
                else:
                    literals.pop(entry.name, None)
        return literals

    def _expansions(self, text: str) -> Sequence[str]:
        count = text.count("$(")
        if not count:
            return ()
        self._steps.add(count)
        return expansions(text)


#: kubernetes: apimachinery/pkg/util/validation, IsConfigMapKey.
_DATA_KEY = re.compile(r"[-._a-zA-Z0-9]+")

#: Linux: PATH_MAX.
_LONGEST_PATH = 4096


def _merged(places: _Places, other: _Places) -> _Places:
    """Merge places; of many, keep one more than are shown, which says that there are more."""
    if not places or not other:
        return places or other
    return tuple(sorted({*places, *other})[: _PLACES_SHOWN + 1])


def _describe_expansion(places: _Places) -> str:
    if not places:
        return ""
    more = " and more" if len(places) > _PLACES_SHOWN else ""
    return f", through $(…) in {', '.join(places[:_PLACES_SHOWN])}{more}"


def _shown(name: str) -> str:
    return printable(name, 64)


def environment_sources(container: Container) -> Iterator[tuple[str, str]]:
    """List the sources that the manifest names in a container's environment: (kind, name)."""
    for variable in container.env or ():
        if value := variable.value_from:
            if value.config_map_key_ref:
                yield "ConfigMap", value.config_map_key_ref.name
            if value.secret_key_ref:
                yield "Secret", value.secret_key_ref.name
    for imported in container.env_from or ():
        yield from _imported_sources(imported)


def _imported_sources(imported: EnvFromSource) -> Iterator[tuple[str, str]]:
    if imported.config_map_ref:
        yield "ConfigMap", imported.config_map_ref.name
    if imported.secret_ref:
        yield "Secret", imported.secret_ref.name


def _make_override(source: ObjectKey, prefix: str, later: str) -> Override | None:
    """Describe how a later source replaces data keys of one with a prefix; None: it cannot."""
    if prefix == later:
        return Override(source)
    if max(len(prefix), len(later)) > LONGEST_NAME or not (prefix + later).isprintable():
        return None
    if later.startswith(prefix):
        return Override(source, add=later[len(prefix) :])
    if prefix.startswith(later):
        return Override(source, strip=prefix[len(later) :])
    return None


def environment_uses(
    environment: Environment, place: str, namespace: str, *, init: bool
) -> Iterator[Use]:
    container = environment.container
    reader = printable(container.name, LONGEST_NAME)
    for number, entry_from in enumerate(container.env_from or ()):
        for kind, ref in (
            ("ConfigMap", entry_from.config_map_ref),
            ("Secret", entry_from.secret_ref),
        ):
            if ref is not None:
                prefix = entry_from.prefix
                yield Use(
                    source_key(kind, namespace, ref.name),
                    UseKind.FROZEN,
                    environment.imported_keys(prefix),
                    f"{place}.envFrom[{number}]{environment.places_of_imported(prefix)}",
                    bool(ref.optional),
                    init,
                    reader,
                    environment.overrides_of(number, namespace),
                )
    replaced = environment.find_replaced_entries()
    for number, entry in enumerate(environment.entries):
        value_from = entry.value_from
        if value_from is None or entry.value:
            continue
        for kind, selector in (
            ("ConfigMap", value_from.config_map_key_ref),
            ("Secret", value_from.secret_key_ref),
        ):
            if selector is not None:
                yield Use(
                    source_key(kind, namespace, selector.name),
                    UseKind.FROZEN,
                    _variable(printable(selector.key, LONGEST_NAME), number in replaced),
                    f"{place}.env[{_shown(entry.name)}]{environment.places_of(entry.name)}",
                    bool(selector.optional),
                    init,
                    reader,
                )


@lru_cache(maxsize=4096)
def _variable(data_key: str, is_replaced: bool) -> Keys:
    """Select the data key of a source that a variable reads, never of `binaryData`.

    The data key of a variable that is replaced has to exist, or its container does not start.
    """
    names = frozenset((data_key,))
    return Keys(names, names if is_replaced else frozenset(), binary=False)


def _sets_certainly(entry: EnvVar) -> bool:
    """Return whether an entry sets its variable whenever its container starts.

    One that a rollout in Reloader's format wrote does not count: see `_replaced_names`.
    """
    certain = entry.value_from is None or bool(entry.value) or _required(entry.value_from)
    return certain and not is_reloader_variable(entry)


def _required(source: EnvVarSource) -> bool:
    selector = source.config_map_key_ref or source.secret_key_ref or source.file_key_ref
    return selector is None or not selector.optional


#: `$$` or `$(NAME)`, where a name is everything up to the next `)`; what is neither is literal
#: (kubernetes: third_party/forked/golang/expansion/expand.go).
_EXPANSION = re.compile(r"\$\$|\$\([^)]*\)")


def expansions(text: str) -> Sequence[str]:
    """List the names that `$(NAME)` in a text refers to; `$$` escapes."""
    if "$(" not in text:  # the usual case, ten times faster than the expression
        return ()
    # After the last bracket no name ends; each `$(` there would be searched to the end.
    end = text.rfind(")") + 1
    return [found[2:-1] for found in _EXPANSION.findall(text, 0, end) if found != "$$"]
