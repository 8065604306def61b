"""OAuth clients: applications as the token endpoint knows them, and their authentication."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from typing import Final

from core.domain.errors import BadRequest, OrganizationNotActive
from core.domain.federation.oauth.refusals import RefusalReason, client_refused
from core.domain.formats import Json
from core.domain.identifiers import ClientId, ClientSecretId, OrganizationId, ServiceId
from core.domain.identity.sessions import Application, Context
from core.domain.key_proofs import KeyProofMissing, KeyThumbprint, lacks_key
from core.domain.outbound import KEYS_LIFETIME
from core.domain.secrets import Token
from core.domain.services.clients import describes_itself, read_client_id
from core.domain.services.services import ServiceType
from core.domain.tokens import TokenAlgorithm
from core.frozen import Frozen

ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
LONGEST_ASSERTION: Final = 4096
LONGEST_SECRET: Final = 200
# What the log says about a client that did not authenticate itself. The recorder of refusals tells the reasons apart by these.
# Libraries choose up to an hour (Authlib does). Each assertion works once, however long it lasts.
ASSERTION_LIFETIME: Final = timedelta(hours=1)
_LEEWAY: Final = timedelta(seconds=30)
_LONGEST_JTI: Final = 500


class AuthenticationMethod(StrEnum):
    """The methods, in the words of OAuth's registry."""

    NONE = "none"
    BASIC = "client_secret_basic"
    POST = "client_secret_post"
    PRIVATE_KEY_JWT = "private_key_jwt"


class ClientCredentials(Frozen):
    """The client that a request names, and its credential for one method."""

    client: ClientId
    method: AuthenticationMethod
    secret: Token | None = None
    assertion: str | None = None
    in_header: bool = False
    """Whether the Authorization header names the client."""


class RegisteredClient(Frozen, kw_only=True):
    """An existing service, as one look-up finds it."""

    client: ClientId
    context: Context
    service: ServiceId
    organization: OrganizationId
    organization_is_active: bool
    service_type: ServiceType
    id_token_algorithm: TokenAlgorithm
    access_token_algorithm: TokenAlgorithm
    keys: Mapping[str, Json] | None
    has_secret: bool
    secret: ClientSecretId | None
    """The secret that the request has shown, if it is one of the service's own."""
    keys_uri: str | None = None
    """The address at which the client publishes its keys."""
    keys_fetched_at: datetime | None = None
    is_agent: bool = False
    """It acts for people."""
    names_endpoints: bool = False
    """Whether the client's assertions may name the address of an endpoint in place of the issuer."""
    binds_tokens: bool = False
    """Whether it gets only tokens that are bound to a key: `dpop_bound_access_tokens` of the service."""
    holds_fapi2: bool = False
    """It holds the FAPI 2.0 Security Profile."""
    session_lifetime: timedelta | None = None
    """How long after a sign-in its organization lets sessions go on, or the service, whichever is shorter."""
    is_placed: bool = True
    """False for a metadata client that has no service: nobody in the organization has allowed it yet."""

    def application(self, scopes: tuple[str, ...]) -> Application:
        """The client as the receiver of a session's tokens."""
        return Application(self.client, scopes, self.access_token_algorithm, self.is_agent)

    def require_bound(self, key: KeyThumbprint | None) -> None:
        """`key` is the one that a request for tokens has shown. Raises `KeyProofMissing`."""
        if lacks_key(binds_tokens=self.binds_tokens, key=key):
            raise KeyProofMissing

    @property
    def is_public(self) -> bool:
        """The client cannot authenticate itself, and need not: it is installed on everybody's devices, or runs in the
        browser and has no secret.
        """
        if self.service_type is ServiceType.METADATA:
            return self.keys is None
        if not self.service_type.is_confidential:
            return True
        return self.service_type.may_be_public and not self.has_secret and self.keys is None

    def has_old_keys(self, now: datetime) -> bool:
        return self.keys_fetched_at is None or now - self.keys_fetched_at > KEYS_LIFETIME


class AuthenticatedClient(Frozen):
    """The client of a request. It has authenticated itself, or is public and cannot."""

    registered: RegisteredClient
    method: AuthenticationMethod

    @property
    def is_public(self) -> bool:
        return self.method is AuthenticationMethod.NONE


class UsedAssertion(Frozen):
    """The record of a used assertion. It is kept until the assertion has expired."""

    digest: bytes
    expires_at: datetime
    of_document: bool = False
    """A metadata client's: used in one organization, it is used in all."""


# A few busy clients make most of the requests.
@lru_cache(maxsize=256)
def client_id(text: str) -> ClientId:
    """Accepts only the canonical form, and the addresses of documents. Raises `Unauthorized`."""
    found = ClientId(text) if describes_itself(text) else read_client_id(text)
    if found is None:
        raise client_refused("client_id is none of ours")
    return found


def credentials_of(
    *,
    basic: tuple[str, Token] | None,
    named: str | None,
    secret: Token | None,
    assertion: str | None,
    assertion_type: str | None,
    claimed: str | None,
) -> ClientCredentials:
    """The credential of a request, from the name and password of its header, and the fields of its body. `claimed` is the client that the
    assertion names. A header with an empty password only names the client: many libraries send it for public clients, and an empty secret
    counts as none (RFC 6749 section 2.3.1). Raises `BadRequest` for more than one method (section 2.3), and `Unauthorized`.
    """
    password = None if basic is None or not basic[1].reveal() else basic[1]
    if (password is not None) + (secret is not None) + (assertion is not None) > 1:
        raise BadRequest("Authenticate by one method only: the Authorization header, client_secret, or client_assertion")
    if (assertion is None) != (assertion_type is None) or assertion_type not in {None, ASSERTION_TYPE}:
        raise BadRequest(f"client_assertion: send it together with the client_assertion_type {ASSERTION_TYPE}")
    names = [one for one in (None if basic is None else basic[0], claimed, named) if one is not None]
    if not names:
        raise BadRequest("client_id: send the client ID")
    if len(set(names)) > 1:
        raise BadRequest("client_id: is not the client that authenticates")
    client = client_id(names[0])
    if password is not None:
        return ClientCredentials(client, AuthenticationMethod.BASIC, password, in_header=True)
    if secret is not None:
        return ClientCredentials(client, AuthenticationMethod.POST, secret)
    if assertion is not None:
        return ClientCredentials(client, AuthenticationMethod.PRIVATE_KEY_JWT, assertion=assertion)
    return ClientCredentials(client, AuthenticationMethod.NONE, in_header=basic is not None)


def require_known(found: RegisteredClient | None, credentials: ClientCredentials) -> RegisteredClient:
    """The client, if it has authenticated itself as far as that is possible without checking an assertion. Raises `Unauthorized`."""
    if found is None:
        raise client_refused("there is no such client")
    match credentials.method:
        case AuthenticationMethod.NONE:
            if not found.is_public:
                raise client_refused("the client is not public, and sent no credential", recorded_as=RefusalReason.CREDENTIAL_MISSING)
        case AuthenticationMethod.PRIVATE_KEY_JWT:
            if found.keys is None:
                raise client_refused("the client has no keys", recorded_as=RefusalReason.KEYS_MISSING)
        case _:
            if found.secret is None:
                raise client_refused("the client has no such secret", recorded_as=RefusalReason.SECRET_WRONG)
    return found


def require_open(client: RegisteredClient) -> None:
    """Raises `OrganizationNotActive`."""
    if not client.organization_is_active:
        raise OrganizationNotActive


def used_assertion(
    claims: Mapping[str, Json], client: ClientId, audiences: Collection[str], now: datetime, *, as_string: bool = False
) -> UsedAssertion:
    """Checks the claims of an assertion whose signature is good (RFC 7523 section 3). `as_string`: its audience is no list, not even of
    one. Raises `Unauthorized`.
    """
    if claims.get("iss") != client or claims.get("sub") != client:
        raise client_refused("iss and sub of the assertion are not the client")
    audience = claims.get("aud")
    named = audience if isinstance(audience, list | tuple) else (audience,)
    # An assertion with a further audience could be sent on to us by that audience, or by us to it (CVE-2025-27370, CVE-2025-27371).
    if len(named) != 1 or not isinstance(named[0], str) or named[0] not in audiences or (as_string and not isinstance(audience, str)):
        raise client_refused("the assertion is not for this issuer alone")
    expires_at = _moment(claims, "exp")
    if expires_at is None or not now - _LEEWAY < expires_at <= now + ASSERTION_LIFETIME + _LEEWAY:
        raise client_refused("the assertion has expired, or does so too late")
    for name in ("iat", "nbf"):
        moment = _moment(claims, name)
        if name in claims and (moment is None or moment > now + _LEEWAY):
            raise client_refused(f"{name} of the assertion is not a moment before now")
    token_id = claims.get("jti")
    if not isinstance(token_id, str) or not 0 < len(token_id) <= _LONGEST_JTI:
        raise client_refused("the assertion has no jti")
    # A document is one client, whose assertion counts once, although the client is a service in each organization.
    counted = f"{client} {token_id}" if describes_itself(client) else token_id
    return UsedAssertion(sha256(counted.encode("utf-8", "surrogatepass")).digest(), expires_at, of_document=describes_itself(client))


def _moment(claims: Mapping[str, Json], name: str) -> datetime | None:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**34:
        return None
    return datetime.fromtimestamp(value, UTC)
