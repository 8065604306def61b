"""A person's passkeys: added, named, and removed."""

from collections.abc import Sequence

from core.domain.errors import BadRequest, Conflict, NotFound
from core.domain.identifiers import FlowId, PasskeyId, UserId
from core.domain.identity.account_mails import Links
from core.domain.identity.callers import Caller
from core.domain.identity.mfa import MfaEvent
from core.domain.identity.passkeys import (
    CHALLENGE_LIFETIME,
    MOST_PASSKEYS,
    TRANSPORTS,
    Ceremony,
    CreationOptions,
    Obstacle,
    Passkey,
    PasskeyRefused,
    PasskeyRegistration,
    PasskeysUnavailable,
    RelyingParty,
    bound_to_session,
    challenge_digest,
    passkey_added,
    passkey_name,
    passkey_removed,
    passkey_renamed,
    passkeys_changed,
)
from core.domain.identity.proofs import require_another
from core.domain.record.events import Actor
from core.frozen import Frozen, replace, values_of
from core.usecases.identity.account_endings import end_access, require_living
from core.usecases.identity.mfa import Mfa
from core.usecases.identity.upstream.providers import UpstreamProviders
from ports.identity.sign_in import Authenticators, PasskeyStore, UserAgents
from ports.mail import MailTemplates
from ports.metrics import Metrics
from ports.system import System
from ports.unit_of_work import UnitOfWorkFactory


class Passkeys(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: PasskeyStore
    relying_party: RelyingParty | Obstacle
    authenticators: Authenticators
    mfa: Mfa
    providers: UpstreamProviders
    agents: UserAgents
    templates: MailTemplates
    links: Links
    metrics: Metrics
    system: System

    @property
    def obstacle(self) -> Obstacle | None:
        """Returns why this installation cannot have passkeys, or None when it can."""
        return self.relying_party if isinstance(self.relying_party, Obstacle) else None

    def require_relying_party(self) -> RelyingParty:
        """Raises `PasskeysUnavailable`."""
        if isinstance(self.relying_party, Obstacle):
            raise PasskeysUnavailable(self.relying_party)
        return self.relying_party

    async def list(self, user: UserId) -> Sequence[Passkey]:
        """Oldest first."""
        return await self.lookup.list(user)

    async def get(self, user: UserId, passkey: PasskeyId) -> Passkey:
        """Raises `NotFound`."""
        found = await self.lookup.find(user, passkey)
        if found is None:
            raise _unknown()
        return found

    async def begin(self, caller: Caller, *, upgrading: FlowId | None = None) -> CreationOptions:
        """Returns the options that a browser needs to make a passkey; or to make one by itself, `upgrading` the password of the sign-in by
        this flow. Raises `PasskeysUnavailable`, `BadRequest` for a person who has too many passkeys, and `Conflict` where the flow offers
        no passkey, or no more.
        """
        relying_party, now = self.require_relying_party(), self.system.clock.now()
        excluded = await self.lookup.list(caller.user)
        if len(excluded) >= MOST_PASSKEYS:
            raise _too_many()
        challenge = self.system.secrets.token().reveal()
        ceremony = _ceremony(upgrading)
        async with self.unit_of_work() as uow:
            if upgrading is not None and not await uow.flows.may_offer_passkey(upgrading, caller.user, now):
                raise passkey_not_offered()
            digest = challenge_digest(challenge, ceremony, bound_to_session(caller.session))
            await uow.passkeys.add_challenge(digest, now + CHALLENGE_LIFETIME)
            await uow.commit()
        return CreationOptions(relying_party, challenge, caller.user, caller.email.address, excluded, ceremony)

    async def add(self, caller: Caller, given: PasskeyRegistration, name: str, actor: Actor, *, upgrading: FlowId | None = None) -> Passkey:
        """Adds a passkey, and mails the person about it. Without a name, the passkey gets the browser's name. For the challenge of
        `upgrading` alone, nobody need have been present; adding it counts as the flow's offer. Raises `PasskeysUnavailable`, `BadRequest`
        for a passkey that cannot be used here, and `Conflict` for one that is added already, or that the flow does not offer any more.
        """
        relying_party = self.require_relying_party()
        made_on = (await self.agents.parse(actor.user_agent or "")).name
        named = passkey_name(name) if name.strip() else made_on
        try:
            read = await self.authenticators.read_registration(given, relying_party, may_be_absent=upgrading is not None)
        except PasskeyRefused as refusal:
            raise _unfit(refusal.detail) from None
        digest = challenge_digest(read.challenge, _ceremony(upgrading), bound_to_session(caller.session))
        made = read.made
        if made is None:
            async with self.unit_of_work() as uow:
                await uow.passkeys.end_challenge(digest)
                await uow.commit()
            raise _unfit(read.fault)
        now = self.system.clock.now()
        passkey = Passkey(
            **values_of(made),
            id=PasskeyId(self.system.ids.new()),
            user=caller.user,
            name=named,
            transports=tuple(one for one in given.transports if one in TRANSPORTS),
            created_at=now,
            made_on=made_on,
        )
        async with self.unit_of_work() as uow:
            await uow.accounts.lock_for_update(caller.user)
            if upgrading is not None and not await uow.flows.offer_passkey(upgrading, caller.user, now):
                await uow.passkeys.end_challenge(digest)
                await uow.commit()
                raise passkey_not_offered()
            if not await uow.passkeys.add(passkey, digest, caller.session):
                refused = _too_many() if await uow.passkeys.count(caller.user) >= MOST_PASSKEYS else _not_added()
                # The commit uses the challenge up, even after a refusal.
                await uow.commit()
                raise refused
            await uow.mfa.log(MfaEvent.PASSKEY_ADDED, caller.user, actor, success=True, details={"passkey_id": str(passkey.id)})
            await uow.record(passkey_added(passkey, actor, by_itself=upgrading is not None))
            await uow.record_in_every_log(passkeys_changed(passkey, actor, added=True), caller.user)
            await uow.jobs.add(
                self.templates.mail(
                    "passkey_added",
                    caller.email.address,
                    account=caller.user,
                    language=caller.language or actor.language,
                    passkey=passkey.name,
                    link=self.links.passkey_removal(passkey.id),
                    by_itself=upgrading is not None,
                    when=now,
                    address=actor.address,
                ).as_job()
            )
            await uow.commit()
        self.metrics.passkeys_changed("added" if upgrading is None else "conditional")
        return passkey

    async def was_just_added(self, user: UserId, given: PasskeyRegistration) -> bool:
        """Returns whether the person has added this passkey a moment ago, so that a form that is sent twice is no error."""
        try:
            made = (await self.authenticators.read_registration(given, self.require_relying_party(), may_be_absent=True)).made
        except PasskeyRefused:
            return False
        now = self.system.clock.now()
        return made is not None and any(one.credential_id == made.credential_id and one.is_new(now) for one in await self.lookup.list(user))

    async def rename(self, user: UserId, passkey: PasskeyId, name: str, actor: Actor) -> Passkey:
        """Raises `BadRequest` for the name, and `NotFound`."""
        name = passkey_name(name)
        async with self.unit_of_work() as uow:
            before = await uow.passkeys.rename(user, passkey, name)
            if before is None:
                raise _unknown()
            if before.name != name:
                await uow.record(passkey_renamed(before, name, actor))
                await uow.commit()
        return replace(before, name=name)

    async def remove(self, caller: Caller, passkey: PasskeyId, actor: Actor) -> None:
        """Removes a passkey, and mails the person about it. All other sessions end, as with a new password, because a stranger may have
        signed in with the passkey. The last way into the account stays. If passkeys alone are the second factor, removing the last passkey
        disables the second factor. Raises `NotFound` and `LastWayIn`; and `Unauthorized` when the session has ended.
        """
        user, now = caller.user, self.system.clock.now()
        async with self.unit_of_work() as uow:
            await uow.accounts.lock_for_update(user)
            await require_living(uow, caller.session)
            held = await uow.passkeys.find_for_update(user, passkey)
            if held is None:
                raise _unknown()
            others = await uow.accounts.other_ways_in(user, caller.email, but=passkey, shared=self.providers.shared)
            require_another(others)
            if held.ends_second_factor:
                await self.mfa.end(uow, caller, actor)
            await uow.passkeys.remove(user, passkey)
            # A session that the passkey opened may have asked for a change of the address, so a pending change ends, too.
            await uow.accounts.withdraw_email(user, now)
            # Postern does not know which sessions the passkey opened, or which devices it made trusted, so all but the caller's end.
            await end_access(uow, user, now, but=caller.session)
            await uow.mfa.log(MfaEvent.PASSKEY_REMOVED, user, actor, success=True, details={"passkey_id": str(passkey)})
            await uow.record(passkey_removed(held.passkey, actor))
            await uow.record_in_every_log(passkeys_changed(held.passkey, actor, added=False), user)
            await uow.jobs.add(
                self.templates.mail(
                    "passkey_removed",
                    caller.email.address,
                    account=caller.user,
                    language=caller.language or actor.language,
                    passkey=held.passkey.name,
                    when=now,
                    address=actor.address,
                ).as_job()
            )
            await uow.commit()
        self.metrics.passkeys_changed("removed")


def _ceremony(upgrading: FlowId | None) -> Ceremony:
    return Ceremony.REGISTER if upgrading is None else Ceremony.CONDITIONAL


def _unknown() -> NotFound:
    return NotFound("There is no such passkey", words="passkey_unknown")


def _unfit(detail: str | None) -> BadRequest:
    return BadRequest("This passkey cannot be added", words="passkey_unfit", detail=detail)


def _too_many() -> BadRequest:
    return BadRequest(
        f"You have {MOST_PASSKEYS} passkeys, which is the maximum: remove one first",
        words="passkeys_full",
        values={"most": MOST_PASSKEYS},
    )


def passkey_not_offered() -> Conflict:
    return Conflict("No passkey is offered at this sign-in, or no more", words="passkey_not_added")


def _not_added() -> Conflict:
    return Conflict("This passkey was already added, or it took too long: request new options", words="passkey_not_added")
