"""Logout notices tell services which of their sessions have ended. Organizations can list the notices with their outcomes."""

from collections.abc import Mapping
from datetime import datetime

from core.domain.errors import NotFound
from core.domain.federation.logout.logout_notices import HEADERS, RULES, DueNotice, LogoutNotice, body_of, logout_claims
from core.domain.pages import Listed, Page
from core.domain.record.deliveries import DeliveryOutcome
from core.domain.secrets import Token
from core.domain.services.services import logout_destination
from core.domain.tenancy.members import Member
from core.frozen import Frozen
from core.usecases.record.deliveries import OpenReceiver
from ports.federation.logout_notices import ClaimedService, LogoutNoticeLookup
from ports.metrics import Metrics
from ports.outbound import OutboundRequest
from ports.system import System
from ports.tokens import TokenSigner


class LogoutNotices(Frozen):
    lookup: LogoutNoticeLookup

    async def list(self, member: Member, slug: str, page: Page, *, delivered: bool | None) -> Listed[LogoutNotice]:
        """Newest first. Raises `NotFound`."""
        listed = await self.lookup.list(member.organization, slug, page, delivered=delivered)
        if listed is None:
            raise NotFound("The organization has no such service")
        return listed


class LogoutReceivers(Frozen):
    """Services that get a notice when their sessions end. Implements `core.usecases.record.deliveries.Receivers`."""

    signer: TokenSigner
    metrics: Metrics
    system: System
    issuer: str
    rules = RULES
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
        return OutboundRequest(receiver.destination, body_of(token), HEADERS)

    def logged(self, claimed: ClaimedService, due: DueNotice | None = None) -> Mapping[str, str]:
        service = {"service": str(claimed.id)}
        return service if due is None else {**service, "notice": str(due.id)}

    def count(self, _due: DueNotice, outcome: DeliveryOutcome, seconds: float) -> None:
        self.metrics.logout_notice_attempted(outcome.word, seconds)

    async def settled(self, claimed: ClaimedService, failing_since: datetime | None) -> None:
        """Does nothing: a service that fails still gets the notices of its next sessions."""
