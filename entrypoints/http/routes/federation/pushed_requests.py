"""Pushed authorization requests (RFC 9126): an application leaves its request here before it sends the person along."""

from typing import Annotated, Final

import msgspec

from core.domain.federation.oauth.authorization_parameters import LONGEST, LONGEST_HINT, Parameters
from core.domain.federation.oauth.authorizations import AuthorizationRefused, UnknownRecipient
from core.domain.federation.oauth.metadata import PUSHED_AUTHORIZATION_ENDPOINT
from core.domain.services.redirect_uris import LONGEST_URI
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import Form
from entrypoints.http.machinery.callers import CLIENT
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.clients import COUNTS, ClientFields, authenticated
from entrypoints.http.machinery.cors import Origins
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.error_shapes import OAUTH
from entrypoints.http.machinery.fields import example
from entrypoints.http.machinery.limits import AUTH, UNLIMITED
from entrypoints.http.refused_authorizations import refused_on_arrival

_Text = Annotated[str, msgspec.Meta(max_length=LONGEST)] | None


class RequestFields(ClientFields, frozen=True, kw_only=True):
    """The parameters of the authorization request, and what the client authenticates with."""

    redirect_uri: Annotated[str, msgspec.Meta(max_length=LONGEST_URI), example("https://billing.acme.example/callback")] | None = None
    """Where the person and the answer go: one of the service's redirect URIs, byte for byte."""
    response_type: Annotated[str, msgspec.Meta(max_length=LONGEST), example("code")] | None = None
    """Must be `code`."""
    scope: Annotated[str, msgspec.Meta(max_length=LONGEST), example("openid email")] | None = None
    """Some of `openid profile email organization groups offline_access`, separated by spaces."""
    state: _Text = None
    """It comes back with the answer."""
    nonce: _Text = None
    """It comes back in the ID token."""
    code_challenge: Annotated[str, msgspec.Meta(max_length=LONGEST), example("E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM")] | None = None
    """PKCE. Only a service with a client secret or keys may do without."""
    code_challenge_method: Annotated[str, msgspec.Meta(max_length=LONGEST), example("S256")] | None = None
    """Must be `S256`."""
    response_mode: _Text = None
    """`query`, which is the default, or `form_post`."""
    prompt: _Text = None
    """`none`, or some of `login`, `consent`, `select_account` and `create`."""
    max_age: _Text = None
    """How many seconds ago the person may have signed in."""
    login_hint: _Text = None
    """The address of the person that is expected."""
    acr_values: _Text = None
    """How surely the person must be who they say they are."""
    ui_locales: _Text = None
    """The languages that the pages should speak, best first."""
    claims: Annotated[str, msgspec.Meta(max_length=LONGEST), example('{"userinfo":{"email":{"essential":true}}}')] | None = None
    """Single claims, as JSON (OpenID Connect Core section 5.5). Each asks for the scope that tells it."""
    id_token_hint: Annotated[str, msgspec.Meta(max_length=LONGEST_HINT)] | None = None
    """An ID token of the person that is expected."""
    request: _Text = None
    """Request objects are not supported."""
    request_uri: _Text = None
    """A pushed request cannot name another one."""
    registration: _Text = None
    """It is not supported."""


class PushedRequestName(msgspec.Struct, frozen=True):
    """What the request is called from now on."""

    request_uri: Annotated[str, example("urn:ietf:params:oauth:request_uri:6esc_11ACC5bwc014ltc14eY22cDxLHXcJ5dGMXcW9o")]
    """Send the person to `/oauth/authorize` with this and your `client_id`, and nothing else. It works once."""
    expires_in: Annotated[int, example(60)]
    """How many seconds you have."""


_FORM: Final = Form(limit=16 << 10, most_fields=50)


@endpoint.post(
    PUSHED_AUTHORIZATION_ENDPOINT,
    caller=CLIENT,
    limit=UNLIMITED,
    counts=COUNTS,
    refuses=(AuthorizationRefused, UnknownRecipient),
    accepts=_FORM,
    errors=OAUTH,
    origins=Origins.CLIENTS,
    status=201,
    tags=("oauth",),
)
async def push_authorization_request(call: Call[RequestFields], postern: Postern) -> PushedRequestName:
    """Leave an authorization request here

    The request is checked as at `/oauth/authorize`, but before anybody sees a page, and nothing of it goes through the browser. The client
    authenticates as at the token endpoint; a public one says who it is.
    """
    client = await authenticated(call, postern)
    if client.is_public:
        await call.request.count(AUTH)
    fields = call.body
    given = ((name, getattr(fields, name)) for name in fields.__struct_fields__ if name not in _OF_CLIENT)
    parameters = Parameters((name, value) for name, value in given if isinstance(value, str))
    try:
        pushed = await postern.federation.pushed_requests.push(parameters, client.registered.client)
    except (AuthorizationRefused, UnknownRecipient) as refusal:
        refused_on_arrival(postern, parameters, refusal, client.registered.client)
        raise
    return PushedRequestName(pushed.uri, int(pushed.lifetime.total_seconds()))


# The client is the one that has authenticated, by whatever it was named.
_OF_CLIENT: Final = frozenset(ClientFields.__struct_fields__)
