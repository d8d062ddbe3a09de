"""The documentation site: every page is on it, no link is broken, and browsers do not complain."""

import fcntl
import functools
import http.server
import re
import shutil
import threading
import tomllib
import urllib.request
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Route

from tests.browser import open_browser
from tests.patience import PATIENCE_SECONDS
from website.__main__ import CONFIG, HTML, build
from website.pages import ALSO, DOCS, ROOT, prepared, target_of

PAGES = (
    "index.html",
    "tutorial/survive-your-first-eviction.html",
    "how-to/render-manifests.html",
    "reference/cli.html",
    "explanation/measured.html",
)
PHONE, DESKTOP = {"width": 390, "height": 844}, {"width": 1280, "height": 900}

LOW_CONTRAST = (ROOT / "tests/docs/low_contrast.js").read_text()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a copy of the site, which was just built, on this machine."""
    copy = tmp_path_factory.mktemp("site") / "html"
    lock = ROOT / "build/website.lock"
    lock.parent.mkdir(exist_ok=True)
    # Several processes run these tests, and there is one place for the site.
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        build()
        shutil.copytree(HTML, copy)
    handler = functools.partial(_Quiet, directory=str(copy))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as browser:
        yield browser


def pages_in(nav: object) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    else:
        assert isinstance(nav, list)
        for entry in nav:
            for below in entry.values():
                yield from pages_in(below)


def test_every_page_is_in_the_navigation_once() -> None:
    listed = list(pages_in(tomllib.loads(CONFIG.read_text())["project"]["nav"]))

    own = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    assert sorted(listed) == sorted({*own, *ALSO})


def test_a_fence_keeps_its_language_only() -> None:
    text = "```sh exit=75 again=0\necho\n```\n"

    assert prepared(text, DOCS / "index.md") == "```sh\necho\n```\n"


def test_a_link_leads_to_a_page_or_to_the_repository() -> None:
    page = DOCS / "how-to/drill-your-job.md"

    assert target_of("../../CHANGELOG.md", page) == "../changelog.md"
    assert target_of("docs/glossary.md", ROOT / "CHANGELOG.md") == "glossary.md"
    assert target_of("../../examples/train.py", page).endswith("/blob/main/examples/train.py")
    assert target_of("https://semver.org", page) == "https://semver.org"


def test_the_site_builds_without_a_warning(site: str) -> None:
    with urllib.request.urlopen(f"{site}/index.html") as page:
        assert b"Outlast" in page.read()


@pytest.mark.needs("chromium")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_readable_and_asks_nobody_else(
    site: str, browser: Browser, name: str, scheme: str
) -> None:
    context = browser.new_context(color_scheme=scheme, viewport=DESKTOP)  # type: ignore[arg-type]  # one of its literals
    page = context.new_page()
    page.set_default_timeout(PATIENCE_SECONDS * 1000)
    elsewhere: list[str] = []
    complaints: list[str] = []

    def route(route: Route) -> None:
        if route.request.url.startswith(site):
            route.continue_()
        else:
            elsewhere.append(route.request.url)
            route.abort()

    page.route("**/*", route)
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(f"{site}/{name}", wait_until="networkidle")
    low = page.evaluate(LOW_CONTRAST)
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]  # a dict of this shape
    overflow = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    context.close()

    assert (elsewhere, complaints) == ([], [])
    assert low == []
    assert overflow <= 0


@pytest.mark.needs("chromium")
def test_search_finds_a_page(site: str, browser: Browser) -> None:
    page = browser.new_page()
    page.set_default_timeout(PATIENCE_SECONDS * 1000)
    page.goto(f"{site}/index.html", wait_until="networkidle")
    page.get_by_role("button", name="Search").first.click()
    page.get_by_placeholder("Search").fill("eviction")

    page.get_by_text(re.compile(r"\d+ results")).wait_for()
    page.close()


def test_the_pages_named_here_exist() -> None:
    for name in PAGES:
        assert (DOCS / name).with_suffix(".md").is_file(), name
