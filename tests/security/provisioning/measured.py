"""`python -m tests.security.provisioning.measured DATABASE DIRECTORY`: does the run that is due, and writes how many MiB this process has
had before it, and at most within it.
"""

import gc
import json
import os
import sys
from pathlib import Path

import trio

from ops.bench.processes import forget_peak, peak_megabytes, resident_megabytes
from tests.http.conftest import postern_on


async def main(database_url: str, directory: Path) -> None:
    async with postern_on(database_url, directory) as postern:
        keeping = postern.federation.provisioning_keeping
        (work,) = await keeping.claim_due(1)
        gc.collect()
        before = resident_megabytes(os.getpid())
        forget_peak(os.getpid())
        while True:
            await keeping.run(work)
            if not (due := await keeping.claim_due(1)):
                break
            (work,) = due
    sys.stdout.write(json.dumps([before, peak_megabytes(os.getpid())]) + "\n")


if __name__ == "__main__":
    trio.run(main, sys.argv[1], Path(sys.argv[2]))
