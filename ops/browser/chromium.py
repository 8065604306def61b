"""Chromium, and the DevTools protocol that drives it: over a pair of pipes and on Trio, so that browser, application and
test share one event loop, and no driver stands in between.
"""

import fcntl
import itertools
import json
import os
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import trio

from ops.patience import PATIENCE

# The build without windows. It needs half the time of the other, with which some tests fail.
PROGRAM: Final = "chromium-headless-shell"

Hear = Callable[[str, Mapping[str, Any]], None]


_FLAGS: Final = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars", "--disable-dev-shm-usage"),
    # These switches keep Chromium from requesting anything but the pages under test.
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-default-apps", "--no-pings"),
    *("--disable-features=BackForwardCache,Translate,OptimizationHints,MediaRouter,PasswordLeakDetection", "--disable-extensions"),
    *("--ignore-certificate-errors", "--force-color-profile=srgb", "--font-render-hinting=none", "--lang=en"),
    # Little of axe-core's code is run, so only that part is compiled and kept. Each page is new to V8, so what V8 would optimize is over
    # before that is worth its time: without it, Chromium takes an eighth less.
    "--js-flags=--max-lazy --no-flush-bytecode --no-opt --no-maglev",
    "--remote-debugging-pipe",
)


class Refused(Exception):
    """Chromium's answer to a command was an error."""


class Chromium:
    """One process of Chromium. Each test enters `attached` once, in its own event loop."""

    def __init__(self, process: int, heard: int, told: int) -> None:
        self.kept_target: str | None = None
        self._process = process
        self._heard = heard
        self._told = told
        self._received = bytearray()
        self._numbers = itertools.count(1)
        self._answers: dict[int, tuple[trio.Event, list[Mapping[str, Any]]]] = {}
        self._listeners: dict[str, Hear] = {}
        self._telling = trio.Lock()

    @asynccontextmanager
    async def attached(self) -> AsyncIterator["Chromium"]:
        self._answers.clear()
        self._listeners.clear()
        self._telling = trio.Lock()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._listen)
            try:
                yield self
            finally:
                nursery.cancel_scope.cancel()

    async def ask(self, method: str, session: str = "", **parameters: Any) -> Mapping[str, Any]:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters, **({"sessionId": session} if session else {})}
        answered: tuple[trio.Event, list[Mapping[str, Any]]] = (trio.Event(), [])
        self._answers[number] = answered
        try:
            with trio.fail_after(PATIENCE):
                await self._tell(json.dumps(message).encode() + b"\0")
                await answered[0].wait()
        finally:
            del self._answers[number]
        answer = answered[1][0]
        if "error" in answer:
            raise Refused(f"{method}: {answer['error']['message']}")
        result: Mapping[str, Any] = answer["result"]
        return result

    def listen(self, session: str, hear: Hear) -> None:
        """`hear` gets every event of this session. It must not wait."""
        self._listeners[session] = hear

    async def _tell(self, data: bytes) -> None:
        async with self._telling:
            rest = memoryview(data)
            while rest:
                await trio.lowlevel.wait_writable(self._told)
                rest = rest[os.write(self._told, rest[: 1 << 16]) :]

    async def _listen(self) -> None:
        while True:
            await trio.lowlevel.wait_readable(self._heard)
            read = os.read(self._heard, 1 << 20)
            assert read, "Chromium has ended"
            self._received += read
            *messages, rest = self._received.split(b"\0")
            self._received = bytearray(rest)
            for message in messages:
                self._take(json.loads(message))

    def _take(self, message: Mapping[str, Any]) -> None:
        if "id" in message:
            # An earlier test may have ended before the answer to its command came.
            if message["id"] in self._answers:
                arrived, answers = self._answers[message["id"]]
                answers.append(message)
                arrived.set()
        elif (hear := self._listeners.get(message.get("sessionId", ""))) is not None:
            hear(message["method"], message["params"])

    def end(self) -> None:
        for pipe in (self._told, self._heard):
            os.close(pipe)
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)


def _pipe() -> tuple[int, int]:
    """A pipe whose file descriptors have no low numbers, since low numbers are used again."""
    made = os.pipe()
    moved = tuple(fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 10) for one in made)
    for one in made:
        os.close(one)
    return moved[0], moved[1]


def _found(at: str, others: Mapping[str, str]) -> str:
    examples = ("*.example", "*.example.com", "*.example.net", "*.example.org", "*.test")
    named = [f"MAP {name} {place}" for name, place in others.items()]
    rules = [*named, *(f"MAP {name} {at}" for name in examples), "MAP * ~NOTFOUND", "EXCLUDE 127.0.0.1", "EXCLUDE localhost"]
    return f"--host-resolver-rules={', '.join(rules)}"


@contextmanager
def started(program: str, directory: Path, *, examples_at: str, others: Mapping[str, str] = MappingProxyType({})) -> Iterator[Chromium]:
    """Starts Chromium. Names that are reserved for examples lead to the host and port `examples_at`, but for `others` with places of their
    own. No other name can be resolved, since Chromium itself would request some.
    """
    arguments = [program, *_FLAGS, _found(examples_at, others), f"--user-data-dir={directory}"]
    with ExitStack() as theirs:
        commands_there, commands_here = _pipe()
        events_here, events_there = _pipe()
        nothing = os.open(os.devnull, os.O_RDWR)
        for one in (commands_there, events_there, nothing):
            theirs.callback(os.close, one)
        # Chromium looks for its pipes at the numbers 3 and 4.
        numbers = enumerate((nothing, nothing, nothing, commands_there, events_there))
        actions = [(os.POSIX_SPAWN_DUP2, one, number) for number, one in numbers]
        process = os.posix_spawn(program, arguments, os.environ, file_actions=actions)
    os.set_blocking(commands_here, False)
    chromium = Chromium(process, events_here, commands_here)
    try:
        yield chromium
    finally:
        chromium.end()
        shutil.rmtree(directory, ignore_errors=True)
