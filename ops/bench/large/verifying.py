"""How long `postern audit verify` takes for the whole log, with one part read at a time and with four."""

import json
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any

import trio

from ops.bench.harness import COMMAND, DidNotStart, environment_of
from ops.bench.large.twins import Twin
from ops.bench.report import Figure, at_most


async def verifying(small: Twin, large: Twin) -> Sequence[Figure]:
    """Needs no server. The log of the small one shows what the command costs by itself."""
    figures = []
    for twin, workers in ((small, 1), (large, 1), (large, 4)):
        began = time.perf_counter()
        found = await _verified(twin, workers)
        taken = time.perf_counter() - began
        name = f"audit verify, {twin.called}, {workers} at once"
        figures += [
            Figure(name, taken, "s"),
            Figure(f"{name}: links a second", sum(chain["links"] for chain in found["chains"]) / taken),
            Figure(f"{name}: chains", len(found["chains"])),
            Figure(f"{name}: faults", found["fault_count"], bar=at_most(0)),
        ]
    return figures


async def _verified(twin: Twin, workers: int) -> Mapping[str, Any]:
    done = await trio.run_process(
        [str(COMMAND), "audit", "verify", "--json", "--workers", str(workers)],
        env={**environment_of(None), **twin.settings},
        capture_stdout=True,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    if not done.stdout:
        raise DidNotStart(f"`postern audit verify` ended with {done.returncode}")
    found: Mapping[str, Any] = json.loads(done.stdout)
    return found
