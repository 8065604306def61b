"""Signing in: with a password, and with a second factor where there is one."""

from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from core.domain.email import Email
from core.domain.errors import BadRequest, NotFound, OrganizationNotActive, Overloaded, RateLimited, Unauthorized
from core.domain.secrets import Password, Token
from core.domain.sign_in import AwaitingSecondFactor, SignedIn, service_named
from entrypoints.bootstrap import Services
from entrypoints.http.answers import Answer
from entrypoints.http.callers import ANYONE, PREAUTHENTICATED
from entrypoints.http.calls import Call
from entrypoints.http.device_cookies import device_headers
from entrypoints.http.endpoints import endpoint
from entrypoints.http.fields import Slug
from entrypoints.http.limits import AUTH, LOGIN, MFA_VERIFY

# RFC 5321 section 4.5.3.1: 64 octets, an @, 255 octets.
_EmailText = Annotated[str, msgspec.Meta(min_length=1, max_length=320)]


class Login(msgspec.Struct, frozen=True):
    """With `org_slug` and `service_slug` one signs in to that service, and is a user of it from then on: the tokens are for it. An
    organization alone has no effect, and nor has `saml_state` yet.
    """

    email: _EmailText
    password: Password
    org_slug: Slug | None = None
    service_slug: Slug | None = None
    saml_state: Annotated[str, msgspec.Meta(max_length=4096)] | None = None


class LoginTokens(msgspec.Struct, frozen=True):
    """`expires_in` is the access token's, in seconds. With `mfa_required` the access token is a pre-auth token, which opens nothing but
    `POST /api/auth/mfa/verify`, and the refresh token is empty.
    """

    access_token: str
    refresh_token: str
    expires_in: int
    mfa_required: bool | UnsetType = UNSET


class SecondFactor(msgspec.Struct, frozen=True):
    """`code` is one of an authenticator, or a backup code. `preauth_token` may stand here instead of in the `Authorization` header."""

    code: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    preauth_token: Token | None = None
    trust_device: bool = False


class Tokens(msgspec.Struct, frozen=True):
    """`device_trust_token`, when trust was asked for: with it this device may skip the second factor for a while. Browsers get it as a
    cookie too.
    """

    access_token: str
    refresh_token: str
    expires_in: int
    token_type: str
    device_trust_token: str | UnsetType = UNSET


@endpoint.post(
    "/api/auth/login",
    caller=ANYONE,
    limit=(AUTH, LOGIN),
    refuses=(BadRequest, Unauthorized, OrganizationNotActive, NotFound, RateLimited, Overloaded),
    tags=("sign-in",),
)
async def sign_in(call: Call[Login], services: Services) -> Answer[LoginTokens]:
    """Sign in with e-mail address and password

    The answer's `X-Device-Token` header, which browsers also get as a cookie, is what this device is recognised by: send it with the next
    sign-in. Whoever has a second factor gets a pre-auth token instead, unless the device is trusted.
    """
    body = call.body
    service = service_named(body.org_slug or "", body.service_slug or "")
    result = await services.sign_in.with_password(Email(body.email), body.password, call.client, service)
    if isinstance(result, AwaitingSecondFactor):
        return Answer(LoginTokens(result.preauth_token.reveal(), "", result.expires_in, mfa_required=True), 200)
    pair = result.tokens
    return Answer(LoginTokens(pair.access_token.reveal(), pair.refresh_token.reveal(), pair.expires_in), 200, _headers(result, services))


@endpoint.post(
    "/api/auth/mfa/verify",
    caller=PREAUTHENTICATED,
    limit=(AUTH, MFA_VERIFY),
    refuses=(BadRequest, OrganizationNotActive, RateLimited),
    tags=("sign-in",),
)
async def verify_second_factor(call: Call[SecondFactor, None, None, Token | None], services: Services) -> Answer[Tokens]:
    """Sign in with the second factor

    Exchanges the pre-auth token, from the `Authorization` header or the body, and a code for the tokens of a session: in the service that
    the password was given for, if it was for one. The fifth wrong code ends the pre-auth token.
    """
    body = call.body
    preauth_token = call.presented or body.preauth_token
    if preauth_token is None:
        raise Unauthorized
    result = await services.sign_in.with_second_factor(preauth_token, body.code, call.client, trust_device=body.trust_device)
    pair, trust_token = result.tokens, result.remembered.trust_token
    tokens = Tokens(
        pair.access_token.reveal(),
        pair.refresh_token.reveal(),
        pair.expires_in,
        "Bearer",
        UNSET if trust_token is None else trust_token.reveal(),
    )
    return Answer(tokens, 200, _headers(result, services))


def _headers(signed_in: SignedIn, services: Services) -> tuple[tuple[bytes, bytes], ...]:
    return device_headers(signed_in.remembered, services.public_url)
