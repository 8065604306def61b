"""The JWT bearer grant of the token endpoint, for workloads that have no secret."""

from typing import Any

from core.domain.errors import BadRequest, Refusal
from core.domain.federation.oauth.clients import AuthenticationMethod
from core.domain.federation.oauth.grants import IssuedTokens, TokenRequest
from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.key_proofs import shown_key
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.clients import count_refusal, credentials
from entrypoints.http.machinery.limits import AUTH, CLIENT


async def of_workload(call: Call[Any], postern: Postern, request: TokenRequest) -> IssuedTokens:
    """The assertion authenticates the workload, so a good one counts under the bucket of the client or the key, and a refused one under the
    address that it came from.
    """
    shown = await credentials(call, postern)
    if not call.request.has_room(AUTH, CLIENT):
        # Checking a signature costs more than refusing: nobody who has sent too many bad ones gets there.
        await call.request.count(AUTH)
    try:
        if shown.method is not AuthenticationMethod.NONE:
            raise BadRequest("client_id: an assertion stands in place of the client's credentials, so send client_id alone")
        key = await shown_key(call.request, postern, is_confidential=True)
        issued = await postern.federation.workloads.exchange(replace(request, key=key), shown.client)
    except Refusal as refusal:
        await count_refusal(call.request, refusal)
        raise
    call.request.count_client(CLIENT)
    return issued
