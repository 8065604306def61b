"""Authenticate applications by one of OAuth's methods, in the header or in the body, under rate limits."""

from base64 import b64decode
from collections.abc import Sequence
from typing import Annotated, Any, Final
from urllib.parse import unquote_plus

import msgspec

from core.domain.errors import Refusal, Unauthorized
from core.domain.federation.oauth.clients import LONGEST_ASSERTION, LONGEST_SECRET, AuthenticatedClient, ClientCredentials
from core.domain.federation.oauth.consents import UnplacedClient
from core.domain.federation.oauth.refusals import client_refused
from core.domain.secrets import Token
from core.domain.services.clients import LONGEST_OPEN_ID
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.calls import Call, Request
from entrypoints.http.machinery.fields import example
from entrypoints.http.machinery.limits import AUTH, CLIENT, DEVICE_FLOW

COUNTS: Final = (AUTH, DEVICE_FLOW, CLIENT)
# A client id and a secret of the greatest length, both percent-encoded and then in base64.
_LONGEST_BASIC: Final = 4 * (LONGEST_OPEN_ID + LONGEST_SECRET)
_LONGEST_TYPE: Final = 100


class ClientFields(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a body by which a client authenticates."""

    client_id: Annotated[str, msgspec.Meta(max_length=LONGEST_OPEN_ID), example("0199d3a0-0000-7000-8000-000000000001")] | None = None
    """The client ID of the service, the URL of the client ID metadata document, or the ID from dynamic client registration. Omit
    `client_id` if the header or the assertion identifies the client.
    """
    client_secret: Token | None = None
    """A client secret (`client_secret_post`), unless the header contains the secret."""
    client_assertion: Annotated[str, msgspec.Meta(max_length=LONGEST_ASSERTION)] | None = None
    """A JSON Web Token, signed with your client's private key (`private_key_jwt`, RFC 7523)."""
    client_assertion_type: Annotated[str, msgspec.Meta(max_length=_LONGEST_TYPE)] | None = None
    """Always `urn:ietf:params:oauth:client-assertion-type:jwt-bearer`. Required with `client_assertion`."""


async def credentials(call: Call[Any, Any, Any, Any], postern: Postern) -> ClientCredentials:
    """The client's credentials. Raises `BadRequest`, `Unauthorized`, `RateLimited`."""
    try:
        shown = shown_credentials(call, postern)
    except Refusal as refusal:
        await count_refusal(call.request, refusal)
        raise
    call.request.client_id = shown.client
    return shown


def shown_credentials(call: Call[Any, Any, Any, Any], postern: Postern) -> ClientCredentials:
    """The same, without counting a refusal. Raises `BadRequest`, `Unauthorized`."""
    fields: ClientFields = call.body
    return postern.federation.clients.credentials(
        basic=_basic(call.request),
        named=said(fields.client_id),
        secret=said(fields.client_secret),
        assertion=said(fields.client_assertion),
        assertion_type=said(fields.client_assertion_type),
    )


async def credentials_if_any(call: Call[Any, Any, Any, Any], postern: Postern) -> ClientCredentials | None:
    """The client's credentials, for endpoints where a client need not authenticate. None when the request has none."""
    fields: ClientFields = call.body
    brought = (fields.client_id, fields.client_secret, fields.client_assertion, fields.client_assertion_type)
    if call.request.header(b"authorization") is None and not any(map(said, brought)):
        return None
    return await credentials(call, postern)


async def needed_credentials(call: Call[Any, Any, Any, Any], postern: Postern) -> ClientCredentials:
    """The client's credentials, for endpoints where every caller is a client. A request without credentials is refused (RFC 6749 section
    5.2).
    """
    shown = await credentials_if_any(call, postern)
    if shown is None:
        refusal = client_refused("nothing says which client it is")
        await count_refusal(call.request, refusal)
        raise refusal
    return shown


async def authenticated(call: Call[Any, Any, Any, Any], postern: Postern) -> AuthenticatedClient:
    """The authenticated client. The request of a confidential client counts under the client's own bucket. For a public client, the calling
    function must count the request. Raises `BadRequest`, `Unauthorized`, `OrganizationNotActive`, `RateLimited`.
    """
    return await authenticated_by(await credentials(call, postern), call, postern)


async def authenticated_by(
    shown: ClientCredentials, call: Call[Any, Any, Any, Any], postern: Postern, unplaced: UnplacedClient | None = None
) -> AuthenticatedClient:
    """As `authenticated`, when the credentials have been read already. An `unplaced` client authenticates by what it says of itself."""
    clients = postern.federation.clients
    try:
        client = await (clients.authenticate(shown) if unplaced is None else clients.confirm(unplaced.registered(), shown))
    except Refusal as refusal:
        await count_refusal(call.request, refusal)
        raise
    if not client.is_public:
        call.request.count_client(CLIENT)
    return client


async def count_refusal(request: Request, refusal: Refusal) -> None:
    """Count the refusal by the client's address. A failed authentication counts also under `DEVICE_FLOW`. Raises `RateLimited`."""
    await request.count(*((AUTH, DEVICE_FLOW) if isinstance(refusal, Unauthorized) else (AUTH,)))


def said(value: Any) -> Any:
    """The value, or None when the value is empty: a field without a value counts as left out (RFC 6749 section 3.2)."""
    if value is None:
        return None
    text = value.reveal() if isinstance(value, Token) else value
    return value if text else None


def all_said(values: Sequence[str]) -> list[str]:
    """The values of a field that a client may repeat, without the empty ones."""
    return list(filter(None, values))


def _basic(request: Request) -> tuple[str, Token] | None:
    """The client id and secret in the header. The client form-urlencodes both before joining them (RFC 6749 section 2.3.1)."""
    header = request.header(b"authorization")
    if header is None:
        return None
    scheme, _, encoded = header.partition(b" ")
    if scheme.lower() != b"basic":
        # RFC 6749 section 5.2: a client that sends this header gets a 401, whose `WWW-Authenticate` names the right scheme.
        raise client_refused("the Authorization header is of another scheme")
    encoded = encoded.strip()
    if len(encoded) > _LONGEST_BASIC:
        raise client_refused("the Authorization header is too long")
    try:
        name, colon, secret = b64decode(encoded, validate=True).decode("ascii").partition(":")
        pair = unquote_plus(name, errors="strict"), Token(unquote_plus(secret, errors="strict"))
    except ValueError:
        raise client_refused("the Authorization header cannot be read") from None
    if not colon:
        raise client_refused("the Authorization header has no colon")
    return pair
