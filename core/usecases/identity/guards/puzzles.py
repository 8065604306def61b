"""Puzzles on the pages: how many bits a request has to solve, the challenge for the page, and whether a form brings a solution.

Other use cases demand more with `PuzzleDemand.at_least`. In quiet times nothing is asked for, and nothing here asks the database.
"""

from datetime import UTC, datetime

from core.domain.email import Email
from core.domain.identity.devices import Client
from core.domain.identity.endings.sealed import PUZZLES, WAITING, Sealed
from core.domain.identity.guards.puzzles import (
    LONGEST_CHALLENGE,
    WAIT,
    WAITED_UNTIL,
    Puzzle,
    PuzzleAnswer,
    PuzzleChallenge,
    PuzzleDemand,
    PuzzlePurpose,
    PuzzleUnsolved,
    hour_of_network,
    is_solved,
)
from core.domain.identity.guards.traffic import BusyPlaces, Crossing
from core.frozen import Frozen
from core.usecases.identity.guards.sealed_texts import opened_text, sealed_text
from ports.clock import Clock
from ports.encryption import CannotOpen, KeyRing
from ports.identity.guards.puzzles import PuzzleStore
from ports.metrics import Metrics
from ports.system import Ids


class Puzzles(Frozen):
    """`is_on`: whether puzzles are asked for at all."""

    store: PuzzleStore
    keyring: KeyRing
    places: BusyPlaces
    metrics: Metrics
    ids: Ids
    clock: Clock
    is_on: bool = True

    def demand(self, purpose: PuzzlePurpose, crossing: Crossing) -> PuzzleDemand:
        """What a request has to solve now, by the traffic alone."""
        if not self.is_on:
            return PuzzleDemand(purpose)
        return PuzzleDemand(purpose, self.places.bits(purpose.traffic, crossing, self._now()))

    def count(self, purpose: PuzzlePurpose, crossing: Crossing) -> None:
        """Count a request for a mail, or a sign-in that failed."""
        if self.is_on:
            self.places.count(purpose.traffic, crossing, self._now())

    async def is_known_device(self, email: Email, client: Client) -> bool:
        """Whether the person with this address has signed in on this device. Nobody is asked for a puzzle there. A client without a device
        token costs no look-up.
        """
        return client.device_token is not None and await self.store.is_known_device(email, client.device_token)

    def issue(self, demand: PuzzleDemand, binding: str) -> Puzzle | None:
        """The puzzle for a page. `binding` names the browser and the flow. None if nothing is asked for."""
        if not self.is_on or demand.bits == 0:
            return None
        challenge = PuzzleChallenge.made(self.ids.new(), demand, binding, self.clock.now())
        return Puzzle(sealed_text(self.keyring, challenge.packed(), PUZZLES), challenge.bits)

    async def check(self, demand: PuzzleDemand, binding: str, answer: PuzzleAnswer, crossing: Crossing) -> None:
        """Use the solution up, if one is asked for. Raises `PuzzleUnsolved`: then nothing was written."""
        if not self.is_on or demand.bits == 0:
            return
        try:
            await self._check(demand, binding, answer, crossing)
        except PuzzleUnsolved as refusal:
            self.metrics.puzzle_answered(demand.purpose, refusal.reason)
            raise
        self.metrics.puzzle_answered(demand.purpose, "solved")

    async def _check(self, demand: PuzzleDemand, binding: str, answer: PuzzleAnswer, crossing: Crossing) -> None:
        now = self.clock.now()
        if not answer.solution:
            if self._has_waited(answer.waited, crossing, now) and await self.store.use(
                hour_of_network(crossing.widest, demand.purpose, now), now + WAITED_UNTIL
            ):
                return
            raise PuzzleUnsolved("none")
        challenge = self._opened(answer.challenge)
        objection = challenge.objection(demand, binding, now)
        if not objection and not is_solved(answer.challenge, challenge.bits, answer.solution):
            objection = "wrong"
        if not objection and not await self.store.use(challenge.id, challenge.expires_at):
            objection = "used"
        if objection:
            raise PuzzleUnsolved(objection)

    def _opened(self, text: str) -> PuzzleChallenge:
        try:
            return PuzzleChallenge.unpacked(self._unsealed(text, PUZZLES))
        except (CannotOpen, ValueError):
            raise PuzzleUnsolved("foreign") from None

    def ticket(self, crossing: Crossing, kept: str) -> str:
        """What a browser without scripts shows after an hour, bound to its network. Empty if the browser's ticket is still good."""
        now = self.clock.now()
        since = self._waiting_since(kept, crossing)
        if since is not None and now < since + WAITED_UNTIL:
            return ""
        return sealed_text(self.keyring, int(now.timestamp()).to_bytes(8), _waiting_in(crossing))

    def _has_waited(self, ticket: str, crossing: Crossing, now: datetime) -> bool:
        since = self._waiting_since(ticket, crossing)
        return since is not None and since + WAIT <= now < since + WAITED_UNTIL

    def _waiting_since(self, ticket: str, crossing: Crossing) -> datetime | None:
        """None for anything but a ticket of ours for this network."""
        if not ticket:
            return None
        try:
            return datetime.fromtimestamp(int.from_bytes(self._unsealed(ticket, _waiting_in(crossing))), UTC)
        except CannotOpen:
            return None

    def _unsealed(self, text: str, kind: Sealed) -> bytes:
        """Raises `CannotOpen`."""
        if len(text) > LONGEST_CHALLENGE:
            raise CannotOpen("it is longer than any of ours")
        return opened_text(self.keyring, text, kind)

    def _now(self) -> float:
        return self.clock.now().timestamp()


def _waiting_in(crossing: Crossing) -> Sealed:
    return WAITING.within(crossing.network)
