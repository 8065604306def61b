"""The recorder of refusals: the last refused requests of an application, each with its reason, and nothing about people."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import pytest
import trio

from core.domain.federation.authorization_refusals import (
    MOST_REFUSALS,
    refused_request,
    shown_address,
    shown_word,
    shown_words,
)
from core.domain.federation.oauth.authorizations import SHOWN_TO_THE_PERSON, AuthorizationErrorCode
from core.domain.federation.oauth.refusals import RefusalReason, reason_in_words
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.client import Client, Received
from tests.http.federation.arriving import Arriving
from tests.http.federation.relying import CALLBACK, CHALLENGE, Application, Relying
from tests.http.people import People
from tests.patience import PATIENCE

Read = Callable[..., Awaitable[list[dict[str, Any]]]]


@pytest.fixture
async def read(relying: Relying, postern: Postern) -> AsyncIterator[Read]:
    """Reads the kept refusals of an application, once there are this many."""
    owner = relying.people.add()
    relying.tenants.join(owner, relying.acme, "owner")

    async def until(application: Application, number: int = 1) -> list[dict[str, Any]]:
        token = await relying.people.token(owner)
        with trio.fail_after(PATIENCE):
            while True:
                answer = await relying.client.get(f"/api/organizations/acme/services/{application.service.slug}/refusals", token=token)
                found: list[dict[str, Any]] = answer.ok()["refusals"]
                if len(found) >= number:
                    return found
                await trio.sleep(0.05)

    async with trio.open_nursery() as nursery:
        await nursery.start(lambda task_status: postern.federation.refusal_recorder.run(task_status=task_status))
        yield until
        nursery.cancel_scope.cancel()


async def authorize(relying: Relying, application: Application, **changed: str | None) -> Received:
    fields: Mapping[str, str | None] = {
        "client_id": application.client_id,
        "redirect_uri": CALLBACK,
        "response_type": "code",
        "scope": "openid",
        "state": "ada@example.org",
        "login_hint": "ada@example.org",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        **changed,
    }
    return await relying.client.get(f"/oauth/authorize?{urlencode({name: value for name, value in fields.items() if value is not None})}")


@pytest.mark.parametrize(
    ("changed", "reason", "received", "registered"),
    [
        ({"redirect_uri": f"{CALLBACK}/?user=ada@example.org"}, "redirect_unregistered", f"{CALLBACK}/", [CALLBACK]),
        ({"redirect_uri": None}, "redirect_missing", "", [CALLBACK]),
        ({"scope": "read:all ada@example.org"}, "scope_unknown", "read:all", None),
        ({"response_type": "token"}, "response_type", "token", ["code"]),
        ({"response_mode": "web_message"}, "response_mode", "web_message", ["query", "form_post", "fragment"]),
        ({"code_challenge": None, "code_challenge_method": None}, "pkce_missing", "", ["S256"]),
        ({"code_challenge_method": "plain"}, "pkce_malformed", "plain", ["S256"]),
        ({"request": "eyJhbGciOiJub25lIn0.e30."}, "request_object", "", []),
        ({"max_age": "soon"}, "parameter", "max_age", []),
    ],
)
async def test_a_refused_authorization_request_is_kept_with_what_was_received_beside_what_is_registered(
    changed: dict[str, str | None], reason: str, received: str, registered: list[str] | None, relying: Relying, read: Read
) -> None:
    await authorize(relying, relying.page, **changed)
    (found,) = await read(relying.page)
    assert (found["place"], found["reason"], found["received"]) == ("authorize", reason, received)
    if registered is not None:
        assert found["registered"] == registered
    assert found["because"]
    assert found["advice"]
    assert "ada@" not in str(found)
    # Nobody else's application has it.
    assert (await read(relying.shop, 0)) == []


@pytest.mark.parametrize(("policy", "reason"), [("members", "not_member"), ("assigned", "no_role")])
async def test_a_person_who_is_not_admitted_leaves_the_reason_and_nothing_about_themselves(
    policy: str, reason: str, postern: Postern, people: People, client: Client, log: CapturedLog
) -> None:
    scene = Arriving(postern, people, client, log)
    scene.set(scene.app, sign_in_policy=policy)
    ada = people.add("ada@example.org")
    tab = await scene.signed_in(ada).tab().open(scene.asking())
    assert tab.status == 403
    # Whoever looks at the page again was refused once.
    await tab.open(tab.place)
    # Nobody is asked, so nobody was turned away.
    await scene.signed_in(people.session_of(ada)).request("GET", scene.asking(prompt="none"))
    async with trio.open_nursery() as nursery:
        await nursery.start(lambda task_status: postern.federation.refusal_recorder.run(task_status=task_status))
        with trio.fail_after(PATIENCE):
            while not (rows := people.rows("select place, reason, received, expected from authorization_refusals")):
                await trio.sleep(0.05)
        nursery.cancel_scope.cancel()
    assert rows == [{"place": "authorize", "reason": reason, "received": "", "expected": ""}]


async def test_a_refused_token_request_is_kept(relying: Relying, read: Read) -> None:
    shop, page, code = relying.shop, relying.page, await relying.code(relying.shop)
    await relying.redeem(shop, code, client_secret="cs_abcdef_another")
    await relying.redeem(shop, code, client_secret=None)
    await relying.redeem(shop, code, redirect_uri=f"{CALLBACK}/")
    await relying.redeem(shop, code, code_verifier="a" * 43)
    await relying.redeem(shop, code, code_verifier=None)
    await relying.redeem(shop, code, code_verifier="short")
    await relying.redeem(shop, "unknown")
    await relying.redeem(shop, await relying.code(page))
    await relying.redeem(shop, await relying.code(shop, challenge=None))
    (await relying.redeem(shop, code)).ok()
    await relying.redeem(shop, code)
    await relying.refresh(shop, "unknown")
    await relying.redeem(shop, code, grant_type="password")
    await relying.redeem(shop, code, grant_type=None)
    await relying.redeem(page, code, grant_type="client_credentials")
    found = [(one["reason"], one["received"], one["registered"]) for one in reversed(await read(shop, 13))]
    assert found == [
        ("secret_wrong", "cs_abcdef", ["cs"]),
        ("credential_missing", "", ["cs"]),
        ("redirect_differs", f"{CALLBACK}/", [CALLBACK]),
        ("verifier_differs", CALLBACK, []),
        ("verifier_missing", CALLBACK, []),
        ("verifier_missing", "", []),
        ("code_unknown", CALLBACK, []),
        ("code_of_another", CALLBACK, []),
        ("verifier_unasked", CALLBACK, []),
        ("code_used", CALLBACK, []),
        ("refresh_token", "", []),
        ("grant_unknown", "password", found[11][2]),
        ("parameter", "grant_type", []),
    ]
    assert {one["place"] for one in await read(shop, 13)} == {"token"}
    assert [one["reason"] for one in await read(page)] == ["grant_not_allowed"]


async def test_an_expired_code_says_so(relying: Relying, read: Read) -> None:
    code = await relying.code(relying.shop)
    relying.people.change(
        "update authorization_codes set created_at = created_at - interval '1 hour', expires_at = now() - interval '1 minute'"
    )
    await relying.redeem(relying.shop, code)
    assert [one["reason"] for one in await read(relying.shop)] == ["code_expired"]


async def test_an_assertion_that_does_not_verify_is_kept_without_it(relying: Relying, read: Read) -> None:
    shop = relying.keyed(relying.shop)
    fields = {"client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer", "client_secret": None}
    await relying.redeem(shop, await relying.code(shop), client_assertion=relying.assertion(shop, aud="elsewhere"), **fields)
    (found,) = await read(shop)
    assert (found["reason"], found["received"]) == ("assertion_refused", "")


async def test_a_pushed_request_is_kept_for_the_client_that_pushed_it(relying: Relying, read: Read) -> None:
    pushed = {"response_type": "code", "redirect_uri": "https://elsewhere.example/", "scope": "openid", **relying.shop.posted}
    await relying.ask("/oauth/par", pushed)
    assert [one["reason"] for one in await read(relying.shop)] == ["redirect_unregistered"]


async def test_failed_saml_messages_stand_among_them(relying: Relying, read: Read) -> None:
    relying.people.change(
        "insert into saml_exchanges (id, service_id, kind, binding, succeeded, status, reason, advice, message_id, in_response_to,"
        " created_at)"
        " values (%s, %s, 'authn_request', 'redirect', false, '', 'it is signed by nobody', 'Upload its metadata', '_1', '', now())",
        relying.postern.foundation.ids.new(),
        relying.shop.service.id,
    )
    await relying.redeem(relying.shop, "unknown")
    code, saml = await read(relying.shop, 2)
    assert code["reason"] == "code_unknown"
    assert (saml["place"], saml["because"], saml["advice"]) == ("saml", "it is signed by nobody", "Upload its metadata")


async def test_only_the_newest_are_kept_and_a_client_that_does_not_exist_has_none(relying: Relying, read: Read) -> None:
    await relying.redeem(Application(relying.shop.service, str(uuid4()), "cs_abcdef_x"), "unknown")
    for _ in range(MOST_REFUSALS + 3):
        await relying.refresh(relying.shop, "unknown")
    await relying.redeem(relying.shop, "unknown")
    found = await read(relying.shop, MOST_REFUSALS)
    with trio.fail_after(PATIENCE):
        while found[0]["reason"] != "code_unknown":
            found = await read(relying.shop, MOST_REFUSALS)
            await trio.sleep(0.05)
    assert len(relying.people.rows("select from authorization_refusals")) == MOST_REFUSALS


async def test_a_person_who_refuses_or_is_not_signed_in_is_no_mistake_of_the_application() -> None:
    for word in (AuthorizationErrorCode.ACCESS_DENIED, AuthorizationErrorCode.LOGIN_REQUIRED, AuthorizationErrorCode.CONSENT_REQUIRED):
        assert refused_request(word, "", {}) is None


def test_every_reason_has_words() -> None:
    for reason in RefusalReason:
        because, advice = reason_in_words(reason)
        assert because
        assert advice or reason is RefusalReason.SAML
    for word in (*AuthorizationErrorCode, *SHOWN_TO_THE_PERSON):
        found = refused_request(word, "scope: no", {})
        assert found is None or found[0] in RefusalReason


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("https://app.example/cb?token=1#x", "https://app.example/cb"),
        ("https://ada@app.example/cb", ""),
        ("javascript:alert(1)", "javascript:alert(1)"),
        ("com.example.app:/cb", "com.example.app:/cb"),
        ("<script>", ""),
        (f"https://app.example/{'a' * 400}", ""),
        (None, ""),
    ],
)
def test_an_address_is_kept_without_what_may_be_about_people(uri: str | None, shown: str) -> None:
    assert shown_address(uri) == shown


def test_words_are_kept_if_they_look_like_words() -> None:
    assert shown_words("openid ada@example.org <b> read:all " + "a" * 200) == "openid read:all"
    assert shown_word("a b") == ""


async def test_others_see_nothing(relying: Relying, read: Read) -> None:
    await relying.redeem(relying.shop, "unknown")
    await read(relying.shop)
    member, owner = relying.people.add(), relying.people.add()
    relying.tenants.join(member, relying.acme)
    relying.tenants.join(owner, relying.globex, "owner")
    at = "/api/organizations/{}/services/{}/refusals"
    assert (await relying.client.get(at.format("acme", "shop"), token=await relying.people.token(member))).status == 403
    assert (await relying.client.get(at.format("acme", "shop"), token=await relying.people.token(owner))).status == 403
    # The other organization has a service of the same slug.
    theirs = await relying.client.get(at.format("globex", "shop"), token=await relying.people.token(owner))
    assert theirs.ok() == {"refusals": []}
    assert (await relying.client.get(at.format("globex", "none"), token=await relying.people.token(owner))).status == 404
