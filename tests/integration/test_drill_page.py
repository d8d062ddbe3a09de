"""The page of a drill in a real browser: quick, closed in itself, fit for a phone and the dark."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Dialog, Page, Route

from outlast.drills.judge.report import DrillReport
from outlast.drills.page import write_html
from tests.browser import open_browser
from tests.drill.drilling import AMPLE, conclusive_drill
from tests.patience import PATIENCE_SECONDS
from tests.unit.drill.page_reports import (
    crashed_report,
    queue_report,
    training_report,
)
from tests.unit.drill.test_page import hostile_report

pytestmark = pytest.mark.needs("chromium")

_REPORTS = {
    "training": training_report(),
    "queue": queue_report(lost=2, doubled=1),
    "crashed": crashed_report(),
    "crowd": queue_report(8, 300),
    "hostile": hostile_report(),
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as browser:
        yield browser


@contextmanager
def _opened(browser: Browser, path: Path, **settings: Any) -> Iterator[Page]:
    """A page that may ask for nothing but its own file, must not complain and must not talk."""
    context = browser.new_context(**settings)
    context.set_default_timeout(PATIENCE_SECONDS * 1000)
    page = context.new_page()
    asked: list[str] = []
    said: list[str] = []

    def route(route: Route) -> None:
        if route.request.url == path.as_uri():
            route.continue_()
        else:
            asked.append(route.request.url)
            route.abort()

    def hang_up(dialog: Dialog) -> None:
        said.append(dialog.message)
        dialog.dismiss()

    context.route("**/*", route)
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", hang_up)
    page.goto(path.as_uri())
    yield page
    assert (asked, said) == ([], [])
    context.close()


def _written(report: DrillReport, folder: Path) -> Path:
    path = folder / "drill.html"
    write_html(report, path)
    return path


@pytest.mark.parametrize("name", _REPORTS)
def test_a_page_fits_a_phone_in_the_light_and_a_desk_in_the_dark(
    name: str, browser: Browser, tmp_path: Path
) -> None:
    path = _written(_REPORTS[name], tmp_path)
    grounds = set()

    for width, scheme in ((360, "light"), (1280, "dark")):
        viewport = {"width": width, "height": 800}
        with _opened(browser, path, viewport=viewport, color_scheme=scheme) as page:
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.evaluate(_LABELS_OUTSIDE) == []
            assert page.evaluate("window.pwned") is None
            grounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    assert grounds == {"rgb(255, 255, 255)", "rgb(17, 22, 27)"}


# A label that is cut off by the edge of the screen cannot be read.
_LABELS_OUTSIDE = """
[...document.querySelectorAll('.plot text')].filter(text => {
  const box = text.getBoundingClientRect()
  return box.width > 0 && (box.left < 0 || box.right > document.documentElement.clientWidth)
}).map(text => text.textContent)
"""


def test_a_page_can_be_read_without_seeing_its_pictures(browser: Browser, tmp_path: Path) -> None:
    path = _written(training_report(), tmp_path)

    with _opened(browser, path, java_script_enabled=False) as page:
        assert page.title() == "Drill: survived 6 evictions"
        assert page.get_by_role("heading", level=1).inner_text() == "Survived 6 evictions"
        assert page.get_by_role("img", name="Timeline of 7 attempts").is_visible()
        assert page.get_by_role("img", name="Steps done over time, 300 in total").is_visible()
        assert page.get_by_role("img", name="loss by step").is_visible()
        table = page.get_by_role("region", name="Evictions").get_by_role("row")
        assert table.count() == 7
        cells = table.nth(3).get_by_role("cell").all_inner_texts()
        assert cells[1:] == ["3", "without notice", "", "", "137", "at least 16 steps"]


def test_lost_pieces_are_drawn_where_the_work_was_done_twice(
    browser: Browser, tmp_path: Path
) -> None:
    path = _written(training_report(), tmp_path)

    with _opened(browser, path) as page:
        lost = page.locator(".line.lost[d]").bounding_box()
        plot = page.get_by_role("img", name="Steps done over time").bounding_box()
        assert lost is not None
        assert plot is not None
        assert plot["x"] < lost["x"] < lost["x"] + lost["width"] < plot["x"] + plot["width"]
        labels = page.locator("text.label.lost").all_text_contents()
        assert labels == ["\u221216", "\u221213", "\u221211"]


def test_a_thousand_evictions_are_drawn_and_can_be_listed(browser: Browser, tmp_path: Path) -> None:
    """`bench/drill.py` measures how long it takes."""
    path = _written(training_report(1000, steps=20_000), tmp_path)

    with _opened(browser, path, viewport={"width": 1280, "height": 800}) as page:
        page.screenshot()
        page.get_by_text("Show 975 more").click()

        assert page.get_by_role("row").count() > 1000


def test_the_page_of_a_real_drill_shows_what_happened(browser: Browser, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(_TRAINING)
    report = conclusive_drill(
        [sys.executable, str(script)],
        evictions=2,
        no_notice=0.5,
        seed=3,
        grace=AMPLE,
        expect=["weights.npy"],
    )
    path = _written(report, tmp_path)

    with _opened(browser, path) as page:
        assert page.get_by_role("heading", level=1).inner_text() == "Survived 2 evictions"
        assert page.get_by_role("img", name="Timeline of 3 attempts").is_visible()
        assert page.get_by_text("is identical, bit for bit").is_visible()


_TRAINING = """\
import random
import time
from typing import Any

import numpy as np

import outlast

random.seed(1)
np.random.seed(7)
state: dict[str, Any] = {"weights": np.zeros(10)}
with outlast.Run(None, state, every_steps=10) as run:
    for step in run.steps(80):
        time.sleep(0.02)
        state["weights"] += np.random.normal(size=10)
        run.log(loss=float(np.abs(state["weights"]).mean()))
np.save("weights.npy", state["weights"])
"""
