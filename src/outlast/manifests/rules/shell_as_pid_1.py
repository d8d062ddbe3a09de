"""A shell runs as PID 1 and does not forward signals to the program.

Why: when a container is stopped, only its first process receives SIGTERM. A shell that waits for a
program neither forwards the signal nor exits, so the program is killed without warning and cannot
save. Debian's sh waits even for a single command; bash replaces itself with the last command of a
script if that is a simple command.
Instead: put exec before the program, start the program without a shell, or run the shell under
`outlast exec` or another init process that forwards signals.
"""

import re
from collections.abc import Iterator

from outlast.manifests.rules.api import (
    SETUP_COMMANDS,
    Container,
    Fault,
    Fix,
    NodeTier,
    Pod,
    Put,
    Review,
    Severity,
    ShellCall,
    ShellScript,
    pod_rule,
    script_in,
)

_PROGRAM = re.compile(r"[A-Za-z0-9_$][\w.$-]*")
_REDIRECTION = re.compile(r"\d?[<>]")
# These replace themselves with the last command if it is a simple one.
_REPLACE_THEMSELVES = ("bash", "zsh")


@pod_rule("OL110", Severity.WARNING)
def shell_as_pid_1(pod: Pod, review: Review) -> Iterator[Fault]:
    if pod.owner_kind == "DaemonSet" or not review.placement(pod).tiers & {
        NodeTier.SPOT,
        NodeTier.FLEX_START,
    }:
        return
    for container in pod.containers:
        if container.is_network_daemon:
            continue
        # Without a command, the image defines the first process.
        script = script_in(container, ("command",), ("args",)) if container.get("command") else None
        program = None if script is None else _waited_for(script)
        if script is None or program is None:
            continue
        yield container.fault(
            f"{script.shell} runs as PID 1 and waits for {program.program!r}, which never receives "
            "SIGTERM.",
            at=script.at,
            fix=_fix(container, script, program),
        )


def _waited_for(script: ShellScript) -> ShellCall | None:
    """The program that the shell waits for; None if it uses exec or handles signals."""
    if any(call.program in ("exec", "trap") for call in script.calls):
        return None
    programs = [
        call
        for call in script.calls
        if call.program not in SETUP_COMMANDS
        and not call.is_benchmark
        and _PROGRAM.fullmatch(call.program)
        # `if $VERBOSE; then` tests a value and runs nothing.
        and not (call.is_led and call.program.startswith("$"))
    ]
    if not programs:
        return None
    last = programs[-1]
    if last.program.endswith(".sh") and script.waits_forever:
        # The script has prepared the container and has ended; people log in to it.
        return None
    if script.shell in _REPLACE_THEMSELVES and not last.is_led and _is_plain_end(script, last):
        return None
    return last


def _is_plain_end(script: ShellScript, call: ShellCall) -> bool:
    """Whether the script ends with this command, without redirection or a pipe."""
    is_redirected = any(map(_REDIRECTION.match, call.words))
    return not script.after(call) and not is_redirected and not script.before(call).endswith("|")


def _fix(container: Container, script: ShellScript, call: ShellCall) -> Fix | None:
    is_one_line = "\n" not in script.text
    ends = not script.after(call) and not script.before(call).endswith("|")
    if not is_one_line or not ends or call.is_led or call.is_given:
        return None
    text = script.text[: call.start] + "exec " + script.text[call.start :]
    return container.fix(f"Add exec before {call.program}", Put(script.at, text), is_safe=False)
