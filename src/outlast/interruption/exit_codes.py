"""Choose the exit code. Pure; docs/explanation/exit-codes.md gives the reasons."""

FINISHED = 0
FAILED = 1
INTERRUPTED = 75
KEYBOARD = 130


def interrupted_code(
    *, explicit: int | None, by_keyboard: bool, in_pod: bool, cut_off: bool
) -> int:
    """The exit code after a notice.

    `cut_off` means that the work did not stop cleanly, which is never a success.
    """
    if explicit is not None:
        return explicit
    if by_keyboard:
        return KEYBOARD
    return INTERRUPTED if in_pod or cut_off else FINISHED


def claims_success(error: BaseException | None) -> bool:
    """Whether this exception, uncaught, ends the process with the code of finished work."""
    return isinstance(error, SystemExit) and error.code in (None, FINISHED)
