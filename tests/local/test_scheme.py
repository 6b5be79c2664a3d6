"""Kinds by group and resource, registered and removed."""

from __future__ import annotations

import pytest

from hotmap.local.apiserver.kinds import BUILT_IN, built_in_scheme
from hotmap.local.scheme import Kind, Names, Scheme

WIDGETS = Kind("example.com", ("v1", "v1beta1"), Names("widgets", "Widget"))


def test_scheme_serves_every_built_in_kind() -> None:
    assert tuple(built_in_scheme()) == BUILT_IN


def test_schemes_do_not_share_kinds() -> None:
    scheme = built_in_scheme()
    scheme.register(WIDGETS)
    assert built_in_scheme().find("example.com", "v1", "widgets") is None


def test_scheme_finds_kind_by_each_of_its_versions() -> None:
    scheme = Scheme([WIDGETS])
    assert scheme.find("example.com", "v1", "widgets") is WIDGETS
    other = scheme.find("example.com", "v1beta1", "widgets")
    assert other == WIDGETS.at("v1beta1")
    assert other.api_version == "example.com/v1beta1"
    assert other.stored_api_version == "example.com/v1"
    assert scheme.resource(scheme.name(other)) == other
    assert scheme.find("example.com", "v2", "widgets") is None
    assert scheme.find("", "v1", "widgets") is None
    assert scheme.find_kind("example.com", "Widget") is WIDGETS
    assert scheme.group_versions() == (("example.com", "v1"), ("example.com", "v1beta1"))


def test_scheme_keeps_resources_of_one_plural_apart() -> None:
    """events and events.example.com: a plural alone means the kind that came first."""
    scheme = built_in_scheme()
    core = scheme.resource("events")
    other = Kind("example.com", ("v1",), Names("events", "Event"))
    scheme.register(other)
    assert scheme.resource("events") is core
    assert scheme.resource("events.example.com") is other
    assert (scheme.name(core), scheme.name(other)) == ("events", "events.example.com")
    assert core.prefix(None) != other.prefix(None)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Kind("", ("v1",), Names("pods", "Other")), "resource pods is already registered"),
        (
            Kind("apps", ("v2",), Names("others", "Deployment")),
            "kind Deployment.apps is already registered",
        ),
    ],
)
def test_scheme_refuses_taken_name(kind: Kind, message: str) -> None:
    scheme = built_in_scheme()
    with pytest.raises(ValueError, match=message):
        scheme.register(kind)
    assert tuple(scheme) == BUILT_IN


def test_scheme_forgets_unregistered_kind() -> None:
    scheme = built_in_scheme()
    scheme.register(WIDGETS)
    assert scheme.unregister("example.com", "widgets") is WIDGETS
    assert tuple(scheme) == BUILT_IN
    with pytest.raises(KeyError, match="widgets"):
        scheme.resource("widgets")
    with pytest.raises(KeyError):
        scheme.unregister("example.com", "widgets")


def test_scheme_announces_changes() -> None:
    scheme = Scheme()
    seen: list[tuple[str, bool]] = []
    scheme.subscribe(lambda kind, served: seen.append((kind.resource, served)))
    scheme.register(WIDGETS)
    scheme.unregister("example.com", "widgets")
    assert seen == [("widgets.example.com", True), ("widgets.example.com", False)]


def test_custom_kind_takes_names_and_key_of_custom_resource() -> None:
    assert WIDGETS.singular == "widget"
    assert WIDGETS.key("team", "a") == "/registry/example.com/widgets/team/a"
