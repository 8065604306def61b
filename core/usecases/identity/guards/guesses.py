"""Slows down credential stuffing: what is counted of a failure, whose responses are delayed, and what a page requires of them."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from datetime import datetime
from math import ceil
from typing import Final

from core.domain.errors import RateLimited
from core.domain.identifiers import UserId
from core.domain.identity.devices import Client
from core.domain.identity.guards.guesses import (
    GUESSING_BITS,
    FailedGuess,
    GuessOrigin,
    HourKey,
    OriginPlaces,
    delay_of,
    guessed,
    hour_of_guess,
    origin_of,
    origin_places,
)
from core.domain.identity.sign_in import TRIES_FROM_DEVICE, Tries
from core.domain.mail import Email
from core.domain.secrets import Password
from core.frozen import Frozen
from ports.crypto import KeyRing
from ports.metrics import Metrics
from ports.system import Clock

_CONTEXT: Final = "guesses"
MOST_NOTICED: Final = 10_000
# How many answers wait at once: of one network and family, and in this process. The rest is refused at once, and holds nothing.
WAITING_THERE: Final = 4
WAITING_HERE: Final = 60


class NoticedOrigins:
    """From where somebody guesses in this hour, and how many responses wait. The counts are in the database, and come with a sign-in's
    first look. What they told is remembered here until the hour is over, so that a page requires its proof of work without a look of its
    own. The number of places is limited: the least recently seen is forgotten first, and its next attempt reports it again.
    """

    def __init__(self, most: int = MOST_NOTICED) -> None:
        self._most = most
        self._noticed: OrderedDict[GuessOrigin, tuple[datetime, float]] = OrderedDict()
        self._waiting: dict[GuessOrigin, int] = {}
        self._all_waiting = 0

    def __len__(self) -> int:
        return len(self._noticed)

    def note(self, origin: GuessOrigin, hour: datetime, pressure: float) -> None:
        self._noticed[origin] = (hour, pressure)
        self._noticed.move_to_end(origin)
        if len(self._noticed) > self._most:
            self._noticed.popitem(last=False)

    def delay(self, origin: GuessOrigin, hour: datetime) -> float:
        noticed, pressure = self._noticed.get(origin, (hour, 0.0))
        return delay_of(pressure) if noticed == hour else 0.0

    def has_room(self, origin: GuessOrigin) -> bool:
        return self._all_waiting < WAITING_HERE and self._waiting.get(origin, 0) < WAITING_THERE

    async def wait(self, origin: GuessOrigin, seconds: float, pause: Callable[[float], Awaitable[None]]) -> None:
        self._all_waiting += 1
        self._waiting[origin] = self._waiting.get(origin, 0) + 1
        try:
            await pause(seconds)
        finally:
            self._all_waiting -= 1
            self._waiting[origin] -= 1
            if not self._waiting[origin]:
                del self._waiting[origin]


class Guesses(Frozen):
    """`slows`: whether answers wait and pages ask, or failures are counted alone."""

    keyring: KeyRing
    noticed: NoticedOrigins
    metrics: Metrics
    pause: Callable[[float], Awaitable[None]]
    clock: Clock
    slows: bool = True

    def places(self, client: Client) -> OriginPlaces:
        """The counts that the first look of a try from there reads."""
        hour = self._hour()
        return OriginPlaces(hour, origin_places(self._key(hour), origin_of(client)))

    def made(self, email: Email, password: Password, client: Client, user: UserId | None, tries: Tries) -> FailedGuess | None:
        """What is counted if the try fails. None for a device of the person's own: nobody guesses there, and it would only tell on them."""
        if tries.limit == TRIES_FROM_DEVICE:
            return None
        now = self.clock.now()
        return guessed(self._key(hour_of_guess(now)), email, password, origin_of(client), user=user, now=now)

    def bits(self, client: Client) -> int:
        """How many bits a page asks for in any case."""
        return GUESSING_BITS if self.slows and self.noticed.delay(origin_of(client), self._hour()) else 0

    def admit(self, client: Client) -> None:
        """Raises `RateLimited`, before anything is looked up, when enough answers wait. A client with a device token may be the person's
        own device, so the look-up decides about it.
        """
        origin = origin_of(client)
        delay = self.noticed.delay(origin, self._hour()) if self.slows and client.device_token is None else 0.0
        if delay and not self.noticed.has_room(origin):
            self._refuse(delay)

    async def slow(self, client: Client, tries: Tries, pressure: float) -> None:
        """Waits before the password is checked, whether it is right or not: an answer that waits only if it is wrong would tell. Nothing of
        the database is held meanwhile. Raises `RateLimited` when enough answers wait.
        """
        if not self.slows:
            return
        origin, hour, delay = origin_of(client), self._hour(), delay_of(pressure)
        if delay:
            self.noticed.note(origin, hour, pressure)
        if not delay or tries.limit == TRIES_FROM_DEVICE:
            return
        if not self.noticed.has_room(origin):
            self._refuse(delay)
        self.metrics.guess_slowed("waited")
        await self.noticed.wait(origin, delay, self.pause)

    def _refuse(self, delay: float) -> None:
        self.metrics.guess_slowed("refused")
        raise RateLimited(retry_after=ceil(delay), detail="guesses over many accounts")

    def _hour(self) -> datetime:
        return hour_of_guess(self.clock.now())

    def _key(self, hour: datetime) -> HourKey:
        return HourKey(self.keyring.derive(f"{_CONTEXT} {hour:%Y-%m-%dT%H}"))
