"""Sign-in with a password, and with a second factor if the account has one."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from core.domain.errors import (
    BadRequest,
    NotFound,
    OrganizationNotActive,
    Overloaded,
    RateLimited,
    SecondFactorRequired,
    TermsRequired,
    Unauthorized,
)
from core.domain.identity.realms import ProviderRequired
from core.domain.identity.sign_in import AwaitingSecondFactor, SignedIn, service_named
from core.domain.mail import Email
from core.domain.secrets import Password, Token
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.browser_cookies import device_headers
from entrypoints.http.machinery.callers import ANYONE, PREAUTHENTICATED
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import AccessTokenText, ExpiresIn, RefreshTokenText, Slug, example
from entrypoints.http.machinery.headers import COOKIES, DEVICE_TOKEN, DEVICE_TRUST_TOKEN, NEW_DEVICE_TOKEN
from entrypoints.http.machinery.limits import AUTH, LOGIN, MFA_VERIFY
from entrypoints.http.routes.identity.own_terms import PendingTermsRecord, pending_record

# RFC 5321 section 4.5.3.1: 64 octets, an @, 255 octets.
_EmailText = Annotated[str, msgspec.Meta(min_length=1, max_length=320)]


class Login(msgspec.Struct, frozen=True):
    """E-mail address and password, and the service to sign in to."""

    email: Annotated[_EmailText, example("ada@example.org")]
    """The account's address."""
    password: Password
    """The account's password."""
    org_slug: Annotated[Slug, example("acme")] | None = None
    """The organization of the service to sign in to. Without `service_slug`, this field has no effect."""
    service_slug: Annotated[Slug, example("billing")] | None = None
    """The service to sign in to. The tokens are for it, and the account becomes a user of it."""
    saml_state: Annotated[str, msgspec.Meta(max_length=4096, examples=["q3vT8nLx"])] | None = None
    """The `state` of a SAML request that waits for a sign-in. The tokens are then for its service, and the person goes on to
    `saml_redirect_url`. The browser that began the request gets its answer, so never take the `state` from a link that somebody else may
    have sent.
    """


class LoginTokens(msgspec.Struct, frozen=True):
    """The tokens of a new session, or a pre-auth token if a second factor is needed."""

    access_token: AccessTokenText
    """The access token. If `mfa_required` is true it is a pre-auth token, which only `POST /api/auth/mfa/verify` accepts."""
    refresh_token: RefreshTokenText
    """The refresh token; empty if `mfa_required` is true."""
    expires_in: ExpiresIn
    mfa_required: bool | UnsetType = UNSET
    """True if the second factor is needed; absent otherwise."""
    saml_redirect_url: Annotated[str, example("https://id.example.org/ui/saml?flow=018f3c5a-7b1e-7c3d-9f4a-2b6c8d0e1f23")] | UnsetType = (
        UNSET
    )
    """With `saml_state`: the URL at which the person's browser goes on to the service provider."""
    terms_pending: Sequence[PendingTermsRecord] | UnsetType = UNSET
    """Terms that the person has not accepted: of the installation and of the organization that the sign-in leads to, or, at a sign-in on
    the platform, of all that the person belongs to. `POST /api/user/terms` accepts them. Absent if there are none.
    """


class SecondFactor(msgspec.Struct, frozen=True):
    """A code of the second factor."""

    code: Annotated[str, msgspec.Meta(min_length=1, max_length=64, examples=["492039"])]
    """The six digits of an authenticator, or a backup code."""
    preauth_token: Annotated[Token, example("eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiI3YyJ9.c2ln")] | None = None
    """The pre-auth token, if you do not send it in the `Authorization` header."""
    trust_device: bool = False
    """Whether this device may skip the second factor from now on, for as long as the organization allows."""
    saml_state: Annotated[str, msgspec.Meta(max_length=4096, examples=["018f3c5a-7b1e-7c3d-9f4a-2b6c8d0e1f23"])] | None = None
    """Not needed: the pre-auth token keeps the `saml_state` of the sign-in."""


class SessionTokens(msgspec.Struct, frozen=True):
    """The tokens of a new session."""

    access_token: AccessTokenText
    refresh_token: RefreshTokenText
    expires_in: ExpiresIn
    token_type: Annotated[str, example("Bearer")]
    """Always `Bearer`."""
    device_trust_token: Annotated[str, example("dt_3nYc8RqWz1LmVb6KsXe0HjUo5TgPaFd2")] | UnsetType = UNSET
    """With this token the device may skip the second factor for a while. Present if you asked for trust; browsers also get it as a cookie.
    """
    saml_redirect_url: Annotated[str, example("https://id.example.org/ui/saml?flow=018f3c5a-7b1e-7c3d-9f4a-2b6c8d0e1f23")] | UnsetType = (
        UNSET
    )
    """If the sign-in was for a SAML request: the URL at which the person's browser goes on to the service provider."""
    terms_pending: Sequence[PendingTermsRecord] | UnsetType = UNSET
    """Terms that the person has not accepted: of the installation and of the organization that the sign-in leads to, or, at a sign-in on
    the platform, of all that the person belongs to. `POST /api/user/terms` accepts them. Absent if there are none.
    """


@endpoint.post(
    "/api/auth/login",
    caller=ANYONE,
    limit=(AUTH, LOGIN),
    refuses=(
        BadRequest,
        Unauthorized,
        OrganizationNotActive,
        SecondFactorRequired,
        TermsRequired,
        ProviderRequired,
        NotFound,
        RateLimited,
        Overloaded,
    ),
    reads=(DEVICE_TOKEN, DEVICE_TRUST_TOKEN),
    sends={200: (NEW_DEVICE_TOKEN, COOKIES)},
    tags=("sign-in",),
)
async def sign_in(call: Call[Login], postern: Postern) -> Answer[LoginTokens]:
    """Sign in with e-mail address and password

    The answer's `X-Device-Token` header identifies this device; browsers also get it as a cookie. Send it with the next sign-in. If the
    account has a second factor and the device is not trusted, you get a pre-auth token instead of a session: exchange it at `POST
    /api/auth/mfa/verify`. If the people of the address's domain sign in at a provider, the answer is 403, whatever the password: `POST
    /api/auth/lookup-email` names the provider. While somebody in your network tries passwords over many accounts, answers wait for up to
    four seconds, and where several wait already the answer is 429. Neither happens to a device that sends its device token.
    """
    body = call.body
    waiting = None if body.saml_state is None else await postern.federation.saml_sign_in.waiting(body.saml_state)
    service = service_named(body.org_slug or "", body.service_slug or "") if waiting is None else waiting.place
    state = "" if waiting is None else str(waiting.flow)
    result = await postern.identity.sign_in.with_password(Email(body.email), body.password, call.client, service, state=state)
    if isinstance(result, AwaitingSecondFactor):
        return Answer(LoginTokens(result.preauth_token.reveal(), "", result.expires_in, mfa_required=True), 200)
    pair = result.tokens
    onward = UNSET if waiting is None else await postern.federation.saml_sign_in.signed_in(waiting, result.user, result.session)
    tokens = LoginTokens(
        pair.access_token.reveal(), pair.refresh_token.reveal(), pair.expires_in, saml_redirect_url=onward, terms_pending=pending_of(result)
    )
    return Answer(tokens, 200, _headers(result, postern))


@endpoint.post(
    "/api/auth/mfa/verify",
    caller=PREAUTHENTICATED,
    limit=(AUTH, MFA_VERIFY),
    refuses=(BadRequest, OrganizationNotActive, TermsRequired, RateLimited),
    reads=(DEVICE_TOKEN, DEVICE_TRUST_TOKEN),
    sends={200: (NEW_DEVICE_TOKEN, COOKIES)},
    tags=("sign-in",),
)
async def verify_second_factor(call: Call[SecondFactor, None, None, Token | None], postern: Postern) -> Answer[SessionTokens]:
    """Sign in with the second factor

    Send a code, and the pre-auth token in the `Authorization` header or in the body. You get the tokens of a session. If the sign-in by
    password named a service, the session is for that service. The fifth wrong code ends the pre-auth token.
    """
    body = call.body
    preauth_token = call.presented or body.preauth_token
    if preauth_token is None:
        raise Unauthorized
    by = await postern.identity.sign_in.preauthenticated(preauth_token)
    state = by.state or None if body.saml_state is None else body.saml_state
    waiting = None if state is None else await postern.federation.saml_sign_in.waiting(state)
    result = await postern.identity.sign_in.with_second_factor(by, body.code, call.client, trust_device=body.trust_device)
    onward = UNSET if waiting is None else await postern.federation.saml_sign_in.signed_in(waiting, result.user, result.session)
    pair, trust_token = result.tokens, result.remembered.trust_token
    tokens = SessionTokens(
        pair.access_token.reveal(),
        pair.refresh_token.reveal(),
        pair.expires_in,
        "Bearer",
        UNSET if trust_token is None else trust_token.reveal(),
        onward,
        pending_of(result),
    )
    return Answer(tokens, 200, _headers(result, postern))


def pending_of(signed_in: SignedIn) -> Sequence[PendingTermsRecord] | UnsetType:
    return [pending_record(one) for one in signed_in.terms] or UNSET


def _headers(signed_in: SignedIn, postern: Postern) -> tuple[tuple[bytes, bytes], ...]:
    return device_headers(signed_in.remembered, postern.foundation.public_url)
