from outlast.drills.run.controller import JobController, JobRules, PodEnd


def test_exit_0_ends_the_job_and_nothing_is_started_any_more() -> None:
    job = JobController(JobRules())

    assert job.pod_ended(PodEnd.SUCCEEDED) is None
    assert job.succeeded
    assert job.pod_ended(PodEnd.DISRUPTED) is None
    assert job.pod_ended(PodEnd.FAILED) is None
    assert not job.failed


def test_a_disrupted_pod_is_replaced_as_often_as_needed() -> None:
    job = JobController(JobRules(replacement_seconds=0.5, backoff_limit=2))

    assert [job.pod_ended(PodEnd.DISRUPTED) for _ in range(50)] == [0.5] * 50
    assert not job.failed


def test_one_failure_more_than_the_limit_ends_the_job() -> None:
    job = JobController(JobRules(backoff_limit=6))

    answers = [job.pod_ended(PodEnd.FAILED) for _ in range(7)]

    assert None not in answers[:6]
    assert answers[6] is None
    assert job.failed


def test_the_back_off_of_a_job_doubles_up_to_ten_minutes_for_ignored_failures_too() -> None:
    job = JobController(JobRules(backoff=True))

    waits = [job.pod_ended(PodEnd.DISRUPTED) for _ in range(9)]

    assert waits == [10, 20, 40, 80, 160, 320, 600, 600, 600]


def test_thousands_of_evictions_do_not_overflow_the_back_off() -> None:
    job = JobController(JobRules(backoff=True))

    assert [job.pod_ended(PodEnd.DISRUPTED) for _ in range(5000)][-1] == 600
