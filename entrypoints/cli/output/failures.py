"""Prints the failure of a command: as a sentence for a user, or as a line of JSON for a script."""

import argparse
import errno
import json
import os
import sys
from datetime import UTC, datetime
from typing import Final

from entrypoints.failures import FAILURE, USAGE, StartFailed

INTERRUPTED: Final = 130
# Errors of reading and writing an open file carry no name.
_OF_DISKS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
_LONGEST_PATH: Final = 4096


def answers_in_json(given: argparse.Namespace) -> bool:
    """Whether a program reads what this command says: it asked for JSON, or a server's log is to hold nothing but JSON lines."""
    return log_is_json() if given.module == "serve" else bool(getattr(given, "json", False))


def log_is_json() -> bool:
    from entrypoints import logs  # noqa: PLC0415 - `postern version` does not need it
    from entrypoints.settings import log_form  # noqa: PLC0415

    # Words and settings are refused before the log is configured.
    return logs.form() == "json" or log_form(os.environ) == "json"


def explain(error: BaseException, *, as_json: bool) -> int:
    """Prints a sentence for a foreseen error, and logs a stack trace for any other. Returns the exit status."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if (foreseen := _foreseen(error)) is not None:
        return say(*foreseen, as_json=as_json)
    import structlog  # noqa: PLC0415 - only when something failed

    structlog.get_logger().critical("crashed", error=type(error).__name__, exc_info=error)
    return FAILURE


def _foreseen(error: BaseException) -> tuple[str, int] | None:
    """The sentence, and the exit status."""
    from core.domain.errors import Refusal, RetryLater  # noqa: PLC0415 - only when something failed
    from entrypoints.settings import SettingsError  # noqa: PLC0415

    match error:
        case SettingsError():
            return str(error), USAGE
        case StartFailed():
            return str(error), error.status
        case RetryLater() if error.detail is not None:
            # Callers of the API do not get the detail. The operator at the command line gets the detail, to repair the cause.
            return f"{error.message}: {error.detail}", FAILURE
        case Refusal():
            return error.message, FAILURE
        case OSError() if error.filename is not None or error.errno in _OF_DISKS:
            from entrypoints.cli.output.printing import printable  # noqa: PLC0415

            file = "" if error.filename is None else f"{printable(str(error.filename), _LONGEST_PATH)}: "
            return f"{file}{error.strerror}", FAILURE
    return None


def say(sentence: str, status: int, *, as_json: bool) -> int:
    if as_json:
        now = f"{datetime.now(UTC).isoformat()[:-6]}Z"
        line = {"timestamp": now, "level": "error", "event": "failed", "message": sentence, "exit_status": status}
        print(json.dumps(line), file=sys.stderr)
    else:
        print(f"postern: {sentence}", file=sys.stderr)
    return status
