"""Node pools from the commands that create them: `gcloud container node-pools create ...`."""

import re
from collections.abc import Iterator, Mapping, Sequence

from outlast.manifests.lint.pools.model import (
    SANDBOX_TAINT,
    WINDOW_SECONDS_DEFAULT,
    ClusterCapacity,
    NodePool,
    NodeTier,
    is_zone,
    seconds_of,
)
from outlast.manifests.lint.pools.shell import ShellWord, commands
from outlast.manifests.lint.scheduling import Taint
from outlast.yamltext.source import SourceSpan, SourceText

_TRACKS = ("alpha", "beta")
_WITHOUT_VALUE = re.compile(
    r"--(?:spot|preemptible|flex-start|async|quiet|shielded-\S+|(?:no-|enable-|disable-)"
    r"\S+)|-q"
)
_TIERS = {
    "--spot": NodeTier.SPOT,
    "--preemptible": NodeTier.SPOT,
    "--flex-start": NodeTier.FLEX_START,
    "--enable-queued-provisioning": NodeTier.FLEX_START,
}
_DEFAULT_POOL = "default-pool"
_CONFIG_FLAG = "--system-config-from-file"


def read_script(source: SourceText) -> ClusterCapacity:
    """The pools that a script creates."""
    pools: list[NodePool] = []
    is_autopilot: bool | None = None
    for words in commands(source.text):
        command = _Command.of(words)
        if command is None:
            continue
        match command.positional:
            case ["container", "node-pools", "create", name, *_]:
                pools.append(_pool(source, name, command))
            case ["container", "clusters", "create", _, *_]:
                is_autopilot = is_autopilot or False
                pools.append(_pool(source, None, command))
            case ["container", "clusters", "create-auto", *_]:
                is_autopilot = True
    return ClusterCapacity(pools=tuple(pools), is_autopilot=is_autopilot)


class _Command:
    """A gcloud command: its words and its flags, each flag with its value and position."""

    def __init__(self, words: Sequence[ShellWord]) -> None:
        self.positional: list[str] = []
        self.places: dict[str, ShellWord] = {}
        self.flags: dict[str, str] = {}
        self.name: ShellWord | None = None
        self.first = words[0]
        for word, value in _pairs(words[1:]):
            if word.text.startswith("-"):
                flag = word.text.partition("=")[0]
                self.flags[flag] = value
                self.places[flag] = word
            elif self.positional or word.text not in _TRACKS:
                self.positional.append(word.text)
                if len(self.positional) == 4:
                    self.name = word

    @classmethod
    def of(cls, words: Sequence[ShellWord]) -> "_Command | None":
        for index, word in enumerate(words):
            if word.text.rpartition("/")[2] == "gcloud":
                return cls(words[index:])
        return None

    def place(self, source: SourceText, *flags: str) -> SourceSpan | None:
        word = next((self.places[flag] for flag in flags if flag in self.places), None)
        return None if word is None else SourceSpan(source=source, start=word.start, end=word.end)


def _pairs(words: Sequence[ShellWord]) -> Iterator[tuple[ShellWord, str]]:
    """Each word with its value: after `=`, or the next word for a flag that takes one."""
    waiting: ShellWord | None = None
    for word in words:
        is_flag = word.text.startswith("-") and len(word.text) > 1
        if waiting is not None:
            if not is_flag:
                yield waiting, word.text
                waiting = None
                continue
            yield waiting, ""
            waiting = None
        _, equals, value = word.text.partition("=")
        if is_flag and not equals and not _WITHOUT_VALUE.fullmatch(word.text):
            waiting = word
        else:
            yield word, value if is_flag else ""
    if waiting is not None:
        yield waiting, ""


def _pool(source: SourceText, name: str | None, command: _Command) -> NodePool:
    flags = command.flags
    named = command.name or command.first
    tier_flag = next((flag for flag in _TIERS if flag in flags), None)
    accelerator = dict(_entries(flags.get("--accelerator", "")))
    count = accelerator.get("count", "1")
    places = {
        "tier": command.place(source, *_TIERS),
        "taints": command.place(source, "--node-taints"),
        "labels": command.place(source, "--node-labels"),
        "max-nodes": command.place(source, "--total-max-nodes", "--max-nodes"),
    }
    return NodePool(
        name=name or _DEFAULT_POOL,
        tier=_TIERS[tier_flag] if tier_flag else NodeTier.ON_DEMAND,
        place=SourceSpan(source=source, start=named.start, end=named.end),
        places={key: place for key, place in places.items() if place is not None},
        labels=dict(_entries(flags.get("--node-labels", ""))),
        taints=tuple(_taints(flags)),
        knows_taints="$" not in flags.get("--node-taints", ""),
        machine_type=flags.get("--machine-type"),
        accelerator=accelerator.get("type"),
        accelerator_count=int(count) if "type" in accelerator and _is_count(count) else 0,
        nodes_max=_nodes_max(flags),
        zones=_zones(flags),
        run_seconds_max=seconds_of(flags.get("--max-run-duration")),
        is_queued="--enable-queued-provisioning" in flags,
        window_seconds=None if _CONFIG_FLAG in flags else WINDOW_SECONDS_DEFAULT,
        config_file=flags.get(_CONFIG_FLAG),
    )


def _entries(text: str) -> Iterator[tuple[str, str]]:
    for part in text.split(","):
        key, equals, value = part.strip().partition("=")
        if equals:
            yield key, value


def _taints(flags: Mapping[str, str]) -> Iterator[Taint]:
    for part in flags.get("--node-taints", "").split(","):
        rest, _, effect = part.strip().rpartition(":")
        key, _, value = rest.partition("=")
        if key:
            yield Taint(key=key, value=value, effect=effect)
    if "--sandbox" in flags:
        yield SANDBOX_TAINT


def _nodes_max(flags: dict[str, str]) -> int | None:
    names = ["--total-max-nodes", "--max-nodes"] if "--enable-autoscaling" in flags else []
    for name in (*names, "--num-nodes"):
        if _is_count(flags.get(name, "")):
            return int(flags[name])
    return None


def _zones(flags: dict[str, str]) -> int | None:
    """The number of zones that the maximum applies to; 1 for a total."""
    if "--enable-autoscaling" in flags and _is_count(flags.get("--total-max-nodes", "")):
        return 1
    zones = flags.get("--node-locations", "")
    if zones and "$" not in zones:
        return len(zones.split(","))
    places = (flags.get(flag, "") for flag in ("--zone", "-z", "--location"))
    return 1 if any(is_zone(place) for place in places) else None


def _is_count(text: str) -> bool:
    return text.isdecimal() and text.isascii() and len(text) < 7
