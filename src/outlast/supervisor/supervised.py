"""How to supervise a command."""

# What is left of the grace period after the command is killed: enough to reap it and exit.
EXIT_SECONDS = 0.5


class Supervision:
    """How to run a command, checked. Not a named tuple, whose import would delay `outlast exec`."""

    def __init__(
        self,
        *,
        command: tuple[str, ...],
        grace_seconds: float,
        notices: frozenset[int],
        explicit_code: int | None,
        distrust_zero: bool,
        variables: dict[str, str],
    ) -> None:
        self.command = command
        self.grace_seconds = grace_seconds
        self.notices = notices
        self.explicit_code = explicit_code
        self.distrust_zero = distrust_zero
        self.variables = variables
