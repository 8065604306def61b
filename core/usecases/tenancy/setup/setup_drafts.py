"""Drafts of setup links: created and tested in the browser that owns the link, and activated by an owner or by the link itself."""

from collections.abc import Awaitable, Callable, Sequence

import structlog

from core.domain.errors import BadRequest, Conflict, NotFound, found
from core.domain.federation.scim.tokens import ScimToken, require_room, scim_token_created
from core.domain.identifiers import DomainId, ScimTokenId, SetupDraftId, SetupLinkId, UserId
from core.domain.identity.account_mails import Links
from core.domain.identity.realms import LoginPolicy
from core.domain.record.events import Actor
from core.domain.tenancy.domains import MOST_ROUTES, RECHECKED_EVERY, TOO_MANY, DomainRoute, JoinPolicy, route_created, route_verified
from core.domain.tenancy.members import Member
from core.domain.tenancy.setup import (
    KnownSetupLink,
    SetupDraft,
    SetupDraftState,
    SetupLink,
    SetupPurpose,
    is_finished,
    require_changeable,
    require_handed_over,
    require_passed,
    seen_digest,
    setup_draft_activated,
    setup_draft_waiting,
)
from core.domain.tenancy.siem import sealing_context, siem_configured
from core.domain.tenancy.upstream_providers import activated, provider_activated, require_seen
from core.frozen import Frozen, replace
from core.usecases.tenancy.domains import DomainProofs
from core.usecases.tenancy.rights import hold_members, require_owner
from core.usecases.tenancy.setup.drafts import draft_context, receiver
from core.usecases.tenancy.setup.setup_links import NO_SUCH_DRAFT, drop_connection, held_draft
from core.usecases.tenancy.texts import follow_proof, organization_mail
from core.usecases.tenancy.upstream_providers import NO_SUCH_PROVIDER
from ports.crypto import KeyRing
from ports.mail import MailTemplates
from ports.system import Clock
from ports.tenancy.connections import SetupLinkStore
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

Activation = Callable[[UnitOfWork, SetupDraft, UserId, Actor], Awaitable[None]]
"""Needs a unit of work in which the organization is held. The person answers for what becomes active. Raises `BadRequest` and
`Conflict`.
"""


class Activations(Frozen):
    proofs: DomainProofs
    keyring: KeyRing
    clock: Clock

    async def prepared(self, draft: SetupDraft) -> Activation:
        """Whatever takes a call to somebody else happens here, outside any unit of work. Raises `BadRequest`."""
        match draft.purpose:
            case SetupPurpose.DOMAIN:
                if not await self.proofs.is_published(draft.domain):
                    raise BadRequest("The proof of the domain is not there any more", words="setup_proof_gone")
                return self._route
            case SetupPurpose.SCIM:
                return self._token
            case SetupPurpose.SIEM:
                return self._receiver
            case _:
                return self._connection

    async def _route(self, uow: UnitOfWork, draft: SetupDraft, _responsible: UserId, actor: Actor) -> None:
        """The route says nothing yet about where people sign in: an administrator decides that."""
        now = self.clock.now()
        route = DomainRoute(
            id=DomainId(draft.id),
            organization=draft.organization,
            name=draft.domain.name,
            token=draft.domain.token,
            created_at=now,
            updated_at=now,
            login_policy=LoginPolicy.PASSWORD_ALLOWED,
            join_policy=JoinPolicy.OFF,
        )
        added = await uow.domain_routes.add(route, MOST_ROUTES, provider_is_known=True)
        if added is None:
            standing = await uow.domain_routes.standing(draft.organization, route.name)
            if standing.has_domain:
                raise Conflict("The organization has a route for this domain", words="setup_domain_exists")
            raise BadRequest(TOO_MANY, words="setup_too_many_domains")
        if await uow.domain_routes.verify(added, now, now + RECHECKED_EVERY) is None:
            raise Conflict("Another organization has verified this domain", words="setup_domain_taken")
        await uow.record(route_created(added, actor))
        await uow.record(route_verified(added, actor))
        await follow_proof(uow, added.organization, added.name, self.proofs.text_hosts)

    async def _token(self, uow: UnitOfWork, draft: SetupDraft, responsible: UserId, actor: Actor) -> None:
        _, digest = await uow.setup_links.credentials(draft.id)
        if digest is None:
            raise BadRequest("There is no token yet", words="setup_not_tested")
        token = ScimToken(
            id=ScimTokenId(draft.id),
            organization=draft.organization,
            name=draft.subject,
            prefix=str(draft.settings["prefix"]),
            expires_at=None,
            created_by=responsible,
            created_at=self.clock.now(),
        )
        count = await uow.scim_tokens.add(token, digest)
        if count is None:
            raise Conflict("Another token has this prefix: make a new one", words="setup_token_clash")
        require_room(count)
        await uow.record(scim_token_created(token, actor))

    async def _receiver(self, uow: UnitOfWork, draft: SetupDraft, _responsible: UserId, actor: Actor) -> None:
        if await uow.siem.hold(draft.organization) is not None:
            raise Conflict("The organization exports to a SIEM already: remove it first", words="setup_siem_exists")
        sealed, _ = await uow.setup_links.credentials(draft.id)
        configuration = replace(receiver(draft, self.clock.now()), has_credentials=sealed is not None)
        if sealed is not None:
            opened = self.keyring.open(sealed, draft_context(draft.id))
            sealed = self.keyring.seal(opened, sealing_context(configuration.id))
        await uow.siem.save(configuration, sealed)
        await uow.record(siem_configured(configuration, actor))

    async def _connection(self, uow: UnitOfWork, draft: SetupDraft, _responsible: UserId, actor: Actor) -> None:
        if draft.provider is None:
            raise BadRequest("Settings are missing", words="connection_incomplete")
        before = found(await uow.upstream_providers.hold(draft.organization, draft.provider), NO_SUCH_PROVIDER)
        # A draft whose connection is active already is active itself, so it does not come this far.
        after = activated(before, self.clock.now())
        await uow.upstream_providers.save(after, None)
        await uow.record(provider_activated(after, actor))


log = structlog.get_logger()


class SetupDrafts(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: SetupLinkStore
    activations: Activations
    templates: MailTemplates
    links: Links
    clock: Clock

    async def list(self, link: SetupLinkId) -> Sequence[SetupDraft]:
        """Oldest first."""
        return await self.lookup.drafts(link)

    async def remove(self, known: KnownSetupLink, draft: SetupDraftId, actor: Actor) -> None:
        """Drop a draft, to begin anew. Raises `NotFound`, `Conflict` for what is active, and `SetupLinkRefused`."""
        async with self.unit_of_work() as uow:
            _, found = await held_draft(uow, known, draft, self.clock)
            require_changeable(found)
            await drop_connection(uow, found, actor)
            await uow.setup_links.remove_draft(found.id)
            await uow.commit()

    async def hand_over(self, known: KnownSetupLink, draft: SetupDraftId, actor: Actor) -> SetupDraft:
        """The last step: the draft waits for an owner, who gets a mail, or becomes active at once. May be repeated. Raises `BadRequest`
        while the test has not passed, `Conflict` if something active stands in the way, and `SetupLinkRefused`.
        """
        activation = await self.activations.prepared(await self._seen(known, draft)) if known.link.activates else None
        async with self.unit_of_work() as uow:
            held, found = await held_draft(uow, known, draft, self.clock)
            if found.state in {SetupDraftState.WAITING, SetupDraftState.ACTIVE}:
                return found
            require_passed(found)
            if activation is not None and held.link.activates:
                done = await self._activate(uow, held.link, found, activation, responsible=held.link.created_by, actor=actor)
            else:
                now = self.clock.now()
                done = replace(found, state=SetupDraftState.WAITING, waiting_since=now, updated_at=now)
                await uow.setup_links.save_draft(done)
                await uow.record(setup_draft_waiting(held.link, done, actor))
                await self._tell_owners(uow, held, done)
            await uow.commit()
        return done

    async def activate(self, member: Member, link: SetupLinkId, draft: SetupDraftId, actor: Actor, *, seen: str) -> SetupDraft:
        """An owner's word about what was handed over. `seen` is the digest of what the owner has seen. May be repeated. Raises `NotFound`,
        `Forbidden` for anybody but an owner, `BadRequest` while the test has not passed, and `Conflict` if it was not handed over, is not
        what the owner has seen, or something active stands in the way.
        """
        listed = await self.lookup.find_listed(member.organization, link)
        known = None if listed is None else next((one for one in listed.drafts if one.id == draft), None)
        if listed is None or known is None:
            raise NotFound(NO_SUCH_DRAFT)
        activation = await self.activations.prepared(known)
        async with self.unit_of_work() as uow:
            acting, _ = await hold_members(uow, member)
            await require_owner(uow, acting, self.clock.now())
            found = await uow.setup_links.find_draft(member.organization, draft)
            if found is None or found.link != link:
                raise NotFound(NO_SUCH_DRAFT)
            require_seen(seen, await _digest(uow, found))
            if found.is_active:
                return found
            require_handed_over(found)
            done = await self._activate(uow, listed.link, found, activation, responsible=member.user, actor=actor)
            await uow.commit()
        return done

    async def _seen(self, known: KnownSetupLink, draft: SetupDraftId) -> SetupDraft:
        return found(next((one for one in await self.lookup.drafts(known.link.id) if one.id == draft), None), NO_SUCH_DRAFT)

    async def _activate(
        self, uow: UnitOfWork, link: SetupLink, draft: SetupDraft, activation: Activation, *, responsible: UserId, actor: Actor
    ) -> SetupDraft:
        digest = await _digest(uow, draft)
        await activation(uow, draft, responsible, actor)
        now = self.clock.now()
        done = replace(draft, state=SetupDraftState.ACTIVE, has_credentials=False, activated_at=now, updated_at=now)
        await uow.setup_links.save_draft(done)
        await uow.record(setup_draft_activated(link, done, actor, digest))
        if is_finished(link, await uow.setup_links.drafts(link.id)):
            await uow.setup_links.finish(link.id, now)
        log.info("setup_draft_activated", link=str(link.id), draft=str(draft.id), purpose=draft.purpose.value)
        return done

    async def _tell_owners(self, uow: UnitOfWork, known: KnownSetupLink, draft: SetupDraft) -> None:
        for owner in await uow.domains.owners(known.link.organization):
            mail = organization_mail(
                self.templates,
                known.link.organization,
                "setup_waiting",
                owner.email.address,
                account=owner.user,
                language=owner.language,
                branding=known.branding,
                is_own=owner.is_own,
                link=self.links.setup_in_console(known.organization_slug, known.link.id),
                made=known.link.name,
                thing=draft.subject,
            )
            await uow.jobs.add(mail.as_job())


async def _digest(uow: UnitOfWork, draft: SetupDraft) -> bytes:
    """The settings of the draft as they are, which nobody changes until the unit of work ends."""
    connection = None if draft.provider is None else await uow.upstream_providers.hold(draft.organization, draft.provider)
    return seen_digest(draft, connection)
