"""Sends one person to the other system: asks who is there, and makes, matches, changes, ends or deletes."""

from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import timedelta
from typing import Final, TypeVar

from core.domain.federation.provisioning.listed import OTHER
from core.domain.federation.provisioning.people import (
    ACTIVE,
    EXTERNAL_ID,
    USER_NAME,
    FarIdentity,
    OutwardPerson,
    PlaceThere,
    SentPerson,
    Wanted,
    WhyNotThere,
    differing,
    digest_there,
    is_still_there,
    met_there,
    resource_of,
    wanted_there,
)
from core.domain.federation.provisioning.runs import (
    EXCHANGES_KEPT,
    DoneThere,
    ProvisioningRunPerson,
    ProvisioningWork,
    left_out_there,
)
from core.domain.identifiers import UserId
from core.frozen import Frozen, replace
from ports.federation.provisioning_runs import (
    FarExchange,
    FarFailed,
    FarFault,
    FarOtherId,
    FarPerson,
    FarRefused,
    FarSide,
    FarSite,
    ProvisionedPeopleStore,
    ProvisioningPace,
    TurnOver,
)
from ports.system import Secrets

Answer = TypeVar("Answer")

_MOST_TRIES: Final = 5
LONGEST_WAIT: Final = timedelta(seconds=60)
"""A longer rest is one of the whole connection, without a lease."""
_MOST_FAULTS: Final = 5
"""So many people one after the other without an answer: the other system is away, and not the people."""
# Nothing can be asked any more.
_FATAL: Final = frozenset({FarFault.CREDENTIALS, FarFault.REDIRECT, FarFault.THROTTLED})


def _has_turn(_rest: timedelta) -> bool:
    return True


class SendingResult(Frozen):
    sent: SentPerson
    named: ProvisioningRunPerson | None


class FarNotes:
    """The newest exchanges, and the newest that failed, until a page is written."""

    def __init__(self) -> None:
        self._good = deque[FarExchange](maxlen=EXCHANGES_KEPT)
        self._failed = deque[FarExchange](maxlen=EXCHANGES_KEPT)
        self.count = 0

    def add(self, exchange: FarExchange) -> None:
        self.count += 1
        (self._failed if exchange.has_failed else self._good).append(exchange)

    def take(self) -> Sequence[FarExchange]:
        noted = sorted((*self._good, *self._failed), key=lambda one: one.at)
        self._good.clear()
        self._failed.clear()
        return noted


class PeopleSender:
    """For one connection, while it is worked for."""

    def __init__(
        self,
        work: ProvisioningWork,
        far: FarSide,
        site: FarSite,
        *,
        people: ProvisionedPeopleStore,
        secrets: Secrets,
        pace: ProvisioningPace,
        issuer: str,
        has_turn: Callable[[timedelta], bool] = _has_turn,
    ) -> None:
        """`has_turn`: whether the turn lasts longer than a rest of so long."""
        self._work = work
        self._far = far
        self._site = site
        self._people = people
        self._secrets = secrets
        self._pace = pace
        self._issuer = issuer
        self._has_turn = has_turn
        self._faults = 0
        self._given = dict[str, UserId]()

    def begin_batch(self) -> None:
        """Ids that were given in a batch are compared with each other, and after it the store knows them."""
        self._given.clear()

    def wanted(self, person: OutwardPerson) -> Wanted:
        return wanted_there(person, self._work.mapping, self._work.left_out, issuer=self._issuer)

    def digest(self, wanted: Wanted) -> bytes:
        return digest_there(wanted, self._site.dialect.rewrites)

    async def asked(self, call: Callable[[], Awaitable[Answer]]) -> Answer:
        """A call that waits as long as the other system asks for. Raises `FarFailed`, `FarRefused` and `FarOtherId`, and `TurnOver` before
        a call, so that nothing that was sent is lost.
        """
        for _ in range(_MOST_TRIES):
            if not self._has_turn(timedelta(0)):
                raise TurnOver
            try:
                answer = await call()
            except FarFailed as failed:
                if failed.retry_after is None or failed.retry_after > LONGEST_WAIT:
                    raise
                if not self._has_turn(failed.retry_after):
                    # Nobody waits for a rest in a place that others need.
                    raise TurnOver(failed.retry_after) from None
                await self._pace.rest(max(failed.retry_after.total_seconds(), 0.1))
            else:
                self._faults = 0
                return answer
        raise FarFailed(FarFault.THROTTLED, LONGEST_WAIT)

    async def candidates(self, wanted: Wanted) -> Sequence[FarIdentity]:
        """Who there may be the person: those with the person's `externalId`, and otherwise with the name."""
        if not self._site.dialect.filters:
            return ()
        for attribute in (EXTERNAL_ID, USER_NAME):
            value = str(wanted[attribute])
            found = await self.asked(lambda attribute=attribute, value=value: self._far.find(self._site, attribute, value))  # type: ignore[misc]
            if found:
                return await self.with_owners([one.identity for one in found])
        return ()

    async def with_owners(self, found: Sequence[FarIdentity]) -> Sequence[FarIdentity]:
        if not found:
            return ()
        known = await self._people.known(self._work.connection, [one.far_id for one in found])
        owned = [replace(one, owner=known[one.far_id].user) if one.far_id in known else one for one in found]
        if len(owned) == 1 and owned[0].external_id == OTHER:
            # The list has kept a digest. What it is, is asked for where it matters.
            far_id, owner = owned[0].far_id, owned[0].owner
            theirs = await self.asked(lambda: self._far.read(self._site, far_id))
            return [] if theirs is None else [replace(theirs.identity, owner=owner)]
        return owned

    async def send(self, person: OutwardPerson, wanted: Wanted, read: Sequence[FarIdentity]) -> SendingResult:
        """`read` are those whom the list of this run has named. Raises `FarFailed` when nothing more can be asked."""
        before = person.sent
        try:
            result = await self._sent(person, wanted, read)
        except FarOtherId:
            return self._not_there(person, before, WhyNotThere.OTHER_ID, PlaceThere.REFUSED)
        except FarRefused as refused:
            return self._not_there(person, before, refused.why, PlaceThere.REFUSED)
        except FarFailed as failed:
            if self._is_of_system(failed):
                raise
            return self._not_there(person, before, WhyNotThere.NO_ANSWER, PlaceThere.REFUSED)
        far_id = result.sent.far_id
        if result.sent.place is PlaceThere.SENT and far_id is not None and not self._gives(far_id, person.user):
            # The system has made somebody, and says the id of another.
            return self._not_there(person, None, WhyNotThere.OF_ANOTHER, PlaceThere.LEFT_OUT, far_id)
        return result

    def _is_of_system(self, failed: FarFailed) -> bool:
        """Whether everybody else would meet the same."""
        self._faults += 1
        return failed.is_away or failed.fault in _FATAL or self._faults >= _MOST_FAULTS

    def _gives(self, far_id: str, user: UserId) -> bool:
        """False for an id that another of our people has by now."""
        return self._given.setdefault(far_id, user) == user

    async def _sent(self, person: OutwardPerson, wanted: Wanted, read: Sequence[FarIdentity]) -> SendingResult:
        before = person.sent
        if not wanted.get(USER_NAME):
            return self._not_there(person, before, WhyNotThere.NO_USER_NAME, PlaceThere.LEFT_OUT)
        if before is not None and before.far_id is not None:
            far_id = before.far_id
            theirs = await self.asked(lambda: self._far.read(self._site, far_id))
            if theirs is not None and is_still_there(person, before, theirs.identity):
                names = await self._changed(theirs, wanted)
                # Nothing has changed here, so it has there.
                is_news = before.digest == self.digest(wanted) and before.is_active
                what = DoneThere.OVERWRITTEN if is_news else DoneThere.CHANGED
                named = ProvisioningRunPerson(what=what, user=person.user, far_id=far_id, attributes=tuple(names)) if names else None
                return SendingResult(self._there(person, wanted, far_id), named)
        found = await self.with_owners(read) or await self.candidates(wanted)
        met = met_there(person, wanted, found)
        if isinstance(met, WhyNotThere):
            return self._not_there(person, None, met, PlaceThere.LEFT_OUT, found[0].far_id)
        if met is None:
            return await self._made(person, wanted)
        if not self._gives(met.far_id, person.user):
            return self._not_there(person, None, WhyNotThere.OF_ANOTHER, PlaceThere.LEFT_OUT, met.far_id)
        return await self._matched(person, wanted, met.far_id)

    async def _made(self, person: OutwardPerson, wanted: Wanted) -> SendingResult:
        resource = resource_of(wanted)
        if self._site.dialect.needs_password:
            # 256 random bits that nobody keeps.
            resource["password"] = self._secrets.token().reveal()
        try:
            made = await self.asked(lambda: self._far.make(self._site, resource))
        except FarRefused as refused:
            if refused.status != 409:
                raise
            # Somebody was made there meanwhile, or the list does not show everybody.
            found = await self.candidates(wanted)
            met = met_there(person, wanted, found)
            if isinstance(met, FarIdentity):
                return await self._matched(person, wanted, met.far_id)
            return self._not_there(person, None, met or WhyNotThere.TAKEN, PlaceThere.REFUSED if met is None else PlaceThere.LEFT_OUT)
        (identity,) = await self.with_owners([made.identity])
        if identity.owner not in {None, person.user}:
            return self._not_there(person, None, WhyNotThere.OF_ANOTHER, PlaceThere.LEFT_OUT, identity.far_id)
        named = ProvisioningRunPerson(what=DoneThere.MADE, user=person.user, far_id=identity.far_id)
        return SendingResult(self._there(person, wanted, identity.far_id), named)

    async def _matched(self, person: OutwardPerson, wanted: Wanted, far_id: str) -> SendingResult:
        theirs = await self.asked(lambda: self._far.read(self._site, far_id))
        if theirs is None:
            return self._not_there(person, None, WhyNotThere.NO_ANSWER, PlaceThere.REFUSED)
        await self._changed(theirs, wanted)
        named = ProvisioningRunPerson(what=DoneThere.MATCHED, user=person.user, far_id=far_id)
        return SendingResult(self._there(person, wanted, far_id), named)

    async def _changed(self, theirs: FarPerson, wanted: Wanted) -> Sequence[str]:
        """Writes what differs, and nothing where nothing does: so a circle of systems comes to rest."""
        names = [one for one in differing(wanted, theirs.resource) if one not in self._site.dialect.rewrites]
        if names:
            await self.asked(lambda: self._far.change(self._site, theirs, wanted, names))
        return names

    async def end(self, person: OutwardPerson) -> SendingResult:
        """The person is no more active there. Whoever is gone there has ended. Raises `FarFailed` when nothing more can be asked."""
        before = person.sent
        assert before is not None and before.far_id is not None  # noqa: S101, PT018 - whoever ends was sent
        far_id, why = before.far_id, person.why_gone
        named = ProvisioningRunPerson(what=DoneThere.ENDED, why=None if why is None else why.value, user=person.user, far_id=far_id)
        try:
            theirs = await self.asked(lambda: self._far.read(self._site, far_id))
            if theirs is not None and not is_still_there(person, before, theirs.identity):
                return self._not_ended(before, WhyNotThere.OTHER_EXTERNAL_ID)
            if theirs is not None and theirs.identity.is_active:
                await self.asked(lambda: self._far.change(self._site, theirs, {ACTIVE: False}, [ACTIVE]))
        except FarOtherId:
            return self._not_ended(before, WhyNotThere.OTHER_ID)
        except FarRefused as refused:
            return self._not_ended(before, refused.why)
        except FarFailed as failed:
            if self._is_of_system(failed):
                raise
            return self._not_ended(before, WhyNotThere.NO_ANSWER)
        ended = replace(before, is_active=False, digest=None, place=PlaceThere.SENT, why=named.why, tries=0)
        return SendingResult(replace(ended, far_id=None) if theirs is None else ended, named)

    async def delete(self, far_id: str, attributes: Collection[str]) -> None:
        """Nobody there is the person any more. Raises `FarFailed`, `FarRefused` and `FarOtherId`."""
        if await self.asked(lambda: self._far.delete(self._site, far_id)):
            return
        theirs = await self.asked(lambda: self._far.read(self._site, far_id))
        if theirs is None:
            return
        # What is required there stays, and everything else that tells of the person goes.
        required = {USER_NAME, *self._site.dialect.required}
        emptied: Wanted = {**{name: None for name in attributes if name not in required}, EXTERNAL_ID: None, ACTIVE: False}
        names = differing(emptied, theirs.resource)
        if names:
            await self.asked(lambda: self._far.change(self._site, theirs, emptied, names))

    def _there(self, person: OutwardPerson, wanted: Wanted, far_id: str) -> SentPerson:
        return SentPerson(
            user=person.user,
            far_id=far_id,
            digest=self.digest(wanted),
            is_active=True,
            place=PlaceThere.SENT,
            user_name=str(wanted[USER_NAME]),
        )

    @staticmethod
    def _not_there(
        person: OutwardPerson, before: SentPerson | None, why: str, place: PlaceThere, far_id: str | None = None
    ) -> SendingResult:
        """What was sent before stays as it is known, and is compared anew."""
        tries = 1 + (0 if person.sent is None else person.sent.tries)
        if before is None:
            before = SentPerson(user=person.user, far_id=None, digest=None, is_active=False, place=place)
        sent = replace(before, digest=None, place=place, why=str(why), tries=tries)
        return SendingResult(sent, left_out_there(person.user, why, far_id or before.far_id))

    @staticmethod
    def _not_ended(before: SentPerson, why: str) -> SendingResult:
        sent = replace(before, place=PlaceThere.TO_END, why=str(why), tries=before.tries + 1)
        return SendingResult(sent, left_out_there(before.user, why, before.far_id))
