"""Newcomers: what the page for the address refuses, and when the rules of others say no."""

from ops.browser.page_reader import PageReader
from tests.http.upstream.further.scene import ADDRESS, CODE, FurtherScene
from tests.http.upstream.scene import ADA


async def test_what_is_no_address_is_refused_at_the_field(scene: FurtherScene) -> None:
    await scene.has("discord")
    tabs = scene.browser()
    page = await scene.asked(tabs, await scene.come(tabs, "discord"))
    refused = await scene.send(tabs, page, ADDRESS, email="no address")
    assert refused.status == 400
    assert PageReader(refused.body).inputs["email"].get("value") == "no address"


async def test_a_code_before_any_mail_and_a_malformed_one_are_refused(scene: FurtherScene) -> None:
    await scene.has("discord")
    tabs = scene.browser()
    page = await scene.asked(tabs, await scene.come(tabs, "discord"))
    asks = PageReader(
        (await tabs.request("GET", page.forms[0].action.replace(ADDRESS, CODE) + f"?flow={page.forms[0].fields['flow']}")).body
    )
    assert (await scene.send(tabs, asks, CODE, code="12345678")).status == 400
    assert (await scene.send(tabs, asks, CODE, code="1")).status == 400


async def test_five_codes_and_no_more(scene: FurtherScene) -> None:
    await scene.has("discord")
    tabs = scene.browser()
    page = await scene.asked(tabs, await scene.come(tabs, "discord"))
    sent = [(await scene.send(tabs, page, ADDRESS, email=ADA)).status for _ in range(6)]
    assert sent == [303] * 5 + [429]


async def test_half_an_hour_later_nobody_waits(scene: FurtherScene) -> None:
    await scene.has("discord")
    tabs = scene.browser()
    page = await scene.asked(tabs, await scene.come(tabs, "discord"))
    scene.people.change("update newcomers set expires_at = now() - interval '1 second'")
    assert (await scene.send(tabs, page, ADDRESS, email=ADA)).status == 400


async def test_the_same_code_twice_signs_in_once(scene: FurtherScene) -> None:
    await scene.has("discord")
    tabs = scene.browser()
    page = await scene.asked(tabs, await scene.come(tabs, "discord"))
    sent = await scene.send(tabs, page, ADDRESS, email=ADA)
    asks = PageReader((await tabs.request("GET", sent.header("location") or "")).body)
    code = await scene.mailed_code()
    first = await scene.send(tabs, asks, CODE, code=code)
    assert first.status == 303
    assert (await scene.send(tabs, asks, CODE, code=code)).status == 303
    assert len(scene.identities()) == 1
    # The pages lead on once the sign-in is over.
    assert (await scene.send(tabs, page, ADDRESS, email=ADA)).status == 303


async def test_a_domain_that_leads_to_a_provider_stays_there(scene: FurtherScene) -> None:
    await scene.has("discord")
    scene.people.change(
        "insert into domain_routes (id, org_id, domain, shared_provider, login_policy, join_policy, token, verified_at, next_check_at,"
        " created_at, updated_at) values (%s, %s, 'example.org', 'websuite', 'upstream_only', 'off', 'token', now(),"
        " now() + interval '7 days', now(), now())",
        scene.postern.foundation.ids.new(),
        scene.acme.id,
    )
    tabs = scene.browser()
    answer = await scene.register(tabs, await scene.asked(tabs, await scene.come(tabs, "discord")))
    assert answer.status == 400
    assert scene.people.rows("select from users where email = %s", ADA) == []
