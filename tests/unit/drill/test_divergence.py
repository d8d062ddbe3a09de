import json
from pathlib import Path

from outlast.drills.compare.divergence import Divergence, StepHash, compare_hashes, read_hashes


def steps(first: int, *hashes: str, batch: str | None = None) -> list[StepHash]:
    return [
        StepHash(step, {"w": found[0], "opt.m[3]": found[1]}, batch)
        for step, found in enumerate(hashes, start=first)
    ]


BASELINE = steps(0, "aa", "bb", "cc", "dd", "ee")


def test_equal_hashes_show_how_many_steps_were_compared() -> None:
    found = compare_hashes(BASELINE, {1: BASELINE[:3], 2: BASELINE[2:]})

    assert found.divergence is None
    assert (found.steps, found.last_step) == (5, 4)


def test_the_first_step_and_leaf_that_differ_are_told_with_the_attempt() -> None:
    found = compare_hashes(BASELINE, {1: BASELINE[:3], 2: [BASELINE[2], *steps(3, "dx", "xx")]})

    assert found.divergence == Divergence(
        step=3, leaf="opt.m[3]", attempt=2, at_resume=False, batch_differs=False, same_step=2
    )
    assert str(found.divergence) == "step 3, opt.m[3], after attempt 1"
    assert found.divergence.where == "at step 3, opt.m[3], after attempt 1"


def test_hashes_of_few_steps_place_a_divergence_between_two_of_them() -> None:
    sampled = [BASELINE[0], BASELINE[2], BASELINE[4]]

    found = compare_hashes(sampled, {1: BASELINE[:3], 2: [BASELINE[2], *steps(3, "dx", "xx")]})

    assert found.divergence is not None
    assert found.divergence.where == "between step 2 and step 4, w, after attempt 1"
    assert found.divergence.place == "between step 2 and step 4, w"


def test_a_wrong_state_at_resume_is_told_apart() -> None:
    found = compare_hashes(BASELINE, {1: BASELINE[:3], 2: steps(2, "xc", "xd")})

    assert str(found.divergence) == "step 2, w, when attempt 2 resumed"


def test_a_batch_that_differed_is_told() -> None:
    baseline = steps(1, "aa", batch="one")

    found = compare_hashes(baseline, {1: steps(1, "xa", batch="two")})

    assert str(found.divergence) == (
        "step 1, w, in attempt 1, before any eviction: the job is not deterministic;"
        " the batch differed"
    )


def test_the_earliest_step_counts_even_if_a_later_attempt_did_it() -> None:
    found = compare_hashes(
        BASELINE, {1: [*BASELINE[:3], *steps(3, "xx")], 2: [BASELINE[1], *steps(2, "xx")]}
    )

    assert found.divergence is not None
    assert (found.divergence.step, found.divergence.attempt) == (2, 2)


def test_steps_that_one_run_left_out_are_not_compared() -> None:
    found = compare_hashes([BASELINE[0], BASELINE[4]], {1: steps(1, "xx", "xx"), 2: BASELINE[4:]})

    assert found.divergence is None
    assert found.steps == 1


def test_a_leaf_that_is_only_in_one_run_is_a_difference() -> None:
    [one] = steps(0, "aa")
    more = StepHash(0, {**one.leaves, "extra": "x"}, None)

    found = compare_hashes([one], {1: [one], 2: [more]})

    assert found.divergence is not None and found.divergence.leaf == "extra"


def test_what_differs_from_the_start_says_nothing_about_evictions() -> None:
    unseeded = steps(0, "xa", "xb", "xc")

    assert compare_hashes(BASELINE, {1: unseeded}).divergence is None
    found = compare_hashes(BASELINE, {1: unseeded[:2], 2: steps(1, "xb", "xx")}).divergence
    assert found is not None
    assert (found.step, found.leaf) == (2, "opt.m[3]")


def test_what_differs_from_the_start_is_seen_after_an_eviction_during_startup() -> None:
    unseeded = steps(0, "xa", "xb", "xc")

    assert compare_hashes(BASELINE, {1: [], 2: unseeded}).divergence is None
    assert compare_hashes(BASELINE, {2: unseeded}).divergence is None
    found = compare_hashes(BASELINE, {1: [], 2: steps(1, "xb")}).divergence
    assert found is not None and found.at_resume


def test_a_file_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "attempt-0001.jsonl"
    lines = [
        json.dumps({"leaves": ["w", "b"]}),
        json.dumps({"step": 1, "hashes": ["aa", "bb"], "batch": "cc"}),
        json.dumps({"step": 2, "hashes": ["too", "many", "of", "them"]}),
        "[1]",
        json.dumps({"leaves": ["w"]}),
        json.dumps({"step": 3, "hashes": ["dd"]}),
        '{"step": 4, "hash',
    ]
    path.write_text("\n".join(lines))

    assert read_hashes(path) == [
        StepHash(1, {"w": "aa", "b": "bb"}, "cc"),
        StepHash(3, {"w": "dd"}, None),
    ]
    assert read_hashes(tmp_path / "none") == []
