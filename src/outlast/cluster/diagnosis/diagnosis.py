"""The answer of a diagnosis: one dominant cause, the evidence for it, and what to do next."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """Where something was seen, such as `event FailedScaleUp`, and its text as the cluster has it.

    The text is not escaped or cut: `outlast.cluster.errors.shown` does that when it is printed.
    """

    where: str
    text: str
    seen: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnosis:
    """Why a run waits, or how an attempt ended.

    `cause` is an identifier that does not change, such as P05. It is None if the text was not
    recognized: the evidence then has the raw text, and `summary` makes no claim.
    """

    cause: str | None
    summary: str
    next_step: str = ""
    evidence: tuple[Evidence, ...] = ()

    def __post_init__(self) -> None:
        if not self.summary:
            raise ValueError("A diagnosis needs a summary.")


NOT_RECOGNIZED = "Not recognized. The cluster reports:"


def not_recognized(*evidence: Evidence) -> Diagnosis:
    """A diagnosis that shows what the cluster says, and guesses nothing."""
    return Diagnosis(cause=None, summary=NOT_RECOGNIZED, evidence=evidence)
