"""Immutable values: fields are declared once, as typing.NamedTuple's are."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import pytest

from hotmap.core.value import Value


class Address(Value):
    """Where something listens."""

    host: str
    port: int = 80

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def test_value_has_its_declared_fields() -> None:
    """In the order of the declaration, with their defaults."""
    assert Address._fields == ("host", "port")
    assert Address("a") == Address(host="a", port=80) == ("a", 80)
    assert Address("a")._replace(port=1).port == 1
    assert repr(Address("a")) == "Address(host='a', port=80)"


def test_value_keeps_docstring_and_methods() -> None:
    """What stands in the class body belongs to the value."""
    assert Address.__doc__ == "Where something listens."
    assert str(Address("a")) == "a:80"


def test_value_is_immutable_and_can_be_pickled() -> None:
    """It is a tuple without an instance dictionary, known by its module and name."""
    with pytest.raises(AttributeError):
        Address("a").port = 1  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(Address("a"))) == Address("a")


def test_value_with_a_field_without_default_after_one_with_is_rejected() -> None:
    """A declaration that no call could fill is an error where it stands."""
    metaclass: Any = type(Value)
    fields = {"__module__": __name__, "__annotations__": {"a": "int", "b": "int"}, "a": 1}
    with pytest.raises(TypeError, match="Wrong: a field without a default follows"):
        metaclass("Wrong", (Value,), fields)


def test_value_imports_neither_typing_nor_dataclasses() -> None:
    """Both are too large for the agent."""
    code = "import sys, hotmap.core.value; print({'typing', 'dataclasses'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True,
        env={"PYTHONPATH": "src"},
    )  # fmt: skip
    assert done.stdout == "set()\n"


@pytest.mark.parametrize(
    ("values", "named", "message"),
    [
        ((), {}, "missing: host"),
        (("a", 1, 2), {}, "takes 2 values, got 3"),
        (("a",), {"host": "b"}, "repeated: host"),
        (("a",), {"name": "b"}, "unknown: name"),
    ],
)
def test_value_rejects_wrong_fields(
    values: tuple[Any, ...], named: dict[str, Any], message: str
) -> None:
    """As a call of a function does."""
    with pytest.raises(TypeError, match=message):
        Address(*values, **named)
