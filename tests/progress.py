"""Progress in plain lines, for `make test`: in a terminal and in the log of a CI alike.

Loaded by `-p tests.progress`. A failure is named when it happens; pytest shows all of it at the
end.
"""

import time
from collections import Counter

import pytest

EVERY_SECONDS = 10.0


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Progress(config), "outlast-progress")


class Progress:
    """Counts tests as they end, in whichever process they ran."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._started = self._told = time.monotonic()
        self._tests = 0
        self._ended = 0
        self._counts: Counter[str] = Counter()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._tests = len(session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self._tests = len(ids)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """The usual category and word, without the usual dot."""
        if hasattr(report, "wasxfail") or (report.passed and report.when != "call"):
            return None
        in_set_up = report.failed and report.when != "call"
        category = "error" if in_set_up else report.outcome
        return category, "", category.upper()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._say(f"FAILED {report.nodeid}")
        self._counts[report.outcome] += report.when == "call" or not report.passed
        self._ended += report.when == "teardown"
        if time.monotonic() - self._told >= EVERY_SECONDS:
            self._told = time.monotonic()
            percent = 100 * self._ended // max(1, self._tests)
            self._say(f"{percent:3}%  {self._ended} of {self._tests} tests, {self._so_far()}")

    def _so_far(self) -> str:
        minutes, seconds = divmod(round(time.monotonic() - self._started), 60)
        others = [f"{self._counts[name]} {name}" for name in ("failed", "skipped")]
        return f"{', '.join(others)}, {minutes}:{seconds:02} min"

    def _say(self, line: str) -> None:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.write_line(line)
            reporter.flush()
