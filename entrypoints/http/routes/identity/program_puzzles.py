"""Proof-of-work challenges for API clients: only when an email rate limit is exceeded, the refusal has one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from core.domain.identity.guards.puzzles import PuzzleAnswer, PuzzleDemand, PuzzlePurpose, PuzzleUnsolved
from core.domain.identity.guards.traffic import Crossing
from core.domain.identity.registering import BUDGET_BITS, MailsHeldBack
from core.domain.mail import Email
from core.frozen import Frozen
from core.usecases.identity.guards.puzzles import Puzzles
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import RequestHeader
from entrypoints.http.machinery.calls import Call

_CHALLENGE: Final = RequestHeader(
    "X-Puzzle-Challenge",
    "The `puzzle.challenge` of the previous 429 response. Use it within 5 minutes, for the same email address, from the same network.",
    "AQR0ZXN0NXoTM015VILsxGay37NE1Lh8KQJ81FLjs-c76nERGdiHFk7p",
)
_SOLUTION: Final = RequestHeader("X-Puzzle-Solution", "The numbers that solve the challenge, separated by dots.", "17.4.902.33.8.1204.5.77")
PUZZLE_HEADERS: Final = (_CHALLENGE, _SOLUTION)


class ProgramPuzzle(Frozen):
    """What one request of a program may solve. Where the installation shows a widget, programs get no puzzle: it would be a way round."""

    puzzles: Puzzles
    demand: PuzzleDemand
    binding: str
    crossing: Crossing

    @classmethod
    def of(cls, call: Call[Any, Any, Any, Any], postern: Postern, purpose: PuzzlePurpose, email: Email) -> "ProgramPuzzle | None":
        puzzles, crossing = postern.identity.puzzles, Crossing(call.client_address)
        if not puzzles.is_on or postern.identity.widgets.maker is not None:
            return None
        demand = puzzles.demand(purpose, crossing).at_least(BUDGET_BITS)
        return cls(puzzles, demand, f"program {crossing.network} {email.key}", crossing)

    async def is_solved(self, call: Call[Any, Any, Any, Any]) -> bool:
        """Whether the request brings a solution, which is then used up. One that does not count is as none."""
        challenge, solution = (call.request.says(header) or "" for header in PUZZLE_HEADERS)
        if not solution:
            return False
        try:
            answer = PuzzleAnswer(challenge, solution)
            await self.puzzles.check(self.demand, self.binding, answer, self.crossing)
        except PuzzleUnsolved:
            return False
        return True

    def refusal(self, held_back: MailsHeldBack) -> MailsHeldBack:
        """The refusal with a puzzle. It counts, so that a flood gets harder ones."""
        self.puzzles.count(self.demand.purpose, self.crossing)
        return held_back.with_puzzle(self.puzzles.issue(self.demand, self.binding))


@asynccontextmanager
async def solvable(call: Call[Any, Any, Any, Any], postern: Postern, purpose: PuzzlePurpose, email: Email) -> AsyncIterator[bool]:
    """Around a request for a mail: whether it has solved a puzzle. `MailsHeldBack` leaves it with one, unless that was tried already.

    The same request with its solution counts in the limits of those who have solved one.
    """
    asked = ProgramPuzzle.of(call, postern, purpose, email)
    solved = asked is not None and await asked.is_solved(call)
    try:
        yield solved
    except MailsHeldBack as held_back:
        if asked is None or solved:
            raise
        raise asked.refusal(held_back) from None
