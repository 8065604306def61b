"""Work that follows a request in the same process could tell who has an account. The case probes `/health/live` during that work."""

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

# The probes go on for this long after a request. The work right after a request takes less.
PROBED_FOR: Final = 0.25
MOST_PAIRS: Final = 150
# The account mailer never lets a mail wait this long.
PROBED_FOR_LONG: Final = 5.0
MOST_LONG_PAIRS: Final = 25

# An attacker could compute these from the seconds of the probes within each of these times. More work makes each of them larger.
MEASURES: Final[Mapping[str, Callable[[Sequence[float]], float]]] = {
    "mean": statistics.fmean,
    "longest": max,
    "ten longest": lambda probes: sum(sorted(probes)[-10:]),
}
WITHIN: Final = (0.05, 0.1, PROBED_FOR, PROBED_FOR_LONG)


@dataclass(slots=True)
class Probed:
    """The seconds of the probes after each request, for known and for unknown addresses."""

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
    """The probability that a known value is above an unknown one, with ties as half. It is 0.5 if nothing tells the two apart."""
    above = sum((one > other) + (one == other) / 2 for one in known for other in unknown)
    return above / (len(known) * len(unknown))


async def aftermath(options: Options) -> Sequence[Figure]:
    """Health probes after forgot-password and resend-verification for known and unknown addresses, in pairs of random order. No measure of
    the first quarter of a second tells them apart better than an area under the curve of 0.6. With more --pairs than by default, a few
    more cover all the time in which the mail may be made; they have no bar, because so few leave much to chance.
    """
    figures = []
    with directory() as place:
        async with serving(place) as server:
            pairs = min(options.pairs, MOST_PAIRS)
            long_pairs = MOST_LONG_PAIRS if options.pairs > Options().pairs else 0
            # The case uses each address once, so no limit on mails applies.
            persons = await people(server, 2 * (pairs + long_pairs))
            # Only people with an unverified address ask for a verification mail.
            await trio.to_thread.run_sync(_forget_verification, server.database_url)
            addresses = iter([person.email for person in persons])
            for name, path in _QUESTIONS:
                known = [next(addresses) for _ in range(pairs)]
                figures += _figures(f"{name}, {pairs} pairs", await _probe(server, path, known, PROBED_FOR), at_most(0.6))
            for name, path in _QUESTIONS if long_pairs else ():
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
            # The address is as long as the known one, so that the two differ only in being known.
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
    # An attacker may invert a measure, and chooses the one that tells most.
    most = max(max(area, 1 - area) for area in areas.values())
    return [Figure(f"{name}: area under the curve", most, bar=bar, beside=", ".join(f"{what} {area:.2f}" for what, area in areas.items()))]
