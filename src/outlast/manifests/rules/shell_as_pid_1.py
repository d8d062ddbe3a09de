"""A shell as the first process, which keeps the signal from the program.

Why: at the end only the first process of a container gets SIGTERM. A shell that waits for a program
neither passes the signal on nor ends by it, so the program is killed without having heard of it,
and does not save. Debian's sh waits even for a single command; bash gives its place to the last
command of a script, if that is a plain one.
Instead: write exec before the program, or start the program without a shell, or put `outlast exec`
or another init before the shell, which passes signals on.
"""

import re
from collections.abc import Iterator

from outlast.manifests.lint.changes import Fix, Put
from outlast.manifests.lint.pod import Container, Pod
from outlast.manifests.lint.pools.model import Tier
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, pod_rule
from outlast.manifests.lint.script import Call, Script, script_in
from outlast.manifests.lint.view import Fault

# Preparations, and what has nothing to save. The program is what comes besides these.
_NO_PROGRAMS = frozenset(
    """
    . : [ [[ alias apk apt apt-get awk basename break case cat cd chmod chown command continue
    cp curl date dd declare df dirname done du echo env esac exit export false fi find for free
    function fuse2fs gcloud getent git grep gsutil gunzip gzip head hostname huggingface-cli id
    in ldconfig let ln local ls mkdir mkfs.ext4 mount mv nproc nslookup nvidia-smi ping pip pip3
    printenv printf ps pwd read readonly return rm rsync sed seq service set shift shopt sleep
    sort source stat sysctl tail tar tee test top touch true type ulimit umask uname unset unzip
    wait wget which whoami xargs yum zcat }
    """.split()
)
_PROGRAM = re.compile(r"[A-Za-z0-9_$][\w.$-]*")
_REDIRECTION = re.compile(r"\d?[<>]")
# These give their place to the last command, if it is a plain one.
_STEP_ASIDE = ("bash", "zsh")


@pod_rule("OL110", Severity.WARNING)
def shell_as_pid_1(pod: Pod, review: Review) -> Iterator[Fault]:
    if pod.owner_kind == "DaemonSet" or not review.aim(pod).tiers & {Tier.SPOT, Tier.FLEX_START}:
        return
    for container in pod.containers:
        # Without a command the image says what runs first.
        script = script_in(container, ("command",), ("args",)) if container.get("command") else None
        program = None if script is None else _waited_for(script)
        if script is None or program is None:
            continue
        yield container.fault(
            f"{script.shell} is the first process and waits for {program.program!r}, which never "
            "gets SIGTERM.",
            at=script.at,
            fix=_fix(container, script, program),
        )


def _waited_for(script: Script) -> Call | None:
    """The program that the shell waits for; None if it hands over, or takes care of signals."""
    if any(call.program in ("exec", "trap") for call in script.calls):
        return None
    programs = [
        call
        for call in script.calls
        if call.program not in _NO_PROGRAMS
        and _PROGRAM.fullmatch(call.program)
        # `if $VERBOSE; then` asks, and runs nothing.
        and not (call.is_led and call.program.startswith("$"))
    ]
    if not programs:
        return None
    last = programs[-1]
    if script.shell in _STEP_ASIDE and not last.is_led and _is_plain_end(script, last):
        return None
    return last


def _is_plain_end(script: Script, call: Call) -> bool:
    """Whether the script ends with this command, and it stands for itself."""
    is_redirected = any(map(_REDIRECTION.match, call.words))
    return not script.after(call) and not is_redirected and not script.before(call).endswith("|")


def _fix(container: Container, script: Script, call: Call) -> Fix | None:
    is_one_line = "\n" not in script.text
    ends = not script.after(call) and not script.before(call).endswith("|")
    if not is_one_line or not ends or call.is_led or call.is_given:
        return None
    text = script.text[: call.start] + "exec " + script.text[call.start :]
    return container.fix(f"Write exec before {call.program}", Put(script.at, text), is_safe=False)
