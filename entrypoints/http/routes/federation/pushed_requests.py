"""Pushed authorization requests (RFC 9126): an application deposits its request here before it sends the person to sign in."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

from core.domain.federation.oauth.authorization_parameters import LONGEST, LONGEST_HINT, Parameters
from core.domain.federation.oauth.authorizations import AuthorizationRefused, UnknownRecipient
from core.domain.federation.oauth.clients import AuthenticationMethod
from core.domain.federation.oauth.oidc import PUSHED_AUTHORIZATION_ENDPOINT
from core.domain.federation.oauth.resources import MOST_RESOURCES
from core.domain.key_proofs import KeyProofRefused, NonceNeeded
from core.domain.services.clients import LONGEST_URI
from entrypoints.bootstrap import Postern
from entrypoints.http.key_proofs import shown_key
from entrypoints.http.machinery.accepts import Form
from entrypoints.http.machinery.answers import DPOP, Origins
from entrypoints.http.machinery.callers import CLIENT
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.clients import COUNTS, ClientFields, authenticated_by, credentials
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.errors import OAUTH
from entrypoints.http.machinery.fields import Line, example
from entrypoints.http.machinery.limits import AUTH, UNLIMITED
from entrypoints.http.refusals import refused_on_arrival
from entrypoints.http.routes.federation.unplaced_clients import of_request

_Text = Annotated[str, msgspec.Meta(max_length=LONGEST)] | None


class PushedAuthorizationRequest(ClientFields, frozen=True, kw_only=True):
    """The parameters of the authorization request, and the client's credentials."""

    redirect_uri: Annotated[str, msgspec.Meta(max_length=LONGEST_URI), example("https://billing.acme.example/callback")] | None = None
    """The URI that receives the authorization response. It must match one of the service's redirect URIs exactly."""
    response_type: Annotated[str, msgspec.Meta(max_length=LONGEST), example("code")] | None = None
    """Must be `code`."""
    scope: Annotated[str, msgspec.Meta(max_length=LONGEST), example("openid email")] | None = None
    """The requested scopes, separated by spaces: any of `openid profile email organization groups offline_access`, and scopes of the
    requested APIs.
    """
    resource: Annotated[Sequence[Line], msgspec.Meta(max_length=MOST_RESOURCES), example(["https://api.acme.example/orders"])] = ()
    """The identifiers of the APIs that the application requests tokens for (RFC 8707)."""
    state: _Text = None
    """An opaque value that the authorization response repeats."""
    nonce: _Text = None
    """A value that the ID token repeats."""
    code_challenge: Annotated[str, msgspec.Meta(max_length=LONGEST), example("E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM")] | None = None
    """The PKCE code challenge. Optional for a service with a client secret or keys."""
    code_challenge_method: Annotated[str, msgspec.Meta(max_length=LONGEST), example("S256")] | None = None
    """Must be `S256`."""
    dpop_jkt: Annotated[str, msgspec.Meta(max_length=LONGEST), example("0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I")] | None = None
    """The thumbprint of the key that the code is bound to (RFC 9449 section 10). A proof in `DPoP` has the same effect."""
    response_mode: _Text = None
    """`query` (the default), `fragment`, which requires PKCE, or `form_post`."""
    prompt: _Text = None
    """`none`, or any of `login`, `consent`, `select_account` and `create`."""
    max_age: _Text = None
    """The maximum age of the person's authentication, in seconds."""
    login_hint: _Text = None
    """The email address of the person whom the application expects."""
    acr_values: _Text = None
    """The acceptable authentication levels."""
    ui_locales: _Text = None
    """The preferred languages of the pages, in order of preference."""
    claims: Annotated[str, msgspec.Meta(max_length=LONGEST), example('{"userinfo":{"email":{"essential":true}}}')] | None = None
    """The requested individual claims, as JSON (OpenID Connect Core section 5.5). Each claim requests the scope that includes it."""
    id_token_hint: Annotated[str, msgspec.Meta(max_length=LONGEST_HINT)] | None = None
    """An ID token of the person whom the application expects."""
    request: _Text = None
    """Not supported. Postern does not accept request objects."""
    request_uri: _Text = None
    """Rejected. A pushed request cannot reference another pushed request."""
    registration: _Text = None
    """Not supported."""


class PushedAuthorizationResponse(msgspec.Struct, frozen=True):
    """The reference to the pushed request."""

    request_uri: Annotated[str, example("urn:ietf:params:oauth:request_uri:6esc_11ACC5bwc014ltc14eY22cDxLHXcJ5dGMXcW9o")]
    """The request URI. Send the person to `/oauth/authorize` with only this URI and your `client_id`. The URI can be opened any number of
    times, until a code has been issued.
    """
    expires_in: Annotated[int, example(60)]
    """The number of seconds until the URI expires."""


_FORM: Final = Form(limit=16 << 10, most_fields=50)


@endpoint.post(
    PUSHED_AUTHORIZATION_ENDPOINT,
    caller=CLIENT,
    limit=UNLIMITED,
    counts=COUNTS,
    refuses=(AuthorizationRefused, UnknownRecipient, KeyProofRefused, NonceNeeded),
    reads=(DPOP,),
    accepts=_FORM,
    errors=OAUTH,
    origins=Origins.CLIENTS,
    status=201,
    tags=("oauth",),
)
async def push_authorization_request(call: Call[PushedAuthorizationRequest], postern: Postern) -> PushedAuthorizationResponse:
    """Push an authorization request (PAR)

    Postern validates the request as at `/oauth/authorize`, but before a page opens. The browser carries none of the parameters. The client
    authenticates as at the token endpoint. A public client sends only its client ID.
    """
    fields = call.body
    shown = await credentials(call, postern)
    key = await shown_key(call.request, postern, is_confidential=shown.method is not AuthenticationMethod.NONE)
    try:
        shown, arrived = await of_request(shown, fields.resource, call.request, postern)
    except UnknownRecipient as refusal:
        refused_on_arrival(postern, Parameters([("client_id", shown.client)]), refusal)
        raise
    unplaced = None if arrived is None else arrived.unplaced
    client = await authenticated_by(shown, call, postern, unplaced)
    if client.is_public:
        await call.request.count(AUTH)
    given = ((name, getattr(fields, name)) for name in fields.__struct_fields__ if name not in _OF_CLIENT)
    pairs = [(name, value) for name, value in given if isinstance(value, str)]
    parameters = Parameters([*pairs, *(("resource", identifier) for identifier in fields.resource)])
    try:
        pushed = await postern.federation.pushed_requests.push(parameters, shown.client, arrived, key)
    except (AuthorizationRefused, UnknownRecipient) as refusal:
        refused_on_arrival(postern, parameters, refusal, shown.client, None if unplaced is None else unplaced.api)
        raise
    return PushedAuthorizationResponse(pushed.uri, int(pushed.lifetime.total_seconds()))


# The client's own fields do not belong to the request: authentication has already established the client.
_OF_CLIENT: Final = frozenset(ClientFields.__struct_fields__)
