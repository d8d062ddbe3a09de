"""Loggers that never log a secret."""

import logging
import traceback


def get_logger(name: str) -> logging.Logger:
    """The logger of a module. No handler of the program ever receives a secret."""
    log = logging.getLogger(name)
    # Adding the same filter twice has no effect.
    log.addFilter(_redact_record)
    return log


def _redact_record(record: logging.LogRecord) -> bool:
    # Imported when it is needed, because `outlast exec` must start at once.
    from outlast._redact import redact

    message = record.getMessage()
    shown = redact(message)
    if shown != message:
        record.msg, record.args = shown, None
    if record.exc_info and record.exc_info[1] is not None and not record.exc_text:
        # Formatters use this text if it is set.
        record.exc_text = redact("".join(traceback.format_exception(record.exc_info[1])).rstrip())
    return True
