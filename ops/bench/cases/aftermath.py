"""Whether what follows a request, in the same process, tells who has an account: asked of `/health/live` while it happens."""

import itertools
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import psycopg
import trio

from ops.bench.cases.identity import people
from ops.bench.harness import Options, Server, directory, serving
from ops.bench.load import Client
from ops.bench.report import Bar, Figure, at_most

# For so long somebody probes after a request: what follows it at once takes less.
PROBED_FOR: Final = 0.25
MOST_PAIRS: Final = 150
# Longer than the account mailer ever lets a mail wait.
PROBED_FOR_LONG: Final = 5.0
MOST_LONG_PAIRS: Final = 25

# What somebody could make of the seconds that the probes took, of those within each of these times: the more work there was, the larger.
MEASURES: Final[Mapping[str, Callable[[Sequence[float]], float]]] = {
    "mean": statistics.fmean,
    "longest": max,
    "ten longest": lambda probes: sum(sorted(probes)[-10:]),
}
WITHIN: Final = (0.05, 0.1, PROBED_FOR, PROBED_FOR_LONG)


@dataclass(slots=True)
class Probed:
    """The seconds of the probes after each request: about a known address, and about an unknown one."""

    seconds: float
    known: list[Sequence[float]] = field(default_factory=list)
    unknown: list[Sequence[float]] = field(default_factory=list)

    def areas(self) -> dict[str, float]:
        """The area under the curve by each measure."""
        return {
            f"{name} within {within:g} s": area_under_curve(
                [measure(_first(within, probes)) for probes in self.known], [measure(_first(within, probes)) for probes in self.unknown]
            )
            for within in WITHIN
            if within <= self.seconds
            for name, measure in MEASURES.items()
        }


def _first(seconds: float, probes: Sequence[float]) -> Sequence[float]:
    ends = itertools.accumulate(probes)
    return [probe for probe, end in zip(probes, ends, strict=True) if end - probe < seconds]


def area_under_curve(known: Sequence[float], unknown: Sequence[float]) -> float:
    """How probable it is that one of the known is above one of the unknown, ties counted as half: 0.5 when nothing tells them apart."""
    above = sum((one > other) + (one == other) / 2 for one in known for other in unknown)
    return above / (len(known) * len(unknown))


async def aftermath(options: Options) -> Sequence[Figure]:
    """Health probes after forgot-password and resend-verification for known and unknown addresses, in pairs, the order of each by chance:
    no measure of the first quarter of a second tells the known from the unknown better than an area under the curve of 0.6. And few pairs
    over all the time in which the mail may be made, without a bar: so few leave much to chance.
    """
    figures = []
    with directory() as place:
        async with serving(place) as server:
            pairs = min(options.pairs, MOST_PAIRS)
            long_pairs = min(options.pairs, MOST_LONG_PAIRS)
            # Each address once: nobody's mails are limited.
            persons = await people(server, 2 * (pairs + long_pairs))
            # Those who ask for a verification mail are those who have not verified theirs.
            await trio.to_thread.run_sync(_forget_verification, server.database_url)
            addresses = iter([person.email for person in persons])
            for name, path in _QUESTIONS:
                known = [next(addresses) for _ in range(pairs)]
                figures += _figures(f"{name}, {pairs} pairs", await _probe(server, path, known, PROBED_FOR), at_most(0.6))
            for name, path in _QUESTIONS:
                known = [next(addresses) for _ in range(long_pairs)]
                probed = await _probe(server, path, known, PROBED_FOR_LONG)
                figures += _figures(f"{name}, {PROBED_FOR_LONG:g} s, {long_pairs} pairs", probed, None)
    return figures


_QUESTIONS: Final = (("forgot", "/api/auth/forgot-password"), ("resend", "/api/auth/resend-verification"))


def _forget_verification(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("update users set email_verified_at = null")


async def _probe(server: Server, path: str, known: Sequence[str], seconds: float) -> Probed:
    probed, asked = Probed(seconds), server.target(path)
    async with Client.connected(asked) as asking, Client.connected(server.target("/health/live")) as probing:
        for number, email in enumerate(known):
            # As long as the known one, so that nothing but being known differs.
            stranger = f"nobody-{number}".ljust(email.index("@"), "x")[: email.index("@")] + email[email.index("@") :]
            for is_known in random.sample((True, False), 2):
                answer = await asking.ask(asked.posting({"email": email if is_known else stranger}))
                if answer.status != 200:
                    raise OSError(f"{path} answers {answer.status}")
                (probed.known if is_known else probed.unknown).append(await _latencies(probing, seconds))
    return probed


async def _latencies(probing: Client, seconds: float) -> Sequence[float]:
    latencies, until = [], trio.current_time() + seconds
    while trio.current_time() < until:
        latencies.append((await probing.get()).seconds)
    return latencies


def _figures(name: str, probed: Probed, bar: Bar | None) -> list[Figure]:
    areas = probed.areas()
    # An attacker may turn a measure round, and takes the one that tells most.
    most = max(max(area, 1 - area) for area in areas.values())
    return [Figure(f"{name}: area under the curve", most, bar=bar, beside=", ".join(f"{what} {area:.2f}" for what, area in areas.items()))]
