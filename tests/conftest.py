"""Skips what needs a part that is not here, unless this is CI, where that is a failure."""

import logging
import os
import signal
from collections.abc import Iterator
from functools import cache

import pytest
from hypothesis import HealthCheck, settings

from outlast.cluster.connection.client import ClusterClient
from outlast.journal.process_age import take_process_age
from tests.parts import PARTS
from tests.patience import PATIENCE_SECONDS
from tests.servers.control_plane import ControlPlane, shared_control_plane
from tests.servers.gcs import running_gcs
from tests.servers.moto import running_moto

# A machine that stalls is no fault of an example.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


@cache
def _works(part: str) -> bool:
    return PARTS[part].works()


def pytest_configure(config: pytest.Config) -> None:
    """Let the programs that tests start have hash seeds of their own, as programs do.

    No run in the process of the tests is its first, which would count the time since its start.
    """
    take_process_age()
    if hasattr(config, "workerinput"):
        os.environ.pop("PYTHONHASHSEED", None)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what needs a part that is nowhere required and not here."""
    left_out = [item for item in items if any(not _is_required(part) for part in _parts_of(item))]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def _parts_of(item: pytest.Item) -> list[str]:
    return [part for mark in item.iter_markers("needs") for part in mark.args]


def _is_required(part: str) -> bool:
    return PARTS[part].required or _works(part)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("needs"):
        for part in mark.args:
            if _works(part):
                continue
            if os.environ.get("CI") == "true":
                pytest.fail(f"{part} is required in CI and does not work here.", pytrace=False)
            pytest.skip(f"needs {part}, which does not work here")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI nothing is skipped, so that a green run never hides a part that was missing."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") == "true" and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for name, part in PARTS.items():
        if not part.required and not _works(name):
            text = f"NOT TESTED: {name} is not here, so its tests were left out (CONTRIBUTING.md)."
            terminalreporter.write_line(text, yellow=True, bold=True)
    if os.environ.get("CI") == "true" and terminalreporter.stats.get("skipped"):
        terminalreporter.write_line("error: Tests were skipped, and CI=true makes that a failure.")


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> ControlPlane:
    """One for all processes of the session; see tests/servers/control_plane.py."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    return shared_control_plane(folder / "control-plane")


@pytest.fixture(scope="session")
def admin(control_plane: ControlPlane) -> Iterator[ClusterClient]:
    with control_plane.client() as client:
        yield client


@pytest.fixture
def namespace(control_plane: ControlPlane, admin: ClusterClient) -> str:
    """A namespace of this test alone. It stays until the control plane ends."""
    return control_plane.new_namespace(admin)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    with running_moto() as url:
        yield url


@pytest.fixture(scope="session")
def gcs_server(s3_server: str) -> Iterator[str]:
    with running_gcs(s3_server) as url:
        yield url


@pytest.fixture(autouse=True, scope="session")
def _hears_signals() -> None:
    """Undo what a shell or nohup does to a run in the background: our programs would inherit it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("OUTLAST_", "KUBERNETES_")) or name == "GCE_METADATA_HOST":
            monkeypatch.delenv(name)


@pytest.fixture
def ample_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """For guards in the process of the tests, which would end it if a stall took their time."""
    monkeypatch.setenv("OUTLAST_GRACE_SECONDS", "3600")


@pytest.fixture(autouse=True)
def _interrupts_on_a_slow_machine_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """`Guard.interrupt` waits briefly until the guards know: here until they do."""
    watcher = "outlast.interruption.watcher._ANNOUNCE_SECONDS_MAX"
    monkeypatch.setattr(watcher, PATIENCE_SECONDS)


@pytest.fixture(autouse=True)
def _logs_as_much_as_before() -> Iterator[None]:
    """Undo what a command does to our logger, or the order of tests would decide what is logged."""
    logger = logging.getLogger("outlast")
    level = logger.level
    yield
    logger.setLevel(level)
