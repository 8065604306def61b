"""Bot protection of public forms: proof-of-work challenges, CAPTCHAs of other vendors, and the sealed values that both put into pages."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from core.domain.errors import Overloaded
from core.domain.identity.devices import Client
from core.domain.identity.endings import PUZZLES, WAITING, WIDGETS, Sealed
from core.domain.identity.guards.puzzles import (
    ANSWER_REMEMBERED,
    LONGEST_CHALLENGE,
    LONGEST_KEPT,
    WAIT,
    WAITED_UNTIL,
    KeptForm,
    MakerSeen,
    Puzzle,
    PuzzleAnswer,
    PuzzleChallenge,
    PuzzleDemand,
    PuzzlePurpose,
    PuzzleUnsolved,
    answer_id,
    hour_of_network,
    is_solved,
)
from core.domain.identity.guards.traffic import BusyPlaces, Crossing
from core.domain.mail import Email
from core.frozen import Frozen
from ports.crypto import CannotOpen, KeyRing
from ports.identity.sign_in import PuzzleStore, WidgetMaker, WidgetSilent
from ports.metrics import Metrics
from ports.system import Clock, Ids


def sealed_text(keyring: KeyRing, plaintext: bytes, kind: Sealed) -> str:
    """Seals a value as text, for links, forms and cookies. The value travels to the browser and back, and is stored nowhere."""
    return urlsafe_b64encode(keyring.seal(plaintext, kind.context)).rstrip(b"=").decode()


def opened_text(keyring: KeyRing, text: str, kind: Sealed) -> bytes:
    """Opens what `sealed_text` has sealed.

    Raises `CannotOpen`, also for a text that nobody has sealed.
    """
    try:
        sealed = urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4))
    except ValueError:
        raise CannotOpen("it is no text of ours") from None
    return keyring.open(sealed, kind.context)


class Puzzles(Frozen):
    """Issues and verifies proof-of-work challenges: how many bits a request must solve, the challenge for the page, and whether a form
    brings a solution.

    Other use cases demand more with `PuzzleDemand.at_least`. While there is little traffic, no challenge is required and the database is
    not asked.

    `is_on`: whether puzzles are asked for at all.
    """

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


OUR_OWN: Final = "of-no-widget"
"""What we ask the maker about to see whether it is there."""


class Widgets(Frozen):
    """Verifies CAPTCHAs of other vendors, in place of our proof of work, and stores the form meanwhile.

    An answer from a browser never decides that the vendor is out of service. If the vendor gives no verdict on an answer, Postern asks
    about one of its own. Only if the vendor does not respond to that one either, pages fall back to proof of work.

    `maker`: None where the installation shows no widget. `site`: the host that answers must come from.
    """

    store: PuzzleStore
    keyring: KeyRing
    maker: WidgetMaker | None
    seen: MakerSeen
    site: str
    metrics: Metrics
    ids: Ids
    clock: Clock

    @property
    def shown(self) -> WidgetMaker | None:
        """Whose widget pages show now. None while the maker is away."""
        return None if self.maker is None or self.seen.is_away(self.clock.now()) else self.maker

    def keep(self, purpose: PuzzlePurpose, binding: str, fields: Mapping[str, str]) -> tuple[KeptForm, str] | None:
        """The form, and the same sealed for the page. `binding` names the browser and the flow. None for a form that no person fills in."""
        kept = KeptForm.made(self.ids.new(), purpose, binding, fields, self.clock.now())
        sealed = sealed_text(self.keyring, kept.packed(), WIDGETS)
        if len(sealed) > LONGEST_KEPT:
            return None
        self.metrics.widget_answered(purpose, "asked")
        return kept, sealed

    def opened(self, purpose: PuzzlePurpose, binding: str, sealed: str) -> KeptForm:
        """Raises `PuzzleUnsolved` for anything but a form of ours that waits for this browser, flow and purpose."""
        try:
            kept = KeptForm.unpacked(opened_text(self.keyring, sealed, WIDGETS))
        except (CannotOpen, ValueError):
            kept = None
        objection = "foreign" if kept is None else kept.objection(purpose, binding, self.clock.now())
        if kept is None or objection:
            self.metrics.widget_answered(purpose, objection)
            raise PuzzleUnsolved(objection)
        return kept

    async def check(self, kept: KeptForm, answer: str) -> None:
        """Use form and answer up. Raises `PuzzleUnsolved`: then nothing was written, unless form or answer had been used up before."""
        objection = await self._objection(kept, answer)
        self.metrics.widget_answered(kept.purpose, objection or "solved")
        if objection:
            raise PuzzleUnsolved(objection)

    async def _objection(self, kept: KeptForm, answer: str) -> str:
        maker = self.shown
        if maker is None:
            return "away"
        try:
            if not answer:
                # A person whose page has shown nothing sends the form without an answer.
                return await self._silence(maker, "none")
            if not _is_one(answer, maker.preset.longest_answer):
                return "malformed"
            try:
                verdict = await maker.verify(answer)
            except WidgetSilent:
                return await self._silence(maker, "unclear")
        except Overloaded:
            return "busy"
        objection = verdict.objection(self.site, kept.purpose, kept.bound)
        if not objection and not await self.store.use(answer_id(answer), self.clock.now() + ANSWER_REMEMBERED):
            objection = "replayed"
        if not objection and not await self.store.use(kept.id, kept.expires_at):
            objection = "used"
        return objection

    async def _silence(self, maker: WidgetMaker, otherwise: str) -> str:
        """`away` if the maker is silent on what we ask ourselves."""
        return "away" if await self._is_away(maker) else otherwise

    async def _is_away(self, maker: WidgetMaker) -> bool:
        seen = self.seen
        if seen.is_there(self.clock.now()) or seen.is_looking:
            return False
        seen.is_looking = True
        away = False
        try:
            await maker.verify(OUR_OWN)
        except WidgetSilent:
            away = True
        finally:
            seen.is_looking = False
        seen.found(self.clock.now(), away=away)
        return away


def _is_one(answer: str, longest: int) -> bool:
    """Whether a maker could have given it. What is none costs no call."""
    return len(answer) <= longest and answer.isascii() and all(character.isalnum() or character in "-_.~+/=:" for character in answer)
