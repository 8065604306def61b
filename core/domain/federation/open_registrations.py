"""Dynamic client registration without storage (RFC 7591): the client ID is the signed metadata of the client."""

import hmac
import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, ClassVar, Final

from core.domain.errors import BadRequest
from core.domain.federation.oauth.authorizations import destination, without_port
from core.domain.federation.oauth.client_documents import READABLE, ClientDocument, client_name
from core.domain.federation.oauth.clients import AuthenticationMethod
from core.domain.federation.oauth.grants import AUTHORIZATION_CODE, REFRESH_TOKEN
from core.domain.formats import Json
from core.domain.identifiers import ClientId
from core.domain.outbound import is_metadata_host
from core.domain.rate_limits import RateLimit
from core.domain.record.events import Actor, Event, Target
from core.domain.services.clients import LONGEST_OPEN_ID, OPEN_CLIENT_IDS, is_address, redirect_uri
from core.domain.services.services import own_initiation_address
from core.frozen import Frozen

GRANTS: Final = (AUTHORIZATION_CODE, REFRESH_TOKEN)
MOST_REDIRECT_URIS: Final = 10
REGISTRATIONS: Final = RateLimit("open_registrations", burst=60, seconds_per_request=1)
"""For one address, in each process: a registration costs no look-up, so nothing has to be counted in the database."""
KEPT_FOR: Final = timedelta(days=365)
"""A replaced key still reads the ids that it has signed: programs keep their client id for good, and many never ask for another."""
AHEAD: Final = timedelta(minutes=1)
"""A new key signs only when every process has read it."""
_SAID_NOTHING: Final[Sequence[Any]] = (False, None)
"""What an id that ends early says: its tokens are not bound, and it begins no sign-in that somebody asks for elsewhere."""
_MAC_BYTES: Final = 16
_CONTEXT: Final = b"postern open registration\0"
_ORIGIN: Final = re.compile(rb"http://(?:localhost|127\.0\.0\.1|\[::1\])(?::[1-9][0-9]{0,4})?")
_ID: Final = re.compile(rf"{OPEN_CLIENT_IDS}[A-Za-z0-9_-]{{1,{LONGEST_OPEN_ID - len(OPEN_CLIENT_IDS)}}}")


class MetadataRefused(BadRequest):
    oauth_error: ClassVar = "invalid_client_metadata"


class RedirectRefused(BadRequest):
    oauth_error: ClassVar = "invalid_redirect_uri"


class OpenRegistration(Frozen, kw_only=True):
    """What a program says of itself.

    A client on a user's device states its name and its redirect URIs, and gets a client ID that is exactly this, signed by us. Anyone can
    register anything, so an ID proves nothing about its bearer: it states where this client's responses go, and that Postern has checked
    its name.
    """

    redirect_uris: Sequence[str]
    name: str | None = None
    method: str | None = None
    grants: Sequence[str] = ()
    response_types: Sequence[str] = ()
    dpop_bound_access_tokens: bool = False
    initiates_at: str | None = None


class RegistrationKey(Frozen):
    """A key that signs registrations, and nothing else."""

    id: str
    secret: bytes
    created_at: datetime


class OpenClient(Frozen):
    client: ClientId
    name: str
    redirect_uris: Sequence[str]
    """As the program has sent them."""
    dpop_bound_access_tokens: bool = False
    initiates_at: str | None = None


def opened_registration(given: OpenRegistration, key: RegistrationKey) -> OpenClient:
    """The same registration gets the same id, whichever port it names: so all copies of a program are one client of an organization. Raises
    `RedirectRefused`, `MetadataRefused`.
    """
    uris = _redirect_uris(given.redirect_uris)
    if given.method not in {None, AuthenticationMethod.NONE.value}:
        raise MetadataRefused("token_endpoint_auth_method: must be none. Such a client is public, has no secret, and uses PKCE")
    if given.grants and AUTHORIZATION_CODE not in given.grants:
        raise MetadataRefused(
            "grant_types: must contain authorization_code; such a client gets authorization codes and refresh tokens only"
        )
    if given.response_types and "code" not in given.response_types:
        raise MetadataRefused("response_types: must have code")
    name = destination(without_port(uris[0])) if given.name is None else client_name(given.name)
    if name is None:
        raise MetadataRefused(f"client_name: must be {READABLE}")
    initiates_at = _initiates_at(given)
    also = (given.dpop_bound_access_tokens, initiates_at) if initiates_at else (True,) if given.dpop_bound_access_tokens else ()
    client = _signed(name, tuple(dict.fromkeys(map(without_port, uris))), key, also)
    if len(client) > LONGEST_OPEN_ID:
        raise MetadataRefused(
            "redirect_uris: too long together with the name: the client ID that contains all of it can have at most 1 KiB"
        )
    return OpenClient(client, name, uris, given.dpop_bound_access_tokens, initiates_at)


def described_by_id(client: str, keys: Iterable[RegistrationKey]) -> ClientDocument | None:
    """What an open client's id says. None if none of these keys has signed it."""
    if not _ID.fullmatch(client):
        return None
    text = client.removeprefix(OPEN_CLIENT_IDS)
    try:
        signed = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except Error:
        return None
    # Base64 has several texts for the same bytes, and each would be a client of its own.
    if _text(signed) != text:
        return None
    mac, said = signed[:_MAC_BYTES], signed[_MAC_BYTES:]
    if not any(hmac.compare_digest(mac, _mac(said, key)) for key in keys):
        return None
    fields: list[Any] = json.loads(said)
    name, uris, binds_tokens, initiates_at = (*fields, *_SAID_NOTHING[len(fields) - 2 :])
    return ClientDocument(
        address=client,
        name=name,
        redirect_uris=tuple(uris),
        method=AuthenticationMethod.NONE,
        dpop_bound_access_tokens=binds_tokens,
        initiates_at=initiates_at,
    )


def has_open_form(client: str) -> bool:
    return _ID.fullmatch(client) is not None


def is_on_device(origin: bytes) -> bool:
    return _ORIGIN.fullmatch(origin) is not None


def signing(keys: Sequence[RegistrationKey], now: datetime) -> RegistrationKey:
    """The key that signs, of at least one. The keys are in the order in which they were made."""
    known = [key for key in keys if key.created_at + AHEAD <= now]
    return known[-1] if known else keys[0]


def verifying(keys: Sequence[RegistrationKey], now: datetime) -> Sequence[RegistrationKey]:
    """The keys that still count: the last one, and those that were replaced lately enough."""
    return [*(key for key, successor in pairwise(keys) if now < successor.created_at + KEPT_FOR), *keys[-1:]]


def keys_rotated(key: str, actor: Actor) -> Event:
    return Event("platform.registration_keys.rotated", actor, Target("signing_key", key), details={"key": key})


def _redirect_uris(given: Sequence[str]) -> Sequence[str]:
    if not 1 <= len(given) <= MOST_REDIRECT_URIS:
        raise RedirectRefused(f"redirect_uris: a list of 1 to {MOST_REDIRECT_URIS} URIs")
    for at, uri in enumerate(given):
        field = f"redirect_uris[{at}]"
        try:
            redirect_uri(uri, field, private_use=False)
        except BadRequest as refusal:
            raise RedirectRefused(refusal.message) from None
        if is_address(uri) and not is_metadata_host(_host(uri)):
            raise RedirectRefused(f"{field}: the host of an https URI must be a DNS name in lowercase, and its port must not be 443")
    return given


def _host(uri: str) -> str:
    return uri.split("/", 3)[2].partition("?")[0]


def _initiates_at(given: OpenRegistration) -> str | None:
    if given.initiates_at is None:
        return None
    try:
        return own_initiation_address(given.initiates_at, given.redirect_uris)
    except BadRequest as refusal:
        raise MetadataRefused(refusal.message) from None


def _signed(name: str, uris: Sequence[str], key: RegistrationKey, also: Sequence[Json]) -> ClientId:
    """`also`: whether its tokens are bound, and where it begins a sign-in. Whoever says neither has the id of before."""
    said = json.dumps([name, uris, *also], ensure_ascii=False, separators=(",", ":")).encode()
    return ClientId(OPEN_CLIENT_IDS + _text(_mac(said, key) + said))


def _mac(said: bytes, key: RegistrationKey) -> bytes:
    return hmac.digest(key.secret, _CONTEXT + said, "sha256")[:_MAC_BYTES]


def _text(signed: bytes) -> str:
    return urlsafe_b64encode(signed).rstrip(b"=").decode()
