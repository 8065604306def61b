"""Links identities of identity providers to accounts, lists them and unlinks them."""

from collections.abc import Sequence
from typing import Final

from core.domain.errors import NotFound, Unauthorized, Unavailable
from core.domain.identifiers import IdentityId, ServiceId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.callers import Caller
from core.domain.identity.devices import Client
from core.domain.identity.flows import FlowOver
from core.domain.identity.proofs import require_another
from core.domain.identity.sign_in import LastLook
from core.domain.identity.upstream.further import is_known
from core.domain.identity.upstream.identities import (
    NOT_FOR_ACCOUNT,
    OTHER_CONNECTED,
    TAKEN,
    Asker,
    ConnectedIdentity,
    Connecting,
    Encounter,
    LinkRequest,
    connecting,
    identity_linked,
    identity_unlinked,
    request_of,
    session_in,
)
from core.domain.identity.upstream.providers import ProviderOrigin, UnknownProvider, Upstream, origin_of, provider_key
from core.domain.identity.upstream.sign_in import ServicePlace, TakenState, UpstreamRefused
from core.domain.languages import Language
from core.domain.mail import Email
from core.domain.record.events import Actor
from core.domain.secrets import Token
from core.frozen import Frozen
from core.usecases.identity.account_endings import end_access, require_living
from core.usecases.identity.devices import Devices
from core.usecases.identity.upstream.journeys import Journeys, Vouched
from core.usecases.identity.upstream.provider_tokens import IdentityGrants
from core.usecases.identity.upstream.providers import UpstreamProviders
from ports.crypto import ServerSecrets
from ports.identity.upstream import IdentityStore, UpstreamLookup
from ports.mail import MailTemplates
from ports.system import Clock, System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

# If another sign-in creates the same account or connects the same identity at the same time, this sign-in looks again and finds it done.
LOOKS: Final = 3


class LinkedIdentities(Frozen, kw_only=True):
    templates: MailTemplates
    system: System

    def of(self, user: UserId, vouched: Vouched) -> ConnectedIdentity:
        upstream, asserted = vouched.upstream, vouched.asserted
        return ConnectedIdentity(
            id=IdentityId(self.system.ids.new()),
            user=user,
            provider=upstream.key,
            issuer=asserted.issuer,
            subject=asserted.subject,
            email=asserted.email,
            linked_at=self.system.clock.now(),
            naming=asserted.naming,
        )

    async def tell_linked(
        self,
        uow: UnitOfWork,
        identity: ConnectedIdentity,
        account: Account,
        upstream: Upstream,
        actor: Actor,
        *,
        service: ServiceId | None,
        how: str,
    ) -> None:
        mail = self.templates.mail(
            "identity_linked",
            account.email.address,
            account=account.id,
            language=account.language or actor.language,
            provider=upstream.name,
            when=identity.linked_at,
            address=actor.address,
        )
        await uow.jobs.add(mail.as_job())
        await uow.record(identity_linked(identity, actor, service=service, how=how))

    async def tell_unlinked(
        self,
        uow: UnitOfWork,
        identity: ConnectedIdentity,
        email: Email,
        provider: str,
        actor: Actor,
        *,
        language: Language | None,
        service: ServiceId | None = None,
        signed_out: bool = False,
    ) -> None:
        """Tells the owner that an identity was disconnected. `provider` is the provider's name for people. `signed_out`: all other sessions
        have ended with the identity.
        """
        mail = self.templates.mail(
            "identity_unlinked",
            email.address,
            account=identity.user,
            language=language or actor.language,
            provider=provider,
            signed_out=signed_out,
            when=self.system.clock.now(),
            address=actor.address,
        )
        await uow.jobs.add(mail.as_job())
        await uow.record(identity_unlinked(identity, actor, service=service))


class Identities(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: IdentityStore
    upstream: UpstreamLookup
    linked: LinkedIdentities
    providers: UpstreamProviders
    grants: IdentityGrants
    devices: Devices
    clock: Clock

    async def list(self, caller: Caller) -> Sequence[ConnectedIdentity]:
        """Lists the connected identities, the oldest first. An application sees only the identities that are used in its service."""
        service = caller.service
        return await self.lookup.list(caller.user, caller.organization if service else "", service)

    async def connect(self, taken: TakenState, vouched: Vouched, client: Client) -> None:
        """Connects the identity that the provider vouches for to the account that asked for it. May be repeated. Raises `UpstreamRefused`,
        `ProviderOff`, and `Unauthorized` when the account or one of the sessions behind the request has ended.
        """
        user, upstream = taken.user, vouched.upstream
        assert user is not None  # noqa: S101 - for the type checker: a state without a flow is a person's
        approach = await self.devices.observe(client)
        for _ in range(LOOKS):
            met = await self.upstream.meet(upstream.key, vouched.asserted, None, approach, organization=upstream.organization, user=user)
            met.require_provider()
            match connecting(user, met, of_organization=upstream.organization is not None):
                case Connecting.TAKEN:
                    raise UpstreamRefused(TAKEN)
                case Connecting.OTHER_CONNECTED:
                    raise UpstreamRefused(OTHER_CONNECTED)
                case Connecting.NOT_FOR_ACCOUNT:
                    raise UpstreamRefused(NOT_FOR_ACCOUNT)
                case _:  # connected already, or to be connected
                    pass
            if await self._connect(taken, vouched, user, met, client):
                return
        raise Unavailable(retry_after=1, detail="an identity stayed contended")

    async def _connect(self, taken: TakenState, vouched: Vouched, user: UserId, met: Encounter, client: Client) -> bool:
        """Connects the identity. An identity that was `met` is connected already, but may have been disconnected meanwhile. Returns False
        when a simultaneous request was quicker and the caller has to look again.
        """
        upstream, service, told = vouched.upstream, taken.way.service, vouched.asserted.email
        identity, email = met.identity, None if met.connected is None else met.connected.account.email
        async with self.unit_of_work() as uow:
            await uow.accounts.hold(user)
            # The sessions are checked again, because the provider's answer may have taken seconds.
            for session in taken.sessions:
                await require_living(uow, session)
            confirmed = await uow.sign_ins.confirm(LastLook(user=user, since=self.clock.now(), identity=identity, email=email))
            if confirmed is None:
                raise Unauthorized
            account = confirmed.account
            if identity is not None and confirmed.is_connected:
                await uow.identities.keep_email(identity, told)
            else:
                made = self.linked.of(user, vouched)
                if not await uow.identities.add(made, account, origin=service, made_in=taken.sessions[0] if taken.sessions else None):
                    return False
                identity = made.id
                await self.linked.tell_linked(uow, made, account, upstream, client.actor(user), service=service, how="asked")
            await self.grants.keep(uow, identity, upstream, taken.way, vouched.tokens)
            await uow.commit()
        return True

    async def disconnect(self, caller: Caller, provider: str, actor: Actor) -> None:
        """Disconnects an identity. All other sessions end, as with a new password, because a stranger may have signed in by the identity.
        An application ends no sessions. It removes the identity only if nothing outside its service uses the identity; otherwise only its
        service's use ends. Raises `UnknownProvider`, `NotFound`, `LastWayIn`, and `Unauthorized` when the session has ended.
        """
        key = provider_key(provider)
        async with self.unit_of_work() as uow:
            await uow.accounts.hold(caller.user)
            await require_living(uow, caller.session)
            if caller.service:
                held = await uow.identities.hold_in_service(caller.user, key, caller.organization, caller.service)
            else:
                held = await uow.identities.hold(caller.user, key)
            if held is None:
                if origin_of(key) is ProviderOrigin.FURTHER and not is_known(await uow.further_providers.find(key)):
                    raise UnknownProvider
                raise NotFound("You are not connected to this provider", words="provider_not_connected")
            identity, service = held.identity, held.service
            if service is not None and await uow.identities.is_used_elsewhere(identity.id, service):
                await uow.identity_grants.remove(identity.id, service)
                await uow.commit()
                return
            others = await uow.accounts.other_ways_in(caller.user, caller.email, but=identity.id, shared=self.providers.shared)
            require_another(others)
            await uow.identities.remove(identity.id)
            now = self.clock.now()
            if service is None:
                # An application must not sign people out elsewhere, so sessions end only for other callers.
                await uow.accounts.withdraw_email(caller.user, now)
                await end_access(uow, caller.user, now, but=caller.session)
            await self.linked.tell_unlinked(
                uow,
                identity,
                caller.email,
                self.providers.name(key, identity.provider_name),
                actor,
                language=caller.language,
                service=service,
                signed_out=service is None,
            )
            await uow.commit()


# The name of the key with which requests are signed.
REQUESTS: Final = "link_requests"


class LinkRequests(Frozen):
    """Requests of applications to link an identity, which the user answers here."""

    lookup: UpstreamLookup
    journeys: Journeys
    server_secrets: ServerSecrets
    clock: Clock

    async def make(self, caller: Caller, provider: str) -> str:
        """Returns a signed request for the page's address. Raises `UnknownProvider` and `ProviderOff`."""
        key = provider_key(provider)
        await self.journeys.name_at(key, ServicePlace(organization=caller.organization, service_slug=caller.service))
        return request_of(key, caller.session, self.clock.now(), await self.server_secrets.get(REQUESTS))

    async def find(self, provider: str, request: str, caller: Caller) -> LinkRequest | None:
        """Returns the request, or None when the request is about another account than the caller's. Raises `FlowOver` when the request is
        too old or its session has ended, `UnknownProvider`, and `ProviderOff`.
        """
        key, asker = await self._asked(provider, request)
        if asker.user != caller.user:
            return None
        return LinkRequest(provider=key, name=await self.journeys.name_at(key, asker.place), asker=asker)

    async def leave(self, provider: str, request: str, caller: Caller, browser: Token) -> str | None:
        """Returns the address at which the person signs in at the provider, or None when the request is about another account. Raises the
        errors of `find`, and `OAuthError`.
        """
        key, asker = await self._asked(provider, request)
        if asker.user != caller.user:
            return None
        return await self.journeys.leave_to_connect(key, browser, caller, asker)

    async def _asked(self, provider: str, request: str) -> tuple[str, Asker]:
        key = provider_key(provider)
        session = session_in(request, key, self.clock.now(), await self.server_secrets.get(REQUESTS))
        asker = await self.lookup.asker(session)
        if asker is None:
            raise FlowOver
        return key, asker
