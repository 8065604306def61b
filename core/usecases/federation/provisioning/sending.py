"""Provisions one user to the other system by SCIM: looks the user up, and creates, links, updates, deactivates or deletes."""

from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Final, TypeVar
from uuid import UUID

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
    kept_as_they_are,
    met_there,
    resource_of,
    wanted_there,
    without_value,
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
    AdoptedThere,
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


class _Intended(Frozen):
    """What is to be done with a person there."""

    what: DoneThere
    why: WhyNotThere | None = None
    far_id: str | None = None
    theirs: FarPerson | None = None
    names: tuple[str, ...] = ()
    """The attributes that are written."""
    kept: tuple[str, ...] = ()
    """The attributes that stay as they are there."""
    former: str | None = None
    """The other `externalId` of the account there."""
    before: SentPerson | None = None
    """What stays as it is known of somebody who is left out."""
    place: PlaceThere = PlaceThere.LEFT_OUT

    def named(self, user: UserId) -> ProvisioningRunPerson | None:
        """None where nothing is done."""
        if self.what in {DoneThere.CHANGED, DoneThere.OVERWRITTEN} and not self.names:
            return None
        return ProvisioningRunPerson(
            what=self.what,
            why=self.why,
            user=user,
            far_id=self.far_id,
            attributes=self.names,
            former_external_id=self.former,
        )


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
        self.adopted: Mapping[UserId, AdoptedThere] = {}
        """The accounts that an owner lets people take over."""
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
        return [replace(one, owner=known[one.far_id].user) if one.far_id in known else one for one in found]

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

    async def planned(self, person: OutwardPerson, wanted: Wanted, read: Sequence[FarIdentity]) -> ProvisioningRunPerson | None:
        """What `send` would do. It asks, and changes nothing. None for a person of whom nothing would be sent. Raises `FarFailed` when
        nothing more can be asked.
        """
        try:
            intended = await self._intended(person, wanted, read)
        except FarOtherId:
            return left_out_there(person.user, WhyNotThere.OTHER_ID)
        except FarRefused as refused:
            return left_out_there(person.user, refused.why)
        except FarFailed as failed:
            if self._is_of_system(failed):
                raise
            return left_out_there(person.user, WhyNotThere.NO_ANSWER)
        return intended.named(person.user)

    async def _intended(self, person: OutwardPerson, wanted: Wanted, read: Sequence[FarIdentity]) -> _Intended:
        """What is to be done with the person, for plans and for what follows them alike."""
        before = person.sent
        if not wanted.get(USER_NAME):
            return _Intended(DoneThere.LEFT_OUT, why=WhyNotThere.NO_USER_NAME, before=before)
        if before is not None and before.far_id is not None:
            far_id = before.far_id
            theirs = await self.asked(lambda: self._far.read(self._site, far_id))
            if theirs is not None and is_still_there(person, before, theirs.identity):
                kept = [one for one in before.kept_there if wanted.get(one) is None]
                # Nothing has changed here, so it has there.
                is_news = before.is_active and before.digest == self.digest(wanted)
                what = DoneThere.OVERWRITTEN if is_news else DoneThere.CHANGED
                return self._differing(what, wanted, theirs, kept)
        found = await self.with_owners(read) or await self.candidates(wanted)
        return await self._met(person, wanted, found) or _Intended(DoneThere.MADE)

    async def _met(self, person: OutwardPerson, wanted: Wanted, found: Sequence[FarIdentity]) -> _Intended | None:
        """What is to be done with the person if those were found there. None: nobody is the person."""
        met = met_there(person, wanted, found)
        if met is None:
            return None
        far_id = met.far_id if isinstance(met, FarIdentity) else found[0].far_id
        if isinstance(met, WhyNotThere) and met is not WhyNotThere.OTHER_EXTERNAL_ID:
            return _Intended(DoneThere.LEFT_OUT, why=met, far_id=far_id)
        theirs = await self.asked(lambda: self._far.read(self._site, far_id))
        if theirs is None:
            return _Intended(DoneThere.LEFT_OUT, why=WhyNotThere.NO_ANSWER, place=PlaceThere.REFUSED)
        matched = self._differing(DoneThere.MATCHED, wanted, theirs, without_value(wanted))
        return matched if isinstance(met, FarIdentity) else await self._adopted(person, wanted, theirs, matched)

    async def _adopted(self, person: OutwardPerson, wanted: Wanted, theirs: FarPerson, matched: _Intended) -> _Intended:
        """The account there has another `externalId`. An owner may have let the person take over this very one: it is looked at as it is
        now.
        """
        far_id, why = theirs.identity.far_id, WhyNotThere.OTHER_EXTERNAL_ID
        former = theirs.identity.external_id
        met = met_there(person, wanted, await self.with_owners([theirs.identity]))
        if isinstance(met, FarIdentity):
            # It is free by now, or the list has kept a digest of what names the person.
            return matched
        if met is not why or former is None:
            return _Intended(DoneThere.LEFT_OUT, why=met or why, far_id=far_id)
        if await self._is_one_of_ours(former):
            return _Intended(DoneThere.LEFT_OUT, why=WhyNotThere.OF_ANOTHER, far_id=far_id)
        adopted = self.adopted.get(person.user)
        if adopted is not None and (adopted.far_id, adopted.external_id) == (far_id, former):
            return replace(matched, former=former)
        return replace(matched, what=DoneThere.LEFT_OUT, why=why, former=former)

    async def _is_one_of_ours(self, external_id: str) -> bool:
        """Whether the account there is tied to another member: by the id that we give the application."""
        try:
            user = UserId(UUID(external_id))
        except ValueError:
            return False
        return any(one.is_member for one in await self._people.people(self._work, [user]))

    def _differing(self, what: DoneThere, wanted: Wanted, theirs: FarPerson, kept: Collection[str]) -> _Intended:
        """Nothing is written where nothing differs: so a circle of systems comes to rest."""
        names = differing(kept_as_they_are(wanted, kept), theirs.resource)
        return _Intended(
            what,
            far_id=theirs.identity.far_id,
            theirs=theirs,
            names=tuple(one for one in names if one not in self._site.dialect.rewrites),
            kept=tuple(kept),
        )

    async def _sent(self, person: OutwardPerson, wanted: Wanted, read: Sequence[FarIdentity]) -> SendingResult:
        return await self._done(person, wanted, await self._intended(person, wanted, read))

    async def _done(self, person: OutwardPerson, wanted: Wanted, intended: _Intended) -> SendingResult:
        if intended.what is DoneThere.MADE:
            return await self._made(person, wanted)
        theirs, named = intended.theirs, intended.named(person.user)
        if intended.why is not None or theirs is None:
            why = intended.why or WhyNotThere.NO_ANSWER
            left = self._not_there(person, intended.before, why, intended.place, intended.far_id)
            return left if intended.former is None else replace(left, named=named)
        if intended.what is DoneThere.MATCHED and not self._gives(theirs.identity.far_id, person.user):
            return self._not_there(person, None, WhyNotThere.OF_ANOTHER, PlaceThere.LEFT_OUT, theirs.identity.far_id)
        if intended.names:
            await self.asked(lambda: self._far.change(self._site, theirs, wanted, intended.names))
        return SendingResult(self._there(person, wanted, theirs.identity.far_id, intended.kept), named)

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
            met = await self._met(person, wanted, await self.candidates(wanted))
            if met is not None:
                return await self._done(person, wanted, met)
            return self._not_there(person, None, WhyNotThere.TAKEN, PlaceThere.REFUSED)
        (identity,) = await self.with_owners([made.identity])
        if identity.owner not in {None, person.user}:
            return self._not_there(person, None, WhyNotThere.OF_ANOTHER, PlaceThere.LEFT_OUT, identity.far_id)
        named = ProvisioningRunPerson(what=DoneThere.MADE, user=person.user, far_id=identity.far_id)
        return SendingResult(self._there(person, wanted, identity.far_id, without_value(wanted)), named)

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

    def _there(self, person: OutwardPerson, wanted: Wanted, far_id: str, kept: Collection[str]) -> SentPerson:
        return SentPerson(
            user=person.user,
            far_id=far_id,
            digest=self.digest(wanted),
            is_active=True,
            place=PlaceThere.SENT,
            user_name=str(wanted[USER_NAME]),
            kept_there=tuple(kept),
        )

    @staticmethod
    def _not_there(
        person: OutwardPerson,
        before: SentPerson | None,
        why: str,
        place: PlaceThere,
        far_id: str | None = None,
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
