"""How a failed command ends: with one sentence and an exit status."""

from typing import Final

OK: Final = 0
FAILURE: Final = 1
USAGE: Final = 2  # the command line or a setting is wrong; the number is argparse's
ALREADY_SERVED: Final = 3


class StartFailed(Exception):
    """The command cannot go on. The message is one sentence for the operator."""

    status = FAILURE


class DataDirectoryInUse(StartFailed):
    """Another `postern serve` uses the data directory."""

    status = ALREADY_SERVED


class NotAgreed(StartFailed):
    """Something would end, and nobody has agreed."""


def sole(error: BaseException) -> BaseException:
    """The exception that a nursery wrapped into a group of one."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
