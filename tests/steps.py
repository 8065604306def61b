"""How long tasks keep the event loop to themselves."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from time import thread_time

import trio
from trio.abc import Instrument
from trio.lowlevel import Task


class _Watch(Instrument):
    def __init__(self) -> None:
        self.steps: list[float] = []
        self._began = thread_time()

    def before_task_step(self, task: Task) -> None:  # noqa: ARG002 - Trio's signature
        self._began = thread_time()

    def after_task_step(self, task: Task) -> None:  # noqa: ARG002 - Trio's signature
        self.steps.append(thread_time() - self._began)


@contextmanager
def no_collection() -> Iterator[None]:
    """The garbage collector falls on whatever happens to run, and in a test there is more to collect than in a server."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def watched_steps() -> Iterator[list[float]]:
    """All tasks' steps from one turn of the loop to the next, in seconds of the thread's own time, so that it hardly matters what else the
    machine does.
    """
    gc.collect()
    watch = _Watch()
    with no_collection():
        trio.lowlevel.add_instrument(watch)
        try:
            yield watch.steps
        finally:
            trio.lowlevel.remove_instrument(watch)
