"""The page of a drill: complete, closed in itself, and safe whatever the drill has met."""

import dataclasses
import re
from datetime import date
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path

import pytest

from outlast.drills.compare.artifacts import Comparison
from outlast.drills.compare.divergence import Divergence
from outlast.drills.errors import DrillError
from outlast.drills.judge.evidence import ProgressPoint
from outlast.drills.judge.report import DrillReport
from outlast.drills.judge.verdict import Check, CheckResult, failed, not_applicable, passed
from outlast.drills.page import MachinePrices, page, write_html
from outlast.drills.run.records import JobRunEnd, Save
from tests.unit.drill.page_reports import (
    attempt,
    crashed_report,
    job_run,
    plain_report,
    queue_report,
    report,
    training_report,
)

HOSTILE = """</style></script><script>window.pwned=1</script><img src=x onerror="window.pwned=1">\
'"&<svg/onload=alert(1)> javascript:alert(1) \x1b[31m \u202e \udcff {dir}"""

REPORTS = {
    "training": training_report(),
    "queue": queue_report(),
    "items-lost": queue_report(lost=2, doubled=1),
    "plain": plain_report(),
    "crashed": crashed_report(),
    "no-eviction": report(job_run([attempt(1)])),
    "one-instant": report(job_run([attempt(1, ended_seconds=0.0, ready_seconds=None)])),
    "nothing-at-all": report(None, figures=None, checks=()),
    "many": training_report(90, steps=2000),
}


class _Reader(HTMLParser):
    """Reads a page as a browser would, and insists that every element is closed in its turn."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: set[str] = set()
        self.attributes: list[tuple[str, str, str]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in ("meta", "link", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def _read(content: str) -> _Reader:
    reader = _Reader()
    reader.feed(content)
    reader.close()
    assert reader.open == []
    return reader


@pytest.mark.parametrize("drilled", REPORTS.values(), ids=REPORTS)
def test_a_page_is_whole_and_refers_to_nothing_outside(drilled: DrillReport) -> None:
    content = page(drilled)

    found = _read(content)
    references = {v for _, name, v in found.attributes if name in ("href", "src", "action", "data")}
    assert all(one.startswith("#") or one == "data:," for one in references)
    assert not found.names & {"script", "img", "iframe", "object", "embed", "form", "base"}
    assert not re.search(r"url\(|@import|https?://", content)
    assert "nan" not in " ".join(v for _, _, v in found.attributes).lower().split()


@pytest.mark.parametrize("drilled", REPORTS.values(), ids=REPORTS)
def test_a_page_has_one_first_heading_and_says_how_it_ended(drilled: DrillReport) -> None:
    content = page(drilled)

    assert content.count("<h1") == 1
    for check in drilled.checks:
        assert check.name in _read(content).text


def test_the_verdict_stands_at_the_top_in_a_sentence() -> None:
    said = _read(page(training_report())).text

    assert "Survived 6 evictions" in said
    assert (
        "It was evicted 6 times, 2 of them without notice, finished in attempt 7, and the result is"
        " bit for bit identical to the baseline's."
    ) in said


def test_a_failed_drill_says_in_its_sentence_what_went_wrong() -> None:
    said = _read(page(plain_report())).text

    assert "Did not survive 4 evictions" in said
    assert (
        "It was evicted 4 times: it was still running after its grace period, and it started over."
    ) in said
    assert "It was still running after its grace period. In 4 of 4 evictions it was" in said


def test_a_queue_is_told_by_its_items() -> None:
    assert "each of 2,000 items was stored exactly once" in _read(page(queue_report())).text
    assert "2 missing, 1 duplicate" in _read(page(queue_report(lost=2, doubled=1))).text


def test_the_items_of_several_files_are_not_taken_for_those_of_one() -> None:
    report = queue_report()
    twice = dataclasses.replace(report, comparisons=(*report.comparisons, *report.comparisons))

    assert "each of 4,000 items in 2 files was stored exactly once" in _read(page(twice)).text


def test_a_drill_in_which_too_little_landed_proves_nothing() -> None:
    short = failed("conclusive", "Only 1 of 3 evictions landed.")

    said = _read(page(report(job_run([attempt(1)]), checks=(short,)))).text

    assert "Inconclusive" in said
    assert "the drill proves nothing either way" in said


def test_a_warning_is_shown_as_such_and_the_job_still_survived() -> None:
    reason = "It was killed. The job still finished with the same result as the baseline."
    warned = Check(name="left-in-time", result=CheckResult.WARN, reason=reason)
    good = training_report()

    content = page(dataclasses.replace(good, checks=(*good.checks, warned)))

    said = _read(content).text
    assert "Survived 6 evictions with warnings" in said
    assert "But it was still running after its grace period." in said
    assert "! WARN" in said and reason in said
    assert '<li class="warn">' in content


def test_a_command_that_fails_in_the_baseline_shows_what_it_printed_once() -> None:
    content = page(crashed_report())

    assert "Failed without any eviction" in content
    assert content.count("ModuleNotFoundError") == 1
    assert "Attempt 7, exit code 1 (same as 6 earlier attempts)" in content


def test_of_work_that_was_never_done_nobody_knows_how_much_was_lost() -> None:
    undone = failed("finished", "It hung.")

    said = _read(page(report(job_run([attempt(1)]), checks=(undone,)))).text

    assert "work lostunknownit did not finish" in said


def test_an_attempt_that_takes_all_the_width_has_its_words_on_its_bar() -> None:
    assert "inside" in page(report(job_run([attempt(1)])))
    assert 'class="label inside' not in page(queue_report())


def test_a_command_that_hangs_shows_what_it_printed_last() -> None:
    hung = job_run([attempt(1, output_tail="waiting for the lock")], end=JobRunEnd.TIMED_OUT)

    assert "waiting for the lock" in page(report(hung))


def test_every_question_has_its_answer_also_those_that_stay_open() -> None:
    said = _read(page(training_report())).text

    assert "It finished. The job was complete." in said
    assert "No item is missing. No file of rows." in said
    assert "n/a" in said


def test_every_eviction_has_its_row() -> None:
    content = page(training_report(6))

    rows = re.findall(r"<tr><th scope=\"row\".*?</tr>", content)
    assert len([row for row in rows if "notice" in row]) == 6
    assert any(
        all(word in row for word in ("without notice", "137", "at least 16 steps")) for row in rows
    )


def test_where_the_runs_went_apart_is_told_if_the_result_differs() -> None:
    apart = Divergence(step=412, leaf="exp_avg[3]", attempt=3, at_resume=False, batch_differs=True)
    differs = failed("identical", "It differs.")

    told = page(report(job_run([attempt(1)]), divergence=apart, checks=(differs,)))
    same = page(report(job_run([attempt(1)]), divergence=apart))

    assert "step 412, exp_avg[3], after attempt 2; the batch differed" in told
    assert "exp_avg" not in same


def test_prices_come_with_their_date_and_source() -> None:
    prices = MachinePrices(
        machine="a3-highgpu-8g",
        location="europe-west4",
        on_demand=Decimal("87.832"),
        spot=Decimal("52.699"),
        currency="EUR",
        date=date(2026, 10, 1),
        source="own contract",
    )

    said = _read(page(training_report(), prices=prices)).text.replace("\u00a0", " ")

    assert "Prices for one a3-highgpu-8g in europe-west4 as of 2026-10-01 (own contract)" in said
    assert "EUR per hour" in said
    assert "87.832" in said
    assert "Prices for one g2-standard-4 in us-central1 as of 2026-08-21" in _read(
        page(training_report())
    ).text.replace("\u00a0", " ")


def hostile_report() -> DrillReport:
    """A report in which everything that can come from outside is out to do harm."""
    calm = training_report()
    assert calm.evicted is not None
    attempts = [
        dataclasses.replace(one, output_tail=HOSTILE, ended=type(one.ended)("failed"))
        for one in calm.evicted.attempts
    ]
    saves = [dataclasses.replace(one, path=HOSTILE) for one in calm.evicted.saves]
    struck = [
        dataclasses.replace(one, process=HOSTILE, writing=(HOSTILE,), torn=(HOSTILE,))
        for one in calm.evicted.evictions
    ]
    [run] = calm.runs
    metrics = tuple(dataclasses.replace(one, name=HOSTILE) for one in run.metrics)
    return dataclasses.replace(
        calm,
        outlast_version=HOSTILE,
        command=("sh", "-c", HOSTILE),
        isolation=HOSTILE,
        checks=(
            passed(HOSTILE, HOSTILE),
            failed("files-intact", f"`{HOSTILE}`"),
            failed("identical", HOSTILE),
            not_applicable(HOSTILE, HOSTILE),
        ),
        comparisons=(Comparison(name=HOSTILE, how=HOSTILE, difference=HOSTILE),),
        divergence=Divergence(step=1, leaf=HOSTILE, attempt=2, at_resume=True, batch_differs=False),
        runs=(dataclasses.replace(run, folder=HOSTILE, metrics=metrics),),
        remarks=(HOSTILE,),
        evicted=dataclasses.replace(
            calm.evicted,
            name=HOSTILE,
            attempts=tuple(attempts),
            evictions=tuple(struck),
            saves=tuple(saves),
        ),
    )


def test_nothing_from_outside_becomes_markup() -> None:
    prices = MachinePrices(
        machine=HOSTILE,
        location=HOSTILE,
        on_demand=Decimal(2),
        spot=Decimal(1),
        currency=HOSTILE,
        date=date(2026, 1, 1),
        source=HOSTILE,
    )

    content = page(hostile_report(), prices=prices)

    found = _read(content)
    assert not found.names & {"script", "img"}
    assert not [name for _, name, _ in found.attributes if name.startswith("on")]
    assert found.text.count("<script>window.pwned=1</script>") >= 12
    assert content.encode()
    assert "\x1b" not in content
    assert "\u202e" not in content


def test_metrics_that_are_no_numbers_are_not_drawn() -> None:
    calm = training_report()
    [run] = calm.runs
    odd = [float("nan"), float("inf"), 1e300, -1e300, 0.0]
    metrics = tuple(
        ProgressPoint(seconds=0.0, step=step, attempt=1, name="loss", value=value)
        for step, value in enumerate(odd)
    )

    content = page(dataclasses.replace(calm, runs=(dataclasses.replace(run, metrics=metrics),)))

    assert not re.search(r'd="[^"]*(nan|inf)', content)


def test_metrics_none_of_which_can_be_drawn_are_said_to_be_so() -> None:
    calm = training_report(baseline_runs=())
    [run] = calm.runs
    metrics = (ProgressPoint(seconds=0.0, step=0, attempt=1, name="loss", value=float("nan")),)

    said = _read(
        page(dataclasses.replace(calm, runs=(dataclasses.replace(run, metrics=metrics),)))
    ).text

    assert "No value of loss can be drawn." in said


def test_a_thousand_evictions_stay_below_a_megabyte_and_a_half() -> None:
    content = page(training_report(1000, steps=20_000))

    assert len(content.encode()) < 1_500_000
    assert content.count('<tr><th scope="row" class="n">') == 1000


def test_workers_that_write_all_the_time_do_not_blow_up_the_page() -> None:
    busy = queue_report(50, 100)
    assert busy.evicted is not None
    length = busy.evicted.seconds
    saves = tuple(Save(at_seconds=length * at / 20_000, path="r.db") for at in range(20_000))

    content = page(
        dataclasses.replace(busy, evicted=dataclasses.replace(busy.evicted, saves=saves))
    )

    assert len(content.encode()) < 1_500_000


def test_more_than_a_page_can_hold_is_left_to_json() -> None:
    content = page(training_report(3200, steps=32_000))

    assert "200 more are in the output of <code>--format json</code>." in content
    assert len(content.encode()) < 1_500_000


def test_writing_a_page_makes_the_folders_above_it_and_leaves_nothing_else(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a" / "b" / "drill.html"

    write_html(training_report(), path)
    write_html(crashed_report(), path)

    assert "Failed without any eviction" in path.read_text(encoding="utf-8")
    assert [one.name for one in path.parent.iterdir()] == ["drill.html"]


def test_a_page_that_cannot_be_written_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "drill.html"
    path.write_text("before")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(DrillError, match=r"Could not write the report .*: No space left on"):
        write_html(training_report(), path)

    assert path.read_text() == "before"
    assert [one.name for one in tmp_path.iterdir()] == ["drill.html"]


def test_a_page_below_a_file_is_refused_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(DrillError, match=r"Could not write the report '.*drill\.html'") as caught:
        write_html(training_report(), tmp_path / "file" / "drill.html")

    assert caught.value.hint == "Use a path in a writable folder."


def test_a_new_page_is_private(tmp_path: Path) -> None:
    path = tmp_path / "drill.html"
    write_html(training_report(), path)

    assert path.stat().st_mode & 0o777 == 0o600
