"""Backchannel authentication (OpenID Connect CIBA Core 1.0): the endpoint for applications, and the pending requests of a user."""

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
    """The authentication request, and the client's credentials."""

    login_hint: Annotated[str, msgspec.Meta(max_length=LONGEST_LOGIN_HINT), example("ada@acme.example")] | None = None
    """The email address or ID of the person. The person must be a member of the client's organization who has joined or confirmed the
    membership.
    """
    scope: Annotated[str, msgspec.Meta(max_length=LONGEST_SCOPES), example("openid orders:read")] | None = None
    """The requested scopes: Postern's own scopes, including `openid`, and scopes of the API. An agent gets none of Postern's own scopes."""
    resource: Annotated[Sequence[Line], msgspec.Meta(max_length=MOST_RESOURCES), example(["https://api.acme.example/orders"])] = ()
    """The identifier of the API that the client requests tokens for (RFC 8707). At most one; required for an agent."""
    binding_message: Annotated[str, msgspec.Meta(max_length=4 * LONGEST_MESSAGE), example("Invoice 4711 for Globex")] | None = None
    """A message that the person sees as your own words. One line of at most 60 characters, without links, addresses or quotation marks."""
    requested_expiry: Annotated[str, msgspec.Meta(max_length=10), example("600")] | None = None
    """The number of seconds until the request expires: 30 to 3600, and 600 by default."""
    id_token_hint: Annotated[str, msgspec.Meta(max_length=_LONGEST_TOKEN)] | None = None
    """Rejected. Identify the person in `login_hint`."""
    login_hint_token: Annotated[str, msgspec.Meta(max_length=_LONGEST_TOKEN)] | None = None
    """Rejected. Identify the person in `login_hint`."""
    request: Annotated[str, msgspec.Meta(max_length=_LONGEST_TOKEN)] | None = None
    """Rejected. Signed requests are not supported."""


class AfarResponse(msgspec.Struct, frozen=True):
    """The ID of the request. The response is the same if no member matches the hint, so it reveals nothing about the person."""

    auth_req_id: Annotated[str, example("1c266114-a1be-4252-8ad1-04986c5b9ac1")]
    """The ID of the request. Send it to `POST /auth/token` to poll."""
    expires_in: Annotated[int, example(600)]
    """The number of seconds until the request expires."""
    interval: Annotated[int, example(5)]
    """The minimum number of seconds between two polls."""


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
    """Start a backchannel authentication request (CIBA)

    The person sees the request on the page "Requests" of their account and in an email, and approves or denies it there. Meanwhile, poll
    `POST /auth/token` every 5 seconds, with `urn:openid:params:grant-type:ciba` and the `auth_req_id`.

    The organization enables this in its sign-in rules (`afar_requests`). Only agents and confidential clients can send requests, and only
    confirmed members can receive them. For any other hint, the response is the same and the request expires. If the request has a DPoP
    proof in `DPoP`, poll with the same key.
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
    """A backchannel request that awaits your approval."""

    id: Id
    service_id: ServiceUuid
    service_name: Annotated[str, example("Assistant")]
    """The name of the application that sent the request."""
    organization_name: Annotated[str, example("Acme")]
    """The name of the application's organization."""
    is_agent: bool
    """Whether the application is an agent that would act for you."""
    scopes: Annotated[Sequence[str], example(["openid"])]
    """The requested scopes of Postern."""
    identifier: Annotated[str, example("https://api.acme.example/orders")] | None
    """The identifier of the requested API; null if there is none."""
    api: Annotated[str, example("Orders")]
    """The name of the requested API; empty if there is none."""
    foreign_scopes: Annotated[Sequence[str], example(["orders:read"])]
    """The requested scopes of the API."""
    says: Annotated[Sequence[str], example(["Read your orders"])]
    """What the scopes of the API allow, in the words of the API's owners."""
    binding_message: Annotated[str, example("Invoice 4711 for Globex")] | None
    """The application's message. Postern does not verify its content."""
    created_at: datetime
    """When the application sent the request."""
    expires_at: datetime
    """When the request expires."""


class AfarRequestList(msgspec.Struct, frozen=True):
    """The pending backchannel requests to you."""

    requests: Sequence[AfarRequestRecord]
    """The pending requests, oldest first."""


class AfarAllowance(msgspec.Struct, frozen=True, kw_only=True):
    """The approval of a request."""

    scopes: Annotated[Sequence[Word], msgspec.Meta(max_length=_MOST_SCOPES), example(["orders:read"])] | None = None
    """The scopes of the API to approve. If omitted, all requested scopes are approved. For an agent, the approval replaces earlier
    approvals.
    """
    days: Literal[1, 7, 30, 90] | None = None
    """The number of days that an agent may act for you. The default is 30."""


class BlockedClientRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An application that you have blocked."""

    service_id: ServiceUuid
    service_name: Annotated[str, example("Assistant")]
    """The name of the application."""
    organization_name: Annotated[str, example("Acme")]
    """The name of the application's organization."""
    blocked_at: datetime
    """When you blocked the application."""


class BlockedClientList(msgspec.Struct, frozen=True):
    """The applications that you have blocked."""

    clients: Sequence[BlockedClientRecord]
    """The blocked applications, sorted by application name and organization name."""


_record = shown(WaitingRequest, AfarRequestRecord, named={"service_id": "service"})
_blocked = shown(BlockedClient, BlockedClientRecord, named={"service_id": "service"})


@endpoint.get(_REQUESTS, caller=OWN_USER, tags=_TAGS)
async def list_afar_requests(call: Call, postern: Postern) -> AfarRequestList:
    """List your pending backchannel requests

    Answered and expired requests are not included.
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

    The application gets its tokens at its next poll. Requires a recent sign-in or reauthentication. If a scope of the API requires more,
    such as MFA, the approval requires it, too.
    """
    request, body = BackchannelRequestId(call.path.request_id), call.body
    found = await postern.federation.afar_requests.get(request, call.caller)
    choice = ConsentChoice(_ticked(found, body.scopes), body.days)
    await postern.federation.afar_requests.allow(request, call.caller, call.actor, choice)
    return NO_BODY


@endpoint.post(f"{_REQUEST}/refuse", caller=OWN_USER, limit=UNLIMITED, status=204, refuses=(NotFound,), tags=_TAGS)
async def decline_afar_request(call: Call[None, None, BackchannelRequestPath], postern: Postern) -> NoBody:
    """Deny a backchannel request

    The application learns of the denial at its next poll.
    """
    await postern.federation.afar_requests.refuse(BackchannelRequestId(call.path.request_id), call.caller.user, call.actor)
    return NO_BODY


@endpoint.post(f"{_REQUEST}/block", caller=OWN_USER, limit=UNLIMITED, status=204, refuses=(NotFound,), tags=_TAGS)
async def block_afar_client(call: Call[None, None, BackchannelRequestPath], postern: Postern) -> NoBody:
    """Block an application from sending you backchannel requests

    All pending requests of the application to you are denied. The application is not told about the block: its later requests expire.
    """
    await postern.federation.afar_requests.block(BackchannelRequestId(call.path.request_id), call.caller.user, call.actor)
    return NO_BODY


@endpoint.get(_BLOCKED, caller=OWN_USER, tags=_TAGS)
async def list_blocked_clients(call: Call, postern: Postern) -> BlockedClientList:
    """List your blocked applications

    Backchannel requests of these applications do not reach you. The applications are not told about the block.
    """
    return BlockedClientList([_blocked(one) for one in (await postern.federation.afar_requests.list_own(call.caller.user)).blocked])


@endpoint.delete(f"{_BLOCKED}/{{service_id}}", caller=OWN_USER, limit=UNLIMITED, status=204, refuses=(NotFound,), tags=_TAGS)
async def unblock_client(call: Call[None, None, BlockedClientPath], postern: Postern) -> NoBody:
    """Unblock an application

    Requests that the application sent while it was blocked remain unanswered.
    """
    await postern.federation.afar_requests.unblock(ServiceId(call.path.service_id), call.caller.user, call.actor)
    return NO_BODY


def _ticked(found: AnsweredRequest, named: Sequence[str] | None) -> Ticked:
    """The ticked scopes. An agent's earlier scopes stay only if they are named."""
    chosen = found.waiting.foreign_scopes if named is None else named
    return frozenset((one.id, name) for one in found.resources for name in found.shown(one) if name in chosen)
