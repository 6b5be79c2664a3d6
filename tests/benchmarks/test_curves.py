"""Curves are a table and two pictures, with the bound in both."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from benchmarks.curves import Curve, Curves
from benchmarks.results import merged

CURVES = Curves(
    "Memory & time beside <many> objects",
    "objects",
    "objects",
    "MB",
    [
        Curve("resident", [(1_000, 50.25), (10_000, 75.0), (100_000, 190.0)]),
        Curve("target", [(1_000, 200.0), (100_000, 200.0)], bound=True),
    ],
    "a machine",
    ["A note."],
)
SVG = "{http://www.w3.org/2000/svg}"


def test_table_has_a_row_for_each_size() -> None:
    text = CURVES.as_markdown()
    assert "| objects | resident, MB | target, MB |" in text
    assert "| 1,000 | 50.2 | 200 |" in text
    assert "| 10,000 | 75 |  |" in text
    assert "A note." in text
    assert "190" in CURVES.as_text()


def test_pictures_are_named_in_the_table() -> None:
    names = [name for name, _ in CURVES.pictures()]
    assert names == ["objects-light.svg", "objects-dark.svg"]
    assert all(f"../docs/benchmarks/{name}" in CURVES.as_markdown() for name in names)


@pytest.mark.parametrize("number", [0, 1], ids=["light", "dark"])
def test_picture_has_each_curve_and_a_dashed_bound(number: int) -> None:
    picture = ElementTree.fromstring([text for _, text in CURVES.pictures()][number])
    lines = picture.findall(f"{SVG}polyline")
    assert [line.get("stroke-dasharray") for line in lines] == [None, "6 5"]
    first, *_, last = [
        tuple(map(float, point.split(","))) for point in lines[0].get("points", "").split()
    ]
    assert first[0] < last[0]
    assert first[1] > last[1], "more is higher up"
    assert len(picture.findall(f"{SVG}circle")) == 3
    words = {element.text for element in picture.iter(f"{SVG}text")}
    assert {"resident", "target", "objects", "1k", "10k", "100k", "50", "100", "200"} <= words


@pytest.mark.parametrize("number", [0, 1], ids=["light", "dark"])
def test_no_line_of_the_grid_strikes_the_key_through(number: int) -> None:
    """Under each name of the key there is an area of the page's color, above the grid."""
    picture = list(ElementTree.fromstring([text for _, text in CURVES.pictures()][number]))
    page, *areas = [each for each in picture if each.tag == f"{SVG}rect"]
    assert [area.get("fill") for area in areas] == [page.get("fill")] * 2
    for area, name in zip(areas, ("resident", "target"), strict=True):
        line, text = picture[picture.index(area) + 1 :][:2]
        assert text.text == name
        top, height = float(area.get("y", "")), float(area.get("height", ""))
        assert top < float(line.get("y1", "")) < float(text.get("y", "")) < top + height


def test_what_grows_with_the_size_is_a_straight_line() -> None:
    grown = CURVES._replace(curves=[Curve("time", [(10, 0.3), (100, 3.0), (1_000, 30.0)])])
    for _, text in grown.pictures():
        picture = ElementTree.fromstring(text)
        (line,) = picture.findall(f"{SVG}polyline")
        points = [tuple(map(float, each.split(","))) for each in line.get("points", "").split()]
        (first, second, third) = (y for _, y in points)
        assert second == pytest.approx((first + third) / 2, abs=0.2)
        words = {element.text for element in picture.iter(f"{SVG}text")}
        assert {"0.20", "0.50", "1", "2", "5", "10", "20", "50"} <= words


def test_one_size_is_drawn() -> None:
    point = CURVES._replace(curves=[Curve("resident", [(5, 0.0)])])
    for _, text in point.pictures():
        picture = ElementTree.fromstring(text)
        (circle,) = picture.findall(f"{SVG}circle")
        width, height = map(float, picture.get("viewBox", "").split()[2:])
        assert 0 < float(circle.get("cx", "")) < width
        assert 0 < float(circle.get("cy", "")) < height
        assert "5" in {element.text for element in picture.iter(f"{SVG}text")}


def test_results_keep_the_section_of_curves() -> None:
    document = merged("", [CURVES])
    assert merged(document, []) == document
    assert document.count("<picture>") == 1
