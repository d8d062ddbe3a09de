"""Errors of the cluster part. Text from a server is escaped and cut before it is shown."""

import re
from collections.abc import Mapping
from typing import Any

from outlast._base.terminal import escaped
from outlast.cluster.resources import Query
from outlast.cluster.roles import role_line, role_line_of, role_with
from outlast.errors import OutlastError

TEXT_CHARACTERS_MAX = 1000
"""No message of a server is shown longer than this; an annotation may have 256 kB."""


def shown(text: str, *, characters_max: int = TEXT_CHARACTERS_MAX) -> str:
    """Text from a cluster on one line: control characters escaped, and cut if it is long."""
    cut = text[:characters_max]
    dropped = len(text) - len(cut)
    return escaped(cut, keep="") + (f"… ({dropped:,} more characters)" if dropped else "")


class ClusterError(OutlastError):
    """A cluster cannot be used as it is configured here."""

    exit_code = 2


class ClusterUnreachable(ClusterError):
    """The API server did not answer, or did not accept the credentials.

    `is_final`: trying again cannot help, because the certificate or the credentials are wrong.
    """

    exit_code = 3

    def __init__(self, message: str, *, hint: str | None = None, is_final: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.is_final = is_final


class ApiRefusal(ClusterError):
    """The API server answered a request with an error.

    `status` is the HTTP status, `reason` Kubernetes' own word for it, `text` the message as sent,
    and `retry_after` the seconds after which to try again, None if it did not say.
    """

    exit_code = 1

    def __init__(
        self,
        what: str,
        *,
        status: int,
        answer: Mapping[str, Any],
        retry_after: float | None = None,
        hint: str | None = None,
    ) -> None:
        self.status = status
        self.reason = _text(answer.get("reason"))
        self.text = _text(answer.get("message"))
        self.retry_after = retry_after
        self.details: Mapping[str, Any] = answer.get("details") or {}
        said = shown(self.text) if self.text else f"HTTP {status}"
        super().__init__(f"{what}: {said}", hint=hint or _hint(status, self.text))
        if self.is_overload:
            self.exit_code = ClusterUnreachable.exit_code

    @property
    def is_transient(self) -> bool:
        return self.status == 429 or self.status >= 500

    @property
    def is_overload(self) -> bool:
        """Whether the same request may succeed a little later. A 500 stays what it is."""
        return self.status in (429, 502, 503, 504)

    @property
    def is_immutable(self) -> bool:
        """Whether the object exists and a field that differs cannot be changed."""
        return self.status == 422 and "field is immutable" in self.text

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that the server objects to."""
        return tuple(dict.fromkeys(_text(cause.get("field")) for cause in self._causes))

    @property
    def conflicts(self) -> tuple[str, ...]:
        """The fields that another field manager owns, each with its manager, as sent."""
        return tuple(
            f"{_text(cause.get('field'))} ({_text(cause.get('message'))})"
            for cause in self._causes
            if self.status == 409 and cause.get("reason") == "FieldManagerConflict"
        )

    @property
    def _causes(self) -> list[Mapping[str, Any]]:
        causes = self.details.get("causes")
        listed = causes if isinstance(causes, list) else []
        return [cause for cause in listed if isinstance(cause, dict)]


def permission_hint(text: str) -> str:
    """What to do about a 403, from the message of the API server: the line that a Role lacks."""
    found = re.search(r'cannot (\w+) resource "([^"]+)" in API group "([^"]*)"', text)
    if found is None:
        # Quotas, Pod Security and webhooks answer 403 too.
        return "A policy of the cluster refuses this, not your Role: change what the message names."
    verb, resource, group = found.groups()
    is_cluster_wide = "at the cluster scope" in text[found.end() :]
    line = role_line(group, resource, verb, is_cluster_wide=is_cluster_wide)
    role = role_with(group, resource, verb)
    more = f" `outlast doctor --role {role}` prints all of them." if role else ""
    return shown(line + more)


def is_forbidden(problem: ClusterError | None) -> bool:
    return isinstance(problem, ApiRefusal) and problem.status == 403


def forbidden_error(query: Query, error: ClusterError) -> ClusterError:
    """The error for a kind without which nothing can be shown."""
    if not is_forbidden(error):
        return error
    return ClusterError(
        f"No permission to read {query.resource}.",
        hint=f"{role_line_of(query)} `outlast doctor --role watch` prints all of them.",
    )


def _hint(status: int, text: str) -> str | None:
    if status == 403:
        return permission_hint(text)
    return "The API server is overloaded. Try again later." if status == 429 else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
