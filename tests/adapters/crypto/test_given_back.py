"""Memory after hashing. Each case is a process of its own, whose heap nothing else has shaped."""

import subprocess
import sys
from typing import Final

import pytest

from tests.places import ROOT

MEBIBYTES: Final = 19
# Both cases print the resident memory before, after hashing, and in the end.
BEGIN: Final = """
import threading, time, trio
from adapters.crypto.hashing_threads import HashingThreads
from adapters.crypto.passwords import Argon2Parameters, _library, rate
from core.domain.secrets import Password

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20

argon2 = _library()
argon2.hash(Password("x"), Argon2Parameters(memory_kib=64))
"""
THREADS: Final = f"""{BEGIN}
seen = []

def work():
    argon2.hash(Password("x"), Argon2Parameters())
    # Here, since on a busy machine the threads may have rested before all are done.
    seen.append(resident())

async def main():
    threads = HashingThreads(2, rest={{rest}})
    before = resident()
    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(threads.run, work)
    hashed = max(seen)
    with trio.move_on_after({{patience}}):
        while resident() > before + 4:
            await trio.sleep(0.02)
    print(before, hashed, resident())

trio.run(main)
"""
MEASURED: Final = f"""{BEGIN}
found = []

def work():
    rate(0.05)
    found.append(resident())
    held.wait()

held = threading.Event()
before = resident()
thread = threading.Thread(target=work)
thread.start()
while not found:
    time.sleep(0.01)
print(before, before, found[0])
held.set()
"""


def told(code: str) -> tuple[float, float, float]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    before, hashed, after = map(float, done.stdout.split())
    return before, hashed, after


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it is about the GNU C library")
class TestMemory:
    def test_a_thread_that_rests_gives_its_memory_back(self) -> None:
        before, hashed, after = told(THREADS.format(rest=0.1, patience=20))
        # A thread keeps its block while others may follow.
        assert hashed > before + MEBIBYTES - 4
        assert after < before + 4

    def test_a_thread_that_may_be_asked_again_keeps_it(self) -> None:
        before, _, after = told(THREADS.format(rest=1000, patience=0.5))
        assert after > before + MEBIBYTES - 4

    def test_measuring_the_rate_leaves_nothing_behind(self) -> None:
        before, _, after = told(MEASURED)
        assert after < before + 4
