"""Charts: well-formed, escaped, whole; pages that need nothing from outside."""

import math
import xml.etree.ElementTree as ElementTree

import pytest

from outlast.capacity import page
from outlast.capacity.drawing import Line, Row, lines_chart, rows_chart, standalone

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


def test_a_chart_as_a_file_brings_its_style() -> None:
    svg = standalone(
        rows_chart("t", [Row(label="a", edges=[0.0, 1.0], counts=[1], mark=0.5)], unit="h")
    )

    root = ElementTree.fromstring(svg)
    assert "prefers-color-scheme: dark" in svg
    assert root.tag == "{http://www.w3.org/2000/svg}svg"


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
