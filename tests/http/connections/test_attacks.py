"""Answers of directories that must sign nobody in, each explained in the recorder."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from ops.browser.page_reader import PageReader
from ops.stand_ins.saml import pair
from tests.http.client import Received, refused
from tests.http.connections.scene import PATH, ConnectionScene, place_of
from tests.http.upstream.scene import ADA

# What the directory sends, and the kind of failure in the recorder.
WRONG: dict[str, dict[str, Any]] = {
    "unsigned": {"sign": False},
    "signed by somebody": {"signer": pair("somebody else")},
    "for another request": {"request": "_1234567890abcdef1234567890abcdef"},
    "for another service provider": {"audience": "https://another.example/saml/sp/1"},
    "for another address": {"recipient": "https://another.example/acs"},
}


async def recorded(scene: ConnectionScene, provider: str) -> list[dict[str, Any]]:
    await scene.keep_recorded()
    listed: list[dict[str, Any]] = (await scene.request("GET", f"{PATH}/{provider}/exchanges")).ok()["exchanges"]
    return listed


async def test_wrong_answers_sign_nobody_in_and_are_explained(scene: ConnectionScene) -> None:
    provider = await scene.active()
    scene.verified()
    for name, wrong in WRONG.items():
        tabs = scene.browser()
        answer = await scene.arrive(tabs, provider, **wrong)
        assert (answer.status, await scene.who(tabs)) == (502, None), name
        newest = (await recorded(scene, provider))[0]
        assert (newest["kind"], newest["succeeded"]) == ("sign_in", False), name
        assert newest["fault"], name
        assert newest["reason"], name
        assert newest["advice"], name
        # The person reads the reference by which an administrator finds the entry.
        assert newest["reference"].encode() in answer.body, (name, answer.body)
        assert ADA not in str(newest), name
    assert scene.identities() == []


async def test_an_answer_without_an_address_or_without_a_name_says_so(scene: ConnectionScene) -> None:
    provider = await scene.active()
    scene.directory.email = None
    tabs = scene.browser()
    answer = await scene.arrive(tabs, provider)
    assert await scene.who(tabs) is None
    assert b"did not send your email address" in answer.body
    newest = (await recorded(scene, provider))[0]
    assert newest["reference"].encode() in answer.body
    scene.directory.email, scene.directory.subject = ADA, ""
    assert (await scene.arrive(scene.browser(), provider)).status == 502


async def test_nothing_unsolicited_counts(scene: ConnectionScene) -> None:
    provider = await scene.active()
    tabs = scene.browser()
    fields = scene.directory.answer(await scene.leave(tabs, "?org=acme", word=provider))
    for state in ("", "x" * 43):
        answer = await scene.post_answer(provider, {**fields, "RelayState": state})
        assert answer.status == 400
        assert f"/saml/sp/{provider}/start".encode() in answer.body
    assert (await recorded(scene, provider))[0]["fault"] == "unsolicited"
    # The link in the page begins a request of ours.
    begun = await tabs.request("GET", f"/saml/sp/{provider}/start")
    assert (begun.status, begun.header("location")) == (303, f"/auth/{provider}?org=acme")


async def test_an_answer_counts_once_in_its_own_browser(scene: ConnectionScene) -> None:
    provider = await scene.active()
    ada = scene.verified()
    tabs, thief = scene.browser(), scene.browser()
    fields = scene.directory.answer(await scene.leave(tabs, "?org=acme", word=provider))
    place = place_of(await scene.post_answer(provider, fields))
    assert (await thief.request("GET", place)).status == 400
    assert await scene.who(thief) is None
    # The same assertion for a second time is refused, in any browser, and the first one still counts.
    again = place_of(await scene.post_answer(provider, fields))
    assert (await recorded(scene, provider))[0]["fault"] == "used_before"
    assert (await tabs.request("GET", place)).status == 303
    assert await scene.who(tabs) == ada.user
    # The browser that is sent back twice gets its answer again, and nobody else gets in by the code.
    assert (await tabs.request("GET", again)).status in {302, 303}
    assert (await thief.request("GET", place)).status == 400
    late = scene.browser()
    other = place_of(await scene.post_answer(provider, scene.directory.answer(await scene.leave(late, "?org=acme", word=provider))))
    state = other.partition("state=")[2].partition("&")[0]
    code = place.partition("code=")[2].partition("&")[0]
    assert (await late.request("GET", f"/auth/{provider}/callback?state={state}&code={code}")).status == 502
    assert await scene.who(late) is None


async def test_an_answer_for_one_connection_is_nothing_at_another(scene: ConnectionScene) -> None:
    first = await scene.active()
    second = await scene.active(name="Second", domain="")
    tabs = scene.browser()
    fields = scene.directory.answer(await scene.leave(tabs, "?org=acme", word=first))
    assert (await scene.post_answer(second, fields)).status == 400
    # Nor does an answer of the other organization's connection, with the same directory behind it.
    globex = scene.tenants.add("globex")
    boss = scene.resident(globex, "owner", "boss")
    theirs = PATH.replace("acme", "globex")
    for method, path in (
        ("POST", f"{theirs}/{first}/test"),
        ("POST", f"{theirs}/{first}/activate"),
        ("GET", f"{theirs}/{first}/exchanges"),
        ("POST", f"{theirs}/{first}/certificate"),
    ):
        body: dict[str, str] | None = {"certificate": {}, "activate": {"digest": "0" * 64}}.get(path.rpartition("/")[2])
        assert (await scene.request(method, path, body, by=boss)).status == 404, path


async def test_what_is_turned_off_or_changed_meanwhile_signs_nobody_in(scene: ConnectionScene) -> None:
    provider = await scene.active()
    scene.verified()

    async def off() -> None:
        (await scene.request("PATCH", f"{PATH}/{provider}", {"enabled": False})).ok()

    async def changed() -> None:
        (await scene.request("PATCH", f"{PATH}/{provider}", {"wants_encrypted": True})).ok()

    turns: tuple[Callable[[], Awaitable[None]], ...] = (off, changed)
    for turn in turns:
        before, after = scene.browser(), scene.browser()
        first = scene.directory.answer(await scene.leave(before, "?org=acme", word=provider))
        place = place_of(await scene.post_answer(provider, first))
        second = scene.directory.answer(await scene.leave(after, "?org=acme", word=provider))
        await turn()
        assert (await scene.post_answer(provider, second)).status == 400
        assert (await before.request("GET", place)).status in {400, 502}
        assert await scene.who(before) is None
        if turn is off:
            (await scene.request("PATCH", f"{PATH}/{provider}", {"enabled": True})).ok()
    assert (await scene.request("GET", PATH)).json()[0]["state"] == "draft"


async def test_only_what_was_tested_is_activated_and_by_an_owner_alone(scene: ConnectionScene) -> None:
    provider = await scene.draft()
    admin = scene.resident(scene.acme, "admin", "admin")
    assert refused(await scene.activate(provider)) == (400, "BAD_REQUEST")
    assert refused(await scene.request("PATCH", f"{PATH}/{provider}", {"enabled": True})) == (400, "BAD_REQUEST")
    route = {"domain": "acme.example", "upstream_provider_id": provider, "login_policy": "upstream_only"}
    assert refused(await scene.request("POST", "/api/organizations/acme/domain-routes", route)) == (400, "BAD_REQUEST")
    failed = await scene.test(provider, audience="https://another.example")
    assert b"The test failed" in failed.body
    assert refused(await scene.activate(provider)) == (400, "BAD_REQUEST")
    # A change while the test is under way keeps the result from counting.
    tabs = scene.browser()
    url = (await scene.request("POST", f"{PATH}/{provider}/test")).ok()["url"]
    location = await scene.begin_test(tabs, await tabs.request("GET", url.partition("example.org")[2]))
    (await scene.request("PATCH", f"{PATH}/{provider}", {"wants_encrypted": False, "slo_url": ""})).ok()
    await scene.post_answer(provider, scene.directory.answer(location))
    assert refused(await scene.activate(provider)) == (400, "BAD_REQUEST")
    assert b"All checks passed" in (await scene.test(provider)).body
    assert refused(await scene.activate(provider, by=admin)) == (403, "FORBIDDEN")
    assert (await scene.activate(provider)).ok()["enabled"] is True
    (await scene.activate(provider)).ok()
    (await scene.request("POST", "/api/organizations/acme/domain-routes", route)).ok(201)
    # What says who is who stays as it is from then on.
    for change in ({"issuer": "https://another.example"}, {"subject_source": "mail"}):
        assert refused(await scene.request("PATCH", f"{PATH}/{provider}", change)) == (400, "BAD_REQUEST")


async def test_the_page_of_a_test_is_its_browsers_own(scene: ConnectionScene) -> None:
    provider = await scene.draft()
    url = (await scene.request("POST", f"{PATH}/{provider}/test")).ok()["url"].partition("example.org")[2]
    tabs, other = scene.browser(), scene.browser()
    page = await tabs.request("GET", url)
    location = await scene.begin_test(tabs, page)
    assert (await other.request("POST", "/ui/connections/test", {"flow": "x", "form_token": "y"})).status in {303, 400, 403}
    await scene.post_answer(provider, scene.directory.answer(location))
    assert ADA in PageReader((await tabs.request("GET", url)).body).text
    answer: Received = await other.request("GET", url)
    assert (answer.status, ADA in PageReader(answer.body).text) == (400, False)
    scene.people.change("update connection_tests set expires_at = now() - interval '1 second'")
    assert (await tabs.request("GET", url)).status == 400


async def test_a_fresh_sign_in_is_asked_for_and_checked(scene: ConnectionScene) -> None:
    provider = await scene.active()
    ada = scene.verified()
    for ago, status in ((timedelta(hours=2), 502), (timedelta(seconds=0), 303)):
        scene.directory.signed_in_ago = ago
        tabs = scene.browser()
        flow = (await tabs.tab().open(scene.asking(prompt="login"))).place.partition("flow=")[2]
        location = await scene.leave(tabs, f"?flow={flow}", word=provider)
        assert scene.directory.asked(location).force
        back = await scene.post_answer(provider, scene.directory.answer(location))
        answer = await tabs.request("GET", place_of(back))
        assert answer.status in {status, 200, 302}, answer.body
        assert (await scene.who(tabs) == ada.user) is (ago < timedelta(minutes=1))
