"""Requests from afar (OpenID Connect CIBA Core 1.0): an application asks for a person who is elsewhere, and people answer by the API."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Final, Literal

import msgspec

from core.domain.errors import BadRequest, NotFound, RateLimited
from core.domain.federation.backchannel_requests import (
    LONGEST_LOGIN_HINT,
    LONGEST_MESSAGE,
    AskedBackchannel,
    BlockedClient,
    InvalidBindingMessage,
    WaitingRequest,
    read_expiry,
    read_message,
)
from core.domain.federation.oauth.clients import AuthenticationMethod
from core.domain.federation.oauth.consents import ConsentChoice
from core.domain.federation.oauth.oidc import BACKCHANNEL_ENDPOINT
from core.domain.federation.oauth.refusals import InvalidScope, InvalidTarget, UnauthorizedClient
from core.domain.federation.oauth.resources import LONGEST_SCOPES, MOST_RESOURCES, Ticked
from core.domain.identifiers import BackchannelRequestId, ServiceId
from core.domain.identity.proofs import StepUp
from core.domain.key_proofs import KeyProofMissing, KeyProofRefused, NonceNeeded
from core.usecases.federation.backchannel_requests import AnsweredRequest
from core.usecases.federation.grants import asked_scopes
from entrypoints.bootstrap import Postern
from entrypoints.http.key_proofs import shown_key
from entrypoints.http.machinery.accepts import Form
from entrypoints.http.machinery.answers import DPOP, NO_BODY, NoBody, Origins
from entrypoints.http.machinery.callers import CLIENT, OWN_USER
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.clients import COUNTS, ClientFields, all_said, authenticated_by, credentials, said
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.errors import OAUTH
from entrypoints.http.machinery.fields import BackchannelRequestUuid, Id, Line, ServiceUuid, Word, example
from entrypoints.http.machinery.limits import AUTH, CREDENTIALS, UNLIMITED

_TAGS: Final = ("account",)
_REQUESTS: Final = "/api/user/requests"
_REQUEST: Final = f"{_REQUESTS}/{{request_id}}"
_BLOCKED: Final = "/api/user/blocked-clients"
_FORM: Final = Form(limit=16 << 10, most_fields=50)
_LONGEST_TOKEN: Final = 4096
_MOST_SCOPES: Final = 500


class AfarRequestBody(ClientFields, frozen=True, kw_only=True):
    """The request, and the client's credentials."""

    login_hint: Annotated[str, msgspec.Meta(max_length=LONGEST_LOGIN_HINT), example("ada@acme.example")] | None = None
    """The person, by email address or ID: a member of the client's organization who has joined or confirmed the membership."""
    scope: Annotated[str, msgspec.Meta(max_length=LONGEST_SCOPES), example("openid orders:read")] | None = None
    """Some of the scopes of Postern, with `openid`, and scopes of the API. An agent gets none of the first."""
    resource: Annotated[Sequence[Line], msgspec.Meta(max_length=MOST_RESOURCES), example(["https://api.acme.example/orders"])] = ()
    """The identifier of the API that the client wants tokens for (RFC 8707): one, which an agent has to name."""
    binding_message: Annotated[str, msgspec.Meta(max_length=4 * LONGEST_MESSAGE), example("Invoice 4711 for Globex")] | None = None
    """What the person reads as your words: one line of at most 60 characters, without links, addresses and quotation marks."""
    requested_expiry: Annotated[str, msgspec.Meta(max_length=10), example("600")] | None = None
    """For how many seconds the request waits: 30 to 3600, and 600 unless you say."""
    id_token_hint: Annotated[str, msgspec.Meta(max_length=_LONGEST_TOKEN)] | None = None
    """Refused: name the person in `login_hint`."""
    login_hint_token: Annotated[str, msgspec.Meta(max_length=_LONGEST_TOKEN)] | None = None
    """Refused: name the person in `login_hint`."""
    request: Annotated[str, msgspec.Meta(max_length=_LONGEST_TOKEN)] | None = None
    """Refused: no signed requests."""


class AfarResponse(msgspec.Struct, frozen=True):
    """The ID of the request. It reveals nothing about the person: the response is the same for a hint without a matching member."""

    auth_req_id: Annotated[str, example("1c266114-a1be-4252-8ad1-04986c5b9ac1")]
    """Poll `POST /auth/token` with it."""
    expires_in: Annotated[int, example(600)]
    """How many seconds the request waits."""
    interval: Annotated[int, example(5)]
    """The number of seconds that the client waits between two polls."""


@endpoint.post(
    BACKCHANNEL_ENDPOINT,
    caller=CLIENT,
    limit=UNLIMITED,
    counts=COUNTS,
    refuses=(
        *(BadRequest, InvalidBindingMessage, InvalidScope, InvalidTarget, UnauthorizedClient, RateLimited),
        *(KeyProofRefused, KeyProofMissing, NonceNeeded),
    ),
    reads=(DPOP,),
    accepts=_FORM,
    errors=OAUTH,
    origins=Origins.CLIENTS,
    tags=("oauth",),
)
async def request_from_afar(call: Call[AfarRequestBody], postern: Postern) -> AfarResponse:
    """Request approval from a person on another device

    Backchannel authentication (CIBA). The person reads the request on the page "Requests" of their account, and in an email, and approves
    or denies it there. Meanwhile poll `POST /auth/token` with `urn:openid:params:grant-type:ciba` and the `auth_req_id`, every five
    seconds. The organization turns this on in its sign-in rules (`afar_requests`). Only agents and applications with a secret or keys can
    send requests, and only confirmed members can receive them. For any other hint, the response is the same, and the request expires. A
    request with a DPoP proof in `DPoP` must be polled with the same key.
    """
    fields = call.body
    credential = await credentials(call, postern)
    key = await shown_key(call.request, postern, is_confidential=credential.method is not AuthenticationMethod.NONE)
    client = await authenticated_by(credential, call, postern)
    if client.is_public:
        await call.request.count(AUTH)
    if said(fields.request) is not None:
        raise BadRequest("request: signed requests are not supported")
    hint = said(fields.login_hint)
    if hint is None or said(fields.id_token_hint) is not None or said(fields.login_hint_token) is not None:
        raise BadRequest("login_hint: identify the person with login_hint, by email address or ID, and with no other hint")
    resources = tuple(dict.fromkeys(all_said(fields.resource)))
    scopes, foreign = asked_scopes(said(fields.scope), of_apis=bool(resources))
    asked = AskedBackchannel(
        login_hint=hint.strip(),
        scopes=scopes,
        foreign_scopes=foreign,
        resources=resources,
        binding_message=read_message(said(fields.binding_message)),
        lifetime=read_expiry(said(fields.requested_expiry)),
        key=key,
    )
    answer = await postern.federation.afar_requests.ask(client, asked)
    return AfarResponse(answer.auth_req_id, answer.expires_in, answer.interval)


class BackchannelRequestPath(msgspec.Struct, frozen=True):
    request_id: BackchannelRequestUuid


class BlockedClientPath(msgspec.Struct, frozen=True):
    service_id: ServiceUuid


class AfarRequestRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A request that waits for you."""

    id: Id
    service_id: ServiceUuid
    service_name: Annotated[str, example("Assistant")]
    """The name of the application that asks."""
    organization_name: Annotated[str, example("Acme")]
    """The name of its organization."""
    is_agent: bool
    """Whether it acts for you by itself."""
    scopes: Annotated[Sequence[str], example(["openid"])]
    """The scopes of Postern that it asks for."""
    identifier: Annotated[str, example("https://api.acme.example/orders")] | None
    """The identifier of the API that it wants to use; null without one."""
    api: Annotated[str, example("Orders")]
    """The name of this API; empty without one."""
    foreign_scopes: Annotated[Sequence[str], example(["orders:read"])]
    """The scopes of the API that it asks for."""
    says: Annotated[Sequence[str], example(["Read your orders"])]
    """What they allow, in the words of the API's owners."""
    binding_message: Annotated[str, example("Invoice 4711 for Globex")] | None
    """The application's own words. No one has checked them."""
    created_at: datetime
    """When it asked."""
    expires_at: datetime
    """Until when you can answer."""


class AfarRequestList(msgspec.Struct, frozen=True):
    """The requests that wait for you."""

    requests: Sequence[AfarRequestRecord]
    """The oldest first."""


class AfarAllowance(msgspec.Struct, frozen=True, kw_only=True):
    """What you allow."""

    scopes: Annotated[Sequence[Word], msgspec.Meta(max_length=_MOST_SCOPES), example(["orders:read"])] | None = None
    """The scopes of the API that you allow; all that it asks for, if omitted. Of an agent, the answer replaces earlier ones."""
    days: Literal[1, 7, 30, 90] | None = None
    """How long an agent may act: 30 days by default."""


class BlockedClientRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An application that you have blocked."""

    service_id: ServiceUuid
    service_name: Annotated[str, example("Assistant")]
    """The name of the application."""
    organization_name: Annotated[str, example("Acme")]
    """The name of its organization."""
    blocked_at: datetime
    """Blocked since."""


class BlockedClientList(msgspec.Struct, frozen=True):
    """The applications that you have blocked."""

    clients: Sequence[BlockedClientRecord]
    """Sorted by application and organization name."""


_record = shown(WaitingRequest, AfarRequestRecord, named={"service_id": "service"})
_blocked = shown(BlockedClient, BlockedClientRecord, named={"service_id": "service"})


@endpoint.get(_REQUESTS, caller=OWN_USER, tags=_TAGS)
async def list_afar_requests(call: Call, postern: Postern) -> AfarRequestList:
    """List the pending backchannel requests to you

    Answered and expired requests are not in the list.
    """
    return AfarRequestList([_record(one) for one in (await postern.federation.afar_requests.list_own(call.caller.user)).waiting])


@endpoint.post(
    f"{_REQUEST}/allow",
    caller=OWN_USER,
    limit=CREDENTIALS,
    status=204,
    step_up=StepUp.ACCOUNT,
    refuses=(NotFound, BadRequest),
    tags=_TAGS,
)
async def approve_afar_request(call: Call[AfarAllowance, None, BackchannelRequestPath], postern: Postern) -> NoBody:
    """Approve a backchannel request

    The application gets its tokens at its next poll. Requires a recent sign-in or reauthentication, or more if a scope of the API requires
    it.
    """
    request, body = BackchannelRequestId(call.path.request_id), call.body
    found = await postern.federation.afar_requests.get(request, call.caller)
    choice = ConsentChoice(_ticked(found, body.scopes), body.days)
    await postern.federation.afar_requests.allow(request, call.caller, call.actor, choice)
    return NO_BODY


@endpoint.post(f"{_REQUEST}/refuse", caller=OWN_USER, limit=UNLIMITED, status=204, refuses=(NotFound,), tags=_TAGS)
async def decline_afar_request(call: Call[None, None, BackchannelRequestPath], postern: Postern) -> NoBody:
    """Deny a backchannel request

    The application is told at its next poll.
    """
    await postern.federation.afar_requests.refuse(BackchannelRequestId(call.path.request_id), call.caller.user, call.actor)
    return NO_BODY


@endpoint.post(f"{_REQUEST}/block", caller=OWN_USER, limit=UNLIMITED, status=204, refuses=(NotFound,), tags=_TAGS)
async def block_afar_client(call: Call[None, None, BackchannelRequestPath], postern: Postern) -> NoBody:
    """Deny a request, and block its application

    All its pending requests to you are denied. The application does not see the block: later requests expire.
    """
    await postern.federation.afar_requests.block(BackchannelRequestId(call.path.request_id), call.caller.user, call.actor)
    return NO_BODY


@endpoint.get(_BLOCKED, caller=OWN_USER, tags=_TAGS)
async def list_blocked_clients(call: Call, postern: Postern) -> BlockedClientList:
    """List the applications that you have blocked

    Their requests no longer reach you, and they do not see the block.
    """
    return BlockedClientList([_blocked(one) for one in (await postern.federation.afar_requests.list_own(call.caller.user)).blocked])


@endpoint.delete(f"{_BLOCKED}/{{service_id}}", caller=OWN_USER, limit=UNLIMITED, status=204, refuses=(NotFound,), tags=_TAGS)
async def unblock_client(call: Call[None, None, BlockedClientPath], postern: Postern) -> NoBody:
    """Unblock an application

    Requests that it sent while blocked stay without an answer.
    """
    await postern.federation.afar_requests.unblock(ServiceId(call.path.service_id), call.caller.user, call.actor)
    return NO_BODY


def _ticked(found: AnsweredRequest, named: Sequence[str] | None) -> Ticked:
    """The ticked scopes. An agent's earlier scopes stay only if they are named."""
    chosen = found.waiting.foreign_scopes if named is None else named
    return frozenset((one.id, name) for one in found.resources for name in found.shown(one) if name in chosen)
