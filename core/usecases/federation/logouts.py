"""Logout of applications: RP-initiated logout, logout tokens to applications, and ID token hints."""

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from core.domain.errors import NotFound, TokenInvalid
from core.domain.federation.logouts import (
    LOGOUT_NOTICE_HEADERS,
    LOGOUT_NOTICE_RULES,
    DueNotice,
    Hint,
    LogoutNotice,
    OidcLogoutRequest,
    body_of,
    client_of_logout,
    logout_claims,
    way_back,
)
from core.domain.federation.oauth.authorization_steps import RequestingApplication
from core.domain.identifiers import ClientId, UserId
from core.domain.identity.callers import Caller
from core.domain.record.deliveries import DeliveryOutcome, ReceiverKind
from core.domain.requests import Listed, Page
from core.domain.secrets import Token
from core.domain.services.services import logout_destination
from core.domain.tenancy.members import Member
from core.frozen import Frozen
from core.usecases.record import OpenReceiver
from ports.crypto import TokenSigner, TokenVerifier
from ports.federation.oauth import ClaimedService, Encounters, LogoutNoticeLookup
from ports.metrics import Metrics
from ports.outbound import OutboundRequest
from ports.system import System


class LogoutNotices(Frozen):
    """Lists the logout tokens that an organization's applications were sent, with their outcomes."""

    lookup: LogoutNoticeLookup

    async def list(self, member: Member, slug: str, page: Page, *, delivered: bool | None) -> Listed[LogoutNotice]:
        """Newest first. Raises `NotFound`."""
        listed = await self.lookup.list(member.organization, slug, page, delivered=delivered)
        if listed is None:
            raise NotFound("The organization has no such service")
        return listed


class LogoutReceivers(Frozen):
    """Services that get a notice when their sessions end. Implements `core.usecases.record.Receivers`."""

    signer: TokenSigner
    metrics: Metrics
    system: System
    issuer: str
    rules = LOGOUT_NOTICE_RULES
    kind = ReceiverKind.LOGOUT_NOTICE
    attempted = "logout_notice_attempted"
    unreadable = "logout_address_unreadable"

    def opened(self, claimed: ClaimedService) -> OpenReceiver[ClaimedService]:
        return OpenReceiver(claimed, logout_destination(claimed.url))

    async def request(self, receiver: OpenReceiver[ClaimedService], due: DueNotice) -> OutboundRequest:
        """Signs the logout token just before the request, because the token is short-lived."""
        claimed = receiver.claimed
        token_id = str(self.system.ids.new())
        claims = logout_claims(due, client=claimed.client, issuer=self.issuer, token_id=token_id, now=self.system.clock.now())
        token = Token(await self.signer.sign_logout(claims, claimed.algorithm))
        return OutboundRequest(receiver.destination, body_of(token), LOGOUT_NOTICE_HEADERS)

    def logged(self, claimed: ClaimedService, due: DueNotice | None = None) -> Mapping[str, str]:
        service = {"service": str(claimed.id)}
        return service if due is None else {**service, "notice": str(due.id)}

    def count(self, _due: DueNotice, outcome: DeliveryOutcome, seconds: float) -> None:
        self.metrics.logout_notice_attempted(outcome.word, seconds)

    async def settled(self, claimed: ClaimedService, failing_since: datetime | None) -> None:
        """Does nothing: a service that fails still gets the notices of its next sessions."""


async def read_hint(verifier: TokenVerifier, token: str) -> Hint | None:
    """None for anything that is not an ID token of ours. An expired ID token still names its person.

    Reads an ID token that an application sends back as `id_token_hint`: it names the user whom the application expects, or the user to sign
    out.
    """
    try:
        claims = await verifier.verify_id(token)
    except TokenInvalid:
        return None
    try:
        return Hint(UserId(UUID(str(claims["sub"]))), ClientId(str(claims["aud"])))
    except (KeyError, ValueError):
        return None


class Farewell(Frozen):
    """The result of a look at a request to sign out."""

    application: RequestingApplication | None
    """The application that asks. None when the application is unknown."""
    way_back: str | None
    """The address to which the person goes after the sign-out. None when the person stays here."""
    must_ask: bool
    """Whether the person has to confirm the sign-out first, because any site can send a browser here."""
    person: UserId | None = None
    """The person of the application's ID token: the account that the sign-out is for. None without one."""


class Logouts(Frozen):
    """Decides about a logout request of an application (OpenID Connect RP-Initiated Logout 1.0)."""

    encounters: Encounters
    verifier: TokenVerifier

    async def look(self, request: OidcLogoutRequest, caller: Caller | None) -> Farewell:
        """Changes nothing. Raises `WayBackUnknown`. A hint counts when the hint is an ID token of ours, expired or not, for this
        application and this person. A wrong hint is ignored together with the other parameters of the request.
        """
        hint = None
        if request.id_token_hint is not None:
            hint = await read_hint(self.verifier, request.id_token_hint)
            if hint is None or request.client not in {None, hint.client}:
                return Farewell(None, None, caller is not None)
        client = client_of_logout(request, hint)
        met = None if client is None else await self.encounters.find(client, None)
        application = None if met is None else met.application
        is_theirs = caller is not None and hint is not None and application is not None and hint.user == caller.user
        person = None if hint is None or application is None else hint.user
        return Farewell(application, way_back(request, application), caller is not None and not is_theirs, person)
