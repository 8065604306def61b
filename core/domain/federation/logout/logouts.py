"""Signing out at an application's request (OpenID Connect RP-Initiated Logout 1.0)."""

from collections.abc import Iterable

from core.domain.errors import BadRequest
from core.domain.federation.oauth.authorization_parameters import LONGEST, LONGEST_HINT, is_visible, locales
from core.domain.federation.oauth.authorization_steps import RequestingApplication
from core.domain.federation.oauth.redirects import after_logout, is_registered, with_query
from core.domain.identifiers import ClientId, UserId
from core.domain.services.client_ids import read_client_id
from core.frozen import Frozen


class WayBackUnknown(BadRequest):
    """The person is not sent anywhere, and stays signed in until they press the button."""

    text = "The application asks to send you to an address that it has not registered"


class Hint(Frozen):
    """The person and the client of an ID token that we issued."""

    user: UserId
    client: ClientId


class OidcLogoutRequest(Frozen):
    """A request to sign out. Unreadable parameters count as left out: the person wants to sign out in any case, and is asked."""

    id_token_hint: str | None = None
    client: ClientId | None = None
    post_logout_redirect_uri: str | None = None
    state: str | None = None
    ui_locales: tuple[str, ...] = ()


def logout_request(pairs: Iterable[tuple[str, str]]) -> OidcLogoutRequest:
    values: dict[str, str] = {}
    repeated: set[str] = set()
    for name, value in pairs:
        if name in values:
            repeated.add(name)
        values[name] = value
    given = {name: value for name, value in values.items() if value and name not in repeated}
    hint, state = given.get("id_token_hint"), given.get("state")
    return OidcLogoutRequest(
        hint if hint is not None and hint.isascii() and len(hint) <= LONGEST_HINT else None,
        read_client_id(given.get("client_id", "")),
        given.get("post_logout_redirect_uri"),
        state if state is not None and len(state) <= LONGEST and is_visible(state) else None,
        locales(given.get("ui_locales")),
    )


def client_of_logout(request: OidcLogoutRequest, hint: Hint | None) -> ClientId | None:
    """The application that asks. None when the request names no client, or when the hint was made for another one."""
    if hint is None or request.client in {None, hint.client}:
        return request.client if hint is None else hint.client
    return None


def way_back(request: OidcLogoutRequest, application: RequestingApplication | None) -> str | None:
    """The address that the person is sent to afterwards. None when the person stays here. Raises `WayBackUnknown`: an address must match
    byte for byte, and only the application that has registered an address may name it.
    """
    uri = request.post_logout_redirect_uri
    if uri is None or application is None:
        return None
    registered = application.registered
    if not is_registered(uri, after_logout(application.post_logout_redirect_uris, registered.redirect_uris), native=registered.is_native):
        raise WayBackUnknown(words="redirect_unregistered")
    return with_query(uri, {} if request.state is None else {"state": request.state})
