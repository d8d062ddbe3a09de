"""The exception tree. Every error says what happened and, as its hint, what to do next."""


class OutlastError(Exception):
    """Base of all errors of this library.

    `hint` is shown below the message, in tracebacks too.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        if hint is not None:
            self.add_note(f"hint: {hint}")


class Interrupted(SystemExit):
    """The run was told to stop and has saved what it could. `code` is what the process leaves with.

    A SystemExit, so that code after the loop never mistakes an eviction for the end of the work.
    """


class SettingError(OutlastError, ValueError):
    """A setting has a value that cannot work. `source` says where the value came from."""

    def __init__(self, message: str, *, hint: str | None = None, source: str) -> None:
        super().__init__(message, hint=hint)
        self.source = source
