"""Measures how long tasks block the event loop."""

import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from time import thread_time
from typing import Final

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


class _Machine:
    """How much slower this machine is at a moment than it has been, by the same piece of work. A neighbor that takes the caches makes all
    work several times as slow, also in processor time.
    """

    _WORK: Final = b"[" + b",".join([b"[" * 90 + b"]" * 90] * 300) + b"]"

    def __init__(self) -> None:
        self._least = float("inf")

    def slowness(self) -> float:
        begun = thread_time()
        json.loads(self._WORK)
        took = thread_time() - begun
        self._least = min(self._least, took)
        # Less is chance: on a quiet machine the bound is what it says.
        return took / self._least if took > _OF_A_NEIGHBOR * self._least else 1.0


_OF_A_NEIGHBOR: Final = 1.5
MACHINE: Final = _Machine()
