"""What the rules on silent loss catch beyond their fixtures, where they are silent, their fixes."""

import pytest

from outlast.manifests.lint.engine.configuration import LintOptions
from outlast.manifests.lint.engine.report import Finding
from tests.unit.manifests.lint.linted import SPOT_JOB, fixed, manifest, report

JOB = SPOT_JOB.replace("registry.example/trainer", "registry.example/trainer:1.0")
SPOT_SELECTOR = '      nodeSelector:\n        cloud.google.com/gke-spot: "true"\n'


def found(code: str, text: str, **files: str) -> list[Finding]:
    return list(report(text, options=LintOptions(select=(code,)), **files))


def mended(code: str, text: str) -> str:
    result = fixed(text, unsafe=True, options=LintOptions(select=(code,)))
    assert fixed(result, unsafe=True, options=LintOptions(select=(code,))) == result
    return result


def with_policy(*rules: str, more: str = "") -> str:
    policy = "".join(f"      - {rule}\n" for rule in rules)
    head = f"spec:\n{more}  podFailurePolicy:\n    rules:\n{policy}"
    return JOB.replace("spec:\n", head, 1)


def with_container(*lines: str) -> str:
    return JOB + "".join(f"          {line}\n" for line in lines)


IGNORED = "{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}"
OWN_CODE = "{action: FailJob, onExitCodes: {operator: In, values: [42]}}"
ALL_CODES = "{action: FailJob, onExitCodes: {operator: NotIn, values: [75]}}"


def test_a_long_grace_of_a_daemon_set_or_of_the_default_is_left_alone() -> None:
    daemon = manifest(
        "apps/v1",
        "DaemonSet",
        "spec:\n  selector: {}\n  template:\n    spec:\n      terminationGracePeriodSeconds: 60\n"
        f"{SPOT_SELECTOR}      containers: [{{name: a, image: 'x:1'}}]\n",
    )

    assert found("OL102", daemon) == []
    assert found("OL102", JOB) == []


def test_the_grace_is_cut_to_the_window() -> None:
    text = JOB.replace("restartPolicy", "terminationGracePeriodSeconds: 25\n      restartPolicy")

    assert "terminationGracePeriodSeconds: 15\n" in mended("OL102", text)
    assert fixed(text, options=LintOptions(select=("OL102",))) == text


@pytest.mark.parametrize(
    ("rules", "more", "is_flagged"),
    [
        ((OWN_CODE,), "", True),
        ((OWN_CODE, IGNORED), "", False),
        ((IGNORED.replace("Ignore", "Count"),), "", True),
        ((IGNORED.replace("}]", ", status: 'False'}]"),), "", True),
        ((OWN_CODE,), "  backoffLimit: 6\n", True),
        ((OWN_CODE,), "  backoffLimit: 1000\n", False),
    ],
)
def test_disruptions_are_ignored_or_have_room(
    rules: tuple[str, ...], more: str, is_flagged: bool
) -> None:
    assert bool(found("OL105", with_policy(*rules, more=more))) is is_flagged


def test_the_rule_for_disruptions_is_added_where_it_gets_its_turn() -> None:
    result = mended("OL105", with_policy(OWN_CODE))

    assert found("OL105", result) == found("OL107", result) == []
    (finding,) = found("OL105", with_policy(ALL_CODES))
    assert not finding.fixable


def test_a_job_that_fails_at_the_first_eviction_says_so() -> None:
    (finding,) = found("OL105", with_policy(IGNORED.replace("Ignore", "FailJob")))

    assert finding.message == "FailJob on DisruptionTarget ends the Job at the first eviction."
    assert not finding.fixable


OURS = ("env: [{name: OUTLAST_EXIT_CODE, value: '75'}]",)


@pytest.mark.parametrize(
    ("lines", "is_flagged"),
    [
        (OURS, True),
        (("env: [{name: OUTLAST_EXIT_CODE, value: '0'}]",), False),
        (("env: [{name: OUTLAST_EXIT_CODE, value: 'x'}]",), False),
        (("env: [{name: OUTLAST_EXIT_CODE, valueFrom: {}}]",), False),
        (("env: [{name: OUTLAST_RUN_URL, value: 'gs://a/b'}]",), True),
        (("command: [/usr/bin/outlast, work, 'm:f']",), True),
        (("command: [python, train.py]",), False),
    ],
)
def test_the_code_is_known_of_programs_that_say_so(
    lines: tuple[str, ...], is_flagged: bool
) -> None:
    text = with_policy(IGNORED) + "".join(f"          {line}\n" for line in lines)

    assert bool(found("OL106", text)) is is_flagged


@pytest.mark.parametrize(
    ("rule", "is_flagged"),
    [
        ("{action: Ignore, onExitCodes: {operator: In, values: [75]}}", False),
        ("{action: FailJob, onExitCodes: {operator: In, values: [75]}}", False),
        ("{action: Ignore, onExitCodes: {operator: NotIn, values: [1]}}", False),
        ("{action: Count, onExitCodes: {operator: NotIn, values: [1]}}", True),
        (
            "{action: Ignore, onExitCodes: {containerName: other, operator: In, values: [75]}}",
            True,
        ),
        ("{action: Ignore, onExitCodes: {operator: In, values: [76]}}", True),
    ],
)
def test_a_rule_for_the_code_is_enough(rule: str, is_flagged: bool) -> None:
    text = with_policy(IGNORED, rule) + f"          {OURS[0]}\n"

    assert bool(found("OL106", text)) is is_flagged


def test_the_rule_for_the_code_is_added() -> None:
    result = mended("OL106", with_policy(IGNORED) + f"          {OURS[0]}\n")

    assert "values:" in result
    assert found("OL106", result) == []


def test_flex_start_needs_the_code_even_without_a_policy_and_spot_has_another_rule() -> None:
    text = JOB + f"          {OURS[0]}\n"

    assert found("OL106", text) == []
    assert len(found("OL106", text.replace("gke-spot", "gke-flex-start"))) == 1
    assert found("OL106", text.replace(SPOT_SELECTOR, "")) == []


@pytest.mark.parametrize(
    ("rules", "messages"),
    [
        ((OWN_CODE, IGNORED), []),
        ((IGNORED, ALL_CODES), []),
        ((ALL_CODES, IGNORED), ["Evictions are ignored too late"]),
        ((OWN_CODE.replace("42", "137"), IGNORED), ["Evictions are ignored too late"]),
        ((ALL_CODES.replace("FailJob", "Ignore"), IGNORED), []),
        ((ALL_CODES, OWN_CODE.replace("FailJob", "Ignore")), ["Rule 2 never applies: rule 1"]),
        ((ALL_CODES, OWN_CODE), []),
        ((IGNORED, IGNORED.replace("Ignore", "Count")), ["Rule 2 never applies: rule 1"]),
        ((OWN_CODE.replace("FailJob", "FailIndex"),), ["FailIndex requires backoffLimitPerIndex"]),
        (
            (OWN_CODE.replace("operator", "containerName: b, operator"),),
            ["The Pod has no container 'b': "],
        ),
    ],
)
def test_rules_that_get_no_turn_are_told(rules: tuple[str, ...], messages: list[str]) -> None:
    findings = found("OL107", with_policy(*rules))

    assert len(findings) == len(messages)
    for finding, message in zip(findings, messages, strict=True):
        assert finding.message.startswith(message)


def test_twenty_rules_are_enough() -> None:
    def rules(count: int) -> list[str]:
        return [OWN_CODE.replace("42", str(code)) for code in range(1, count + 1)]

    assert found("OL107", with_policy(*rules(20))) == []
    (finding,) = found("OL107", with_policy(*rules(21)))
    assert finding.message == "There are 21 rules, but Kubernetes allows at most 20."


def test_an_indexed_job_gets_its_limit_per_index() -> None:
    more = "  completions: 2\n  completionMode: Indexed\n"
    text = with_policy(OWN_CODE.replace("FailJob", "FailIndex"), more=more)

    assert "backoffLimitPerIndex: 0\n" in mended("OL107", text)


@pytest.mark.parametrize("written", ["      restartPolicy: OnFailure\n", ""])
def test_never_is_written_safely(written: str) -> None:
    text = with_policy(IGNORED).replace("      restartPolicy: Never\n", written)

    result = fixed(text, options=LintOptions(select=("OL108",)))

    assert result.count("restartPolicy: Never\n") == 1
    assert found("OL108", result) == []


def test_a_base_may_get_its_restart_policy_from_elsewhere() -> None:
    text = with_policy(IGNORED).replace("      restartPolicy: Never\n", "")
    kustomization = "resources: [a.yaml]\n"

    assert len(found("OL108", text)) == 1
    assert found("OL108", text, kustomization_yaml=kustomization) == []


def hooked(hook: str, grace: int = 15, *, spot: bool = True) -> str:
    text = with_container(f"lifecycle: {{preStop: {hook}}}")
    text = text.replace(
        "restartPolicy", f"terminationGracePeriodSeconds: {grace}\n      restartPolicy"
    )
    return text if spot else text.replace(SPOT_SELECTOR, "")


@pytest.mark.parametrize(
    ("text", "is_flagged"),
    [
        (hooked("{sleep: {seconds: 15}}"), True),
        (hooked("{sleep: {seconds: 14}}"), False),
        (hooked("{sleep: {seconds: 20}}", 60), True),
        (hooked("{sleep: {seconds: 20}}", 60, spot=False), False),
        (hooked("{sleep: {seconds: 60}}", 60, spot=False), True),
        (hooked("{exec: {command: [sleep, '1m']}}"), True),
        (hooked("{exec: {command: [sh, -c, 'sleep 8; sleep 8']}}"), True),
        (hooked("{exec: {command: [sh, -c, 'sleep 8 && kill 1']}}"), False),
        (hooked("{exec: {command: [sh, -c, 'for i in 1 2; do sleep 30; done']}}"), False),
        (hooked("{exec: {command: [/drain, '60']}}"), False),
        (hooked("{httpGet: {port: 80}}"), False),
        (hooked("{sleep: {seconds: 5}}", 0), False),
    ],
)
def test_a_hook_leaves_time_for_the_program(text: str, is_flagged: bool) -> None:
    assert bool(found("OL109", text)) is is_flagged


@pytest.mark.parametrize(
    ("shell", "script", "program"),
    [
        ("sh", "python train.py", "python"),
        ("sh", "cd /app && python train.py", "python"),
        ("sh", "exec python train.py", None),
        ("sh", "if [ -f x ]; then exec python a.py; fi", None),
        ("sh", "trap 'kill $P' TERM; python a.py & P=$!; wait $P", None),
        ("sh", "echo hello; sleep 3600", None),
        ("sh", "apt-get update && apt-get install -y jq", None),
        ("bash", "python train.py", None),
        ("bash", "cd /app && ./train", None),
        ("bash", "X=1 python train.py", None),
        ("bash", "! python train.py", "python"),
        ("bash", "python train.py; echo done", "python"),
        ("bash", "python train.py | tee log", "python"),
        ("bash", "python train.py > log 2>&1", "python"),
        ("bash", "python train.py >log", "python"),
        ("bash", 'python -c "print(1 < 2)"', None),
        ("bash", "python train.py & wait", "python"),
        ("bash", "for i in 1 2; do python train.py $i; done", "python"),
        ("bash", "if $CLEAN; then rm -r /data; fi", None),
        ("zsh", "python train.py", None),
        ("/bin/dash", "/opt/train --all", "train"),
        ("sh", "outlast exec -- python train.py", "outlast"),
    ],
)
def test_a_shell_that_waits_is_told_from_one_that_steps_aside(
    shell: str, script: str, program: str | None
) -> None:
    findings = found("OL110", with_container(f"command: [{shell}, -c, {script!r}]"))

    assert len(findings) == (program is not None)
    assert all(f"waits for {program!r}" in finding.message for finding in findings)


def test_the_program_takes_the_place_of_the_shell() -> None:
    text = with_container("command: [sh, -c, 'cd /app && python train.py --x 1']")

    assert 'cd /app && exec python train.py --x 1"]' in mended("OL110", text)


@pytest.mark.parametrize(
    "script",
    ["python a.py | cat", "python a.py; rm x", "if true; then python a.py; fi", "X=1 python a.py"],
)
def test_what_follows_the_program_is_not_cut_off(script: str) -> None:
    (finding,) = found("OL110", with_container(f"command: [sh, -c, {script!r}]"))

    assert not finding.fixable


def test_what_the_image_starts_is_not_known() -> None:
    assert found("OL110", with_container("args: [sh, -c, 'python train.py']")) == []


@pytest.mark.parametrize(
    ("script", "is_flagged"),
    [
        ("trap 'save; exit 0' TERM; run", True),
        ("trap 'save; exit 0' SIGINT SIGTERM\nrun", True),
        ('trap "exit 0" 15; run', True),
        ("trap leave TERM\nleave() {\n  save\n  exit 0\n}\nrun", True),
        ("leave() { save; exit 0; }\ntrap leave TERM; run", True),
        ("trap 'exit 75' TERM; run; exit 0", False),
        ("trap 'exit 0' INT; run", False),
        ("trap leave TERM; run", False),
        ("run || exit 0", False),
        ("trap '' TERM; run", False),
    ],
)
def test_a_trap_that_exits_zero_is_told(script: str, is_flagged: bool) -> None:
    quoted = script.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    text = with_container(f'command: [bash, -c, "{quoted}"]')

    assert bool(found("OL111", text)) is is_flagged


def test_exit_code_zero_becomes_75() -> None:
    text = with_container("env:", "- {name: OUTLAST_EXIT_CODE, value: '0'}")

    assert 'value: "75"' in mended("OL111", text)
    assert found("OL111", text.replace(SPOT_SELECTOR, "")) == []


def jobset(policy: str = "", job: str = "", spot: bool = True) -> str:
    selector = '{cloud.google.com/gke-spot: "true"}' if spot else "{}"
    return manifest(
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        f"spec:\n{policy}  replicatedJobs:\n  - name: workers\n    template:\n      spec:\n{job}"
        "        template:\n          spec:\n"
        f"            restartPolicy: Never\n            nodeSelector: {selector}\n"
        "            containers: [{name: a, image: 'x:1'}]\n",
    )


def policy(max_restarts: int | None = None, *rules: str) -> str:
    limit = f"    maxRestarts: {max_restarts}\n" if max_restarts is not None else ""
    listed = "    rules:\n" + "".join(f"    - {rule}\n" for rule in rules) if rules else ""
    return f"  failurePolicy:\n{limit}{listed}" if limit or listed else ""


IGNORES = f"        podFailurePolicy: {{rules: [{IGNORED}]}}\n"
FAILS = IGNORES.replace("action: Ignore", "action: FailJob")
AT_ONCE = "        backoffLimit: 0\n"
FREE = "action: RestartJobSetAndIgnoreMaxRestarts"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (jobset(), "Eviction number 7 fails the Job 'workers'"),
        (jobset(job=AT_ONCE), "The first eviction fails the Job 'workers'"),
        (jobset(job=FAILS), "The first eviction fails the Job 'workers'"),
        (jobset(policy(0), AT_ONCE), "The first eviction fails the Job 'workers'"),
        (jobset(policy(3), AT_ONCE), None),
        (jobset(job=IGNORES), None),
        (jobset(job="        backoffLimit: 100\n"), None),
        (jobset(job="        backoffLimitPerIndex: 3\n"), None),
        (jobset(policy(0, f"{{{FREE}}}"), AT_ONCE), None),
        (jobset(policy(0, f"{{{FREE}, onJobFailureReasons: [PodFailurePolicy]}}"), FAILS), None),
        (
            jobset(policy(0, f"{{{FREE}, onJobFailureReasons: [PodFailurePolicy]}}"), AT_ONCE),
            "The first eviction fails the Job 'workers'",
        ),
        (
            jobset(policy(0, f"{{{FREE}, targetReplicatedJobs: [leader]}}"), AT_ONCE),
            "The first eviction fails the Job 'workers'",
        ),
        (
            jobset(policy(3, "{action: FailJobSet}", f"{{{FREE}}}"), AT_ONCE),
            "The first eviction fails the Job 'workers' with BackoffLimitExceeded",
        ),
        (jobset(spot=False), None),
    ],
)
def test_a_jobset_survives_evictions_or_says_which_ends_it(text: str, message: str | None) -> None:
    findings = found("OL112", text)

    assert len(findings) == (message is not None)
    assert all(finding.message.startswith(message or "") for finding in findings)


def test_a_jobset_that_fails_fast_is_not_taken_for_a_job() -> None:
    text = jobset(policy(3, f"{{{FREE}}}"), AT_ONCE + FAILS)

    for code in ("OL105", "OL106", "OL107", "OL108", "OL112"):
        assert found(code, text) == []
