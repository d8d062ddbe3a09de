"""Charts: well-formed, escaped, whole; pages that need nothing from outside."""

import math
import re
import xml.etree.ElementTree as ElementTree

import pytest

from outlast.report import page
from outlast.report.charts import Distribution, Line, distribution_chart, lines_chart

SVG = "{http://www.w3.org/2000/svg}"
EVIL = '<script>alert("x")</script> & "quotes"'


def test_rows_are_drawn_below_each_other_and_escaped() -> None:
    rows = [
        Distribution(label=EVIL, edges=[0.0, 1.0, 2.0], counts=[3, 1], median=0.5),
        Distribution(label="empty", edges=[0.0, 1.0, 2.0], counts=[0, 0], median=1.0),
    ]

    chart = distribution_chart(EVIL, rows, unit="USD")

    for content in (chart.as_html(), chart.as_svg()):
        assert "<script" not in content
        root = ElementTree.fromstring(content)
        assert len([one for one in root.iter() if "area" in one.get("class", "")]) == 2


@pytest.mark.parametrize("ys", [[1.0, 2.0, 3.0], [0.0, 0.0, 0.0], [math.nan, 1.0, math.nan]])
@pytest.mark.parametrize("is_log", [True, False])
def test_lines_survive_odd_values(ys: list[float], is_log: bool) -> None:
    line = Line(label=EVIL, xs=[1.0, 10.0, 1000.0], ys=ys)

    chart = lines_chart(EVIL, [line, line], x_unit=EVIL, y_unit=EVIL, is_log=is_log)

    for content in (chart.as_html(), chart.as_svg()):
        ElementTree.fromstring(content)
        assert "nan" not in content and "<script" not in content


def test_one_point_is_a_chart_too() -> None:
    svg = lines_chart("t", [Line(label="a", xs=[5.0], ys=[5.0])], x_unit="x", y_unit="y").as_svg()

    ElementTree.fromstring(svg)
    assert '<circle cx="50%"' in svg


def test_the_last_number_of_an_axis_is_not_cut_off() -> None:
    line = Line(label="a", xs=[1.0, 999_999.0], ys=[1.0, 2.0])

    root = ElementTree.fromstring(lines_chart("t", [line], x_unit="x", y_unit="y").as_svg())

    inner = root.find(f"{SVG}svg")
    assert inner is not None and inner.get("overflow") == "visible"
    texts = [one for one in root.iter(f"{SVG}text") if one.get("text-anchor") == "middle"]
    last = texts[-1]
    share = float(last.attrib["x"].removesuffix("%")) / 100
    middle = float(inner.attrib["x"]) + share * float(inner.attrib["width"])
    # A digit is about 7.5 wide.
    assert middle + 7.5 * len(last.text or "") / 2 <= float(root.attrib["width"])


def test_paths_are_not_distorted_in_a_file() -> None:
    """Not every program that draws SVG keeps the width of a line when it stretches a path."""
    line = Line(label="a", xs=[1.0, 2.0], ys=[1.0, 2.0])

    root = ElementTree.fromstring(lines_chart("t", [line], x_unit="x", y_unit="y").as_svg())

    svgs = root.iter(f"{SVG}svg")
    sizes = [(one.get("width"), one.get("height"), one.get("viewBox")) for one in svgs]
    assert sizes[0][2] == f"0 0 {sizes[0][0]} {sizes[0][1]}"
    assert sizes[-1] == ("100%", "240", "0 0 560 240")
    assert sizes[1][:2] == ("560", "240")


def test_names_take_the_place_of_numbers_where_there_is_room() -> None:
    line = Line(label="a", xs=[0.0, 1.0, 2.0], ys=[1.0, math.nan, 2.0])
    names = ["us-east1", EVIL[:9], "mars"]

    few = lines_chart("t", [line], x_unit="x", y_unit="y", names=names).as_html()
    many = lines_chart("t", [line], x_unit="x", y_unit="y", names=["x" * 60, "b", "c"]).as_html()

    assert ">us-east1<" in few and ">mars<" in few and "<script" not in few
    assert few.count("<circle") == 2 and "<path" not in few
    assert "x" * 60 not in many


def test_a_row_keeps_its_color_when_another_is_missing() -> None:
    rows = [
        Distribution(label=label, edges=[0.0, 1.0], counts=[1], median=0.5, color=color)
        for label, color in (("spot", 0), ("hybrid", 3))
    ]

    both, one = (distribution_chart("t", some, unit="h").as_html() for some in (rows, rows[1:]))

    assert 'class="area s3"' in both and 'class="area s3"' in one


def test_series_differ_in_more_than_their_color() -> None:
    lines = [Line(label=name, xs=[1.0, 2.0], ys=[1.0, 2.0]) for name in "abcde"]

    svg = lines_chart("t", lines, x_unit="x", y_unit="y").as_svg()

    dashes = re.findall(r"\.series\.s(\d) { stroke-dasharray: ([\d ]+) }", svg)
    assert len(set(dict(dashes).values())) == 4
    for index, line in enumerate(lines):
        assert svg.count(f'class="line series s{index}"') == 2
        assert f">{line.label}</text>" in svg


def test_a_chart_as_a_file_is_colored_without_css_variables() -> None:
    """Many programs that draw SVG do not know them, and would show black on nothing."""
    line = Line(label="a", xs=[1.0, 2.0], ys=[1.0, 2.0])

    svg = lines_chart("t", [line], x_unit="x", y_unit="y").as_svg()

    assert "var(" not in svg
    assert 'class="line series s0"' in svg and ".s0 { stroke: #" in svg


def test_a_chart_as_a_file_includes_its_style() -> None:
    row = Distribution(label="a", edges=[0.0, 1.0], counts=[1], median=0.5)

    svg = distribution_chart("t", [row], unit="h").as_svg()

    root = ElementTree.fromstring(svg)
    assert "prefers-color-scheme: dark" in svg
    assert root.tag == f"{SVG}svg"


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
    assert html.count("&lt;script&gt;") == 9
    assert '<tr class="chosen"><th scope="row">' in html
    assert "default-src &#x27;none&#x27;" in html
