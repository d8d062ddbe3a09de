"""Launchers of ranks on Spot: their restarts, their exit code, their timeout, and JobSets."""

import pytest

from outlast.manifests.lint.engine.configuration import LintOptions
from outlast.manifests.lint.engine.report import Finding
from outlast.manifests.rules import ALL_RULES
from tests.unit.manifests.lint.linted import SPOT_JOB, fixed, manifest, report
from tests.unit.manifests.rules.harness import files_of, found_by

SPOT_SELECTOR = '      nodeSelector:\n        cloud.google.com/gke-spot: "true"\n'
CODES = ("OL113", "OL114", "OL115", "OL116")
IGNORED = "{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}"


def job(command: str, *, env: str = "", spec: str = "", more: str = "") -> str:
    variables = f"          env: {env}\n" if env else ""
    text = SPOT_JOB + f"          command: {command}\n{variables}{more}"
    return text.replace("spec:\n  template", f"spec:\n{spec}  template", 1)


def found(code: str, text: str) -> list[Finding]:
    return [one for one in report(text) if one.code == code]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (job("[torchrun, --max-restarts, '3', train.py]"), "torchrun restarts its ranks up to 3"),
        (job("[torchrun, --max_restarts=1, train.py]"), "torchrun restarts its ranks once"),
        (
            job("[accelerate, launch, --max_restarts, '2', train.py]"),
            "accelerate launch restarts its ranks up to 2 times",
        ),
        (job("[bash, -c, 'cd /app && torchrun --max-restarts 3 a.py']"), "torchrun restarts"),
        (
            job("[outlast, exec, --, bash, -c, 'exec torchrun --max-restarts 3 a.py']"),
            "torchrun restarts",
        ),
        (job("[torchrun, a.py]", env="[{name: PET_MAX_RESTARTS, value: '4'}]"), "torchrun restart"),
        (job("[torchrun, --max-restarts=0, a.py]"), None),
        (
            job("[torchrun, --max-restarts=0, a.py]", env="[{name: PET_MAX_RESTARTS, value: '4'}]"),
            None,
        ),
        (job("[torchrun, a.py, --max-restarts, '3']"), None),
        (job("[torchrun, --max-restarts, $(N), a.py]"), None),
        (job("[torchrun, --nnodes, '1:4', --max-restarts, '3', a.py]"), None),
        (
            job(
                "[torchrun, --max-restarts, '3', a.py]",
                env="[{name: PET_NNODES, value: '1:4'}]",
            ),
            None,
        ),
        (job("[python, a.py, --max-restarts, '3']"), None),
        (job("[torchrun, --max-restarts, '3', a.py]").replace(SPOT_SELECTOR, ""), None),
    ],
)
def test_restarts_in_the_pod_are_reported(text: str, message: str | None) -> None:
    findings = found("OL113", text)

    assert len(findings) == (message is not None)
    assert all(finding.message.startswith(message or "") for finding in findings)


@pytest.mark.parametrize(
    ("text", "after"),
    [
        (job("[torchrun, --max-restarts, '3', a.py]"), "--max-restarts, '0', a.py"),
        (job("[torchrun, --max-restarts=3, a.py]"), "[torchrun, '--max-restarts=0', a.py]"),
        (job("[torchrun, a.py]", env="[{name: PET_MAX_RESTARTS, value: '4'}]"), "value: '0'"),
    ],
)
def test_restarts_in_the_pod_can_be_removed(text: str, after: str) -> None:
    result = fixed(text, unsafe=True, options=LintOptions(select=("OL113",)))

    assert after in result.replace('"', "'")
    assert found("OL113", result) == []


def test_restarts_in_a_script_are_left_to_the_author() -> None:
    [finding] = found("OL113", job("[bash, -c, 'torchrun --max-restarts 3 a.py']"))

    assert not finding.fixable


SEVERAL = "  parallelism: 2\n  completions: 2\n"
POLICY = f"  podFailurePolicy: {{rules: [{IGNORED}]}}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (job("[torchrun, a.py]"), "number 7 fails the Job."),
        (job("[torchrun, a.py]", spec="  backoffLimit: 0\n"), "the first fails the Job."),
        (job("[torchrun, a.py]", spec=SEVERAL + POLICY), "number 7 fails the Job."),
        (job("[sh, -c, 'torchrun a.py']"), "number 7 fails the Job."),
        (job("[accelerate, launch, a.py]"), "number 7 fails the Job."),
        # One Pod, and evictions are recognized by their condition.
        (job("[torchrun, a.py]", spec=POLICY), None),
        (job("[torchrun, a.py]", spec=SEVERAL + "  backoffLimit: 100\n"), None),
        (job("[torchrun, a.py]", spec=SEVERAL + "  backoffLimitPerIndex: 1\n"), None),
        (
            job(
                "[torchrun, a.py]",
                spec=SEVERAL
                + "  podFailurePolicy: {rules: [{action: Ignore, "
                + "onExitCodes: {operator: In, values: [1]}}]}\n",
            ),
            None,
        ),
        (job("[outlast, exec, --, torchrun, a.py]"), None),
        (job("[outlast, exec, --, sh, -c, 'torchrun a.py']"), None),
        (job("[sh, -c, 'exec outlast exec -- torchrun a.py']"), None),
        # The entry point of the image may be `outlast exec --`.
        (job("[torchrun, a.py]").replace("command:", "args:"), None),
        (job("[python, a.py]"), None),
        (job("[torchrun, a.py]").replace(SPOT_SELECTOR, ""), None),
    ],
)
def test_an_exit_code_that_hides_evictions_is_reported(text: str, message: str | None) -> None:
    findings = found("OL114", text)

    assert len(findings) == (message is not None)
    assert all(finding.message.endswith(message or "") for finding in findings)


VARIABLE = "          env: [{{name: {}, value: '{}'}}]\n"
BY_SCRIPT = "[sh, -c, 'export TORCH_ELASTIC_SHUTDOWN_TIMEOUT=9; torchrun a.py']"
FROM = "          envFrom: [{configMapRef: {name: torch}}]\n"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (job("[torchrun, a.py]"), "waits 30 s for its ranks by default"),
        (job("[outlast, exec, --, torchrun, a.py]"), None),
        (job("[torchrun, a.py]").replace("command:", "args:"), None),
        (job("[torchrun, --shutdown-timeout, '12', a.py]"), None),
        (job("[torchrun, --shutdown-timeout, '15', a.py]"), None),
        (job("[torchrun, --shutdown-timeout, '16', a.py]"), "waits 16 s for its ranks"),
        (job("[outlast, exec, --, torchrun, --shutdown_timeout=16, a.py]"), "waits 16 s"),
        (
            job("[torchrun, a.py]", more=VARIABLE.format("PET_SHUTDOWN_TIMEOUT", 20)),
            "waits 20 s for its ranks",
        ),
        (
            job("[torchrun, a.py]", more=VARIABLE.format("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", 20)),
            "waits 20 s for its ranks",
        ),
        (job("[torchrun, a.py]", more=VARIABLE.format("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", 9)), None),
        # Set where it cannot be read.
        (job(BY_SCRIPT), None),
        (job("[torchrun, a.py]", more=FROM), None),
        (job("[torchrun, --shutdown-timeout, $(SECONDS), a.py]"), None),
        (job("[torchrun, a.py]").replace(SPOT_SELECTOR, ""), None),
    ],
)
def test_a_wait_beyond_the_end_of_the_pod_is_reported(text: str, seconds: str | None) -> None:
    findings = found("OL115", text)

    assert len(findings) == (seconds is not None)
    for finding in findings:
        assert seconds and seconds in finding.message
        assert finding.message.endswith("the Pod is killed 15 s after the notice.")


def test_a_pool_with_a_longer_window_leaves_time_for_the_default() -> None:
    pool = (
        "gcloud container node-pools create s --spot --system-config-from-file=k.yaml\n"
        "cat > k.yaml <<END\nkubeletConfig:\n  shutdownGracePeriodSeconds: 120\nEND\n"
    )
    text = job("[torchrun, a.py]").replace(
        "      restartPolicy", "      terminationGracePeriodSeconds: 105\n      restartPolicy"
    )

    codes = {one.code for one in report(text, pools_sh=pool)}
    assert "OL115" not in codes


def test_a_timeout_is_cut_to_the_window() -> None:
    text = job("[torchrun, --shutdown-timeout=60, a.py]")

    result = fixed(text, unsafe=True, options=LintOptions(select=("OL115",)))

    assert "--shutdown-timeout=13" in result


def jobset(
    policy: str = "", job: str = "", command: str = "[outlast, exec, --, torchrun, a.py]"
) -> str:
    return manifest(
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        f"spec:\n{policy}  replicatedJobs:\n  - name: node\n    template:\n      spec:\n"
        f"        parallelism: 2\n        completions: 2\n{job}"
        "        template:\n          spec:\n            restartPolicy: Never\n"
        '            nodeSelector: {cloud.google.com/gke-spot: "true"}\n'
        f"            containers: [{{name: a, image: 'x:1', command: {command}}}]\n",
    )


def policy(max_restarts: int, *rules: str) -> str:
    listed = "    rules:\n" + "".join(f"    - {rule}\n" for rule in rules) if rules else ""
    return f"  failurePolicy:\n    maxRestarts: {max_restarts}\n{listed}"


AT_ONCE = "        backoffLimit: 0\n"
ON_DISRUPTION = IGNORED.replace("Ignore", "FailJob")
ON_CODE = "{action: FailJob, onExitCodes: {operator: In, values: [75]}}"
FREE = "{action: RestartJobSetAndIgnoreMaxRestarts, onJobFailureReasons: [PodFailurePolicy]}"
ALL_FREE = "{action: RestartJobSetAndIgnoreMaxRestarts}"
BY_MESSAGE = (
    "{action: RestartJobSetAndIgnoreMaxRestarts, onJobFailureMessagePatterns: ['Disruption']}"
)


def failing(*rules: str) -> str:
    return f"{AT_ONCE}        podFailurePolicy: {{rules: [{', '.join(rules)}]}}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (jobset(policy(3), AT_ONCE), "number 4 fails the JobSet: maxRestarts is 3"),
        (jobset(policy(3)), "number 28 fails the JobSet: maxRestarts is 3"),
        (jobset(policy(3), failing(ON_DISRUPTION)), "number 4 fails the JobSet"),
        (jobset(policy(3, FREE), AT_ONCE), "number 4 fails the JobSet"),
        (
            jobset(policy(3, FREE), failing(ON_DISRUPTION)),
            "exits with 75, which counts as a failure: number 4 fails the JobSet.",
        ),
        (
            jobset(policy(0, FREE), failing(ON_DISRUPTION)),
            "exits with 75, which counts as a failure: the first fails the JobSet.",
        ),
        (jobset(policy(3, FREE), failing(ON_DISRUPTION, ON_CODE)), None),
        (jobset(policy(0, FREE), failing(ON_DISRUPTION, ON_CODE)), None),
        (jobset(policy(3, ALL_FREE), AT_ONCE), None),
        (jobset(policy(3, BY_MESSAGE), AT_ONCE), None),
        (jobset(policy(100), AT_ONCE), None),
        # Without Outlast, the exit code after an interruption is not known.
        (jobset(policy(3, FREE), failing(ON_DISRUPTION), "[./train]"), None),
        # Another rule reports a JobSet that does not restart at all.
        (jobset(policy(0), AT_ONCE), None),
        (jobset("", AT_ONCE), None),
    ],
)
def test_a_jobset_that_counts_evictions_is_reported(text: str, message: str | None) -> None:
    findings = found("OL116", text)

    assert len(findings) == (message is not None)
    assert all(message in finding.message for finding in findings if message)


@pytest.mark.parametrize(
    ("text", "is_flagged"),
    [
        (jobset(policy(3, FREE), failing(ON_DISRUPTION, ON_CODE), "[torchrun, a.py]"), True),
        (jobset(policy(3, ALL_FREE), failing(ON_DISRUPTION), "[torchrun, a.py]"), False),
        (jobset(policy(100, FREE), failing(ON_DISRUPTION), "[torchrun, a.py]"), False),
        (jobset(policy(3, FREE), failing(ON_DISRUPTION, ON_CODE)), False),
    ],
)
def test_the_nodes_of_a_jobset_need_their_own_exit_code(text: str, is_flagged: bool) -> None:
    assert bool(found("OL114", text)) is is_flagged


def test_one_pod_of_a_jobset_that_forgives_evictions_may_exit_as_it_likes() -> None:
    text = jobset(policy(3, FREE), failing(ON_DISRUPTION, ON_CODE), "[torchrun, a.py]")
    alone = text.replace("parallelism: 2", "parallelism: 1").replace(
        "completions: 2", "completions: 1"
    )

    assert found("OL114", alone) == []
    two = alone.replace("  - name: node", "  - {name: leader, template: {}}\n  - name: node")
    assert len(found("OL114", two)) == 1


def test_what_one_of_these_rules_calls_clean_the_others_do_too() -> None:
    rules = [rule for rule in ALL_RULES if rule.code in CODES]

    for one in rules:
        for other in rules:
            assert found_by(other, files_of(one, "clean")) == set(), (one.name, other.name)
