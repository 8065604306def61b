"""Logout: RP-initiated logout requests, and the logout tokens of back-channel logout."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import urlencode

from core.domain.errors import BadRequest
from core.domain.federation.oauth.authorization_parameters import LONGEST, LONGEST_HINT, is_visible, locales
from core.domain.federation.oauth.authorization_steps import RequestingApplication
from core.domain.federation.oauth.authorizations import after_logout, is_registered, with_query
from core.domain.formats import Json
from core.domain.identifiers import ClientId, LogoutNoticeId, SessionId, UserId
from core.domain.record.deliveries import DeliveryRules, DueDelivery
from core.domain.secrets import Token
from core.domain.services.clients import read_client_id
from core.frozen import Frozen

LOGOUT_NOTICE_RULES: Final = DeliveryRules(
    # All attempts end within a day. By then most applications have ended the session by their own rules.
    pauses=(
        timedelta(minutes=1),
        timedelta(minutes=4),
        timedelta(minutes=15),
        timedelta(hours=1),
        timedelta(hours=3),
        timedelta(hours=6),
        timedelta(hours=10),
    ),
    # OpenID Connect Back-Channel Logout 1.0, section 2.8. Some frameworks turn an empty 200 into 204.
    received=(200, 204),
    # The receiver has read the token and refuses it. It would refuse the next one too.
    final=(400,),
)
# Short, because the receiver gets the token at once, and has to remember the token's id for its whole lifetime.
LOGOUT_NOTICE_LIFETIME: Final = timedelta(minutes=2)
LOGOUT_NOTICE_HEADERS: Final[Mapping[str, str]] = {"content-type": "application/x-www-form-urlencoded", "user-agent": "Postern-Logout"}
_EVENT: Final = "http://schemas.openid.net/event/backchannel-logout"


class LogoutNotice(Frozen, kw_only=True):
    """The notification that an application gets when one of its sessions ends (OpenID Connect Back-Channel Logout 1.0), as its organization
    sees it. `attempts` counts the attempts that have ended; a failed one is repeated.
    """

    id: LogoutNoticeId
    session: SessionId
    user: UserId
    attempts: int
    next_at: datetime | None
    delivered_at: datetime | None
    status_code: int | None
    error: str | None
    created_at: datetime
    updated_at: datetime


class DueNotice(DueDelivery):
    session: SessionId
    user: UserId


def logout_claims(due: DueNotice, *, client: ClientId, issuer: str, token_id: str, now: datetime) -> Mapping[str, Json]:
    """The claims of a logout token. `token_id` is new for each attempt: a receiver that has seen the id, and then failed, would take the
    next attempt for a repeat. There is no `nonce`, so that nobody can take the token for an ID token (section 2.4).
    """
    return {
        "iss": issuer,
        "aud": client,
        "iat": int(now.timestamp()),
        "exp": int((now + LOGOUT_NOTICE_LIFETIME).timestamp()),
        "jti": token_id,
        "sub": str(due.user),
        "sid": str(due.session),
        "events": {_EVENT: {}},
    }


def body_of(token: Token) -> bytes:
    return urlencode({"logout_token": token.reveal()}).encode()


class WayBackUnknown(BadRequest):
    """The person is not sent anywhere, and stays signed in until they press the button."""

    text = "The application requested a redirect to a URI that is not registered"


class Hint(Frozen):
    """The person and the client of an ID token that we issued."""

    user: UserId
    client: ClientId


class OidcLogoutRequest(Frozen):
    """A logout request of an application (OpenID Connect RP-Initiated Logout 1.0). Unreadable parameters count as left out: the user wants
    to sign out in any case, and is asked.
    """

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
