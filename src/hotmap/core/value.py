"""Immutable values with named fields: typing.NamedTuple without importing typing.

    class Address(Value):
        host: str
        port: int = 80

Importing typing costs the agent 1.7 MB and dataclasses 2.7 MB (measured), so at runtime the fields
are read from the annotations of the class here. For a type checker a Value is a NamedTuple.
"""

from __future__ import annotations

from collections import namedtuple

__all__ = ["Value"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple as Value
else:
    from _collections import _tuplegetter

    def _new(cls, *values, **named):
        """Make a value from positional and named fields, as a function with defaults would."""
        fields, defaults = cls._fields, cls._field_defaults
        given = len(values) - len(fields) + len(defaults)
        if not named and 0 <= given <= len(defaults):  # nearly always
            return tuple.__new__(cls, values + tuple(defaults.values())[given:])
        if len(values) > len(fields):
            raise TypeError(f"{cls.__name__} takes {len(fields)} values, got {len(values)}")
        if named or len(values) < len(fields):
            taken = [field for field in fields[: len(values)] if field in named]
            rest = fields[len(values) :]
            missing = [field for field in rest if field not in named and field not in defaults]
            unknown = [field for field in named if field not in fields]
            if taken or missing or unknown:
                wrong = ", ".join(taken or missing or unknown)
                what = "repeated" if taken else "missing" if missing else "unknown"
                raise TypeError(f"{cls.__name__}: {what}: {wrong}")
            values = (*values, *[named[f] if f in named else defaults[f] for f in rest])
        return tuple.__new__(cls, values)

    class _ValueType(type):
        def __new__(cls, name, bases, namespace):
            if not bases:
                return super().__new__(cls, name, bases, namespace)
            fields = tuple(namespace.pop("__annotations__", ()))
            with_default = [field for field in fields if field in namespace]
            if with_default != list(fields[len(fields) - len(with_default) :]):
                raise TypeError(f"{name}: a field without a default follows one with a default")
            namespace["_field_defaults"] = {f: namespace.pop(f) for f in with_default}
            for number, field in enumerate(fields):
                namespace[field] = _tuplegetter(number, None)
            made = {**_METHODS, **namespace}
            made["_fields"] = made["__match_args__"] = fields
            return type(name, (tuple,), made)

    _TEMPLATE = namedtuple("_TEMPLATE", "")
    #: What every value shares with a namedtuple; collections.namedtuple itself compiles a
    #: constructor for each type, which takes most of the time of such a declaration.
    _METHODS = {
        "__slots__": (),
        "__new__": _new,
        "__getnewargs__": _TEMPLATE.__getnewargs__,
        "__repr__": lambda self: (
            f"{type(self).__name__}("
            + ", ".join(f"{n}={v!r}" for n, v in zip(self._fields, self, strict=True))
            + ")"
        ),
        "_asdict": _TEMPLATE._asdict,
        "_replace": lambda self, /, **named: type(self)(**{**self._asdict(), **named}),
        "_make": classmethod(lambda cls, values: cls(*values)),
    }

    class Value(metaclass=_ValueType):
        """Base of such a value; the class that is made from it is a subclass of tuple."""
