"""Clients that no organization has created, by a metadata document or by dynamic registration (RFC 7591), and their refused requests."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Final, Literal

import msgspec

from core.domain.errors import BadRequest, NotFound
from core.domain.federation.authorization_refusals import DocumentRefusal
from core.domain.federation.oauth.client_documents import FOR_PEOPLE_ALONE
from core.domain.federation.oauth.clients import ClientCredentials
from core.domain.federation.oauth.consents import ArrivedClient
from core.domain.federation.oauth.grants import AUTHORIZATION_CODE, REFRESH_TOKEN
from core.domain.federation.oauth.oidc import REGISTRATION_ENDPOINT
from core.domain.federation.oauth.refusals import InvalidGrant, UnauthorizedClient
from core.domain.federation.open_registrations import GRANTS, REGISTRATIONS, MetadataRefused, OpenRegistration, RedirectRefused
from core.domain.identifiers import ClientId, ResourceServerId
from core.domain.secrets import Token
from core.domain.services.clients import describes_itself
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import Json
from entrypoints.http.machinery.answers import Origins
from entrypoints.http.machinery.callers import ANYONE, able
from entrypoints.http.machinery.calls import Call, Request
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.errors import OAUTH
from entrypoints.http.machinery.fields import Id, example
from entrypoints.http.machinery.limits import AUTH, UNLIMITED
from entrypoints.http.routes.services.resource_servers import ResourceServerPath


async def of_grant(
    shown: ClientCredentials, grant: str | None, given: Token | None, request: Request, postern: Postern
) -> ClientCredentials:
    """The credentials of a token request, whose `given` code or refresh token was the client's. Raises `BadRequest`, `UnauthorizedClient`,
    `InvalidGrant`.
    """
    if not describes_itself(shown.client):
        return shown
    if grant not in {AUTHORIZATION_CODE, REFRESH_TOKEN}:
        await request.count(AUTH)
        raise UnauthorizedClient(FOR_PEOPLE_ALONE)
    if given is None:
        await request.count(AUTH)
        raise BadRequest(f"{'code' if grant == AUTHORIZATION_CODE else grant}: send the one that the client got")
    client = await postern.federation.client_documents.holder(shown.client, given.digest())
    if client is None:
        await request.count(AUTH)
        raise InvalidGrant(detail="no such code or token was given to this metadata client")
    # Public clients as well: the document may name keys by now.
    try:
        await postern.federation.client_documents.renew(client)
    except UnauthorizedClient:
        await request.count(AUTH)
        raise
    return _placed(shown, client, request)


async def of_token(shown: ClientCredentials, token: Token, request: Request, postern: Postern) -> ClientCredentials:
    """The credentials of a client that asks about a token, or gives it back. They stay as they are if the token is not the client's."""
    if not describes_itself(shown.client):
        return shown
    client = await postern.federation.given_sessions.holder(shown.client, token)
    return shown if client is None else _placed(shown, client, request)


async def of_request(
    shown: ClientCredentials, resources: Sequence[str], request: Request, postern: Postern
) -> tuple[ClientCredentials, ArrivedClient | None]:
    """The credentials of a client that pushes a request for these APIs, and the metadata client as it arrives. Raises `ClientRefused`."""
    if not describes_itself(shown.client):
        return shown, None
    # The document may have to be fetched, and anybody can ask for that.
    await request.count(AUTH)
    arrived = await postern.federation.client_documents.arrived(shown.client, resources)
    return _placed(shown, arrived.id, request), arrived


def require_registered(shown: ClientCredentials) -> None:
    """Raises `UnauthorizedClient`."""
    if describes_itself(shown.client):
        raise UnauthorizedClient(FOR_PEOPLE_ALONE)


def _placed(shown: ClientCredentials, client: ClientId, request: Request) -> ClientCredentials:
    request.client_id = client
    return replace(shown, client=client)


_MOST_LISTED: Final = 100
_LONGEST: Final = 2000
_Address = Annotated[str, msgspec.Meta(max_length=_LONGEST)]
_Word = Annotated[str, msgspec.Meta(max_length=_LONGEST)]


class ClientRegistration(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of a client to register. Fields that are not listed here are ignored."""

    redirect_uris: Annotated[Sequence[_Address], msgspec.Meta(max_length=_MOST_LISTED), example(["http://127.0.0.1:33418/callback"])] = ()
    """1 to 10 redirect URIs. Either `http` on `localhost`, `127.0.0.1` or `[::1]`, where later requests can use any port. Or `https` at a
    host that the organization and the API list in their `metadata_hosts`.
    """
    client_name: Annotated[_Word, example("Notebook")] | None = None
    """The display name, which people see together with a notice that the client is unregistered. One line, without markup and links."""
    token_endpoint_auth_method: Annotated[_Word, example("none")] | None = None
    """`none`, which is also the default: the client has no secret and uses PKCE."""
    grant_types: (
        Annotated[Sequence[_Word], msgspec.Meta(max_length=_MOST_LISTED), example(["authorization_code", "refresh_token"])] | None
    ) = None
    """Must include `authorization_code`. The client always gets codes and refresh tokens, whatever else is listed."""
    response_types: Annotated[Sequence[_Word], msgspec.Meta(max_length=_MOST_LISTED), example(["code"])] | None = None
    """Must include `code`."""
    dpop_bound_access_tokens: bool = False
    """Whether the client gets only sender-constrained tokens (DPoP, RFC 9449)."""
    initiate_login_uri: Annotated[_Address, example("https://notebook.example/sign-in")] | None = None
    """The https URL where the client starts a sign-in. Host and port must be those of a redirect URI."""


class RegisteredOpenClient(msgspec.Struct, frozen=True, kw_only=True):
    """The registered client (RFC 7591 section 3.2.1)."""

    client_id: Annotated[str, example("open:4xw1fXqSYyRKkWm5oZ1Yi1siTm90ZWJvb2siLFsiaHR0cDovLzEyNy4wLjAuMS9jYWxsYmFjayJdXQ")]
    """The client ID. It contains the client's metadata, signed by Postern. Postern stores nothing, and the same metadata get the same ID.
    """
    client_id_issued_at: Annotated[int, example(1_780_000_000)]
    """When the client ID was issued, in seconds since 1970."""
    client_name: Annotated[str, example("Notebook")]
    """The display name."""
    redirect_uris: Annotated[Sequence[str], example(["http://127.0.0.1:33418/callback"])]
    """The redirect URIs, as they were sent."""
    token_endpoint_auth_method: Literal["none"] = "none"  # noqa: S105 - no password
    """Always `none`: the client has no secret."""
    grant_types: Annotated[Sequence[str], example(["authorization_code", "refresh_token"])] = GRANTS
    """The grant types that the client can use at the token endpoint."""
    response_types: Annotated[Sequence[str], example(["code"])] = ("code",)
    """The response types that the client can request at `/oauth/authorize`."""
    dpop_bound_access_tokens: bool = False
    """Whether the client gets only sender-constrained tokens (DPoP, RFC 9449)."""
    initiate_login_uri: Annotated[str, example("https://notebook.example/sign-in")] | msgspec.UnsetType = msgspec.UNSET
    """The https URL where the client starts a sign-in. Missing if the client has none."""


@endpoint.post(
    REGISTRATION_ENDPOINT,
    caller=ANYONE,
    limit=UNLIMITED,
    counts=(REGISTRATIONS,),
    accepts=Json(limit=16 << 10),
    refuses=(MetadataRefused, RedirectRefused, NotFound),
    errors=OAUTH,
    origins=Origins.ALL,
    status=201,
    tags=("oauth",),
)
async def register_open_client(call: Call[ClientRegistration], postern: Postern) -> RegisteredOpenClient:
    """Register a client (RFC 7591)

    Dynamic client registration, for clients that connect to this installation for the first time, such as MCP clients. It is off until the
    operator turns it on (`POSTERN_OPEN_REGISTRATION`). The metadata then contain it as `registration_endpoint`. The client ID alone grants
    nothing. Authorization requests need `resource`, and both the API and its organization must have `registered_clients: on`. A
    registration cannot be read or changed (RFC 7592). To change one, register again.
    """
    call.request.count_here(REGISTRATIONS)
    body = call.body
    registered = await postern.federation.open_registrations.register(
        OpenRegistration(
            redirect_uris=body.redirect_uris,
            name=body.client_name,
            method=body.token_endpoint_auth_method,
            grants=body.grant_types or (),
            response_types=body.response_types or (),
            dpop_bound_access_tokens=body.dpop_bound_access_tokens,
            initiates_at=body.initiate_login_uri,
        )
    )
    return RegisteredOpenClient(
        client_id=registered.client,
        client_id_issued_at=int(postern.foundation.clock.now().timestamp()),
        client_name=registered.name,
        redirect_uris=registered.redirect_uris,
        dpop_bound_access_tokens=registered.dpop_bound_access_tokens,
        initiate_login_uri=registered.initiates_at or msgspec.UNSET,
    )


class DocumentRefusalRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A rejected request of an unregistered client."""

    id: Id
    address: Annotated[str, example("https://claude.ai/oauth/claude-code-client-metadata")]
    """The client ID: the URL of the client's metadata document, or the ID from dynamic client registration."""
    reason: Annotated[str, example("document_not_let_in")]
    """The reason, as a code."""
    because: Annotated[
        str, example("client_id: the API, or its organization, does not allow clients whose metadata document is at claude.ai")
    ]
    """A description of the reason."""
    advice: Annotated[str, example("If you trust the host, allow it")]
    """The change that fixes the request."""
    created_at: datetime
    """When the request was rejected."""


class DocumentRefusalList(msgspec.Struct, frozen=True):
    """The last 50 rejected requests of the last 7 days."""

    refusals: Sequence[DocumentRefusalRecord]
    """The rejected requests, newest first."""


@endpoint.get(
    "/api/organizations/{org_slug}/resource-servers/{resource_id}/refusals",
    caller=able(Capability.SERVICES_MANAGE, impersonated=True),
    keys=True,
    tags=("resource-servers",),
)
async def list_document_refusals(call: Call[None, None, ResourceServerPath, Member], postern: Postern) -> DocumentRefusalList:
    """List rejected requests of unregistered clients

    Returns the last 50 rejected requests of the last 7 days, newest first. They include client ID metadata documents that the API or the
    organization does not allow, and invalid documents. They also include invalid requests of clients without consent. After a person
    consents to such a client, it is a service of the organization. Its later rejected requests are listed with the service. Anyone can send
    requests, so a rejected request alone does not indicate a problem.
    """
    listed = await postern.federation.authorization_refusals.list_of_api(call.caller, ResourceServerId(call.path.resource_id))
    return DocumentRefusalList([_record(one) for one in listed])


_record = shown(DocumentRefusal, DocumentRefusalRecord, named={"created_at": "occurred_at"})
