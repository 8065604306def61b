"""Looks up and checks authorization requests, and shows their refusals and the first sign-in to the people who manage the application."""

from collections.abc import Mapping, Sequence
from typing import Any

from core.domain.errors import Forbidden, NotFound
from core.domain.federation.authorization_refusals import AwaitedPage, AwaitedSignIn, DocumentRefusal, ListedRefusal, NewAwaitedSignIn
from core.domain.federation.oauth.authorization_parameters import NOT_OUR_HINT, Parameters, checked, id_token_hint
from core.domain.federation.oauth.authorization_steps import (
    RequestingApplication,
    SignedInPerson,
)
from core.domain.federation.oauth.authorizations import (
    AuthorizationErrorCode,
    AuthorizationRefused,
    AuthorizationRequest,
    LookedAfter,
    Recipient,
    Registered,
    is_registered,
    request_used,
    restored,
    unknown_application,
    unregistered,
)
from core.domain.federation.oauth.consents import ArrivedClient, described
from core.domain.federation.oauth.resources import OfferedResource, named_resources
from core.domain.federation.signal_grants import OfferedSignals, with_signals
from core.domain.identifiers import AwaitedSignInId, ClientId, ResourceServerId, UserId
from core.domain.identity.callers import Caller
from core.domain.identity.flows import Flow, FlowPurpose
from core.domain.services.clients import describes_itself, shown
from core.domain.tenancy.members import Member
from core.frozen import Frozen, replace
from core.usecases.federation.client_documents import ClientDocuments
from core.usecases.federation.logouts import read_hint
from ports.crypto import TokenVerifier
from ports.federation.oauth import AuthorizationEncounter, AuthorizationRefusalStore, AwaitedSignInStore, Encounters, ResourceLookup
from ports.federation.signals import SignalOffers
from ports.system import Clock, Ids


class AskedAuthorizations(Frozen):
    encounters: Encounters
    resources: ResourceLookup
    documents: ClientDocuments
    signals: SignalOffers
    verifier: TokenVerifier

    async def found(self, client: ClientId, caller: Caller | None) -> AuthorizationEncounter:
        """Raises `UnknownRecipient`."""
        return _found(await self.encounters.find(client, caller))

    async def named(self, organization: str, service: str) -> AuthorizationEncounter:
        """Raises `NotFound`."""
        met = await self.encounters.find_named(organization, service)
        # A metadata client has no page of its own here, and its document is not looked at.
        if met is None or describes_itself(met.application.registered.client_id):
            raise NotFound("There is no such service", words="service_unknown")
        return met

    async def met(self, arrived: ArrivedClient, caller: Caller | None) -> AuthorizationEncounter:
        """Raises `UnknownRecipient`."""
        if arrived.unplaced is not None:
            return _found(await self.encounters.find_unplaced(arrived.unplaced, caller))
        return _found(await self.encounters.find(arrived.id, caller))

    async def pushed(self, client: ClientId, digest: bytes, caller: Caller | None) -> tuple[AuthorizationRequest, AuthorizationEncounter]:
        """A pushed request is good for any number of visits, and for one code. The service's redirect URIs may have changed since the
        service pushed the request. Raises `UnknownRecipient`.
        """
        if describes_itself(client):
            kept = await self.documents.pushed(client, digest)
            if kept is None:
                raise request_used()
            request = replace(restored(kept), pushed=digest)
            return request, await self.met_again(request, caller)
        met = _found(await self.encounters.find_pushed(client, digest, caller))
        if met.pushed is None:
            raise request_used()
        request = replace(restored(met.pushed), pushed=digest)
        _require_registered(request, met.application.registered)
        return request, met

    async def met_again(self, request: AuthorizationRequest, caller: Caller | None, *, look: bool = True) -> AuthorizationEncounter:
        """Looks up the application and the person of a kept request again. The service's redirect URIs may have changed since, and so may
        the document of a metadata client. One that had no place in the organization is known by its document alone, so `look` is for
        the others. Raises `UnknownRecipient`.
        """
        if describes_itself(request.client_id) and (look or request.described is not None):
            met = await self.met(await self.documents.arrived(shown(request.client_id), request.resources, request.described), caller)
        else:
            met = _found(await self.encounters.find(request.client_id, caller))
        _require_registered(request, met.application.registered)
        return met

    async def checked(self, parameters: Parameters, application: RequestingApplication, answers_to: Recipient) -> AuthorizationRequest:
        """Raises `AuthorizationRefused`."""
        request = checked(parameters, application.registered, answers_to)
        if request.signal_scopes:
            request = with_signals(request, are_on=await self._may_have_signals(application))
        if application.unplaced is not None:
            request = replace(request, described=described(application.unplaced.kept))
        hint = id_token_hint(parameters)
        if hint is None:
            return request
        said = await read_hint(self.verifier, hint)
        if said is None or said.client != shown(request.client_id):
            raise AuthorizationRefused(AuthorizationErrorCode.INVALID_REQUEST, NOT_OUR_HINT)
        if request.subject not in {None, said.user}:
            raise AuthorizationRefused(AuthorizationErrorCode.INVALID_REQUEST, "id_token_hint: it is another person's than claims asks for")
        return replace(request, subject=said.user)

    async def named_resources(
        self, request: AuthorizationRequest, application: RequestingApplication, signed_in: SignedInPerson | None
    ) -> Sequence[OfferedResource]:
        """The APIs that the request names. Only such a request costs a round trip. Raises `AuthorizationRefused`."""
        if not request.resources:
            return ()
        user = None if signed_in is None else signed_in.user
        if application.unplaced is not None:
            offered = await self.resources.find_for(application.unplaced, user)
        else:
            offered = await self.resources.find(application.service, request.resources, user)
        return named_resources(request.resources, request.foreign_scopes, offered)

    async def offered_signals(
        self, request: AuthorizationRequest, application: RequestingApplication, signed_in: SignedInPerson | None
    ) -> OfferedSignals | None:
        """What this person may grant of signals. Only a request that asks for their scopes costs a round trip."""
        if not request.signal_scopes or signed_in is None:
            return None
        return await self.signals.find(application.service, signed_in.user, signed_in.session)

    async def _may_have_signals(self, application: RequestingApplication) -> bool:
        if application.is_agent or application.unplaced is not None:
            return False
        return await self.signals.are_on(application.service)


def _found(met: AuthorizationEncounter | None) -> AuthorizationEncounter:
    if met is None:
        raise unknown_application()
    return met


def _require_registered(request: AuthorizationRequest, registered: Registered) -> None:
    if not is_registered(request.recipient.redirect_uri, registered.redirect_uris, native=registered.is_native):
        raise unregistered()


def kept(flow: Flow, *, refusing: bool = False) -> AuthorizationRequest:
    """Raises `FlowOver`."""
    flow.require_unanswered(FlowPurpose.AUTHORIZE, refusing=refusing)
    kept: Mapping[str, Any] = flow.request
    return restored(kept)


class AuthorizationRefusals(Frozen):
    store: AuthorizationRefusalStore

    async def list(self, member: Member, service_slug: str) -> Sequence[ListedRefusal]:
        """Newest first. Raises `NotFound`."""
        found = await self.store.list(member.organization, service_slug)
        if found is None:
            raise NotFound("The organization has no such service")
        return found

    async def list_of_api(self, member: Member, api: ResourceServerId) -> Sequence[DocumentRefusal]:
        """The last requests of metadata clients for the API that were refused before there was a service, newest first. Raises
        `NotFound`.
        """
        found = await self.store.list_of_api(member.organization, api)
        if found is None:
            raise NotFound("The organization has no such API")
        return found

    async def looked_after(self, client: ClientId, user: UserId) -> LookedAfter | None:
        """The application, if the person may read its refusals. None for everybody else, who learn nothing of it."""
        return None if describes_itself(client) else await self.store.find_looked_after(client, user)


class AwaitedSignIns(Frozen):
    """The first sign-in to an application appears to somebody who waits for it."""

    store: AwaitedSignInStore
    clock: Clock
    ids: Ids

    async def begin(self, member: Member, service_slug: str) -> NewAwaitedSignIn:
        """The member waits in the browser's session, and on this page alone. Raises `NotFound`, and `Forbidden` for whoever acts in
        somebody's name: the requests that would show are those of the person's own browser.
        """
        caller = member.caller
        if caller.impersonator is not None:
            raise Forbidden("Nobody waits in somebody else's name", words="impersonating")
        new = NewAwaitedSignIn(
            id=AwaitedSignInId(self.ids.new()),
            user=caller.user,
            session=caller.session,
            organization=member.organization,
            service_slug=service_slug,
            began_at=self.clock.now(),
        )
        if not await self.store.begin(new):
            raise NotFound("The organization has no such service")
        return new

    async def look(self, member: Member, service_slug: str, page: AwaitedSignInId) -> AwaitedSignIn | None:
        """None when this page waits no more, or never did for this person, session and application."""
        found = await self.store.look(AwaitedPage(page, member.caller.user, member.caller.session))
        if found is None or found.organization != member.organization or found.service_slug != service_slug:
            return None
        return found
