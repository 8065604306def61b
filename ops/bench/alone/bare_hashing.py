"""The hashing library alone: `python -m ops.bench.alone.bare_hashing WORKERS SECONDS` prints verifications a second of wall-clock time,
with this many threads.
"""

import sys
import threading
import time
from typing import Any

from adapters.crypto.password_digests import require_runnable
from adapters.crypto.passwords import Argon2Parameters


def rate(workers: int, seconds: float) -> float:
    require_runnable()
    from argon2 import low_level  # noqa: PLC0415 - loading a build for another processor can end the process

    library: Any = low_level
    costs, password = Argon2Parameters(), b"a password of ordinary length"
    encoded: bytes = library.hash_secret(
        password,
        bytes(16),
        time_cost=costs.iterations,
        memory_cost=costs.memory_kib,
        parallelism=costs.lanes,
        hash_len=32,
        type=library.Type.ID,
    )
    done = [0] * workers
    deadline = time.perf_counter() + seconds

    def work(place: int) -> None:
        while time.perf_counter() < deadline:
            library.verify_secret(encoded, password, library.Type.ID)
            done[place] += 1

    threads = [threading.Thread(target=work, args=(place,)) for place in range(workers)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / (time.perf_counter() - began)


if __name__ == "__main__":
    print(rate(int(sys.argv[1]), float(sys.argv[2])))
