"""Which exit code tells the truth. Pure; docs/explanation/exit-codes.md gives the reasons."""

FINISHED = 0
INTERRUPTED = 75
KEYBOARD = 130


def interrupted_code(
    *, explicit: int | None, by_keyboard: bool, in_pod: bool, cut_off: bool
) -> int:
    """The code to leave with after a notice.

    `cut_off` means that the work did not come to a clean stop, which is never a success.
    """
    if explicit is not None:
        return explicit
    if by_keyboard:
        return KEYBOARD
    return INTERRUPTED if in_pod or cut_off else FINISHED
