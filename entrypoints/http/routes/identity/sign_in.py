"""Sign-in by password, second factor or magic link, home realm discovery, token refresh, and reauthentication."""

from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from core.domain.errors import (
    BadRequest,
    Forbidden,
    NotFound,
    OrganizationNotActive,
    Overloaded,
    RateLimited,
    SecondFactorRequired,
    TermsRequired,
    Unauthorized,
)
from core.domain.identity.account_mails import AccountMail, Onward
from core.domain.identity.guards.puzzles import PuzzlePurpose
from core.domain.identity.passkeys import Ceremony, bound_to_session
from core.domain.identity.realms import AuthMethod, ProviderRequired
from core.domain.identity.sign_in import AwaitingSecondFactor, SignedIn, service_named
from core.domain.mail import Email
from core.domain.secrets import Password, Token
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import COOKIES, DEVICE_TOKEN, DEVICE_TRUST_TOKEN, NEW_DEVICE_TOKEN, Answer, Message
from entrypoints.http.machinery.browser_cookies import device_headers
from entrypoints.http.machinery.callers import ANYONE, LEAVING, OWN_PERSON, PREAUTHENTICATED, Leaving
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import AccessTokenText, EmailText, ExpiresIn, RefreshTokenText, Slug, email_field, example
from entrypoints.http.machinery.limits import AUTH, FORGOT_PASSWORD, LOGIN, MFA_VERIFY
from entrypoints.http.passkeys import AssertionCredential, PasskeyRequestOptions, request_options
from entrypoints.http.routes.identity.own_terms import PendingTermsRecord, pending_record
from entrypoints.http.routes.identity.program_puzzles import PUZZLE_HEADERS, solvable

# RFC 5321 section 4.5.3.1: 64 octets, an @, 255 octets.
_EmailText = Annotated[str, msgspec.Meta(min_length=1, max_length=320)]


class Login(msgspec.Struct, frozen=True):
    """The email address, the password, and the service to sign in to."""

    email: Annotated[_EmailText, example("ada@example.org")]
    """The account's email address."""
    password: Password
    """The account's password."""
    org_slug: Annotated[Slug, example("acme")] | None = None
    """The slug of the service's organization. Without `service_slug`, this field has no effect."""
    service_slug: Annotated[Slug, example("billing")] | None = None
    """The slug of the service to sign in to. The tokens are for this service, and the account becomes a user of it."""
    saml_state: Annotated[str, msgspec.Meta(max_length=4096, examples=["q3vT8nLx"])] | None = None
    """The `state` of a pending SAML request. The tokens are for its service, and the person continues to `saml_redirect_url`. The response
    goes to the browser that started the request. For this reason, never take the `state` from a link that someone else may have sent.
    """


class LoginTokens(msgspec.Struct, frozen=True):
    """The tokens of a new session, or a pre-auth token if MFA is required."""

    access_token: AccessTokenText
    """The access token. If `mfa_required` is true: a pre-auth token, which only `POST /api/auth/mfa/verify` accepts."""
    refresh_token: RefreshTokenText
    """The refresh token; empty if `mfa_required` is true."""
    expires_in: ExpiresIn
    mfa_required: bool | UnsetType = UNSET
    """True if MFA is required; absent otherwise."""
    saml_redirect_url: Annotated[str, example("https://id.example.org/ui/saml?flow=018f3c5a-7b1e-7c3d-9f4a-2b6c8d0e1f23")] | UnsetType = (
        UNSET
    )
    """With `saml_state`: the URL where the person's browser continues to the service provider."""
    terms_pending: Sequence[PendingTermsRecord] | UnsetType = UNSET
    """Terms that the person has not accepted: of the installation and of the organization to sign in to. Without an organization: of all
    organizations that the person belongs to. Accept them with `POST /api/user/terms`. Absent if there are none.
    """


class SecondFactor(msgspec.Struct, frozen=True):
    """An MFA code."""

    code: Annotated[str, msgspec.Meta(min_length=1, max_length=64, examples=["492039"])]
    """The 6-digit code from an authenticator app, or a backup code."""
    preauth_token: Annotated[Token, example("eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiI3YyJ9.c2ln")] | None = None
    """The pre-auth token, if it is not in the `Authorization` header."""
    trust_device: bool = False
    """Whether this device can skip MFA from now on, for as long as the organization allows."""
    saml_state: Annotated[str, msgspec.Meta(max_length=4096, examples=["018f3c5a-7b1e-7c3d-9f4a-2b6c8d0e1f23"])] | None = None
    """Not required: the pre-auth token contains the `saml_state` of the sign-in."""


class SessionTokens(msgspec.Struct, frozen=True):
    """The tokens of a new session."""

    access_token: AccessTokenText
    refresh_token: RefreshTokenText
    expires_in: ExpiresIn
    token_type: Annotated[str, example("Bearer")]
    """Always `Bearer`."""
    device_trust_token: Annotated[str, example("dt_3nYc8RqWz1LmVb6KsXe0HjUo5TgPaFd2")] | UnsetType = UNSET
    """The token with which this device can skip MFA until the trust expires. Present if you set `trust_device`; browsers also get it as a
    cookie.
    """
    saml_redirect_url: Annotated[str, example("https://id.example.org/ui/saml?flow=018f3c5a-7b1e-7c3d-9f4a-2b6c8d0e1f23")] | UnsetType = (
        UNSET
    )
    """If the sign-in was for a SAML request: the URL where the person's browser continues to the service provider."""
    terms_pending: Sequence[PendingTermsRecord] | UnsetType = UNSET
    """Terms that the person has not accepted: of the installation and of the organization to sign in to. Without an organization: of all
    organizations that the person belongs to. Accept them with `POST /api/user/terms`. Absent if there are none.
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
    """Sign in with a password

    The response header `X-Device-Token` identifies this device; browsers also get it as a cookie. Send it with the next sign-in. If the
    account has MFA and the device is not trusted, you get a pre-auth token instead of a session. Exchange it at `POST
    /api/auth/mfa/verify`.

    If the people of the email domain sign in with a provider, the response is 403, whatever the password. `POST /api/auth/lookup-email`
    returns the provider.

    During a credential stuffing attack from your network, responses are delayed by up to 4 seconds. If several responses are already
    delayed, the response is 429. Neither affects a device that sends its device token.
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
    """Sign in with MFA

    Send an MFA code, and the pre-auth token in the `Authorization` header or in the body. Returns the tokens of a session. If the password
    sign-in was for a service, the session is for this service. After the fifth wrong code, the pre-auth token is revoked.
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


class MagicLinkRequest(msgspec.Struct, frozen=True):
    """The email address of the account, and the destination of the link."""

    email: EmailText
    """The account's email address."""
    org_slug: Annotated[Slug, example("acme")] | None = None
    """The slug of the organization whose branding the email has."""
    service_slug: Annotated[Slug, example("shop")] | None = None
    """The slug of a service of this organization, which the link opens after the sign-in. If omitted, the link opens the account pages."""
    redirect_uri: Annotated[str, msgspec.Meta(max_length=2000), example("https://shop.example/callback")] | None = None
    """The redirect URI of the service that gets the authorization code. The default is the first one."""
    state: Annotated[str, msgspec.Meta(max_length=1000), example("af0ifjsldkj")] | None = None
    """An opaque value that the redirect URI gets with the code."""


@endpoint.post(
    "/api/auth/magic-link",
    caller=ANYONE,
    limit=(AUTH, FORGOT_PASSWORD),
    refuses=(BadRequest,),
    reads=PUZZLE_HEADERS,
    tags=("sign-in",),
)
async def request_magic_link(call: Call[MagicLinkRequest], postern: Postern) -> Message:
    """Request a magic link

    The link in the email works once, within 15 minutes, in any browser. It opens a page with a button to sign in, and requires MFA if the
    account has it. The response is always the same.

    If the email address has no account or is not verified, no email is sent. The same applies if one of the account's organizations has
    turned off magic links. A link can open only a service that has a client secret or keys. The codes of other services need a code
    challenge.
    """
    body = call.body
    email = email_field(body.email, postern.foundation.email_syntax)
    # A malformed redirect URI is refused here, where the caller gets the answer. Only the mail's job looks the service up.
    service_named(body.org_slug or "", body.service_slug or "")
    onward = Onward(service=body.service_slug or "", redirect_uri=body.redirect_uri or "", state=body.state or "")
    async with solvable(call, postern, PuzzlePurpose.LINK, email) as solved:
        await postern.identity.accounts.ask_as_stranger(
            AccountMail.SIGN_IN_LINK, email, body.org_slug or "", call.request.sender, onward, may_wait=solved, solved=solved
        )
    return Message("If there is an account with this email address that can sign in with a link, an email with a link was sent.")


class EmailLookup(msgspec.Struct, frozen=True):
    """The email address to look up."""

    email: EmailText
    """The email address of a person who wants to sign in."""


class DomainSignIn(msgspec.Struct, frozen=True, kw_only=True):
    """How people of an email domain sign in. The result is the same for all email addresses of a domain, with or without an account."""

    connection_id: Annotated[UUID, example("018f3c5a-7b1e-7c3d-9f4a-2b6c8d0e1f23")] | None
    """The ID of the organization's own provider for the domain; null if the domain has another provider or none."""
    provider_name: Annotated[str, example("Acme single sign-on")] | None
    """The name of the provider; null if there is none."""
    domain_verified: Annotated[bool, example(True)]
    """Whether an organization has verified the domain."""
    auth_method: Annotated[AuthMethod, example("upstream")]
    """`upstream` for the organization's own provider, at `/auth/{connection_id}`. `oauth` for `codehost`, `websuite` or `officesuite`, at
    `/auth/{provider_name}`. `password` for this installation.
    """


@endpoint.post("/api/auth/lookup-email", caller=ANYONE, limit=AUTH, refuses=(BadRequest,), tags=("sign-in",))
async def look_up_email(call: Call[EmailLookup], postern: Postern) -> DomainSignIn:
    """Look up the sign-in method of an email address

    The result depends only on the email domain, so the response reveals nothing about accounts.
    """
    way = await postern.identity.realms.way_in(email_field(call.body.email, postern.foundation.email_syntax))
    realm = way.realm
    led = realm is not None and way.leads_to_provider
    return DomainSignIn(
        connection_id=realm.own_provider if realm is not None and led else None,
        provider_name=(way.provider_name or None) if led else None,
        domain_verified=realm is not None,
        auth_method=way.method,
    )


class RefreshRequest(msgspec.Struct, frozen=True):
    """The refresh token to exchange."""

    refresh_token: Annotated[Token, example("5vXkS0mJtq1WcR8nZbYd2LhE7aPoGuKfZ3iN4wTqB9s")]
    """The latest refresh token of the session."""


class RefreshedTokens(msgspec.Struct, frozen=True):
    """New tokens for the same session."""

    access_token: AccessTokenText
    refresh_token: RefreshTokenText
    expires_in: ExpiresIn
    token_type: Annotated[str, example("Bearer")]
    """Always `Bearer`."""


@endpoint.post(
    "/api/auth/refresh",
    caller=ANYONE,
    limit=AUTH,
    refuses=(BadRequest, Unauthorized, Forbidden, OrganizationNotActive, SecondFactorRequired, TermsRequired),
    reads=(DEVICE_TOKEN,),
    tags=("sign-in",),
)
async def refresh_session(call: Call[RefreshRequest], postern: Postern) -> RefreshedTokens:
    """Refresh a session

    Exchanges a refresh token for new tokens. Each refresh token works once. If the response is lost, repeat the request within 10 seconds
    from the same device: you get the same new refresh token. If an old refresh token is sent later, or from another device, the session is
    revoked. An application with a client secret or keys refreshes at the token endpoint instead, because it must authenticate.
    """
    pair = await postern.identity.sessions.refresh(call.body.refresh_token, call.device)
    return RefreshedTokens(pair.access_token.reveal(), pair.refresh_token.reveal(), pair.expires_in, "Bearer")


@endpoint.post("/api/auth/logout", caller=LEAVING, limit=AUTH, tags=("sign-in",))
async def sign_out(call: Call[None, None, None, Leaving], postern: Postern) -> Message:
    """Sign out

    From the next request, the session's access and refresh tokens are rejected. All sessions that were opened from this session are
    revoked, too, including those in an organization and impersonations. The request can be repeated safely.
    """
    leaving = call.caller
    await postern.identity.sessions.sign_out(leaving.session, leaving.actor)
    return Message("You are signed out.")


class ReauthenticationProof(msgspec.Struct, frozen=True):
    """A password, an MFA code or a passkey."""

    password: Password | None = None
    """Your password, if you do not have MFA."""
    code: Annotated[str, msgspec.Meta(min_length=1, max_length=64, examples=["492039"])] | None = None
    """The 6-digit code from an authenticator app, or a backup code."""
    passkey: AssertionCredential | None = None
    """The result of a passkey request with the options of `POST /api/auth/reauthenticate/options`. A passkey counts as two factors."""


@endpoint.post(
    "/api/auth/reauthenticate",
    caller=OWN_PERSON,
    limit=(AUTH, LOGIN),
    refuses=(BadRequest, ProviderRequired, RateLimited, Overloaded),
    reads=(DEVICE_TOKEN, DEVICE_TRUST_TOKEN),
    tags=("sign-in",),
)
async def reauthenticate(call: Call[ReauthenticationProof], postern: Postern) -> Message:
    """Reauthenticate

    Some changes require a recent sign-in or reauthentication. Without one, the response is `REAUTHENTICATION_REQUIRED`. After this request,
    the session of your token counts as recently authenticated: repeat the change. If you have MFA, send a `code`, otherwise your
    `password`. A `passkey` replaces both. If you have none of them, sign in again. The limits of sign-in apply, and failures are logged.
    """
    body = call.body
    if sum(given is not None for given in (body.password, body.code, body.passkey)) != 1:
        raise BadRequest("Send one of password, code and passkey")
    if body.password is not None:
        await postern.identity.reauthentication.with_password(call.caller, body.password, call.client, call.actor)
    elif body.code is not None:
        await postern.identity.reauthentication.with_code(call.caller, body.code, call.client, call.actor)
    elif body.passkey is not None:
        await postern.identity.reauthentication.with_passkey(call.caller, body.passkey.assertion(), call.client, call.actor)
    return Message("Your identity is verified again.")


@endpoint.post("/api/auth/reauthenticate/options", caller=OWN_PERSON, limit=AUTH, refuses=(BadRequest,), tags=("sign-in",))
async def begin_passkey_proof(call: Call, postern: Postern) -> PasskeyRequestOptions:
    """Create the options for a passkey reauthentication

    Send the result of `navigator.credentials.get()` as `passkey` to `POST /api/auth/reauthenticate`, in the same session. If the base URL
    of the installation is an IP address, passkeys are not available, and the response is 400.
    """
    caller = call.caller
    options = await postern.identity.passkey_proofs.options(Ceremony.PROVE, bound_to_session(caller.session), caller.user)
    return request_options(options)
