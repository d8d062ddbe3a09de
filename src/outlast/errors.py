"""The exception tree. Each error states what happened and, in its hint, what to do next."""


class OutlastError(Exception):
    """Base class of the errors raised by Outlast.

    `hint` is shown below the message, also in tracebacks. Passwords and tokens are masked in both.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        # Imported when it is needed, because `outlast exec` must start at once.
        from outlast._redact import redact

        super().__init__(redact(message))
        self.hint = None if hint is None else redact(hint)
        if self.hint is not None:
            self.add_note(f"hint: {self.hint}")


class Interrupted(SystemExit):
    """The run was told to stop and has saved what it could. `code` is the exit code.

    A `SystemExit`, so that code after the loop never mistakes an eviction for the end of the work.
    """


class SettingError(OutlastError, ValueError):
    """A setting has an invalid value. `source` names where the value came from."""

    def __init__(self, message: str, *, hint: str | None = None, source: str) -> None:
        super().__init__(message, hint=hint)
        self.source = source


class MissingExtra(OutlastError):
    """A feature needs packages that are not installed. `extra` is the extra that installs them."""

    def __init__(self, extra: str, *, needed_for: str) -> None:
        super().__init__(
            f"{needed_for} needs packages that are not installed.",
            hint=f"Run: pip install 'outlast[{extra}]'",
        )
        self.extra = extra
