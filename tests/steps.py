"""Measures how long tasks block the event loop."""

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
    """Pauses the garbage collector: it would add time to any step, and a test has more to collect than a server."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def watched_steps() -> Iterator[list[float]]:
    """The time of each step of each task, in seconds of the thread's own processor time, so that other load on the machine
    hardly matters.
    """
    gc.collect()
    watch = _Watch()
    with no_collection():
        trio.lowlevel.add_instrument(watch)
        try:
            yield watch.steps
        finally:
            trio.lowlevel.remove_instrument(watch)
