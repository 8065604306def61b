"""Authorization codes: issued to the browser of a person who allows an application, and redeemed by the application."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Final

from core.domain.errors import BadRequest, Unavailable
from core.domain.federation.oauth.authorization_codes import (
    ApprovedAuthorization,
    Claim,
    EarlierUse,
    Issue,
    NewCode,
    Opening,
    Redeemed,
    SecondUse,
    Untargeted,
    claim_of,
    code_reused,
    second_use,
)
from core.domain.federation.oauth.authorizations import request_used
from core.domain.federation.oauth.clients import AuthenticatedClient, ClientCredentials
from core.domain.federation.oauth.grants import Granted, TokenRequest
from core.domain.federation.oauth.oauth_errors import InvalidGrant, InvalidTarget, UnauthorizedClient
from core.domain.federation.oauth.scopes import OFFLINE_ACCESS
from core.domain.federation.profiles import VERIFIER_NEEDED
from core.domain.identifiers import AuthorizationCodeId, EventId, LoginEventId, SessionId
from core.domain.identity.devices import Client
from core.domain.identity.login_events import login_event
from core.domain.identity.refresh_tokens import with_empty_part
from core.domain.identity.sessions import OpenedSession
from core.domain.record.events import SYSTEM, Actor
from core.domain.secrets import Token
from core.domain.services.services import ServiceType
from core.frozen import Frozen
from core.usecases.federation.clients import Clients
from core.usecases.identity.sessions import Sessions
from ports.federation.authorization_codes import CodeRedemption, Redemption
from ports.system import System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

# Of two requests with the same code, the second waits for the first, and finds the code redeemed at the second look.
_LOOKS: Final = 3
_Look = Callable[[Opening, datetime], Awaitable[tuple[AuthenticatedClient, Redemption]]]


class CodeNotIssued(Exception):
    """The account, the consent or the service ended before the code was issued."""


class AuthorizationCodes(Frozen):
    unit_of_work: UnitOfWorkFactory
    redemption: CodeRedemption
    clients: Clients
    sessions: Sessions
    system: System

    async def issue(self, uow: UnitOfWork, approved: ApprovedAuthorization, registered: Sequence[str], *, by_trust: bool = False) -> Token:
        """Runs within the caller's unit of work, which locks the account. Raises `CodeNotIssued` when the account or the service has ended,
        or when the service's redirect URIs are no longer the `registered` ones. A code also needs the person's consent, or with `by_trust`
        the person's own membership of an organization that trusts the service. Raises `UnknownRecipient` when the pushed request has got
        its code already.
        """
        code = self.system.secrets.token()
        new = NewCode(
            id=AuthorizationCodeId(self.system.ids.new()), digest=code.digest(), approved=approved, created_at=self.system.clock.now()
        )
        match await uow.authorization_codes.add(new, registered, by_trust=by_trust):
            case Issue.REFUSED:
                raise CodeNotIssued
            case Issue.USED:
                raise request_used()
        return code

    async def redeem(self, request: TokenRequest, client: AuthenticatedClient, sender: Client, *, root: str = OFFLINE_ACCESS) -> Granted:
        """Redeems a code. A code works only once. The application's session ends with the browser's session, unless the person has
        permitted the application to stay signed in, by the scope `root`. Raises `BadRequest` when the request lacks a parameter,
        `InvalidGrant`, and `InvalidTarget`, which leaves the code as it is.
        """
        if client.registered.holds_fapi2 and request.code_verifier is None:
            raise InvalidGrant(VERIFIER_NEEDED)
        claim = claim_of(request, client.registered.client, is_public=client.is_public)

        async def look(opening: Opening, at: datetime) -> tuple[AuthenticatedClient, Redemption]:
            return client, await self.redemption.redeem(claim, client.registered, opening, at)

        # An application that keeps a secret sends this request from its own servers, whose IP address says nothing about the person.
        actor = sender.actor() if client.is_public else SYSTEM
        granted, _ = await self._redeemed(claim, look, sender, actor, is_public=client.is_public, root=root)
        return granted

    async def redeem_for_browser(
        self, request: TokenRequest, client: AuthenticatedClient, sender: Client, kept: Callable[[Token], bytes]
    ) -> Granted:
        """As `redeem`, for an application behind a proxy, whose browser sends this request itself. The session's token is a cookie: `kept`
        makes the digest by which it is known, so that it is no refresh token.
        """
        claim = claim_of(request, client.registered.client, is_public=False)

        async def look(opening: Opening, at: datetime) -> tuple[AuthenticatedClient, Redemption]:
            return client, await self.redemption.redeem(claim, client.registered, opening, at)

        granted, _ = await self._redeemed(claim, look, sender, sender.actor(), kept)
        return granted

    async def redeem_with_secret(
        self, request: TokenRequest, shown: ClientCredentials, sender: Client
    ) -> tuple[Granted, AuthenticatedClient]:
        """Redeems a code for a client that shows a secret. One statement looks up the client and redeems the code, which saves a round
        trip. Raises the errors of `redeem`, and `Unauthorized`, `OrganizationNotActive`.
        """
        secret_digest = None if shown.secret is None else shown.secret.digest()
        try:
            claim = claim_of(request, shown.client, is_public=False)
        except BadRequest:
            # Only an authenticated client learns which parameter its request lacks.
            await self.clients.authenticate(shown)
            raise

        async def look(opening: Opening, at: datetime) -> tuple[AuthenticatedClient, Redemption]:
            met = await self.redemption.redeem_with_secret(claim, shown.client, secret_digest, opening, at)
            registered, found = (None, None) if met is None else met
            # The statement has checked the same conditions, so it has redeemed nothing for a client that is refused here.
            authenticated = await self.clients.confirm(registered, shown)
            authenticated.registered.require_bound(claim.key)
            if authenticated.registered.service_type is ServiceType.PROXY:
                # The browser of the person redeems its codes, by `redeem_for_browser`.
                raise UnauthorizedClient
            return authenticated, found

        return await self._redeemed(claim, look, sender, SYSTEM)

    async def _redeemed(
        self,
        claim: Claim,
        look: _Look,
        sender: Client,
        actor: Actor,
        kept: Callable[[Token], bytes] = Token.digest,
        *,
        is_public: bool = False,
        root: str = OFFLINE_ACCESS,
    ) -> tuple[Granted, AuthenticatedClient]:
        token = self.system.secrets.token()
        refresh_token = with_empty_part(token) if is_public else token
        opening = Opening(
            session=SessionId(self.system.ids.new()),
            refresh_digest=kept(refresh_token),
            login=login_event(LoginEventId(self.system.ids.new()), actor, self.system.clock.now(), user=None, provider=""),
            event=EventId(self.system.ids.new()),
            lifetime=self.sessions.lifetime,
            idle=self.sessions.idle,
            root=root,
        )
        for _ in range(_LOOKS):
            client, found = await look(opening, self.system.clock.now())
            match found:
                case Redeemed():
                    application = client.registered.application(found.session.scopes or ())
                    opened = OpenedSession(
                        found.session,
                        found.email,
                        found.is_platform_owner,
                        refresh_token,
                        found.subscription,
                        application,
                        tells_more=found.tells_more,
                        audience=found.audience,
                    )
                    return Granted(opened, found.email_is_verified, found.role, found.nonce, found.profile), client
                case EarlierUse():
                    await self._end_after(claim, client, found, sender)
                    raise InvalidGrant(detail="the code was redeemed before")
                case Untargeted():
                    raise InvalidTarget(found.audiences.missing(claim.resource))
                case None:
                    raise InvalidGrant(detail="no such code is open to this client")
                case _:  # contended: look again
                    continue
        raise Unavailable(retry_after=1, detail="a code stayed contended")

    async def _end_after(self, claim: Claim, client: AuthenticatedClient, earlier: EarlierUse, sender: Client) -> None:
        if second_use(claim, client.registered.service, earlier, self.system.clock.now()) is not SecondUse.STOLEN:
            return
        async with self.unit_of_work() as uow:
            await uow.accounts.hold(earlier.user)
            # When several requests repeat the code, only one of these requests finds a session to end, and reports the reuse.
            if await uow.sessions.revoke(earlier.session, earlier.user):
                await uow.record(code_reused(earlier, sender.actor(), client.registered.client if client.registered.is_agent else None))
                await uow.commit()
