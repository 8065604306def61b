"""Agents: services that act for people, such as assistants. A person lets an agent act at one API, until a date. It learns nothing about
the person, and opens nothing of ours.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from core.domain.errors import BadRequest
from core.domain.federation.oauth.authorizations import AuthorizationErrorCode, AuthorizationRefused, AuthorizationRequest
from core.domain.federation.refusal_reasons import RefusalReason
from core.domain.identifiers import AgentGrantId, ClientId, OrganizationId, ResourceServerId, ServiceId, UserId
from core.domain.identity.sessions import AGENTS_FORBIDDEN
from core.domain.record.events import Actor, Event, Target
from core.frozen import Frozen, replace

USUAL_DAYS: Final = 30
DAYS_OFFERED: Final = (1, 7, USUAL_DAYS, 90)
ONE_API: Final = "resource: an agent acts at one API. Name one, by its identifier"
NOTHING_ALLOWED: Final = "The person has allowed the agent nothing"
NOT_BY_CODE: Final = (
    "An agent is let in by the authorization endpoint, where the person chooses the API and the end, and not by a device's code"
)


class AgentGrant(Frozen, kw_only=True):
    """What a person lets an agent do at one API, as those who look after the organization see it."""

    id: AgentGrantId
    user: UserId
    email: str
    service: ServiceId
    client: ClientId
    service_slug: str
    service_name: str
    resource: ResourceServerId
    identifier: str
    api: str
    """The name of the API. Empty when the API is gone."""
    scopes: Sequence[str]
    granted_at: datetime
    expires_at: datetime
    last_used_at: datetime | None
    """When it last got a token there. A token lasts five minutes, so the agent acted at most so much later."""


class AgentReach(Frozen, kw_only=True):
    """The grants that somebody asks for: those to one agent, those of one person, or both."""

    service: ServiceId | None = None
    user: UserId | None = None


def bounded(request: AuthorizationRequest, *, is_agent: bool, agents_allowed: bool) -> AuthorizationRequest:
    """The request, as far as its application may ask. An agent may ask for one API with its scopes. Of our own scopes it gets none, so it
    learns nothing about the person. Raises `AuthorizationRefused`.
    """
    if not is_agent:
        return request
    if not agents_allowed:
        raise AuthorizationRefused(AuthorizationErrorCode.ACCESS_DENIED, AGENTS_FORBIDDEN, recorded_as=RefusalReason.AGENTS_FORBIDDEN)
    if len(set(request.resources)) != 1:
        raise AuthorizationRefused(AuthorizationErrorCode.INVALID_TARGET, ONE_API, recorded_as=RefusalReason.AGENT_TARGET)
    return replace(request, scopes=(), resources=request.resources[:1])


def grant_end(days: int | None, now: datetime) -> datetime:
    """The end of a grant that is given now, for one of the numbers of days that the page offers. Raises `BadRequest`."""
    chosen = USUAL_DAYS if days is None else days
    if chosen not in DAYS_OFFERED:
        raise BadRequest(f"days: one of {', '.join(map(str, DAYS_OFFERED))}", words="agent_days")
    return now + timedelta(days=chosen)


def grant_ended(grant: AgentGrant, organization: OrganizationId, actor: Actor) -> Event:
    """Somebody who looks after the organization ended it; the person's own end is `resource_consent_revoked`."""
    details = {
        "service_id": str(grant.service),
        "service_slug": grant.service_slug,
        "service_name": grant.service_name,
        "resource": grant.identifier,
        "user_id": str(grant.user),
    }
    return Event("user.consent.revoked", replace(actor, agent=grant.client), Target("service", str(grant.service)), organization, details)


def all_grants_ended(service: ServiceId, organization: OrganizationId, actor: Actor) -> Event:
    return Event("service.agent.ended", actor, Target("service", str(service)), organization, {"service_id": str(service)})
