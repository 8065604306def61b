"""Direct requests: an application's own page leads somebody straight to a provider (`GET /auth/{provider}`). It says less than an
authorization request, so what it leaves out follows from what the service has registered.
"""

from collections.abc import Mapping
from typing import Final

from core.domain.errors import BadRequest
from core.domain.federation.oauth.authorization_parameters import is_challenge, is_visible
from core.domain.federation.oauth.authorizations import AuthorizationRequest, Registered, UnknownRecipient, stored, unregistered
from core.domain.federation.oauth.redirects import Recipient, ResponseMode, is_registered
from core.domain.federation.oauth.scopes import EMAIL, OPENID, PROFILE
from core.domain.json import Json
from core.frozen import Frozen

THROUGH: Final = "through"
"""In the request that a flow keeps: the provider that it led straight to, by its word, or by the id of an organization's own."""


class DirectRequest(Frozen, kw_only=True):
    """What the address said. Empty: nothing."""

    redirect_uri: str = ""
    state: str = ""
    code_challenge: str = ""
    code_challenge_method: str = ""


def checked(asked: DirectRequest, registered: Registered) -> AuthorizationRequest:
    """Raises `UnknownRecipient` and `BadRequest`, which the person is told."""
    uri = asked.redirect_uri or next(iter(registered.redirect_uris), "")
    if not uri:
        raise UnknownRecipient("redirect_uri: the service has registered none", words="redirect_missing")
    if not is_registered(uri, registered.redirect_uris, native=registered.is_native):
        raise unregistered()
    if asked.state and not is_visible(asked.state):
        raise BadRequest("state: visible ASCII characters only", words="not_as_declared")
    challenge = asked.code_challenge or None
    # The method may be left out, since there is only one. A challenge that was made by another is not met.
    methods = {"", "S256"} if challenge is not None else {""}
    if asked.code_challenge_method not in methods or (challenge is not None and not is_challenge(challenge)):
        raise BadRequest("code_challenge: a SHA-256 in base64url without padding, with code_challenge_method S256", words="not_as_declared")
    if challenge is None and registered.is_native:
        raise BadRequest("code_challenge: an application on people's devices must use PKCE (RFC 7636)", words="not_as_declared")
    in_code = challenge is not None or registered.authenticates
    return AuthorizationRequest(
        client_id=registered.client_id,
        recipient=Recipient(uri, ResponseMode.QUERY if in_code else ResponseMode.FRAGMENT, asked.state or None),
        scopes=(OPENID, PROFILE, EMAIL),
        code_challenge=challenge,
    )


def has_chosen(request: Mapping[str, Json], provider: str) -> bool:
    """Whether somebody who has signed in through this provider has done what the link led to. `provider` is empty for whoever came in
    otherwise.
    """
    return provider != "" and request.get(THROUGH) == provider


def kept(request: AuthorizationRequest, provider: str) -> Mapping[str, Json]:
    """As the flow keeps it."""
    return {**stored(request), THROUGH: provider}
