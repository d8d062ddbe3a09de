"""Charts: well-formed, escaped, whole; pages that need nothing from outside."""

import math
import xml.etree.ElementTree as ElementTree

import pytest

from outlast.capacity import page
from outlast.capacity.drawing import WIDTH, Line, Row, lines_chart, rows_chart, standalone

EVIL = '<script>alert("x")</script> & "quotes"'


def test_rows_are_drawn_below_each_other_and_escaped() -> None:
    rows = [
        Row(label=EVIL, edges=[0.0, 1.0, 2.0], counts=[3, 1], mark=0.5),
        Row(label="empty", edges=[0.0, 1.0, 2.0], counts=[0, 0], mark=1.0),
    ]

    svg = rows_chart(EVIL, rows, unit="USD")

    root = ElementTree.fromstring(svg)
    assert "<script" not in svg
    assert len(root.findall("{http://www.w3.org/2000/svg}polygon")) == 2


@pytest.mark.parametrize("ys", [[1.0, 2.0, 3.0], [0.0, 0.0, 0.0], [math.nan, 1.0, math.nan]])
@pytest.mark.parametrize("is_log", [True, False])
def test_lines_survive_odd_values(ys: list[float], is_log: bool) -> None:
    line = Line(label=EVIL, xs=[1.0, 10.0, 1000.0], ys=ys)

    svg = lines_chart("t", [line, line], x_unit="x", y_unit="y", is_log=is_log)

    ElementTree.fromstring(svg)
    assert "nan" not in svg and "<script" not in svg


def test_one_point_is_a_chart_too() -> None:
    svg = lines_chart("t", [Line(label="a", xs=[5.0], ys=[5.0])], x_unit="x", y_unit="y")

    ElementTree.fromstring(svg)


def test_the_last_number_of_an_axis_is_not_cut_off() -> None:
    svg = lines_chart("t", [Line(label="a", xs=[1.0, 1e6], ys=[1.0, 2.0])], x_unit="x", y_unit="y")

    texts = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    middles = [text for text in texts if text.attrib.get("text-anchor") == "middle"]
    last = middles[-1]
    # A digit is about 7.5 wide.
    assert float(last.attrib["x"]) + 7.5 * len(last.text or "") / 2 <= WIDTH


def test_names_take_the_place_of_numbers_where_there_is_room() -> None:
    line = Line(label="a", xs=[0.0, 1.0, 2.0], ys=[1.0, math.nan, 2.0])

    few = lines_chart("t", [line], x_unit="x", y_unit="y", names=["us-east1", EVIL[:9], "mars"])
    many = lines_chart("t", [line], x_unit="x", y_unit="y", names=["x" * 60, "b", "c"])

    assert ">us-east1<" in few and ">mars<" in few and "<script" not in few
    assert few.count("<circle") == 2 and "<polyline" not in few
    assert "x" * 60 not in many


def test_a_row_keeps_its_colour_when_another_is_missing() -> None:
    rows = [
        Row(label=label, edges=[0.0, 1.0], counts=[1], mark=0.5, colour=colour)
        for label, colour in (("spot", 0), ("hybrid", 3))
    ]

    both, one = rows_chart("t", rows, unit="h"), rows_chart("t", rows[1:], unit="h")

    assert '<polygon class="c3"' in both and '<polygon class="c3"' in one


def test_a_chart_as_a_file_is_coloured_without_css_variables() -> None:
    """Many programs that draw SVG know none, and would show black on nothing."""
    line = Line(label="a", xs=[1.0, 2.0], ys=[1.0, 2.0])

    svg = standalone(lines_chart("t", [line], x_unit="x", y_unit="y"))

    assert "var(" not in svg
    assert 'class="c0" stroke="currentColor"' in svg and ".c0 { color: #" in svg


def test_a_chart_as_a_file_brings_its_style() -> None:
    svg = standalone(
        rows_chart("t", [Row(label="a", edges=[0.0, 1.0], counts=[1], mark=0.5)], unit="h")
    )

    root = ElementTree.fromstring(svg)
    assert "prefers-color-scheme: dark" in svg
    assert root.tag == "{http://www.w3.org/2000/svg}svg"


def test_commands_are_marked_and_escaped_like_all_else() -> None:
    html = page.note(f"`outlast learn` and `{EVIL}`, but a ` alone is a `")

    assert "<code>outlast learn</code>" in html
    assert "<code>&lt;script&gt;" in html
    assert "but a <code> alone is a </code>" in html


def test_every_part_of_a_page_is_escaped() -> None:
    html = page.page(
        EVIL,
        [
            page.heading(EVIL),
            page.paragraph(EVIL),
            page.note(EVIL),
            page.listing([EVIL]),
            page.table((EVIL, "n"), [(EVIL, "1")], chosen=0),
        ],
    )

    assert "<script" not in html
    assert html.count("&lt;script&gt;") == 8
    assert '<tr class="chosen"><td>' in html
    assert "default-src 'none'" in html
