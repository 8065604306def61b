"""Metadata clients at the endpoints of clients. A request names such a client by the address of its document, which is another service in
each organization: the code, the token or the API that comes along says which. Other clients pass unchanged, and cost nothing here.
"""

from collections.abc import Sequence

from core.domain.errors import BadRequest
from core.domain.federation.oauth.client_documents import FOR_PEOPLE_ALONE
from core.domain.federation.oauth.clients import ClientCredentials
from core.domain.federation.oauth.consents import ArrivedClient
from core.domain.federation.oauth.grants import AUTHORIZATION_CODE, REFRESH_TOKEN
from core.domain.federation.oauth.refusals import InvalidGrant, UnauthorizedClient
from core.domain.identifiers import ClientId
from core.domain.secrets import Token
from core.domain.services.clients import describes_itself
from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.calls import Request
from entrypoints.http.machinery.limits import AUTH


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
