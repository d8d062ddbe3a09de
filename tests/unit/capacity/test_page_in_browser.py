"""The page of a plan in a real browser: it fits a phone, asks for nothing, and shows its charts."""

import shutil
from pathlib import Path

import pytest

from outlast.capacity.planning.plan import plan
from outlast.capacity.planning.report import plan_page
from outlast.capacity.workload.file import Workload
from tests.patience import PATIENCE_SECONDS
from tests.unit.capacity.test_plan import TRAINING


@pytest.mark.needs("chromium")
def test_the_page_fits_a_phone_in_dark_mode_and_asks_for_nothing(tmp_path: Path) -> None:
    from playwright.sync_api import sync_playwright

    path = tmp_path / "plan.html"
    path.write_text(plan_page(plan(Workload.parse(TRAINING, name="w"), runs=500)))
    asked: list[str] = []
    complaints: list[str] = []

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox"],
            timeout=PATIENCE_SECONDS * 1000,
        )
        tab = browser.new_page(viewport={"width": 360, "height": 740}, color_scheme="dark")
        tab.set_default_timeout(PATIENCE_SECONDS * 1000)
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("console", lambda message: complaints.append(message.text))
        tab.goto(path.as_uri())
        width = tab.evaluate("document.documentElement.scrollWidth")
        paper = tab.evaluate("getComputedStyle(document.body).backgroundColor")
        charts = tab.locator(".chart svg.plot").count()
        value = tab.locator("tr", has_text="first step").locator("td").nth(1).bounding_box()
        browser.close()

    assert asked == [path.as_uri()]
    assert complaints == []
    assert width <= 360
    assert paper == "rgb(17, 22, 27)"
    assert charts == 2
    assert value is not None and value["x"] + value["width"] <= 360
