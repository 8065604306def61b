"""Bound sessions: where a browser registers its key after a sign-in, and renews the cookie that names the key (W3C Device Bound Session
Credentials, draft of 17 February 2026).

Browsers end their part at any refusal but 403 and 429, so whatever is wrong with a renewal is answered with 403 and a challenge. Another
site can send these requests, too: they bring it nothing, and change nothing that the browser would not change by itself.
"""

import re
from typing import Any, Final
from uuid import UUID

from core.domain.errors import RateLimited
from core.domain.identifiers import BoundKeyId
from core.domain.identity.guards.bound_sessions import LONGEST_ID, LONGEST_PROOF, OVER, instructions
from core.usecases.identity.guards.bound_sessions import ChallengedBinding, RenewedBinding
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, Answer, NoBody
from entrypoints.http.machinery.browser_cookies import REGISTRATION, bound_credential, forget_bound, keep_bound, session_token
from entrypoints.http.machinery.callers import ANYONE
from entrypoints.http.machinery.calls import Call, Request
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.limits import BOUND_SESSIONS

_RENEWAL: Final = f"{REGISTRATION}/renew"
# A string (RFC 9651 section 4.2.5), or, as browsers sent it before the draft asked for one, the bare text. None of the texts here has a
# character that would be escaped. Parameters are ignored, as the draft says.
_STRING: Final = re.compile(rb' *(?:"(?P<string>[\x20\x21\x23-\x5b\x5d-\x7e]*)"|(?P<bare>[A-Za-z0-9._-]+)) *(?:;.*)?')
_PARAMETERS: Final = 200


@endpoint.post(REGISTRATION, caller=ANYONE, limit=BOUND_SESSIONS, also={400: NoBody})
async def register_bound_key(call: Call[None, None], postern: Postern) -> Answer[Any]:
    """Register the key of a browser for the session that it has just signed in to"""
    proof = _text(call.request, b"secure-session-response", LONGEST_PROOF)
    bound = None if proof is None else await postern.identity.bound_sessions.register(proof, call.actor)
    return Answer(NO_BODY, 400) if bound is None else _instructed(postern, bound)


@endpoint.post(_RENEWAL, caller=ANYONE, limit=BOUND_SESSIONS, also={403: NoBody}, refuses=(RateLimited,))
async def renew_bound_cookie(call: Call[None, None], postern: Postern) -> Answer[Any]:
    """Renew the cookie that names the key of a browser"""
    request, base_url = call.request, postern.foundation.public_url
    key, proof = _key(request), _text(request, b"secure-session-response", LONGEST_PROOF)
    sessions = postern.identity.bound_sessions
    renewed = None if key is None else await sessions.renew(key, proof, session_token(request, base_url), call.actor)
    if isinstance(renewed, RenewedBinding):
        return _instructed(postern, renewed)
    if isinstance(renewed, ChallengedBinding):
        challenge = f'"{renewed.challenge}";id="{renewed.key}"'
        return Answer(NO_BODY, 403, ((b"secure-session-challenge", challenge.encode()),))
    return Answer(OVER, 200, forget_bound(request, base_url))


def _instructed(postern: Postern, bound: RenewedBinding) -> Answer[Any]:
    base_url = postern.foundation.public_url
    name, attributes = bound_credential(base_url)
    return Answer(instructions(bound.key, name, attributes, _RENEWAL, REGISTRATION), 200, keep_bound(bound.cookie, base_url))


def _key(request: Request) -> BoundKeyId | None:
    text = _text(request, b"sec-secure-session-id", LONGEST_ID)
    try:
        return None if text is None else BoundKeyId(UUID(text))
    except ValueError:
        return None


def _text(request: Request, header: bytes, longest: int) -> str | None:
    """The text of a header. None without the header. Empty if it is too long, or has another form."""
    given = request.header(header)
    if given is None:
        return None
    found = _STRING.fullmatch(given) if len(given) <= longest + _PARAMETERS else None
    return "" if found is None else (found["string"] or found["bare"] or b"").decode("ascii")
