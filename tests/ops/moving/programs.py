"""Programs between Postern and its database, started from the files that we ship."""

import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from tests.patience import PATIENCE


@asynccontextmanager
async def running(*command: str, port: int, log: Path) -> AsyncIterator[None]:
    """The program, from the moment when it accepts connections on this port."""
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        with trio.fail_after(PATIENCE):
            while True:
                assert process.poll() is None, log.read_text()
                try:
                    await (await trio.open_tcp_stream("127.0.0.1", port)).aclose()
                except OSError:
                    await trio.sleep(0.02)
                else:
                    break
        yield
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(process.wait)


def replaced(text: str, *pairs: tuple[str, str]) -> str:
    """The text with each first word replaced by the second one. A word that is not there fails the test, since the file has changed."""
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text
