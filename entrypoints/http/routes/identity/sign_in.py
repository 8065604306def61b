"""Sign-in by password, second factor or mailed link; where a mail domain signs in; sessions, and the fresh proof within one."""

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
    """Email address and password, and the service to sign in to."""

    email: Annotated[_EmailText, example("ada@example.org")]
    """The account's email address."""
    password: Password
    """The account's password."""
    org_slug: Annotated[Slug, example("acme")] | None = None
    """The organization of the service to sign in to. Without `service_slug`, this field has no effect."""
    service_slug: Annotated[Slug, example("billing")] | None = None
    """The service to sign in to. The tokens are for it, and the account becomes a user of it."""
    saml_state: Annotated[str, msgspec.Meta(max_length=4096, examples=["q3vT8nLx"])] | None = None
    """The `state` of a SAML request that waits for a sign-in. The tokens are then for its service, and the person continues to
    `saml_redirect_url`. The browser that began the request gets its answer, so never take the `state` from a link that someone else may
    have sent.
    """


class LoginTokens(msgspec.Struct, frozen=True):
    """The tokens of a new session, or a pre-auth token if MFA is needed."""

    access_token: AccessTokenText
    """The access token. If `mfa_required` is true it is a pre-auth token, which only `POST /api/auth/mfa/verify` accepts."""
    refresh_token: RefreshTokenText
    """The refresh token; empty if `mfa_required` is true."""
    expires_in: ExpiresIn
    mfa_required: bool | UnsetType = UNSET
    """True if MFA is needed; absent otherwise."""
    saml_redirect_url: Annotated[str, example("https://id.example.org/ui/saml?flow=018f3c5a-7b1e-7c3d-9f4a-2b6c8d0e1f23")] | UnsetType = (
        UNSET
    )
    """With `saml_state`: the URL at which the person's browser continues to the service provider."""
    terms_pending: Sequence[PendingTermsRecord] | UnsetType = UNSET
    """Terms that the person has not accepted: of the installation and of the organization that the sign-in leads to, or, at a sign-in on
    the platform, of all that the person belongs to. `POST /api/user/terms` accepts them. Absent if there are none.
    """


class SecondFactor(msgspec.Struct, frozen=True):
    """A code of MFA."""

    code: Annotated[str, msgspec.Meta(min_length=1, max_length=64, examples=["492039"])]
    """The six digits of an authenticator, or a backup code."""
    preauth_token: Annotated[Token, example("eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiI3YyJ9.c2ln")] | None = None
    """The pre-auth token, if you do not send it in the `Authorization` header."""
    trust_device: bool = False
    """Whether this device may skip MFA from now on, for as long as the organization allows."""
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
    """With this token the device may skip MFA for a while. Present if you asked for trust; browsers also get it as a cookie."""
    saml_redirect_url: Annotated[str, example("https://id.example.org/ui/saml?flow=018f3c5a-7b1e-7c3d-9f4a-2b6c8d0e1f23")] | UnsetType = (
        UNSET
    )
    """If the sign-in was for a SAML request: the URL at which the person's browser continues to the service provider."""
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
    """Sign in with email address and password

    The answer's `X-Device-Token` header identifies this device; browsers also get it as a cookie. Send it with the next sign-in. If the
    account has MFA and the device is not trusted, you get a pre-auth token instead of a session: exchange it at
    `POST /api/auth/mfa/verify`. If the people of the address's domain sign in at a provider, the response is 403, whatever the password:
    `POST /api/auth/lookup-email` names the provider. While someone in your network tries passwords over many accounts, answers wait for up
    to four seconds, and where several wait already the response is 429. Neither happens to a device that sends its device token.
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

    Send a code, and the pre-auth token in the `Authorization` header or in the body. Returns the tokens of a session. If the sign-in by
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


class MagicLinkRequest(msgspec.Struct, frozen=True):
    """The email address of an account, and the destination of the link."""

    email: EmailText
    """The account's email address."""
    org_slug: Annotated[Slug, example("acme")] | None = None
    """The organization whose branding the email gets."""
    service_slug: Annotated[Slug, example("shop")] | None = None
    """A service of this organization. The link leads there once the person is signed in; without a service, to the account pages."""
    redirect_uri: Annotated[str, msgspec.Meta(max_length=2000), example("https://shop.example/callback")] | None = None
    """One of the service's redirect URIs; the first one by default. The authorization code goes there."""
    state: Annotated[str, msgspec.Meta(max_length=1000), example("af0ifjsldkj")] | None = None
    """A text that the redirect URI gets back with the code."""


@endpoint.post(
    "/api/auth/magic-link",
    caller=ANYONE,
    limit=(AUTH, FORGOT_PASSWORD),
    refuses=(BadRequest,),
    reads=PUZZLE_HEADERS,
    tags=("sign-in",),
)
async def request_magic_link(call: Call[MagicLinkRequest], postern: Postern) -> Message:
    """Request a magic link by email

    The link works once, within 15 minutes, in any browser. The link opens a page whose button signs the person in, and asks for MFA if
    there is one. The response is always the same. No mail is sent if the address has no account, if no one has verified the address yet, or
    if one of the account's organizations has turned sign-in links off. A link can lead only to a service that has a client secret or keys,
    because the codes of other services need a code challenge.
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
    """An email address."""

    email: EmailText
    """The email address that someone wants to sign in with."""


class DomainSignIn(msgspec.Struct, frozen=True, kw_only=True):
    """How the people of a domain sign in. Two addresses of a domain get the same answer, whether or not they have accounts."""

    connection_id: Annotated[UUID, example("018f3c5a-7b1e-7c3d-9f4a-2b6c8d0e1f23")] | None
    """The ID of the organization's own provider that the domain's people use; null if they use another provider, or none."""
    provider_name: Annotated[str, example("Acme single sign-on")] | None
    """The name of the provider; null if there is none."""
    domain_verified: Annotated[bool, example(True)]
    """Whether an organization has verified that it owns the domain."""
    auth_method: Annotated[AuthMethod, example("upstream")]
    """`upstream`: at the organization's own provider, by `/auth/{connection_id}`. `oauth`: at `codehost`, `websuite` or `officesuite`, by
    `/auth/{provider_name}`. `password`: at this installation.
    """


@endpoint.post("/api/auth/lookup-email", caller=ANYONE, limit=AUTH, refuses=(BadRequest,), tags=("sign-in",))
async def look_up_email(call: Call[EmailLookup], postern: Postern) -> DomainSignIn:
    """Look up the sign-in method of an email domain

    Only the domain decides, so the answer says nothing about accounts.
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
    """Exchange a refresh token for new tokens

    Each refresh token works once. If you lost the answer, ask again within ten seconds from the same device: you get the same new refresh
    token. If someone sends an old refresh token later, or from elsewhere, the session ends. An application with a client secret or keys
    refreshes at the token endpoint instead, because it must authenticate.
    """
    pair = await postern.identity.sessions.refresh(call.body.refresh_token, call.device)
    return RefreshedTokens(pair.access_token.reveal(), pair.refresh_token.reveal(), pair.expires_in, "Bearer")


@endpoint.post("/api/auth/logout", caller=LEAVING, limit=AUTH, tags=("sign-in",))
async def sign_out(call: Call[None, None, None, Leaving], postern: Postern) -> Message:
    """Sign out

    The session's access and refresh tokens stop working with the next request. So do the tokens of every session that was opened from this
    session, in an organization or in another user's name. The request can be repeated safely.
    """
    leaving = call.caller
    await postern.identity.sessions.sign_out(leaving.session, leaving.actor)
    return Message("You are signed out.")


class ReauthenticationProof(msgspec.Struct, frozen=True):
    """One of a password, a code and a passkey."""

    password: Password | None = None
    """Your password, if you have no second factor."""
    code: Annotated[str, msgspec.Meta(min_length=1, max_length=64, examples=["492039"])] | None = None
    """The six digits of an authenticator, or a backup code."""
    passkey: AssertionCredential | None = None
    """A passkey, used with the options of `POST /api/auth/reauthenticate/options`. The passkey proves both factors."""


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

    Some changes need a recent sign-in or reauthentication. Without one the answer is `REAUTHENTICATION_REQUIRED`. This endpoint renews the
    proof of your token's session; then repeat the change. If you have MFA, send a `code`, otherwise your `password`. A `passkey` stands for
    both. If you have none of them, sign in again. The limits of sign-in apply, and failures are logged.
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
    """Get the passkey options for a reauthentication

    Send the browser's answer as `passkey` to `POST /api/auth/reauthenticate`, in the same session. If the base URL of the installation is
    an IP address, passkeys are impossible, and the response is 400.
    """
    caller = call.caller
    options = await postern.identity.passkey_proofs.options(Ceremony.PROVE, bound_to_session(caller.session), caller.user)
    return request_options(options)
