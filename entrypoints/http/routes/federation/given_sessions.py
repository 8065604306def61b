"""Introspection and revocation: servers ask about the tokens that they receive, and applications give their tokens back."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec

from core.domain.errors import BadRequest, Refusal
from core.domain.federation.oauth.oidc import INTROSPECTION_ENDPOINT, REVOCATION_ALIAS, REVOCATION_ENDPOINT
from core.domain.secrets import Token
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import FormOrJson
from entrypoints.http.machinery.answers import EMPTY_OBJECT, EmptyObject, Origins
from entrypoints.http.machinery.callers import CLIENT
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.clients import COUNTS, ClientFields, authenticated_by, count_refusal, needed_credentials, said
from entrypoints.http.machinery.endpoints import Statement, endpoint
from entrypoints.http.machinery.errors import OAUTH
from entrypoints.http.machinery.fields import example
from entrypoints.http.machinery.limits import AUTH, UNLIMITED
from entrypoints.http.machinery.limits import CLIENT as CLIENT_LIMIT
from entrypoints.http.routes.federation.unplaced_clients import of_token

_LONGEST_HINT: Final = 100


class PresentedToken(ClientFields, frozen=True, kw_only=True):
    """A token to introspect or revoke, as a form or as JSON."""

    token: Annotated[Token, example("eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiI3YyJ9.c2ln")]
    """An access token or a refresh token."""
    token_type_hint: Annotated[str, msgspec.Meta(max_length=_LONGEST_HINT), example("access_token")] | None = None
    """The type of the token. Optional: Postern recognizes both types."""


class Confirmation(msgspec.Struct, frozen=True, kw_only=True):
    """The key that the token is bound to (RFC 9449 section 6.2)."""

    jkt: Annotated[str, example("0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I")]
    """The thumbprint of the key (RFC 7638). A request with the token needs a proof of possession of the key."""


class Introspection(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The claims of a token (RFC 7662). For an inactive token, only `active` is present."""

    active: bool
    """Whether the token is valid now and belongs to a service of your organization."""
    token_use: Annotated[str, example("access")] | None = None
    """The use of the token: `access`, `refresh`, `resource` (for an API), `exchanged` (a service acts at an API for the person), `client`
    (an application's own token), or `impersonation`.
    """
    token_type: Annotated[str, example("Bearer")] | None = None
    """The type of an access token: `Bearer`, or `DPoP` if requests need a proof of possession of its key."""
    cnf: Confirmation | None = None
    """The key that the token is bound to, if there is one."""
    scope: Annotated[str, example("openid email")] | None = None
    """The granted scopes."""
    client_id: Annotated[str, example("0199d3a0-0000-7000-8000-000000000001")] | None = None
    """The client ID of the application that the token was issued to."""
    username: Annotated[str, example("ada@example.org")] | None = None
    """The person's email address."""
    sub: Annotated[str, example("0199d3a0-0000-7000-8000-000000000002")] | None = None
    """The person's ID. For an application's own token: the client ID."""
    aud: Annotated[str, example("service:acme/billing")] | None = None
    """The audience of the token."""
    iss: Annotated[str, example("https://sso.example.org")] | None = None
    """The issuer of the token: this installation."""
    exp: Annotated[int, example(1_780_000_900)] | None = None
    """When the token expires, in seconds since 1970."""
    iat: Annotated[int, example(1_780_000_000)] | None = None
    """When the token was issued, in seconds since 1970."""
    jti: Annotated[str, example("0199d3a0-0000-7000-8000-000000000003")] | None = None
    """The token's ID."""
    sid: Annotated[str, example("0199d3a0-0000-7000-8000-000000000004")] | None = None
    """The session's ID."""
    org: Annotated[str, example("acme")] | None = None
    """The organization's slug."""
    org_id: Annotated[str, example("0199d3a0-0000-7000-8000-000000000005")] | None = None
    """The organization's ID. After an organization is deleted, another organization can use its slug."""
    service: Annotated[str, example("billing")] | None = None
    """The service's slug."""
    service_id: Annotated[str, example("0199d3a0-0000-7000-8000-000000000006")] | None = None
    """The service's ID."""
    resource_id: Annotated[str, example("0199d3a0-0000-7000-8000-000000000007")] | None = None
    """The ID of the API that the token is for; absent if there is none."""
    amr: Annotated[Sequence[str], example(["pwd"])] | None = None
    """The authentication methods that the person used (RFC 8176)."""
    acr: Annotated[str, example("urn:postern:acr:one-factor")] | None = None
    """The authentication level that was reached."""
    auth_time: Annotated[int, example(1_780_000_000)] | None = None
    """When the person authenticated, in seconds since 1970."""
    act: dict[str, Any] | None = None
    """The actor, if someone acts for the person (RFC 8693 section 4.1). For an exchanged token: the client of the service that exchanged
    it, with the service before it in a nested `act`. For an impersonation: the platform owner.
    """


_DECLARED: Final[Statement] = {
    "caller": CLIENT,
    "limit": UNLIMITED,
    "counts": COUNTS,
    "accepts": FormOrJson(),
    "errors": OAUTH,
    "tags": ("oauth",),
}
_REVOCATION: Final[Statement] = {**_DECLARED, "origins": Origins.CLIENTS_WITH_CREDENTIALS}


@endpoint.post(INTROSPECTION_ENDPOINT, **_DECLARED)
async def introspect_token(call: Call[PresentedToken], postern: Postern) -> Introspection:
    """Introspect a token

    For servers that receive tokens of services in their own organization. The response is current: if a session was revoked, its tokens are
    inactive immediately. Only two clients can introspect a token of an API: the service that represents the API, and the token's own
    client. Public clients cannot call this.
    """
    shown = await of_token(await needed_credentials(call, postern), _token(call.body), call.request, postern)
    try:
        _, told = await postern.federation.given_sessions.introspect(shown, _token(call.body))
    except Refusal as refusal:
        await count_refusal(call.request, refusal)
        raise
    call.request.count_client(CLIENT_LIMIT)
    return Introspection(**told)  # type: ignore[arg-type]  # the token's own claims have these types


@endpoint.post(REVOCATION_ENDPOINT, **_REVOCATION)
async def revoke_token(call: Call[PresentedToken], postern: Postern) -> EmptyObject:
    """Revoke a token

    If the token belongs to the client, its session is revoked. All tokens of the session, and all tokens derived from them, are revoked,
    too. For any other token, the response is the same. `/oauth/revoke` is an alias of this endpoint.
    """
    return await _revoke(call, postern)


@endpoint.post(REVOCATION_ALIAS, **_REVOCATION)
async def revoke_oauth_token(call: Call[PresentedToken], postern: Postern) -> EmptyObject:
    """Revoke a token (alias)

    This is an alias of `/auth/revoke`, at the path that many clients expect. Both endpoints behave the same.
    """
    return await _revoke(call, postern)


async def _revoke(call: Call[PresentedToken], postern: Postern) -> EmptyObject:
    shown = await of_token(await needed_credentials(call, postern), _token(call.body), call.request, postern)
    client = await authenticated_by(shown, call, postern)
    if client.is_public:
        await call.request.count(AUTH)
    await postern.federation.given_sessions.revoke(client, _token(call.body), call.sender)
    return EMPTY_OBJECT


def _token(fields: PresentedToken) -> Token:
    """A field without a value counts as left out (RFC 6749 section 3.2), and `token` is required."""
    if not said(fields.token):
        raise BadRequest("token: must not be empty")
    return fields.token
