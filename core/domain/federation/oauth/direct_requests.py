"""Direct requests: an application's own page sends somebody straight to a provider (`GET /auth/{provider}`). A direct request has fewer
parameters than an authorization request; the registration of the service fills in the rest.
"""

from collections.abc import Mapping
from typing import Final

from core.domain.errors import BadRequest
from core.domain.federation.oauth.authorization_parameters import is_challenge, is_visible
from core.domain.federation.oauth.authorizations import AuthorizationRequest, Registered, UnknownRecipient, stored, unregistered
from core.domain.federation.oauth.redirects import Recipient, ResponseMode, is_registered
from core.domain.federation.oauth.scopes import EMAIL, OPENID, PROFILE, PROVIDER_TOKEN
from core.domain.json import Json
from core.frozen import Frozen

THROUGH: Final = "through"
"""A member of the request that a flow stores: the provider that the request named, by its word, or by the id of an organization's own."""


class DirectRequest(Frozen, kw_only=True):
    """The parameters in the address. A missing parameter is empty."""

    redirect_uri: str = ""
    state: str = ""
    code_challenge: str = ""
    code_challenge_method: str = ""


def checked(asked: DirectRequest, registered: Registered) -> AuthorizationRequest:
    """Raises `UnknownRecipient` and `BadRequest`, which a page shows to the person."""
    uri = asked.redirect_uri or next(iter(registered.redirect_uris), "")
    if not uri:
        raise UnknownRecipient("redirect_uri: the service has registered none", words="redirect_missing")
    if not is_registered(uri, registered.redirect_uris, native=registered.is_native):
        raise unregistered()
    if asked.state and not is_visible(asked.state):
        raise BadRequest("state: visible ASCII characters only", words="not_as_declared")
    challenge = asked.code_challenge or None
    # The method may be left out, since there is only one. The token endpoint refuses a challenge of another method.
    methods = {"", "S256"} if challenge is not None else {""}
    if asked.code_challenge_method not in methods or (challenge is not None and not is_challenge(challenge)):
        raise BadRequest("code_challenge: a SHA-256 in base64url without padding, with code_challenge_method S256", words="not_as_declared")
    if challenge is None and registered.is_native:
        raise BadRequest("code_challenge: an application on people's devices must use PKCE (RFC 7636)", words="not_as_declared")
    in_code = challenge is not None or registered.authenticates
    return AuthorizationRequest(
        client_id=registered.client_id,
        recipient=Recipient(uri, ResponseMode.QUERY if in_code else ResponseMode.FRAGMENT, asked.state or None),
        # The request has no parameter for scopes. The person chooses an account at the provider for this very application, so its session
        # opens the provider's token, too.
        scopes=(OPENID, PROFILE, EMAIL, PROVIDER_TOKEN),
        code_challenge=challenge,
    )


def has_chosen(request: Mapping[str, Json], provider: str) -> bool:
    """Whether a sign-in through this provider counts as the person's choice: the flow's request named the same provider. `provider` is
    empty for a person who signed in otherwise.
    """
    return provider != "" and request.get(THROUGH) == provider


def kept(request: AuthorizationRequest, provider: str) -> Mapping[str, Json]:
    """The form that the flow stores."""
    return {**stored(request), THROUGH: provider}
