"""How long a server takes from its command to its first 200 of /health/ready."""

import statistics
from collections.abc import Sequence
from typing import Final

from ops.bench.large.twins import Twin
from ops.bench.report import Figure, at_most

_TURNS: Final = 5


async def starting(small: Twin, large: Twin) -> Sequence[Figure]:
    taken: dict[Twin, list[float]] = {small: [], large: []}
    for _ in range(_TURNS):
        for twin, found in taken.items():
            async with twin.served() as server:
                found.append(server.readied_after)
    few, many = taken.values()
    return [
        Figure(f"start, {small.called}: median of {_TURNS}", statistics.median(few), "s"),
        Figure(f"start, {large.called}: median of {_TURNS}", statistics.median(many), "s"),
        Figure("start: large against small", statistics.median(many) / statistics.median(few), bar=at_most(1.2)),
    ]
