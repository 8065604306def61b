"""The token endpoint: applications, and workloads without a secret, exchange codes, refresh tokens and credentials for tokens."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Annotated, Any, Final

import msgspec

from core.domain.errors import BadRequest, RateLimited, Refusal, Unauthorized
from core.domain.federation.backchannel_requests import BackchannelExpired, BackchannelPending, BackchannelRefused, BackchannelSlowDown
from core.domain.federation.oauth.clients import AuthenticatedClient, AuthenticationMethod, ClientCredentials
from core.domain.federation.oauth.device_flow import DeviceCodeExpired, DeviceCodePending, DeviceDenied, SlowDown, TooManyPolls
from core.domain.federation.oauth.exchanges import ACCESS_TOKEN_TYPE
from core.domain.federation.oauth.grants import (
    AUTHORIZATION_CODE,
    DEVICE_CODE,
    JWT_BEARER,
    IssuedTokens,
    TokenRequest,
    grant_type,
    one_resource,
)
from core.domain.federation.oauth.oidc import TOKEN_ALIAS, TOKEN_ENDPOINT
from core.domain.federation.oauth.refusals import InvalidGrant, InvalidScope, InvalidTarget, UnauthorizedClient, UnsupportedGrantType
from core.domain.federation.oauth.resources import LONGEST_SCOPES, MOST_RESOURCES
from core.domain.identity.upstream.identity_assertions import is_identity_assertion
from core.domain.key_proofs import KeyProofMissing, KeyProofRefused, NonceNeeded
from core.domain.secrets import Token
from core.domain.services.clients import LONGEST_URI
from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.key_proofs import shown_key
from entrypoints.http.machinery.accepts import FormOrJson
from entrypoints.http.machinery.answers import DEVICE_TOKEN, DPOP, Answer, AnswerHeader, Origins
from entrypoints.http.machinery.callers import CLIENT
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.clients import (
    COUNTS,
    ClientFields,
    all_said,
    authenticated_by,
    count_refusal,
    credentials,
    credentials_if_any,
    said,
)
from entrypoints.http.machinery.endpoints import Statement, endpoint
from entrypoints.http.machinery.errors import OAUTH
from entrypoints.http.machinery.fields import AccessTokenText, ExpiresIn, Line, example
from entrypoints.http.machinery.limits import AUTH, DEVICE_FLOW, UNLIMITED
from entrypoints.http.machinery.limits import CLIENT as OF_CLIENT
from entrypoints.http.refusals import refused_token_request
from entrypoints.http.routes.federation.unplaced_clients import of_grant


async def of_workload(call: Call[Any], postern: Postern, request: TokenRequest) -> IssuedTokens:
    """The assertion authenticates the workload, so a good one counts under the bucket of the client or the key, and a refused one under the
    address that it came from.
    """
    shown = await credentials(call, postern)
    if not call.request.has_room(AUTH, OF_CLIENT):
        # Checking a signature costs more than refusing: nobody who has sent too many bad ones gets there.
        await call.request.count(AUTH)
    try:
        if shown.method is not AuthenticationMethod.NONE:
            raise BadRequest("client_id: an assertion replaces the client's credentials, so send client_id only")
        key = await shown_key(call.request, postern, is_confidential=True)
        issued = await postern.federation.workloads.exchange(replace(request, key=key), shown.client)
    except Refusal as refusal:
        await count_refusal(call.request, refusal)
        raise
    call.request.count_client(OF_CLIENT)
    return issued


_LONGEST_TYPE: Final = 100
# RFC 6749 section 5.1 demands it beside `Cache-Control`, and some clients look.
_PRAGMA: Final = AnswerHeader("Pragma", "Nothing keeps the answer (RFC 6749 section 5.1).", "no-cache")
_KEPT_NOWHERE: Final = ((b"pragma", b"no-cache"),)
_REFRESH_TOKEN: Final = "5vXkS0mJtq1WcR8nZbYd2LhE7aPoGuKfZ3iN4wTqB9s"  # noqa: S105 - an example


class TokenRequestBody(ClientFields, frozen=True, kw_only=True):
    """The grant, as a form or as JSON. `grant_type` determines which fields are used; others are ignored."""

    grant_type: Annotated[str, msgspec.Meta(max_length=_LONGEST_TYPE), example("authorization_code")] | None = None
    """`authorization_code`, `refresh_token`, `client_credentials`, `urn:ietf:params:oauth:grant-type:token-exchange`,
    `urn:ietf:params:oauth:grant-type:jwt-bearer`, `urn:openid:params:grant-type:ciba`, or `urn:ietf:params:oauth:grant-type:device_code`.
    With `device_code`, you can omit it.
    """
    code: Annotated[Token, example("qk3Z0u6n9aVtWc7sEw1pYd5xLbHf2RgTj8mKoQvNi4U")] | None = None
    """The authorization code from the redirect."""
    redirect_uri: Annotated[str, msgspec.Meta(max_length=LONGEST_URI), example("https://billing.acme.example/callback")] | None = None
    """The redirect URI of the authorization request."""
    code_verifier: Annotated[Token, example("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")] | None = None
    """The PKCE code verifier that the code challenge was derived from (RFC 7636)."""
    refresh_token: Token | None = None
    """The latest refresh token of the session."""
    device_code: Token | None = None
    """The device code (RFC 8628)."""
    auth_req_id: Annotated[Token, example("1c266114-a1be-4252-8ad1-04986c5b9ac1")] | None = None
    """With `urn:openid:params:grant-type:ciba`: the ID of the backchannel authentication request, from `POST /oauth/bc-authorize`."""
    assertion: Annotated[Token, example("eyJhbGciOiJSUzI1NiIsImtpZCI6ImEifQ.eyJzdWIiOiJyZXBvIn0.c2ln")] | None = None
    """With `urn:ietf:params:oauth:grant-type:jwt-bearer`: a signed token of a trusted issuer (RFC 7523), in place of a secret. Or the
    identity assertion (ID-JAG) of a person's identity provider, in addition to the client's credentials.
    """
    scope: Annotated[str, msgspec.Meta(max_length=LONGEST_SCOPES)] | None = None
    """With a refresh token: a subset of the granted scopes, for the new access token. With `client_credentials` and `resource`, and in a
    token exchange: scopes of the API. With `client_credentials` alone: `ssf.manage` or `ssf.read`, for the endpoints of shared signals.
    """
    resource: Annotated[Sequence[Line], msgspec.Meta(max_length=MOST_RESOURCES), example(["https://api.acme.example/orders"])] = ()
    """The identifier of the API that the access token is for (RFC 8707). At most one. Optional if only one API was granted."""
    subject_token: Token | None = None
    """In a token exchange: the access token that your API received, or that your application was issued (RFC 8693)."""
    subject_token_type: Annotated[str, msgspec.Meta(max_length=_LONGEST_TYPE), example(ACCESS_TOKEN_TYPE)] | None = None
    """With `subject_token`: always `urn:ietf:params:oauth:token-type:access_token`."""
    requested_token_type: Annotated[str, msgspec.Meta(max_length=_LONGEST_TYPE)] | None = None
    """The type of the new token. Optional: a token exchange issues only access tokens."""
    actor_token: Token | None = None
    """Rejected. The actor is the client that authenticates."""
    actor_token_type: Annotated[str, msgspec.Meta(max_length=_LONGEST_TYPE)] | None = None
    """Rejected, as `actor_token` is."""
    audience: Annotated[str, msgspec.Meta(max_length=LONGEST_URI)] | None = None
    """Rejected in a token exchange. Use `resource` for the API."""


class TokenResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The issued tokens."""

    access_token: AccessTokenText
    token_type: Annotated[str, example("Bearer")]
    """`Bearer`, or `DPoP` if the token is bound to the key of the proof in `DPoP`."""
    expires_in: ExpiresIn
    scope: Annotated[str, example("openid email")] | None = None
    """The granted scopes, including those of the API that the access token is for. Absent from an application's own token that is for no
    API.
    """
    refresh_token: Annotated[str, example(_REFRESH_TOKEN)] | None = None
    """The refresh token. Exchange it when the access token expires. Absent from the response to `client_credentials`."""
    id_token: Annotated[str, example("eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiI3YyJ9.c2ln")] | None = None
    """The ID token, which says who signed in and how. Present with the scope `openid`."""
    issued_token_type: Annotated[str, example(ACCESS_TOKEN_TYPE)] | None = None
    """The type of an exchanged token: always `urn:ietf:params:oauth:token-type:access_token`."""


_DECLARED: Final[Statement] = {
    "caller": CLIENT,
    "limit": UNLIMITED,
    "counts": COUNTS,
    "refuses": (
        *(BadRequest, InvalidGrant, InvalidScope, InvalidTarget, UnauthorizedClient, UnsupportedGrantType),
        *(DeviceCodePending, SlowDown, DeviceCodeExpired, DeviceDenied, KeyProofRefused, KeyProofMissing, NonceNeeded),
        *(BackchannelPending, BackchannelSlowDown, BackchannelExpired, BackchannelRefused),
    ),
    "reads": (DEVICE_TOKEN, DPOP),
    "sends": {200: (_PRAGMA,)},
    "accepts": FormOrJson(),
    "errors": OAUTH,
    "origins": Origins.CLIENTS_WITH_CREDENTIALS,
    "tags": ("oauth",),
}


@endpoint.post(TOKEN_ENDPOINT, **_DECLARED)
async def exchange_for_tokens(call: Call[TokenRequestBody], postern: Postern) -> Answer[TokenResponse]:
    """Request tokens

    Exchanges a grant for tokens. `mobile` and `desktop` services are public clients and send only their client ID. `web` services without a
    client secret or key do the same. All other clients authenticate. `/oauth/token` is an alias of this endpoint.

    `authorization_code`: a code works once, within a minute, for the client and redirect URI that it was issued for. The verifier must
    match the code challenge.

    `refresh_token`: a refresh token works once. The response has the next one.

    `client_credentials`: an application gets a token of its own. Other services of its organization can introspect it.

    `device_code`: a device polls every few seconds until the person approves or denies it. After `authorization_pending`, continue polling.
    After `slow_down`, add 5 seconds to the polling interval.

    `jwt-bearer`: a workload, such as a build job or a cluster, sends its own signed token as `assertion`, with the `client_id` of a
    service. It gets the same token as with `client_credentials`. With the ID of a management API key as `client_id`, it gets a token with
    that key's capabilities for 15 minutes. The service or the key must trust the issuer.

    `jwt-bearer` with an identity assertion (`typ` `oauth-id-jag+jwt`): a confidential client gets a token for one API that acts for a
    person, for 10 minutes. The connection of the person's identity provider must be allowed to issue identity assertions.

    `token-exchange`: the service that represents an API sends an access token that the API received. It gets a token for another API that
    lists the service. The new token names the actor in `act`, expires with the first token, and is not accepted by Postern's own API.

    `ciba`: a client polls for the response of the person whom it asked with `POST /oauth/bc-authorize`.

    With `resource`, the access token is for that API only: the API is its audience. Of Postern's own endpoints, only userinfo accepts it.
    An agent gets a token for at most 5 minutes, with the person as `sub` and the agent as `act.sub`.
    """
    return await _exchange(call, postern)


@endpoint.post(TOKEN_ALIAS, **_DECLARED)
async def exchange_for_oauth_tokens(call: Call[TokenRequestBody], postern: Postern) -> Answer[TokenResponse]:
    """Request tokens (alias)

    This is an alias of `/auth/token`, at the path that many clients expect. Both endpoints behave the same.
    """
    return await _exchange(call, postern)


async def _exchange(call: Call[TokenRequestBody], postern: Postern) -> Answer[TokenResponse]:
    """Exchanges a grant. A code becomes tokens in these steps; `Grants.exchange` chooses the path of the other grants.

    Steps:
    1. `_exchanged` reads the grant type. `credentials` reads the client authentication: secret, signed assertion, or none.
    2. `shown_key` verifies a DPoP proof, if there is one.
    3. `_redeemed` serves a client with a secret: `AuthorizationCodes.redeem_with_secret` looks up client and code in one statement.
    4. `Clients.confirm` checks the secret and the state of the organization.
    5. For all others, `authenticated_by` authenticates the client. `_issued` calls `Grants.exchange`, which calls the grant of the code.
    6. `claim_of` collects what the client shows: code, redirect URI, PKCE verifier, resource.
    7. `AuthorizationCodes._redeemed` prepares the session. The database finds the code, decides, and writes session, log and event.
    8. After a second use, `AuthorizationCodes._end_after` asks `second_use`, and ends the session of a stolen code.
    9. `Grants.issue` signs after the commit: `Sessions.tokens` the access token, `id_claims` and `TokenSigner.sign_id` the ID token.
    10. `refused_token_request` records a refusal, which administrators of the application can see.
    """
    try:
        return await _exchanged(call, postern)
    except Refusal as refusal:
        refused_token_request(call, postern, refusal, None if said(call.body.grant_type) is None else _request(call))
        raise


async def _exchanged(call: Call[TokenRequestBody], postern: Postern) -> Answer[TokenResponse]:
    if _is_poll(call.body):
        return _answer(call, await _polled(call, postern))
    if said(call.body.grant_type) == JWT_BEARER and not _is_of_person(call.body):
        return _answer(call, await of_workload(call, postern, _request(call)))
    request, is_code = call.request, said(call.body.grant_type) == AUTHORIZATION_CODE
    shown = await of_grant(await credentials(call, postern), said(call.body.grant_type), _given(call.body), request, postern)
    await shown_key(request, postern, is_confidential=shown.method is not AuthenticationMethod.NONE)
    # `_redeemed` looks up the client and its code in one statement. In two cases the client is looked up alone first. A client whose bucket
    # is empty must be refused before its code is used up. And an address that sends wrong secrets gets the cheaper look-up: it costs the
    # database a quarter.
    if is_code and shown.secret is not None and request.has_room(AUTH, OF_CLIENT):
        return _answer(call, await _redeemed(call, postern, shown))
    client = await authenticated_by(shown, call, postern)
    if not client.is_public:
        return _answer(call, await _issued(call, postern, client))
    if not is_code:
        await request.count(AUTH)
        return _answer(call, await _issued(call, postern, client))
    try:
        return _answer(call, await _issued(call, postern, client))
    except Refusal:
        # A request with a good code is not counted: the people of a whole office may sign in from one address.
        await request.count(AUTH)
        raise


async def _polled(call: Call[TokenRequestBody], postern: Postern) -> IssuedTokens:
    """A device asks many times: its client is looked up together with its code, in one round trip."""
    request, device_code = call.request, said(call.body.device_code)
    if device_code is None:
        await request.count(AUTH, DEVICE_FLOW)
        raise BadRequest("device_code: send the code that the device received")
    shown = await credentials_if_any(call, postern)
    has_credential = shown is not None and shown.method is not AuthenticationMethod.NONE
    if not has_credential:
        with _slowing():
            await request.count(AUTH, DEVICE_FLOW)
    # Nobody has authenticated yet: what is wrong with a proof counts by the address, and not against the client that the request names.
    key = await shown_key(request, postern, is_confidential=has_credential)
    try:
        resource = one_resource(all_said(call.body.resource))
        granted, client = await postern.federation.device_flow.redeem(device_code, shown, call.device, resource, key)
    except Unauthorized as refusal:
        if has_credential:
            await count_refusal(request, refusal)
        raise
    except Refusal:
        if has_credential:
            with _slowing():
                request.count_client(OF_CLIENT)
        raise
    if has_credential:
        # The code is used up, so an empty bucket must not cost the client its tokens, as in `_redeemed`.
        with suppress(RateLimited):
            request.count_client(OF_CLIENT)
    return await postern.federation.grants.issue(granted, client, call.request.shown_key)


@contextmanager
def _slowing() -> Iterator[None]:
    try:
        yield
    except RateLimited as refusal:
        raise TooManyPolls(retry_after=refusal.retry_after) from refusal


async def _redeemed(call: Call[TokenRequestBody], postern: Postern, shown: ClientCredentials) -> IssuedTokens:
    """A code with a secret: the client is looked up together with its code, in one round trip."""
    try:
        granted, client = await postern.federation.authorization_codes.redeem_with_secret(_request(call), shown, call.device)
    except BadRequest:
        # Only an authenticated client gets this answer, so the request counts against the client.
        call.request.count_client(OF_CLIENT)
        raise
    except Refusal as refusal:
        await count_refusal(call.request, refusal)
        raise
    # The code is used up. A request at the same moment may have emptied the bucket; that must not cost this client its tokens.
    with suppress(RateLimited):
        call.request.count_client(OF_CLIENT)
    return await postern.federation.grants.issue(granted, client, call.request.shown_key)


async def _issued(call: Call[TokenRequestBody], postern: Postern, client: AuthenticatedClient) -> IssuedTokens:
    return await postern.federation.grants.exchange(_request(call), client, call.device)


def _request(call: Call[TokenRequestBody]) -> TokenRequest:
    fields = call.body
    return TokenRequest(
        grant_type=grant_type(said(fields.grant_type)),
        code=said(fields.code),
        redirect_uri=said(fields.redirect_uri),
        code_verifier=said(fields.code_verifier),
        refresh_token=said(fields.refresh_token),
        auth_req_id=said(fields.auth_req_id),
        assertion=said(fields.assertion),
        scope=said(fields.scope),
        resources=all_said(fields.resource),
        subject_token=said(fields.subject_token),
        subject_token_type=said(fields.subject_token_type),
        actor_token=said(fields.actor_token),
        actor_token_type=said(fields.actor_token_type),
        requested_token_type=said(fields.requested_token_type),
        audience=said(fields.audience),
        key=call.request.shown_key,
    )


def _given(fields: TokenRequestBody) -> Token | None:
    """The code or refresh token of the request, by its grant type."""
    given = fields.code if said(fields.grant_type) == AUTHORIZATION_CODE else fields.refresh_token
    return given if said(given) else None


def _is_of_person(fields: TokenRequestBody) -> bool:
    assertion = fields.assertion
    return assertion is not None and is_identity_assertion(assertion.reveal())


def _is_poll(fields: TokenRequestBody) -> bool:
    named = said(fields.grant_type)
    return named == DEVICE_CODE or (named is None and said(fields.device_code) is not None)


def _answer(call: Call[TokenRequestBody], issued: IssuedTokens) -> Answer[TokenResponse]:
    call.request.acted_for = issued.acts_for
    tokens = TokenResponse(
        access_token=issued.access_token.reveal(),
        token_type="Bearer" if issued.key is None else "DPoP",
        expires_in=issued.expires_in,
        scope=issued.scope,
        refresh_token=None if issued.refresh_token is None else issued.refresh_token.reveal(),
        id_token=None if issued.id_token is None else issued.id_token.reveal(),
        issued_token_type=issued.issued_token_type,
    )
    return Answer(tokens, 200, _KEPT_NOWHERE)
