"""Attacks on people who sign in through a provider. All must fail."""

from typing import Any

import jwt
import pytest
import trio

from adapters.upstream import keys
from ops.stand_ins.fake_providers import KEY, OTHER_KEY, WORK, public_jwk
from tests.http.browsing import Tabs
from tests.http.client import Received
from tests.http.federation.arriving import answer_in, is_page
from tests.http.upstream.scene import ADA, UpstreamScene

AGAIN = "Signing in at the provider failed"
OUT_OF_DATE = "This page is out of date"


async def refused(scene: UpstreamScene, answer: Received, tabs: Tabs, words: str = AGAIN) -> None:
    """Checks that the answer is a page of ours without the provider's texts, that nobody is signed in, and that nothing is connected."""
    # A failure of the provider's has a status of its own: 503 if nobody answers there, else 502.
    is_page(answer, answer.status, words)
    assert answer.status in ({502, 503} if words == AGAIN else {400, 502} if not words else {400})
    assert b"secret words" not in answer.body
    assert tabs.session is None
    assert scene.identities() == []
    assert scene.people.rows("select from users where email = %s and email_verified_at > now() - interval '1 minute'", ADA) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"iss": "https://evil.example"},
        {"iss": None},
        {"aud": "another-client"},
        {"aud": ["another-client"]},
        {"aud": ["websuite-client", "another-client"], "azp": None},
        {"aud": ["websuite-client", "another-client"], "azp": "another-client"},
        {"azp": "another-client"},
        {"nonce": "of another sign-in"},
        {"nonce": None},
        {"exp": 1_000_000_000},
        {"exp": None},
        {"iat": 4_000_000_000},
        {"nbf": 4_000_000_000},
        {"sub": ""},
        {"sub": None},
        {"sub": "x" * 256},
    ],
)
async def test_an_id_token_for_something_else(scene: UpstreamScene, wrong: dict[str, Any]) -> None:
    scene.sits().wrong = wrong
    tabs = scene.browser()
    await refused(scene, await scene.go(tabs), tabs)


async def test_an_id_token_for_us_among_others_by_name_is_taken(scene: UpstreamScene) -> None:
    scene.sits().wrong = {"aud": ["websuite-client", "another-client"], "azp": "websuite-client"}
    tabs = scene.browser()
    await scene.go(tabs)
    assert await scene.who(tabs)


async def test_an_id_token_with_another_key(scene: UpstreamScene) -> None:
    fake = scene.sits()
    fake.key = OTHER_KEY
    tabs = scene.browser()
    await refused(scene, await scene.go(tabs), tabs)
    fake.kid = "unknown"
    await refused(scene, await scene.go(tabs), tabs)


async def test_an_id_token_without_signature_or_with_the_public_key_as_a_shared_one(scene: UpstreamScene) -> None:
    fake = scene.sits()
    fake.algorithm = "none"
    tabs = scene.browser()
    await refused(scene, await scene.go(tabs), tabs)
    fake.algorithm, fake.key = "HS256", "k" * 32
    await refused(scene, await scene.go(tabs), tabs)
    # An HMAC key that the provider itself publishes does not count either.
    fake.published = [{"kty": "oct", "k": "a2" * 22, "kid": "one", "alg": "HS256"}]
    await refused(scene, await scene.go(tabs), tabs)


async def test_a_new_key_is_found_once_and_many_unknown_ones_do_not_flood_the_provider(
    scene: UpstreamScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = scene.sits()
    await scene.go(scene.browser())
    assert fake.calls.count("/keys") == 1
    await scene.go(scene.browser())
    assert fake.calls.count("/keys") == 1
    # After a rotation the keys are fetched again, but at most twice a minute.
    fake.key, fake.kid, fake.published = OTHER_KEY, "two", [public_jwk("two", OTHER_KEY)]
    for _ in range(5):
        await scene.go(scene.browser())
    assert fake.calls.count("/keys") == 1
    monkeypatch.setattr(keys, "LOOKED_AGAIN_AFTER", 0.0)
    tabs = scene.browser()
    await scene.go(tabs)
    assert fake.calls.count("/keys") == 2
    assert await scene.who(tabs)


@pytest.mark.parametrize("named", [True, False])
async def test_a_new_key_under_the_old_name_is_found_too(scene: UpstreamScene, monkeypatch: pytest.MonkeyPatch, *, named: bool) -> None:
    def published(key: Any) -> list[Any]:
        return [{name: value for name, value in public_jwk("one", key).items() if named or name != "kid"}]

    fake = scene.sits()
    fake.kid = "one" if named else ""
    fake.published = published(KEY)
    await scene.go(scene.browser())
    fake.key, fake.published = OTHER_KEY, published(OTHER_KEY)
    tabs = scene.browser()
    is_page(await scene.go(tabs), 502, AGAIN)
    assert fake.calls.count("/keys") == 1
    monkeypatch.setattr(keys, "LOOKED_AGAIN_AFTER", 0.0)
    await scene.go(tabs)
    assert await scene.who(tabs)
    # A signature that no key verifies is refused, also after more fetches.
    fake.key = KEY
    tabs = scene.browser()
    is_page(await scene.go(tabs), 502, AGAIN)
    assert tabs.session is None


async def test_officesuite_names_the_tenant_of_the_token(scene: UpstreamScene) -> None:
    fake = scene.sits(word="officesuite")
    for wrong in (
        {"iss": f"{fake.url}/{{tenantid}}/v2.0"},
        {"iss": f"{fake.url}/00000000-0000-0000-0000-000000000000/v2.0"},
        {"tid": "00000000-0000-0000-0000-000000000000"},
        {"tid": f"{WORK}/v2.0/../x"},
        {"tid": None},
        {"oid": None},
    ):
        fake.wrong = wrong
        tabs = scene.browser()
        await refused(scene, await scene.go(tabs, word="officesuite"), tabs)


@pytest.mark.parametrize("announced", [True, False, "yes", None])
@pytest.mark.parametrize("named", ["its own", None, "", "another"])
async def test_an_answer_says_whose_it_is_where_the_provider_announces_it(scene: UpstreamScene, announced: Any, named: str | None) -> None:
    fake = scene.sits(word="own")
    metadata = {**fake.metadata(), "authorization_response_iss_parameter_supported": announced}
    fake.metadata = lambda: metadata  # type: ignore[method-assign]
    provider = await scene.own_provider()
    tabs = scene.browser()
    place = fake.consent(await scene.leave(tabs, "?org=acme", word=provider))
    issuer = {"its own": fake.issuer, "another": "https://evil.example"}.get(named or "", named)
    answer = await tabs.request("GET", place if issuer is None else f"{place}&iss={issuer}")
    if named == "its own" or (named is None and announced is not True):
        assert await scene.who(tabs) is not None
    else:
        is_page(answer, 502, "did not sign you in")
        assert tabs.session is None
        assert fake.forms == [], "the code goes to nobody"


async def test_another_issuer_answers(scene: UpstreamScene) -> None:
    """Mix-up: the answer of one provider is sent to the callback of another."""
    fake, other = scene.sits(), scene.sits(word="officesuite")
    tabs = scene.browser()
    place = fake.consent(await scene.leave(tabs))
    answer = await tabs.request("GET", place.replace("/auth/websuite/", "/auth/officesuite/"))
    await refused(scene, answer, tabs, OUT_OF_DATE)
    answer = await tabs.request("GET", f"{place}&iss=https://evil.example")
    await refused(scene, answer, tabs)
    assert not any(call.startswith("/token") for call in [*fake.calls, *other.calls]), "the code must not be sent anywhere"
    good = fake.consent(await scene.leave(tabs))
    await tabs.request("GET", f"{good}&iss={fake.issuer}")
    assert await scene.who(tabs)
    tabs = scene.browser()
    place = other.consent(await scene.leave(tabs, word="officesuite"))
    answer = await tabs.request("GET", f"{place}&iss={other.url}/00000000-0000-0000-0000-000000000000/v2.0")
    is_page(answer, 502, AGAIN)
    place = other.consent(await scene.leave(tabs, word="officesuite"))
    answer = await tabs.request("GET", f"{place}&iss={other.url}/{WORK}/v2.0")
    assert answer.status == 303


async def test_a_state_of_nobody_of_another_browser_and_an_old_one(scene: UpstreamScene) -> None:
    fake = scene.sits()
    tabs = scene.browser()
    place = fake.consent(await scene.leave(tabs))
    for changed in (place.replace("state=", "state=x"), place.partition("&state=")[0], f"{place.partition('&state=')[0]}&state="):
        await refused(scene, await tabs.request("GET", changed), tabs, OUT_OF_DATE)
    stranger = scene.browser()
    await refused(scene, await stranger.request("GET", place), stranger, OUT_OF_DATE)
    # Also a browser that has begun a sign-in of its own.
    await scene.leave(stranger)
    await refused(scene, await stranger.request("GET", place), stranger, OUT_OF_DATE)
    # The others have not used the state up: it still works in this browser.
    states = scene.people.rows("select digest from oauth_states")
    scene.people.change("update oauth_states set expires_at = now()")
    await refused(scene, await tabs.request("GET", place), tabs, OUT_OF_DATE)
    assert len(states) == 2
    place = fake.consent(await scene.leave(tabs))
    await stranger.request("GET", place)
    assert (await tabs.request("GET", place)).status == 303


async def test_a_callback_counts_once(scene: UpstreamScene) -> None:
    fake = scene.sits()
    tabs = scene.browser()
    place = fake.consent(await scene.leave(tabs, scene.direct()))
    answers: list[Received] = []

    async def come() -> None:
        answers.append(await tabs.request("GET", place))

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(come)
    # A browser that comes back twice drops the first answer, and gets another: with a code of its own, in the same session.
    assert [answer.status for answer in answers] == [302] * 10
    assert len(fake.forms) == 1, "the provider's code is exchanged once"
    assert len({answer.header("location") for answer in answers}) == 10
    assert scene.people.rows("select count(*) from sessions") == [{"count": 1}]
    assert [one["name"] for one in scene.told("audit_log")].count("consent.given") <= 1
    is_page(await scene.browser().request("GET", place), 400, OUT_OF_DATE)
    scene.people.change("update oauth_states set used_at = now() - interval '21 seconds'")
    is_page(await tabs.request("GET", place), 400, OUT_OF_DATE)


async def test_a_code_of_somebody_elses_sign_in_is_put_in(scene: UpstreamScene) -> None:
    """The thief's own state with the victim's code. The code was made for another challenge, and its token for another nonce."""
    fake = scene.sits()
    victim, thief = scene.browser(), scene.browser()
    fake.consent(await scene.leave(victim), code="the-victims-code")
    place = fake.consent(await scene.leave(thief), code="the-thiefs-code")
    answer = await thief.request("GET", place.replace("the-thiefs-code", "the-victims-code"))
    await refused(scene, answer, thief)
    # If the provider does not check the challenge, the nonce reveals the attack.
    place = fake.consent(await scene.leave(thief))
    fake.codes["the-victims-code"].challenge = fake.asked["code_challenge"]
    answer = await thief.request("GET", f"{place.partition('?')[0]}?code=the-victims-code&state={fake.asked['state']}")
    await refused(scene, answer, thief)


@pytest.mark.parametrize("code", ["", "unknown", "x" * 4097, "\x00", "a\nb", "é"])
async def test_codes_that_are_none(scene: UpstreamScene, code: str) -> None:
    """A text that no provider issues as a code is not sent to the provider: its 500 would make us think that the provider is away."""
    fake = scene.sits()
    tabs = scene.browser()
    fake.consent(await scene.leave(tabs))
    place = fake.back(fake.asked, code=code)
    await refused(scene, await tabs.request("GET", place), tabs)
    assert [call for call in fake.calls if call.startswith("/token")] == (["/token authorization_code"] if code == "unknown" else [])


async def test_the_words_of_a_provider_are_shown_to_nobody(scene: UpstreamScene) -> None:
    for word in ("codehost", "websuite"):
        fake = scene.sits(word=word)
        tabs = scene.browser()
        place = fake.consent(await scene.leave(tabs, word=word))
        fake.fails = True
        await refused(scene, await tabs.request("GET", place), tabs)
        fake.fails = False
        await scene.leave(tabs, word=word)
        fake.consent(await scene.leave(tabs, word=word))
        place = fake.back(fake.asked, error="server_error", error_description="<b>secret words</b>", error_uri="https://evil.example")
        await refused(scene, await tabs.request("GET", place), tabs)


async def test_who_cancels_comes_back_to_the_page_or_the_application_is_told(scene: UpstreamScene) -> None:
    fake = scene.sits()
    tabs = scene.browser()
    fake.consent(await scene.leave(tabs))
    answer = await tabs.request("GET", fake.back(fake.asked, error="access_denied"))
    await refused(scene, answer, tabs, "You did not finish")
    fake.consent(await scene.leave(tabs, scene.direct()))
    answer = await tabs.request("GET", fake.back(fake.asked, error="access_denied"))
    assert answer.status == 302
    assert answer_in(answer.header("location"))["error"] == "access_denied"


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_redirect_uri_that_is_gone_meanwhile_gets_nothing(scene: UpstreamScene, *, cancelled: bool) -> None:
    fake = scene.sits()
    tabs = scene.browser()
    back = fake.consent(await scene.leave(tabs, scene.direct()))
    scene.set(scene.app, redirect_uris=["https://app.example.com/new"])
    if cancelled:
        back = fake.back(fake.asked, error="access_denied")
    is_page(await tabs.request("GET", back), 400, "a redirect URI that is not registered")
    assert scene.codes() == []


@pytest.mark.parametrize(
    ("word", "person"),
    [
        ("codehost", {"id": "583231"}),
        ("codehost", {"id": True}),
        ("codehost", {"emails": {"message": "secret words"}}),
        ("codehost", {"emails": []}),
        ("codehost", {"emails": [None, 7, {"primary": True}]}),
        ("websuite", {"email": 7}),
        ("websuite", {"email": "not an address"}),
        ("websuite", {"email": f"{'x' * 400}@example.org"}),
        ("websuite", {"email_verified": "true"}),
        ("officesuite", {"email": None}),
    ],
)
async def test_odd_answers_let_nobody_in(scene: UpstreamScene, word: str, person: dict[str, Any]) -> None:
    fake = scene.sits(word=word)
    fake.person |= person
    tabs = scene.browser()
    await refused(scene, await scene.go(tabs, word=word), tabs, "")


async def test_a_token_endpoint_that_answers_otherwise(scene: UpstreamScene) -> None:
    fake = scene.sits()
    tabs = scene.browser()
    answers: tuple[Any, ...] = (
        [],
        {},
        {"access_token": "x"},
        {"access_token": "x\n", "token_type": "Bearer"},
        {"access_token": "x", "token_type": "Bearer"},
    )
    for answer in answers:
        fake.tokens = lambda _issued, answer=answer: answer  # type: ignore[method-assign,misc]
        await refused(scene, await scene.go(tabs), tabs)


@pytest.mark.parametrize("error", [[], {}, 7, ["invalid_grant"]])
async def test_an_error_that_is_no_word(scene: UpstreamScene, error: Any) -> None:
    fake = scene.sits()
    tabs = scene.browser()
    fake.tokens = lambda _issued: {"error": error}  # type: ignore[method-assign,assignment]
    await refused(scene, await scene.go(tabs), tabs)


@pytest.mark.parametrize("methods", [7, True, {"client_secret_post": 1}, "client_secret_post", None])
async def test_metadata_that_is_odd_beside_its_endpoints(scene: UpstreamScene, methods: Any) -> None:
    """Then we may rely only on the header."""
    fake = scene.fakes["own"]
    metadata = fake.metadata()
    fake.metadata = lambda: {**metadata, "token_endpoint_auth_methods_supported": methods}  # type: ignore[method-assign]
    provider = await scene.own_provider()
    scene.sits(word="own")
    tabs = scene.browser()
    await scene.go(tabs, "?org=acme", word=provider)
    assert await scene.who(tabs)
    assert "client_secret" not in fake.forms[-1]


@pytest.mark.parametrize(
    "key",
    [
        7,
        {"kty": []},
        {"kty": {}, "kid": "one"},
        {"kty": "RSA", "kid": ["one"], "n": "AQ", "e": "AQAB"},
        {"kty": "RSA", "kid": "one", "n": 5, "e": {}},
        {"kty": "EC", "kid": "one", "crv": [], "x": 1, "y": 2},
        {"kty": "OKP", "kid": "one", "crv": "X25519", "x": "AAAA"},
        # Each request would take long.
        {"kty": "RSA", "kid": "one", "n": "A" * 4000, "e": "AQAB"},
        {**public_jwk("one", KEY), "e": "AQAB" * 80},
        # Nothing of the published document may be kept except the key.
        {"kty": "RSA", "kid": "one", "x5c": ["A" * 1000]},
    ],
)
async def test_keys_that_are_none(scene: UpstreamScene, key: Any) -> None:
    fake = scene.sits()
    fake.published = [key, public_jwk("two", OTHER_KEY)]
    tabs = scene.browser()
    await refused(scene, await scene.go(tabs), tabs)
    # The other keys count.
    fake.key, fake.kid = OTHER_KEY, "two"
    await scene.go(tabs)
    assert await scene.who(tabs)


async def test_answers_that_would_take_long_to_read(scene: UpstreamScene) -> None:
    """64 KiB of JSON may be 30 000 objects."""
    fake = scene.sits()
    tabs = scene.browser()
    tokens = fake.tokens
    fake.tokens = lambda issued: {**tokens(issued), "more": [{}] * 3001}  # type: ignore[method-assign]
    await refused(scene, await scene.go(tabs), tabs)
    fake.tokens = tokens  # type: ignore[method-assign]
    fake.wrong = {"more": [[]] * 3001}
    await refused(scene, await scene.go(tabs), tabs)
    fake.wrong = {"more": [[]] * 300}
    await scene.go(tabs)
    assert await scene.who(tabs)


async def test_a_provider_that_does_not_stop_talking_of_somebodys_address(scene: UpstreamScene) -> None:
    """A connected identity keeps the address that the provider sends, and a page shows this address."""
    fake = scene.sits()
    tabs = scene.browser()
    await scene.go(tabs)
    for odd in (f"{'x' * 9000}@example.org", "a\u0000b@example.org", "ada@example.org\nBcc: eve@example.net"):
        fake.person["email"] = odd
        await scene.go(tabs)
        assert await scene.who(tabs)
        assert [row["email"] for row in scene.identities()] == [""]


async def test_a_provider_that_is_turned_off_while_somebody_is_there(scene: UpstreamScene) -> None:
    provider = await scene.own_provider()
    scene.sits(word="own")
    tabs = scene.browser()
    place = scene.fakes["own"].consent(await scene.leave(tabs, "?org=acme", word=provider))
    scene.people.change("update upstream_providers set enabled = false")
    await refused(scene, await tabs.request("GET", place), tabs, "is not set up or was turned off")
    is_page(await tabs.request("GET", f"/auth/{provider}?org=acme"), 400, "is not set up or was turned off")


async def test_a_client_that_is_changed_while_somebody_is_there(scene: UpstreamScene) -> None:
    provider = await scene.own_provider()
    scene.sits(word="own")
    tabs = scene.browser()
    place = scene.fakes["own"].consent(await scene.leave(tabs, "?org=acme", word=provider))
    scene.people.change("update upstream_providers set client_id = 'another'")
    await refused(scene, await tabs.request("GET", place), tabs)
    # The code is sent to no provider.
    assert scene.fakes["own"].forms == []


async def test_another_organizations_provider_is_no_way_in(scene: UpstreamScene) -> None:
    provider = await scene.own_provider()
    scene.tenants.add("globex")
    is_page(await scene.browser().request("GET", f"/auth/{provider}?org=globex"), 400, "is not set up")
    scene.people.change("update all_organizations set status = 'suspended' where slug = 'acme'")
    is_page(await scene.browser().request("GET", f"/auth/{provider}?org=acme"), 404)
    is_page(await scene.browser().request("GET", f"/auth/{provider}"), 400, "is not set up")


async def test_nothing_in_the_database_can_be_used(scene: UpstreamScene, log: Any) -> None:
    """Neither the state of a person who is under way nor the client secrets can be used."""
    fake = scene.sits()
    tabs = scene.browser()
    await scene.own_provider()
    fake.consent(await scene.leave(tabs))
    kept = scene.people.rows("select * from oauth_states")
    dump = repr([*kept, *scene.people.rows("select * from upstream_providers"), *scene.people.rows("select * from flows")])
    for secret in (fake.asked["state"], fake.asked["nonce"], scene.fakes["own"].client_secret):
        assert secret not in dump
        log.remember(secret)
    assert jwt.encode({}, KEY, "RS256")  # the key of the tests is one
