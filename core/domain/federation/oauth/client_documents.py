"""Client ID metadata documents (draft-ietf-oauth-client-id-metadata-document-02): a client's ID is an https URL, whose document describes
the client.
"""

import json
import re
from base64 import b16encode
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final, NoReturn

from core.domain.errors import BadRequest
from core.domain.federation.oauth.authorizations import AuthorizationErrorCode, UnknownRecipient
from core.domain.federation.oauth.clients import AuthenticationMethod
from core.domain.formats import Json, http_date
from core.domain.identifiers import ClientId, OrganizationId, ResourceServerId, ServiceId
from core.domain.lines import has_link, has_markup, has_other_forms, typed_line
from core.domain.outbound import Provenance, client_keys, keys_destination
from core.domain.rate_limits import RateLimit
from core.domain.services.clients import document_host, is_address, is_open, redirect_uri
from core.domain.services.resource_identifiers import resource_identifier
from core.domain.services.services import LONGEST_NAME, Service, ServiceType, frame_address, own_initiation_address
from core.frozen import Frozen, replace

LONGEST_ADDRESS: Final = 500
# The size that the draft recommends.
LARGEST_DOCUMENT: Final = 5 << 10
PATIENCE: Final = timedelta(seconds=5)
SHORTEST_CACHE: Final = timedelta(minutes=5)
LONGEST_CACHE: Final = timedelta(days=1)
FETCHES: Final = RateLimit("client_documents", burst=10, seconds_per_request=6)
"""For one host, as anybody can send requests with made-up addresses there, and each would cause a call. An address whose document is known
has as many for itself."""
MOST_CLIENTS: Final = 500
"""The limit for one organization. Each person may allow one more, so those that nobody uses give way."""
UNUSED_AFTER: Final = timedelta(hours=1)
MOST_REDIRECT_URIS: Final = 20
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_METHODS: Final = (AuthenticationMethod.NONE, AuthenticationMethod.PRIVATE_KEY_JWT)

NEEDS_RESOURCE: Final = "resource: a client with a metadata document must name the API that it requests tokens for (RFC 8707)"
NO_SUCH_API: Final = (
    "resource: no API of this installation has this identifier. Send the one that the API publishes as `resource`, byte for byte"
)
ON_THIS_MACHINE: Final = (
    "resource: several organizations can have an API with a local identifier. Register the application, or use a public "
    "identifier for the API"
)
FOR_PEOPLE_ALONE: Final = (
    "A client with a metadata document gets tokens only for people, with authorization codes and refresh tokens. For other "
    "grants, register the application"
)
TWO_ORGANIZATIONS: Final = "resource: these APIs belong to several organizations; send a separate request for each"
_SLUG_OF_HOST: Final = 30
READABLE: Final = f"one line of 1 to {LONGEST_NAME} characters, without markup, links, email addresses and lookalike letters"


class ClientRefused(UnknownRecipient):
    """A refusal of a metadata client, for the person alone: its document is not known, or not trusted, so no address of it gets an answer.
    `api` is the API that the request names, whose owners can read why.
    """

    def __init__(
        self,
        message: str,
        words: str,
        *,
        error: AuthorizationErrorCode = AuthorizationErrorCode.UNAUTHORIZED_CLIENT,
        api: ResourceServerId | None = None,
        values: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message, words=words, values=values or {})
        self.oauth_error = error.value
        self.api = api


class ClientDocument(Frozen, kw_only=True):
    """What counts of a document, or of what an open client has said of itself.

    Anyone can publish a document, so it decides nothing but where its own client's responses go and how this client authenticates.
    """

    address: str
    """The client id."""
    name: str
    redirect_uris: Sequence[str]
    method: AuthenticationMethod
    keys: Mapping[str, Json] | None = None
    """The public keys in the document itself."""
    keys_uri: str | None = None
    dpop_bound_access_tokens: bool = False
    """It wants only tokens that are bound to a key (RFC 9449 section 5.2)."""
    frame: str | None = None
    """The page that browsers load in a frame when their person signs out."""
    frame_names_session: bool = False
    initiates_at: str | None = None
    """The page where it begins a sign-in."""

    @property
    def host(self) -> str:
        return document_host(ClientId(self.address)) or ""

    @property
    def provenance(self) -> Provenance:
        if not is_open(self.address):
            return Provenance(self.host)
        return Provenance(None, tuple(sorted({uri.split("/", 3)[2].partition("?")[0] for uri in self.redirect_uris if is_address(uri)})))

    @property
    def digest(self) -> bytes:
        """Of everything that a consent is about. Keys behind an address may change; the address may not."""
        told: list[Any] = [sorted(self.redirect_uris), self.method.value, self.keys_uri, self.keys]
        # A document that says none of these keeps the digest that it had before documents could.
        if self.dpop_bound_access_tokens:
            told.append("dpop")
        if self.frame is not None:
            told += [self.frame, self.frame_names_session]
        if self.initiates_at is not None:
            told.append({"initiates_at": self.initiates_at})
        return sha256(json.dumps(told, sort_keys=True, separators=(",", ":")).encode()).digest()

    @property
    def stored_keys(self) -> Mapping[str, Json] | None:
        """The keys of the service. Those behind an address are read when the first assertion comes."""
        return self.keys if self.keys_uri is None else {"keys": []}

    def stored(self) -> Mapping[str, Json]:
        return {
            "client_name": self.name,
            "redirect_uris": list(self.redirect_uris),
            "token_endpoint_auth_method": self.method.value,
            "jwks": self.keys,
            "jwks_uri": self.keys_uri,
            "dpop_bound_access_tokens": self.dpop_bound_access_tokens,
            "frontchannel_logout_uri": self.frame,
            "frontchannel_logout_session_required": self.frame_names_session,
            "initiate_login_uri": self.initiates_at,
        }


class KeptDocument(Frozen):
    """A document as it was read once."""

    document: ClientDocument
    fetched_at: datetime
    fresh_until: datetime


class DocumentTarget(Frozen):
    """An active API that a request of a metadata client names. `lets_in`: it lets the client in, and so does its organization."""

    id: ResourceServerId
    organization: OrganizationId
    organization_slug: str
    identifier: str
    lets_in: bool


class DocumentService(Frozen):
    """The service that a metadata client is in an organization, as far as its document decides about it."""

    organization: OrganizationId
    slug: str
    name: str
    digest: bytes | None
    """None after a move from another installation."""

    def is_described_by(self, document: ClientDocument) -> bool:
        return (self.name, self.digest) == (document.name, document.digest)


def restored(address: str, kept: Mapping[str, Any]) -> ClientDocument:
    """Reads the form that `stored` made."""
    return ClientDocument(
        address=address,
        name=kept["client_name"],
        redirect_uris=tuple(kept["redirect_uris"]),
        method=AuthenticationMethod(kept["token_endpoint_auth_method"]),
        keys=kept["jwks"],
        keys_uri=kept["jwks_uri"],
        # What was kept before says nothing of it.
        dpop_bound_access_tokens=kept.get("dpop_bound_access_tokens", False),
        frame=kept.get("frontchannel_logout_uri"),
        frame_names_session=kept.get("frontchannel_logout_session_required", False),
        initiates_at=kept.get("initiate_login_uri"),
    )


def document_address(text: str) -> str:
    """The address of a document, as a client sends it. Raises `ClientRefused`.

    The form is that of identifiers of APIs (0149), so no two texts are one address. A query is refused, although the draft only advises
    against one: at many hosts, an endpoint that repeats its query would publish any document.
    """
    if len(text) > LONGEST_ADDRESS or not is_address(text) or "?" in text:
        raise _unusable_address("an https URL of at most 500 characters, without a query")
    try:
        found = resource_identifier(text)
    except BadRequest as refusal:
        raise _unusable_address(refusal.message.removeprefix("identifier: ")) from None
    if not found.is_name:
        raise _unusable_address("the host must be a name in DNS")
    return text


def _unusable_address(reason: str) -> ClientRefused:
    return ClientRefused(f"client_id: the URL of the client's document cannot be used: {reason}", "client_address")


def targeted(named: Sequence[str], found: Sequence[DocumentTarget], client: Provenance) -> DocumentTarget:
    """The first of the named APIs, if all of them are of one organization and let the client in. Nothing is fetched or kept before.
    Raises `ClientRefused`.
    """
    by_identifier = {target.identifier: target for target in found}
    missing = [identifier for identifier in named if identifier not in by_identifier]
    if not named:
        raise ClientRefused(NEEDS_RESOURCE, "resource_needed", error=AuthorizationErrorCode.INVALID_TARGET)
    if missing:
        if any(identifier.startswith("http://") for identifier in missing):
            raise ClientRefused(ON_THIS_MACHINE, "resource_on_machine", error=AuthorizationErrorCode.INVALID_TARGET)
        raise ClientRefused(NO_SUCH_API, "resource_unknown", error=AuthorizationErrorCode.INVALID_TARGET)
    targets = [by_identifier[identifier] for identifier in named]
    if len({target.organization for target in targets}) > 1:
        raise ClientRefused(TWO_ORGANIZATIONS, "resource_of_several", error=AuthorizationErrorCode.INVALID_TARGET)
    for target in targets:
        if not target.lets_in:
            raise _not_let_in(client, target)
    return targets[0]


def _not_let_in(client: Provenance, target: DocumentTarget) -> ClientRefused:
    if client.host is not None:
        message = f"client_id: the API, or its organization, does not allow clients whose metadata document is at {client.host}"
        return ClientRefused(message, "document_not_let_in", api=target.id, values={"host": client.host})
    if client.leads_to:
        hosts = ", ".join(client.leads_to)
        message = f"client_id: the API, or its organization, does not allow dynamically registered clients that redirect to {hosts}"
        return ClientRefused(message, "open_client_hosts", api=target.id, values={"hosts": hosts})
    message = "client_id: the API, or its organization, does not allow dynamically registered clients"
    return ClientRefused(message, "open_client_not_let_in", api=target.id)


def client_document(address: str, status: int, headers: Mapping[str, str], body: bytes) -> ClientDocument:
    """The document at an address. Everything that is not named here is ignored. Raises `BadRequest`, whose message completes the sentence
    "The document …".
    """
    if 300 <= status < 400:
        _refuse(f"responds with a redirect ({status}); publish it at the URL itself", "document_status", status=status)
    if status != 200:
        _refuse(f"answers with the status {status}; it must answer with 200", "document_status", status=status)
    if len(body) > LARGEST_DOCUMENT:
        _refuse(f"is longer than {LARGEST_DOCUMENT >> 10} KiB", "document_too_long", most=LARGEST_DOCUMENT >> 10)
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        _refuse("is not sent as JSON; set its content type to application/json", "document_not_json")
    given = _parsed(body)
    if given.get("client_id") != address:
        _refuse("contains a client_id that differs from its URL; both must match, byte for byte", "document_lies")
    if given.get("client_secret") is not None or given.get("client_secret_expires_at") is not None:
        _refuse("contains a client secret; a published document cannot have one", "document_secret")
    keys, keys_uri = _keys(given)
    redirect_uris = _redirect_uris(given)
    return ClientDocument(
        address=address,
        name=_name(given, address),
        redirect_uris=redirect_uris,
        method=_method(given, has_keys=keys is not None or keys_uri is not None),
        keys=keys,
        keys_uri=keys_uri,
        dpop_bound_access_tokens=given.get("dpop_bound_access_tokens") is True,
        frame=_frame(given, redirect_uris),
        frame_names_session=given.get("frontchannel_logout_session_required") is True,
        initiates_at=_initiates_at(given, redirect_uris),
    )


def fresh_for(headers: Mapping[str, str], now: datetime) -> timedelta:
    """How long a document counts before it is fetched again, by the heads of its answer (RFC 9111), within our bounds."""
    told: timedelta | None = None
    directives = [one.strip().lower() for one in headers.get("cache-control", "").split(",")]
    ages = {name: text for name, _, text in (one.partition("=") for one in directives)}
    if not {"no-store", "no-cache"}.isdisjoint(directives):
        return SHORTEST_CACHE
    stated = ages.get("s-maxage", ages.get("max-age", "")).strip('"')
    if stated.isdecimal() and stated.isascii():
        age = headers.get("age", "").strip()
        told = timedelta(seconds=min(int(stated[:10]), 10**9) - (min(int(age[:10]), 10**9) if age.isdecimal() and age.isascii() else 0))
    elif "expires" in headers:
        expires = http_date(headers["expires"], now)
        told = None if expires is None else expires - now
    return SHORTEST_CACHE if told is None else min(max(told, SHORTEST_CACHE), LONGEST_CACHE)


def document_slug(document: ClientDocument, service: ServiceId) -> str:
    host = "".join(letter if letter.isalnum() else "-" for letter in document.host or "open")[:_SLUG_OF_HOST].strip("-")
    return f"{host}-{b16encode(service.bytes[-5:]).decode().lower()}"


def document_service(document: ClientDocument, organization: OrganizationId, service: ServiceId, now: datetime) -> Service:
    """The service that the client becomes in an organization."""
    named = Service(
        id=service,
        organization=organization,
        slug=document_slug(document, service),
        client_id=ClientId(document.address),
        name=document.name,
        service_type=ServiceType.METADATA,
        created_at=now,
        updated_at=now,
        metadata={},
    )
    return described(named, document, now)


def described(service: Service, document: ClientDocument, now: datetime) -> Service:
    """The service after its document has changed. Keys that were read at the same address stay."""
    same_keys = document.keys_uri is not None and document.keys_uri == service.jwks_uri
    return replace(
        service,
        name=document.name,
        redirect_uris=tuple(document.redirect_uris),
        jwks=service.jwks if same_keys else document.stored_keys,
        jwks_uri=document.keys_uri,
        dpop_bound_access_tokens=document.dpop_bound_access_tokens,
        frontchannel_logout_uri=document.frame,
        frontchannel_logout_session_required=document.frame_names_session,
        initiate_login_uri=document.initiates_at,
        updated_at=now,
    )


def _refuse(message: str, words: str, **values: object) -> NoReturn:
    raise BadRequest(message, words=words, values=values)


def _parsed(body: bytes) -> Mapping[str, Any]:
    try:
        # UTF-8 alone, and no byte order mark (RFC 8259 section 8.1): whoever else reads the document has to read the same.
        given = json.loads(body.decode(), object_pairs_hook=_each_once)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        _refuse("is not a JSON object in which each member appears once", "document_not_json")
    return given


def _each_once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Of a member that appears twice, programs read one or the other."""
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError
    return members


def _name(given: Mapping[str, Any], address: str) -> str:
    """People read it before they allow something, as text. A client without a name has its host."""
    name = given.get("client_name")
    if name is None:
        return document_host(ClientId(address)) or address
    line = client_name(name)
    if line is None:
        _refuse(f"has a client_name that is not {READABLE}", "document_name")
    return line


def client_name(given: object) -> str | None:
    """The name as people may read it. None if it is not `READABLE`."""
    try:
        line = typed_line("client_name", given) if isinstance(given, str) else ""
    except BadRequest:
        return None
    is_readable = 1 <= len(line) <= LONGEST_NAME and isinstance(given, str) and line == given.strip()
    if not is_readable or _SURROGATE.search(line):
        return None
    return None if has_markup(line) or has_link(line) or has_other_forms(line) else line


def _redirect_uris(given: Mapping[str, Any]) -> tuple[str, ...]:
    uris = given.get("redirect_uris")
    if not isinstance(uris, list) or not 1 <= len(uris) <= MOST_REDIRECT_URIS or not all(isinstance(uri, str) for uri in uris):
        _refuse(f"needs redirect_uris, a list of 1 to {MOST_REDIRECT_URIS} URIs", "document_redirects")
    try:
        return tuple(dict.fromkeys(redirect_uri(uri, f"redirect_uris[{at}]", private_use=True) for at, uri in enumerate(uris)))
    except BadRequest as refusal:
        _refuse(f"has a redirect URI that cannot be used: {refusal.message}", "document_redirects")


def _frame(given: Mapping[str, Any], redirect_uris: Sequence[str]) -> str | None:
    uri = given.get("frontchannel_logout_uri")
    if uri is None:
        return None
    try:
        return frame_address(uri if isinstance(uri, str) else "", redirect_uris)
    except BadRequest as refusal:
        _refuse(f"has an unusable page for sign-outs: {refusal.message}", "document_frame")


def _initiates_at(given: Mapping[str, Any], redirect_uris: Sequence[str]) -> str | None:
    uri = given.get("initiate_login_uri")
    if uri is None:
        return None
    try:
        return own_initiation_address(uri if isinstance(uri, str) else "", redirect_uris)
    except BadRequest as refusal:
        _refuse(f"has an unusable page for starting a sign-in: {refusal.message}", "document_initiates")


def _method(given: Mapping[str, Any], *, has_keys: bool) -> AuthenticationMethod:
    named = given.get("token_endpoint_auth_method")
    if named is None:
        return AuthenticationMethod.PRIVATE_KEY_JWT if has_keys else AuthenticationMethod.NONE
    if named not in _METHODS:
        _refuse("must have the token_endpoint_auth_method none or private_key_jwt: it cannot keep a secret", "document_method")
    if named == AuthenticationMethod.PRIVATE_KEY_JWT and not has_keys:
        _refuse("has private_key_jwt, but neither jwks nor jwks_uri", "document_keys")
    return AuthenticationMethod(named)


def _keys(given: Mapping[str, Any]) -> tuple[Mapping[str, Json] | None, str | None]:
    if given.get("token_endpoint_auth_method") == AuthenticationMethod.NONE:
        return None, None
    keys, uri = given.get("jwks"), given.get("jwks_uri")
    if keys is not None and uri is not None:
        _refuse("has both jwks and jwks_uri; remove one of them", "document_keys")
    try:
        if uri is not None:
            if not isinstance(uri, str) or not is_address(uri):
                _refuse("has a jwks_uri that is not an https URL", "document_keys")
            keys_destination(uri)
            return None, uri
        return (None if keys is None else client_keys(keys if isinstance(keys, dict) else {})), None
    except BadRequest as refusal:
        _refuse(refusal.message if refusal.words == "document_keys" else f"has unusable keys: {refusal.message}", "document_keys")
