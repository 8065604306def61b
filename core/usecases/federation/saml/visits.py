"""A visit of a person who comes with the request of a service provider: which service it is, who comes, and what it may learn of them."""

from collections.abc import Mapping
from typing import Any

from core.domain.federation.oauth.authorization_steps import (
    RequestingApplication,
    organization_closed,
)
from core.domain.federation.saml.certificates import Signer
from core.domain.federation.saml.sign_in import (
    Meeting,
    SamlRequest,
    restored,
)
from core.domain.identifiers import SessionId
from core.domain.identity.callers import Caller
from core.domain.identity.flows import Flow, FlowOver, FlowPurpose
from core.domain.identity.sign_in import ServiceName
from core.domain.saml.messages import SamlBinding
from core.domain.secrets import Token
from core.frozen import Frozen, replace
from core.usecases.federation.saml.messages import not_usable
from ports.federation.saml.configurations import SamlLookup
from ports.identity.facts import FactLookup
from ports.presence import Presence
from ports.system import System


class Met(Frozen):
    """A service, if there is one, and the person who is signed in in the browser."""

    meeting: Meeting | None
    caller: Caller | None


class SamlVisit(Frozen):
    """A request of a service provider, and the service that answers the request."""

    meeting: Meeting
    request: SamlRequest
    flow: Flow | None = None
    """The flow that has kept the request. None when the request arrives now, or there was no request."""
    arrives_by: SamlBinding | None = None
    """How the request arrives now. A request counts only when it arrives for the first time."""

    @property
    def application(self) -> RequestingApplication:
        return self.meeting.application

    @property
    def signer(self) -> Signer:
        signer = self.meeting.next_signer if self.request.next_certificate else self.meeting.signer
        assert signer is not None  # noqa: S101 - `_usable` and `_require_trial` have looked
        return signer


class SamlVisits(Frozen):
    lookup: SamlLookup
    facts: FactLookup
    presence: Presence[SessionId]
    system: System

    async def meet(self, place: ServiceName, browser: Token | None) -> Met:
        """The service and the caller, for a request of a browser with this session's cookie, in one round trip."""
        digest = None if browser is None else browser.digest()
        meeting, caller = await self.lookup.meet_in_browser(place.organization, place.service, digest)
        if caller is not None:
            self.presence.seen(caller.session, self.system.clock.now())
        return Met(meeting, caller)

    async def met_again(self, flow: Flow, caller: Caller | None) -> SamlVisit:
        """Looks up a kept request again, with the person who has signed in for the request, or else with the caller."""
        place, request = kept_request(flow)
        meeting = usable(
            await self.lookup.meet(
                place.organization, place.service, None if flow.session is not None else caller, flow.session or _session(caller)
            )
        )
        require_configured(request, meeting)
        return SamlVisit(meeting, request, flow)

    async def with_facts(self, visit: SamlVisit) -> SamlVisit:
        """Only a service or a person with more than the account costs the round trip."""
        subject = visit.meeting.subject
        if subject is None or not subject.tells_more:
            return visit
        facts = await self.facts.find(visit.application.service, subject.user)
        return replace(visit, meeting=replace(visit.meeting, subject=replace(subject, facts=facts, tells_more=False)))

    async def refused(self, flow: Flow) -> SamlVisit:
        """The visit of a person who refuses a kept request, or may not allow it. Raises `FlowOver`, and the errors of `usable`."""
        place, request = kept_request(flow, refusing=True)
        meeting = usable(await self.lookup.meet(place.organization, place.service, None))
        require_configured(request, meeting)
        return SamlVisit(meeting, request, flow)


def kept_request(flow: Flow, *, refusing: bool = False) -> tuple[ServiceName, SamlRequest]:
    """Raises `FlowOver`."""
    flow.require_unanswered(FlowPurpose.SAML, refusing=refusing)
    kept: Mapping[str, Any] = flow.request
    return ServiceName(kept["organization"], kept["service"]), restored(kept)


def usable(meeting: Meeting | None) -> Meeting:
    """Raises `NotFound` and `OrganizationNotActive`."""
    if meeting is None or not meeting.configuration.enabled or meeting.signer is None:
        raise not_usable()
    if not meeting.application.organization_is_active:
        raise organization_closed()
    return meeting


def require_configured(request: SamlRequest, meeting: Meeting) -> None:
    """Raises `FlowOver` when the address for the answer was removed while the person signed in, or when another service provider has
    replaced the one that the page showed to the person.
    """
    if meeting.configuration.acs(request.acs_url, None) is None:
        raise FlowOver
    if request.audience not in {None, meeting.configuration.entity_id}:
        raise FlowOver


def _session(caller: Caller | None) -> SessionId | None:
    return None if caller is None else caller.session
