"""What makes a draft active: it becomes the organization's own route, receiver, token or connection."""

from collections.abc import Awaitable, Callable

from core.domain.errors import BadRequest, Conflict, found
from core.domain.federation.scim.tokens import ScimToken, require_room, scim_token_created
from core.domain.identifiers import DomainId, ScimTokenId, UserId
from core.domain.identity.realms import LoginPolicy
from core.domain.record.events import Actor
from core.domain.tenancy.domain_routes import MOST_ROUTES, TOO_MANY, DomainRoute, JoinPolicy, route_created, route_verified
from core.domain.tenancy.domains import RECHECKED_EVERY
from core.domain.tenancy.setup.setup_drafts import SetupDraft
from core.domain.tenancy.setup.setup_links import SetupPurpose
from core.domain.tenancy.siem import sealing_context, siem_configured
from core.domain.tenancy.upstream_providers import activated, provider_activated
from core.frozen import Frozen, replace
from core.usecases.tenancy.domains.domain_proofs import DomainProofs
from core.usecases.tenancy.setup.siem_drafts import draft_context, receiver
from core.usecases.tenancy.texts.proved_links import follow_proof
from core.usecases.tenancy.upstream_providers import NO_SUCH_PROVIDER
from ports.clock import Clock
from ports.encryption import KeyRing
from ports.unit_of_work import UnitOfWork

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
