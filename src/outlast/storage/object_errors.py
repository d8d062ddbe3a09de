"""Turn what an object store's client says into our errors, with what to do next. Pure.

The client's text quotes the server's answer and the address asked, which may hold secrets. Only
what can hold none is taken from it: the status, the code of the error, and the kind of failure.
"""

import re

from outlast.storage.errors import (
    AccessDenied,
    AlreadyExists,
    NotFound,
    StorageError,
    StorageTimeout,
    StoreFull,
    StoreUnavailable,
)

_STATUS = re.compile(r"status code: (\d{3})\b")
_CODE = re.compile(r"<Code>([A-Za-z]{1,60})</Code>")
_TIMED_OUT = re.compile(r"kind: Timeout|TimedOut|timed out")
_CREDENTIAL_CODES = frozenset(
    {"ExpiredToken", "InvalidAccessKeyId", "InvalidToken", "SignatureDoesNotMatch"}
)
# The classes by name, so that this module needs no client to be tested.
_CONFLICTS = frozenset({"AlreadyExistsError", "PreconditionError"})
_DENIALS = frozenset({"PermissionDeniedError", "UnauthenticatedError"})
_DENIED_HINT = "Check that the credentials have not expired and that they may read and write there."


def as_storage_error(
    error: BaseException, doing: str, url: str, name: str | None = None
) -> StorageError:
    """Our error for one of the client's. `doing` is a verb: "write"."""
    text = str(error)
    kind = type(error).__name__
    code = match[1] if (match := _CODE.search(text)) else ""
    thing = f"{name!r} in {url}" if name else url
    message = f"Could not {doing} {thing}: {_reason(text, code)}."
    if kind in _CONFLICTS:
        return AlreadyExists(f"{name!r} exists already in {url}.", name=name)
    if code in ("NoSuchBucket", "ContainerNotFound"):
        return StoreUnavailable(message, hint="Create the bucket, or correct its name.", name=name)
    if isinstance(error, FileNotFoundError):
        return NotFound(f"There is no {name!r} in {url}.", name=name)
    if kind in _DENIALS or code in _CREDENTIAL_CODES:
        return AccessDenied(message, hint=_DENIED_HINT, name=name)
    if status(text) == 507 or code == "QuotaExceeded":
        return StoreFull(message, hint="Raise the quota, or delete old runs.", name=name)
    if _TIMED_OUT.search(text):
        return StorageTimeout(
            message,
            hint="If this repeats, check the network; a write may have taken effect nonetheless.",
            name=name,
        )
    return StoreUnavailable(message, hint=_unavailable_hint(text), name=name)


def status(text: str) -> int | None:
    """The HTTP status that the client quotes, if the server answered."""
    match = _STATUS.search(text)
    return int(match[1]) if match else None


def _reason(text: str, code: str) -> str:
    number = status(text)
    if number is not None:
        return f"the server answered {number}" + (f" ({code})" if code else "")
    if _TIMED_OUT.search(text):
        return "the server did not answer in time"
    if "dns error" in text:
        return "the name of the server is not known"
    if "Connection refused" in text or "ConnectionRefused" in text:
        return "the connection was refused"
    if "metadata" in text.lower():
        return "no credentials were found"
    return "the request failed"


def _unavailable_hint(text: str) -> str:
    if "metadata" in text.lower() and status(text) is None:
        return "Give credentials by the environment, or run where the cloud provides them."
    return "Check the network, the name of the bucket and the status of the service."
