"""Rate limits at the token endpoint and related endpoints: failed and anonymous requests count by address, authenticated clients by their
own bucket.
"""

from collections import Counter

import pytest

from core.domain.rate_limits import RateLimit
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery import clients
from entrypoints.http.machinery.limits import AUTH, DEVICE_FLOW, Limiter
from entrypoints.http.routes.federation import grants
from tests.conftest import CapturedLog
from tests.http.client import Client
from tests.http.federation.relying import INTROSPECT, REVOKE, TOKEN, Relying, basic
from tests.http.identity.test_sign_in import last_trips
from tests.http.people import People

OWN = {"grant_type": "client_credentials"}


@pytest.fixture
def limited(postern: Postern, people: People, client: Client, log: CapturedLog) -> Relying:
    return Relying(postern, people, client, log)


async def until_refused(limited: Relying, path: str, fields: dict[str, str], limit: RateLimit, status: int) -> None:
    """Sends requests until one is refused. The bucket lets its capacity through, and a few more as time passes."""
    for answered in range(3 * limit.burst):
        answer = await limited.ask(path, fields)
        if answer.status == 429:
            assert answered >= limit.burst
            return
        assert answer.status == status
    raise AssertionError("nothing is limited here")


async def test_a_server_may_sign_many_people_in(limited: Relying) -> None:
    for _ in range(AUTH.burst + 5):
        assert (await limited.ask(fields=OWN, headers=limited.shop.basic)).status == 200
    tokens = await limited.signed_in(limited.shop)
    for _ in range(AUTH.burst + 5):
        assert (await limited.introspect(limited.shop, tokens["access_token"]))["active"]
    # An authenticated client's mistakes do not count by address either.
    for _ in range(AUTH.burst + 5):
        assert (await limited.redeem(limited.shop, "unknown")).status == 400


async def test_a_client_has_a_bucket_of_its_own(limited: Relying, monkeypatch: pytest.MonkeyPatch) -> None:
    few = RateLimit("client", burst=3, seconds_per_request=1000)
    monkeypatch.setattr(clients, "CLIENT", few)
    fields = {**OWN, **limited.shop.posted}
    await until_refused(limited, TOKEN, fields, few, 200)
    # The alias shares the bucket. Another client and another address have their own.
    answer = await limited.ask("/oauth/token", fields)
    assert (answer.status, answer.json()["error"]) == (429, "temporarily_unavailable")
    assert answer.header("retry-after") is not None
    sibling = limited.application(limited.acme, "sibling", secret=True)
    assert (await limited.ask(fields={**OWN, **sibling.posted})).status == 200


async def test_a_client_whose_bucket_is_empty_keeps_its_code(limited: Relying, monkeypatch: pytest.MonkeyPatch) -> None:
    few = RateLimit("client", burst=3, seconds_per_request=1000)
    monkeypatch.setattr(clients, "CLIENT", few)
    monkeypatch.setattr(grants, "OF_CLIENT", few)
    codes = [await limited.code(limited.shop) for _ in range(few.burst + 1)]
    # A caller who knows only the client id takes nothing out of the client's bucket.
    for _ in range(few.burst + 1):
        assert (await limited.ask(fields={**OWN, "client_id": limited.shop.client_id, "client_secret": "wrong"})).status == 401
        assert (await limited.redeem(limited.shop, codes[0], client_secret="wrong")).status == 401
    assert [(await limited.redeem(limited.shop, code)).status for code in codes] == [200, 200, 200, 429]
    assert len(limited.people.rows("select from authorization_codes where redeemed_at is null")) == 1


async def test_what_a_known_client_gets_wrong_with_codes_counts(limited: Relying, monkeypatch: pytest.MonkeyPatch) -> None:
    few = RateLimit("client", burst=3, seconds_per_request=1000)
    monkeypatch.setattr(clients, "CLIENT", few)
    monkeypatch.setattr(grants, "OF_CLIENT", few)
    assert [(await limited.redeem(limited.shop, "unknown")).status for _ in range(few.burst + 1)] == [400, 400, 400, 429]


async def test_where_wrong_secrets_come_from_a_client_is_looked_up_before_its_code(
    limited: Relying, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = RateLimit(AUTH.name, burst=AUTH.burst, seconds_per_request=1000)
    monkeypatch.setattr(clients, "AUTH", slow)
    monkeypatch.setattr(grants, "AUTH", slow)

    async def trips() -> int:
        assert (await limited.redeem(limited.shop, await limited.code(limited.shop))).status == 200
        return last_trips(limited.log)

    await limited.signed_in(limited.shop)
    assert await trips() == 1
    wrong = {**OWN, "client_id": limited.shop.client_id, "client_secret": "wrong"}
    await until_refused(limited, TOKEN, wrong, DEVICE_FLOW, 401)
    for _ in range(AUTH.burst):
        await limited.ask(fields=wrong)
    # A server with the right secret behind the same address still gets its tokens.
    assert await trips() == 2


async def test_of_two_at_once_who_empty_the_bucket_both_get_their_tokens(limited: Relying, monkeypatch: pytest.MonkeyPatch) -> None:
    one = RateLimit("client", burst=1, seconds_per_request=1000)
    monkeypatch.setattr(grants, "OF_CLIENT", one)
    # Both requests read the bucket before either has authenticated.
    monkeypatch.setattr(Limiter, "has_room_for_client", lambda *_: True)
    assert [(await limited.redeem(limited.shop, await limited.code(limited.shop))).status for _ in range(2)] == [200, 200]


async def test_an_office_behind_one_address_signs_in_with_a_public_client(limited: Relying) -> None:
    for _ in range(AUTH.burst + 5):
        assert (await limited.redeem(limited.page, await limited.code(limited.page))).status == 200


async def test_what_a_public_client_fails_at_counts(limited: Relying) -> None:
    fields = {"grant_type": "authorization_code", "code": "x", "redirect_uri": "https://a.example/", "code_verifier": "v" * 43}
    await until_refused(limited, TOKEN, {**fields, **limited.page.posted}, AUTH, 400)
    # The alias and the other endpoints under /auth share the bucket. A request with a good code does not count.
    answers = [await limited.ask("/oauth/token", {**fields, **limited.phone.posted}) for _ in range(3)]
    answers += [await limited.client.post("/api/auth/refresh", {"refresh_token": "x"}) for _ in range(3)]
    assert 429 in {answer.status for answer in answers}
    assert (await limited.redeem(limited.page, await limited.code(limited.page))).status == 200


async def test_a_failed_authentication_counts_as_a_try_of_the_device_flow(limited: Relying) -> None:
    wrong = {**OWN, "client_id": limited.shop.client_id, "client_secret": "wrong"}
    await until_refused(limited, TOKEN, wrong, DEVICE_FLOW, 401)
    header = [basic(limited.shop.client_id, "wrong")]
    answers = [await limited.ask(path, {"token": "x", **OWN}, header) for path in ("/oauth/token", INTROSPECT, REVOKE, "/oauth/revoke")]
    assert Counter(answer.status for answer in answers)[429] >= 3
    # The client itself still gets in.
    assert (await limited.ask(fields=OWN, headers=limited.shop.basic)).status == 200


async def test_polls_of_public_clients_count(limited: Relying) -> None:
    polls = {"device_code": "x", **limited.phone.posted}
    await until_refused(limited, TOKEN, polls, DEVICE_FLOW, 400)


async def test_public_clients_that_revoke_or_refresh_count(limited: Relying) -> None:
    await until_refused(limited, REVOKE, {"token": "x", **limited.page.posted}, AUTH, 200)
    assert 429 in {(await limited.refresh(limited.page, "x")).status for _ in range(3)}


async def test_whoever_names_no_client_counts(limited: Relying) -> None:
    await until_refused(limited, TOKEN, OWN, AUTH, 400)
