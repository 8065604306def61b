"""Signing out at an application's request: the request's parameters, and the address that the person gets to."""

from uuid import UUID

import pytest

from core.domain.federation.logouts import Hint, OidcLogoutRequest, WayBackUnknown, client_of_logout, logout_request, way_back
from core.domain.federation.oauth.authorization_parameters import LONGEST, LONGEST_HINT
from core.domain.federation.oauth.authorization_steps import RequestingApplication
from core.domain.federation.oauth.authorizations import Registered
from core.domain.identifiers import ClientId, UserId
from core.frozen import replace
from tests.domain.federation.test_authorization_steps import APPLICATION, CLIENT
from tests.hostile_uris import ALWAYS, FOR_THE_WEB, LOOPBACK, NEAR_LOOPBACK, NEAR_REGISTERED, REGISTERED

OTHER = ClientId(str(UUID(int=99)))
AFTER = "https://app.example.com/signed-out"


def asking(uri: str | None, state: str | None = None) -> OidcLogoutRequest:
    return OidcLogoutRequest(post_logout_redirect_uri=uri, state=state)


def application(*after: str, redirect_uris: tuple[str, ...] = (REGISTERED,), native: bool = False) -> RequestingApplication:
    registered = Registered(CLIENT, redirect_uris, is_native=native, authenticates=True)
    return replace(APPLICATION, registered=registered, post_logout_redirect_uris=after)


def test_all_that_one_may_say() -> None:
    given = {"id_token_hint": "a.b.c", "client_id": str(CLIENT), "post_logout_redirect_uri": AFTER, "state": "a b"}
    given["ui_locales"] = "xx_ de fr-CA"
    assert logout_request(given.items()) == OidcLogoutRequest("a.b.c", CLIENT, AFTER, "a b", ("de", "fr-CA"))
    assert logout_request([]) == OidcLogoutRequest()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("id_token_hint", "é"),
        ("id_token_hint", "a" * (LONGEST_HINT + 1)),
        ("client_id", "app"),
        ("client_id", ""),
        ("state", "a\nb"),
        ("state", "a" * (LONGEST + 1)),
        ("post_logout_redirect_uri", ""),
    ],
)
def test_what_cannot_be_read_is_left_out(name: str, value: str) -> None:
    assert logout_request([(name, value)]) == OidcLogoutRequest()


def test_what_is_said_twice_is_not_said() -> None:
    assert logout_request([("post_logout_redirect_uri", AFTER), ("post_logout_redirect_uri", AFTER), ("state", "s")]) == asking(None, "s")


def test_the_client_is_the_one_of_the_token_unless_another_is_named() -> None:
    hint = Hint(UserId(UUID(int=1)), CLIENT)
    assert client_of_logout(OidcLogoutRequest(), None) is None
    assert client_of_logout(OidcLogoutRequest(client=CLIENT), None) == CLIENT
    assert client_of_logout(OidcLogoutRequest(), hint) == CLIENT
    assert client_of_logout(OidcLogoutRequest(client=CLIENT), hint) == CLIENT
    assert client_of_logout(OidcLogoutRequest(client=OTHER), hint) is None


def test_the_person_goes_back_to_what_is_registered() -> None:
    assert way_back(asking(None, "s"), application(AFTER)) is None
    assert way_back(asking(AFTER, "s"), None) is None
    assert way_back(asking(AFTER), application(AFTER)) == AFTER
    assert way_back(asking(AFTER, "a&b"), application(AFTER)) == f"{AFTER}?state=a%26b"
    # If the service has registered none, to its redirect URIs.
    assert way_back(asking(REGISTERED, "s"), application()) == f"{REGISTERED}?state=s"
    with pytest.raises(WayBackUnknown):
        way_back(asking(REGISTERED), application(AFTER))


def test_and_to_nothing_that_is_not() -> None:
    for uri in (*ALWAYS, *FOR_THE_WEB, *NEAR_REGISTERED, *NEAR_LOOPBACK):
        for one in (application(REGISTERED), application(), application(redirect_uris=(LOOPBACK,), native=True)):
            if uri == "" or (uri == "http://127.0.0.1:3000/callback" and one.registered.is_native):
                continue
            if uri == "http://127.0.0.1/callback" and one.registered.is_native:
                continue
            with pytest.raises(WayBackUnknown):
                way_back(asking(uri), one)
