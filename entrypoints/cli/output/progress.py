"""Shows how far long work is: on a terminal as a bar, elsewhere as a line every ten seconds. Both go to standard error, so that what a
command prints stays clean. `with progress("Reading the log", 1200, "entries") as advance: advance(40)`.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import RLock
from typing import Final, TextIO

from ports.jobs import Advance, ProgressDisplay

LINE_EVERY: Final = 10.0
# Work that ends sooner shows no bar.
_BAR_AFTER: Final = 0.5
_TIME_ALONE: Final = "{desc}{elapsed}"
_USUAL_WIDTH: Final = 80
_USUAL_HEIGHT: Final = 24

Clock = Callable[[], float]


def progress(title: str, total: int | None, unit: str) -> AbstractContextManager[Advance]:
    """Implements `ports.jobs.ProgressDisplay` for a command."""
    if sys.stderr.isatty():
        return _bar(title, total, unit, sys.stderr)
    return lines(_to_stderr)(title, total, unit)


def say(line: str) -> None:
    """Prints a line of a command's result while a bar may be there."""
    from tqdm import tqdm  # noqa: PLC0415 - only long work needs the library, and it takes 50 ms to load

    with tqdm.external_write_mode(file=sys.stdout):
        print(line, flush=True)


def say_beside(line: str) -> None:
    """The same for a command whose standard output a program reads."""
    from tqdm import tqdm  # noqa: PLC0415 - as above

    with tqdm.external_write_mode(file=sys.stderr):
        _to_stderr(line)


def lines(write: Callable[[str], None], clock: Clock = time.monotonic) -> ProgressDisplay:
    """Tells progress by lines: none in the first ten seconds, then one every ten seconds, and one at the end."""

    @contextmanager
    def in_lines(title: str, total: int | None, unit: str) -> Iterator[Advance]:
        began = told = clock()
        done = 0

        def tell(now: float) -> None:
            from tqdm import tqdm  # noqa: PLC0415 - as above; work that is soon done tells nothing

            # Without a width, the library leaves the bar out.
            prefix, form = (title, None) if unit else (f"{title}: ", _TIME_ALONE)
            write(
                tqdm.format_meter(done, total or 0, now - began, ncols=0, prefix=prefix, unit=f" {unit}", unit_scale=True, bar_format=form)
            )

        def advance(more: int) -> None:
            nonlocal done, told
            done += more
            now = clock()
            if now - told >= LINE_EVERY:
                told = now
                tell(now)

        yield advance
        if told != began:
            tell(clock())

    return in_lines


@contextmanager
def _bar(title: str, total: int | None, unit: str, out: TextIO) -> Iterator[Advance]:
    from tqdm import tqdm  # noqa: PLC0415 - as above

    # The library's own lock is for several processes, and its thread looks after bars that nobody advances. A command needs neither.
    tqdm.set_lock(RLock())
    tqdm.monitor_interval = 0
    # Some programs open a terminal without a size. The library would show nothing there.
    size = os.get_terminal_size(out.fileno())
    width, height = size.columns or _USUAL_WIDTH, size.lines or _USUAL_HEIGHT
    with tqdm(
        desc=title,
        total=total,
        unit=f" {unit}",
        unit_scale=True,
        file=out,
        ncols=width,
        nrows=height,
        delay=_BAR_AFTER,
        bar_format=None if unit else _TIME_ALONE,
    ) as shown:

        def advance(more: int) -> None:
            if more:
                shown.update(more)
            else:
                shown.refresh()

        yield advance


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
