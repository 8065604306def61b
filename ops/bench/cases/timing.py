"""The time of an answer must not show who has an account."""

import random
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import erfc, sqrt
from typing import Final

import trio

from ops.bench.cases.identity import people
from ops.bench.harness import Options, Server, directory, serving
from ops.bench.load import Client
from ops.bench.report import Figure, at_most

_TIMESTAMP: Final = re.compile(rb'"timestamp":"[^"]*"')
# In this pause, the work that follows a request (a mail, for instance) ends, so that it does not delay the next request.
PAUSE: Final = 0.02


@dataclass(frozen=True, slots=True)
class Comparison:
    """The seconds of known and of unknown addresses, pair by pair."""

    known: Sequence[float]
    unknown: Sequence[float]

    @property
    def gap(self) -> float:
        return statistics.median(known - unknown for known, unknown in zip(self.known, self.unknown, strict=True))

    @property
    def probability(self) -> float:
        return signed_rank([known - unknown for known, unknown in zip(self.known, self.unknown, strict=True)])


def signed_rank(differences: Sequence[float]) -> float:
    """The probability, two-sided, that chance alone makes differences as lopsided as these: Wilcoxon's signed-rank test in its normal
    approximation, with mid-ranks for ties.
    """
    ordered = sorted((difference for difference in differences if difference), key=abs)
    count = len(ordered)
    if not count:
        return 1.0
    positive, ties, place = 0.0, 0.0, 0
    while place < count:
        end = place
        while end < count and abs(ordered[end]) == abs(ordered[place]):
            end += 1
        positive += (place + 1 + end) / 2 * sum(difference > 0 for difference in ordered[place:end])
        ties += (end - place) ** 3 - (end - place)
        place = end
    mean = count * (count + 1) / 4
    spread = sqrt(count * (count + 1) * (2 * count + 1) / 24 - ties / 48)
    return erfc(abs(positive - mean) / spread / sqrt(2))


async def timing(options: Options) -> Sequence[Figure]:
    """Known addresses against unknown ones at login, forgot-password and resend-verification, in pairs of random order: a rank test sees no
    difference at p < 0.01, or the median gap is under a millisecond.
    """
    figures = []
    with directory() as place:
        async with serving(place) as server:
            known = [person.email for person in await people(server, options.pairs)]
            for name, path, content in _QUESTIONS:
                compared = await _compare(server, path, content, known)
                # This figure is the whole bar in one number: the gap counts only if the test sees one.
                seen = abs(compared.gap) * 1e3 if compared.probability < 0.01 else 0.0
                figures += [
                    Figure(f"{name}: median of the known", statistics.median(compared.known) * 1e3, "ms"),
                    Figure(f"{name}: median of the unknown", statistics.median(compared.unknown) * 1e3, "ms"),
                    Figure(f"{name}: median gap of {options.pairs} pairs", compared.gap * 1e3, "ms"),
                    Figure(f"{name}: p of the signed-rank test", compared.probability),
                    Figure(f"{name}: gap that the test sees", seen, "ms", at_most(1)),
                ]
    return figures


_QUESTIONS: Final[Sequence[tuple[str, str, Callable[[str], Mapping[str, object]]]]] = (
    ("login", "/api/auth/login", lambda email: {"email": email, "password": "a wrong password"}),
    ("forgot", "/api/auth/forgot-password", lambda email: {"email": email}),
    ("resend", "/api/auth/resend-verification", lambda email: {"email": email}),
)


async def _compare(server: Server, path: str, content: Callable[[str], Mapping[str, object]], known: Sequence[str]) -> Comparison:
    target = server.target(path)
    times: dict[bool, list[float]] = {True: [], False: []}
    answers: set[tuple[int, bytes]] = set()
    async with Client.connected(target) as client:
        for email in ["a-first@nowhere.test"] * 20:
            await client.ask(target.posting(content(email)))
        for number, email in enumerate(known):
            # The address is as long as the known one, so that the two differ only in being known.
            stranger = f"nobody-{number}".ljust(email.index("@"), "x")[: email.index("@")] + email[email.index("@") :]
            for is_known in random.sample((True, False), 2):
                await trio.sleep(PAUSE)
                answer = await client.ask(target.posting(content(email if is_known else stranger)))
                times[is_known].append(answer.seconds)
                answers.add((answer.status, _TIMESTAMP.sub(b"", answer.body)))
    if len(answers) != 1:
        raise OSError(f"{path} answers known and unknown differently: {sorted(answers)[:4]}")
    return Comparison(times[True], times[False])
