"""What changes between two looks at one request from afar, and what the rules for sign-ins and APIs keep from a yes."""

from typing import Any, Final

import pytest

from adapters.postgres.federation.polled_requests import BackchannelRequestRows
from adapters.postgres.identity.accounts import AccountRows
from core.domain.identity.sessions import TWO_FACTORS
from tests.http.federation.backchannel.asking import ORDERS, READ, REQUESTS, Afar
from tests.http.federation.relying import oauth
from tests.meanwhile import meanwhile

BILLS: Final = "https://api.acme.example/bills"
PAYS: Final = {"name": "bills:pay", "description": "Pay your bills", "acr_values": [TWO_FACTORS]}


def sessions(afar: Afar) -> list[dict[str, Any]]:
    return list(afar.people.rows("select id from sessions where service_id = %s", afar.helper.service.id))


async def test_nobody_is_told_whose_account_goes_meanwhile(afar: Afar, monkeypatch: pytest.MonkeyPatch) -> None:
    await afar.requested()
    end = "delete from users where id = %s"
    meanwhile(monkeypatch, afar.postern.federation.afar_requests.requests, "find_to_tell", lambda: afar.people.change(end, afar.ada.user))
    assert await afar.tell() == [False]
    assert await afar.mails() == []


async def test_an_application_that_goes_meanwhile_is_allowed_nothing(afar: Afar, monkeypatch: pytest.MonkeyPatch) -> None:
    await afar.requested()
    end = "update all_services set deleted_at = now() where id = %s"
    meanwhile(monkeypatch, BackchannelRequestRows, "allow", lambda: afar.people.change(end, afar.helper.service.id))
    assert (await afar.allow()).status == 404
    assert afar.people.rows("select id from afar_requests where state = 'allowed'") == []
    assert afar.audited("user.afar_request.allowed") == []


@pytest.mark.parametrize("answer", ["allow", "refuse"])
async def test_of_two_answers_the_second_finds_nothing(afar: Afar, answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await afar.requested()
    (shown,) = await afar.waiting()
    end = "update afar_requests set state = 'refused', answered_at = now()"
    # The account is held once both have found the request.
    meanwhile(monkeypatch, AccountRows, "hold", lambda: afar.people.change(end))
    assert (await afar.request("POST", f"{REQUESTS}/{shown['id']}/{answer}", {}, by=afar.ada)).status == 404
    assert afar.people.rows("select state from afar_requests") == [{"state": "refused"}]
    assert afar.audited("user.afar_request.%") == []


async def test_a_client_that_is_blocked_twice_is_recorded_once(afar: Afar, monkeypatch: pytest.MonkeyPatch) -> None:
    await afar.requested()
    (shown,) = await afar.waiting()
    other = "insert into afar_blocks (user_id, service_id, blocked_at) values (%s, %s, now())"
    requests = afar.postern.federation.afar_requests.requests
    meanwhile(monkeypatch, requests, "find_waiting", lambda: afar.people.change(other, afar.ada.user, afar.helper.service.id))
    assert (await afar.request("POST", f"{REQUESTS}/{shown['id']}/block", by=afar.ada)).status == 204
    assert await afar.waiting() == []
    assert afar.audited("user.afar_client.blocked") == []


async def test_a_poll_that_names_another_api_leaves_the_yes_as_it_is(afar: Afar) -> None:
    afar.api(BILLS)
    request = await afar.requested()
    assert (await afar.allow()).status == 204
    assert oauth(await afar.poll(request, resource=BILLS)) == (400, "invalid_target")
    afar.kept((await afar.poll(request, resource=ORDERS)).ok())


async def test_a_yes_that_ends_during_the_poll_gives_nothing(afar: Afar, monkeypatch: pytest.MonkeyPatch) -> None:
    request = await afar.requested()
    assert (await afar.allow()).status == 204
    end = "update afar_requests set state = 'consumed'"
    authorization_contexts = afar.postern.federation.afar_requests.authorization_contexts
    meanwhile(monkeypatch, authorization_contexts, "find_in_session", lambda: afar.people.change(end))
    assert oauth(await afar.poll(request)) == (400, "invalid_grant")
    assert sessions(afar) == []


async def test_a_session_that_ends_during_the_poll_gets_the_application_nothing(afar: Afar, monkeypatch: pytest.MonkeyPatch) -> None:
    request = await afar.requested()
    assert (await afar.allow()).status == 204
    end = "delete from sessions where id = %s"
    requests = afar.postern.federation.afar_requests.requests
    meanwhile(monkeypatch, requests, "poll", lambda: afar.people.change(end, afar.ada.session))
    assert oauth(await afar.poll(request)) == (400, "access_denied")
    assert sessions(afar) == []


async def test_a_scope_that_asks_for_two_factors_is_not_allowed_with_one(afar: Afar) -> None:
    afar.api(BILLS, scopes=[PAYS])
    await afar.requested(scope="bills:pay", resource=BILLS)
    refused = await afar.allow()
    assert (refused.status, refused.error_code) == (403, "MFA_REQUIRED")
    assert len(await afar.waiting()) == 1


async def test_whose_directory_lets_us_sign_them_in_nowhere_allows_nothing(afar: Afar) -> None:
    await afar.requested()
    afar.people.change("update sessions set refuses_applications = true where id = %s", afar.ada.session)
    assert (await afar.allow(scopes=[READ])).status == 403
    afar.people.change("update sessions set refuses_applications = false where id = %s", afar.ada.session)
    assert (await afar.allow(scopes=[READ])).status == 204
