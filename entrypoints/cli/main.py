"""The `postern` command: its exit status. Each command's module is loaded only when that command is called."""

import argparse
import errno
import gc
import io
import os
import stat
import sys
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from importlib import import_module
from typing import Final, TextIO

from entrypoints.cli.output.failures import INTERRUPTED, answers_in_json, explain
from entrypoints.cli.parsing.command_line import command_line
from entrypoints.failures import FAILURE, sole

# The number of new objects after which the garbage collector runs. One or two requests in flight make Python's default of 700 objects, all
# still in use, so with the default the collector would look through these objects several times in each request.
_YOUNG: Final = 5_000


def main(arguments: Sequence[str] | None = None) -> int:
    _bear_any_text(sys.stdout)
    words = sys.argv[1:] if arguments is None else arguments
    given = command_line(words).parse_args(words)
    try:
        status = _run(given)
        # A server's output is its log. Whoever stops a server asks whether it stopped well, and not whether the last lines found room.
        with suppress(OSError) if given.module == "serve" else nullcontext():
            _flush()  # here, so that a full disk under our output is told like any other failure
        return status  # noqa: TRY300 - the flush may fail
    except KeyboardInterrupt:
        return INTERRUPTED
    except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 - the outermost handler of the command
        if isinstance(sole(error), BrokenPipeError):  # the reader of our output has closed the pipe; a nursery may have wrapped that
            _print_no_more()
            return FAILURE
        status = explain(sole(error), as_json=answers_in_json(given))
        with suppress(OSError):
            _flush()
        return status


def _flush() -> None:
    try:
        print(end="", flush=True)
    except OSError as error:
        closed_terminal = error.errno == errno.EIO and stat.S_ISCHR(os.fstat(sys.stdout.fileno()).st_mode)
        _print_no_more()
        if not closed_terminal:  # nobody misses what a closed terminal does not show
            raise


def _print_no_more() -> None:
    """Python would raise again when it closes standard output at the exit, and end with a status of its own."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _bear_any_text(out: TextIO) -> None:
    """Writes a character that the output's encoding lacks as its escape code, as standard error does by default. Otherwise a person's name
    could end a command with an error.
    """
    if isinstance(out, io.TextIOWrapper):
        out.reconfigure(errors="backslashreplace")


def _run(given: argparse.Namespace) -> int:
    # The parser of the command line is garbage now. It would stay for good among the objects that the collector does not look through.
    gc.collect()
    # The loaded modules stay loaded, so the garbage collector need not look through their objects.
    gc.disable()
    command = import_module(f"{__package__}.{given.module}")
    gc.freeze()
    gc.set_threshold(_YOUNG)
    gc.enable()
    if given.without_settings:
        return int(command.run(given))
    from entrypoints import logs, settings  # noqa: PLC0415 - `postern version` does not need them

    in_force = settings.read(os.environ)
    # A command prints its own result. Log lines below a warning would only stand between the lines of the result.
    level = "warning" if in_force.log_level == "info" and given.module != "serve" else in_force.log_level
    logs.configure(level, in_force.log_format)
    return int(command.run(given, in_force))


if __name__ == "__main__":
    sys.exit(main())
