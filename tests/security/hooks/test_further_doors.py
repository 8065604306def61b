"""Devices, requests from afar, applications behind a proxy, SAML and refresh tokens: a hook is asked at the person's yes, and no door goes
round its no.
"""

import pytest
import trio

from core.domain.identity.guards.hook_verdicts import RefusedByHook
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.federation.backchannel.asking import Afar
from tests.http.federation.devices import Sets
from tests.http.federation.providing import Providing, asking, authn_request, sent
from tests.http.federation.proxied.behind_proxies import Proxied
from tests.http.federation.relying import Relying, oauth
from tests.http.people import People
from tests.http.signing_in import PASSWORD, Browser, enable_mfa, unlimited
from tests.receiver import Call
from tests.security.hooks.hooked import GO_ON, Hooks, no


async def test_a_device_asks_when_the_person_approves_it(postern: Postern, people: People, log: CapturedLog, hooks: Hooks) -> None:
    scene = Sets(postern, people, unlimited(postern), log)
    scene.tenants.join(scene.ada, scene.acme)
    async with hooks.of(scene.acme, no()) as hooked:
        codes = await scene.ask_for_codes(scene.box)
        with pytest.raises(RefusedByHook):
            await scene.approve(codes)
        assert oauth(await scene.poll(codes)) == (400, "authorization_pending")
        hooked.say(GO_ON)
        await scene.approve(codes)
        assert [one["way"] for one in hooked.heard] == ["device", "device"]
        hooked.say(no())
        # Another door of the same session hears a no before the device comes for its tokens.
        assert (await scene.request("POST", "/api/organizations/acme/select", by=scene.ada)).status == 403
        scene.rest()
        assert oauth(await scene.poll(codes)) == (400, "access_denied")


async def test_a_device_that_was_approved_gets_its_tokens(postern: Postern, people: People, log: CapturedLog, hooks: Hooks) -> None:
    scene = Sets(postern, people, unlimited(postern), log)
    scene.tenants.join(scene.ada, scene.acme)
    async with hooks.of(scene.acme) as hooked:
        codes = await scene.ask_for_codes(scene.box)
        await scene.approve(codes)
        scene.rest()
        tokens = (await scene.poll(codes)).ok()
        log.remember(tokens["access_token"], tokens["refresh_token"])
        assert len(hooked.heard) == 1


async def test_a_request_from_afar_asks_when_the_person_allows_it(postern: Postern, people: People, log: CapturedLog, hooks: Hooks) -> None:
    scene = Afar(postern, people, unlimited(postern), log)
    await scene.turn("on")
    async with hooks.of(scene.acme, no("hour")) as hooked:
        request = await scene.requested(scene.shop, scope="openid", resource=None)
        assert (await scene.allow()).status == 403
        hooked.say(GO_ON)
        assert (await scene.allow()).status == 204
        assert len(hooked.heard) == 2
        scene.rest()
        tokens = (await scene.poll(request, scene.shop)).ok()
        log.remember(*(tokens[name] for name in ("access_token", "refresh_token", "id_token") if name in tokens))


async def test_a_no_closes_an_application_behind_a_proxy(postern: Postern, people: People, log: CapturedLog, hooks: Hooks) -> None:
    scene = Proxied(postern, people, unlimited(postern), log)
    secret = await scene.wiki()
    async with hooks.of(scene.acme) as hooked:
        cookie = await scene.cookie_of(secret, scene.ada)
        assert hooked.heard
        assert (await scene.ask(secret, cookie=cookie)).status == 200
        hooked.say(no())
        scene.people.change("update sessions set device_id = null where user_id = %s", scene.ada.user)
        (row,) = scene.people.rows("select id from sessions where user_id = %s and service_id is not null", scene.ada.user)
        await stand(scene.people, str(row["id"]), hooked.hook.counts_as, scene.acme.id)
        assert (await scene.ask(secret, cookie=cookie)).status != 200


async def stand(people: People, session: str, counts_as: object, organization: object) -> None:
    """A no that stands in this session."""
    people.change(
        "update sessions set hook_verdicts = jsonb_build_object(%s::text, jsonb_build_object('at', extract(epoch from now()), 'no', true))"
        " where id = %s",
        f"{counts_as}/{organization}",
        session,
    )


async def test_a_no_in_the_browser_closes_the_refresh_of_what_went_on_from_it(
    postern: Postern, people: People, log: CapturedLog, hooks: Hooks
) -> None:
    scene = Relying(postern, people, unlimited(postern), log)
    scene.tenants.join(scene.ada, scene.acme)
    async with hooks.of(scene.acme) as hooked:
        await hooked.let_in(scene.ada.session, scene.shop.service.id)
        tokens = await scene.signed_in(scene.shop)
        refreshed = scene.kept((await scene.refresh(scene.shop, tokens["refresh_token"])).ok())
        hooked.say(no("account"))
        assert (await scene.request("POST", "/api/organizations/acme/select", by=scene.ada)).status == 403
        assert (await scene.refresh(scene.shop, refreshed["refresh_token"])).status in {400, 403}
        # A yes elsewhere takes nothing back here.
        hooked.say(GO_ON)
        assert (await scene.request("POST", "/api/organizations/acme/select", by=scene.ada)).status == 200
        assert (await scene.refresh(scene.shop, refreshed["refresh_token"])).status in {400, 403}
        # The no stands until the hook says something else of this application, and the refresh token is as good as before then.
        await hooked.let_in(scene.ada.session, scene.shop.service.id)
        scene.kept((await scene.refresh(scene.shop, refreshed["refresh_token"])).ok())


async def test_a_no_ends_what_introspection_and_userinfo_say(postern: Postern, people: People, log: CapturedLog, hooks: Hooks) -> None:
    """Nobody is asked there. A yes that is too old closes nothing: a running application is no way in."""
    scene = Relying(postern, people, unlimited(postern), log)
    scene.tenants.join(scene.ada, scene.acme)
    async with hooks.of(scene.acme) as hooked:
        await hooked.let_in(scene.ada.session, scene.shop.service.id)
        tokens = await scene.signed_in(scene.shop)
        access, refresh = tokens["access_token"], tokens["refresh_token"]

        async def seen() -> tuple[bool, bool, int]:
            of_access, of_refresh = [(await scene.introspect(scene.shop, one))["active"] for one in (access, refresh)]
            return of_access, of_refresh, (await scene.userinfo(access)).status

        assert await seen() == (True, True, 200)
        scene.people.change(
            "update sessions set hook_verdicts = (select jsonb_object_agg(key, value || jsonb_build_object('at', 0))"
            " from jsonb_each(hook_verdicts)) where hook_verdicts is not null"
        )
        assert await seen() == (True, True, 200)
        hooked.say(no("account"))
        assert (await scene.request("POST", "/api/organizations/acme/select", by=scene.ada)).status == 403
        assert await seen() == (False, False, 401)
        assert len(hooked.heard) == 1


async def test_a_code_needs_a_yes_at_its_redemption(postern: Postern, people: People, log: CapturedLog, hooks: Hooks) -> None:
    scene = Relying(postern, people, unlimited(postern), log)
    scene.tenants.join(scene.ada, scene.acme)
    async with hooks.of(scene.acme, GO_ON, counts=False) as hooked:
        code = await scene.code(scene.shop)
        # It counts from now on, and has not heard of this session.
        await hooked.count()
        assert oauth(await scene.redeem(scene.shop, code)) == (400, "invalid_grant")
        # A yes about the console opens the console.
        assert (await scene.request("POST", "/api/organizations/acme/select", by=scene.ada)).status == 200
        assert oauth(await scene.redeem(scene.shop, code)) == (400, "invalid_grant")
        await hooked.let_in(scene.ada.session, scene.shop.service.id)
        scene.kept((await scene.redeem(scene.shop, code)).ok())


async def test_a_verdict_of_a_hook_that_was_changed_meanwhile_counts_nowhere(
    postern: Postern, people: People, log: CapturedLog, hooks: Hooks
) -> None:
    """The owner changes the hook while it is asked: what it says then is of another hook."""
    scene = Relying(postern, people, unlimited(postern), log)
    scene.tenants.join(scene.ada, scene.acme)
    async with hooks.of(scene.acme) as hooked:
        says = hooked.receiver.answer

        async def changed_first(stream: trio.abc.Stream, call: Call) -> bool:
            await hooked.change()
            await hooked.count()
            return await says(stream, call)

        hooked.receiver.answer = changed_first
        assert (await scene.request("POST", "/api/organizations/acme/select", by=scene.ada)).status == 200
        hooked.receiver.answer = says
        assert (await scene.request("GET", "/api/organizations/acme", by=scene.ada)).status == 403
        (report,) = scene.people.rows("select asked from hooks")
        assert report["asked"] == 0


async def test_a_second_factor_that_a_hook_asks_for_is_shown_at_this_sign_in(
    postern: Postern, people: People, log: CapturedLog, hooks: Hooks
) -> None:
    scene, browser = Relying(postern, people, unlimited(postern), log), Browser(unlimited(postern))
    ada = scene.tenants.join(await people.with_password(PASSWORD), scene.acme)
    totp = await enable_mfa(scene.client, people, ada)
    into = {"org_slug": "acme", "service_slug": "shop"}
    async with hooks.of(scene.acme, {"decision": "second_factor"}) as hooked:
        waiting = await browser.tokens(ada, **into)
        log.remember(waiting["access_token"])
        assert waiting["mfa_required"]
        # It hears of nobody before every factor.
        assert hooked.heard == []
        code = totp.now()
        signed_in = (await browser.verify(waiting["access_token"], code)).ok()
        log.remember(signed_in["access_token"], signed_in["refresh_token"])
        (asked,) = hooked.heard
        assert "mfa" in asked["factors"]


async def test_a_service_provider_gets_no_assertion_past_a_no(postern: Postern, people: People, log: CapturedLog, hooks: Hooks) -> None:
    provider = Providing(postern, people, unlimited(postern), log)
    await provider.ready()
    grace = provider.tenants.join(people.proved("grace@acme.example"), provider.acme)
    browser = provider.signed_in(grace, age=120)
    async with hooks.of(provider.acme, no("place")) as hooked:
        assert (await browser.request("GET", asking(authn_request(ID="_one")))).status == 403
        passive = await browser.request("GET", asking(authn_request(ID="_two", IsPassive="true")))
        assert sent(passive).status != "Success"
        assert people.rows("select 1 from saml_sessions") == []
        hooked.say(GO_ON)
        assert sent(await browser.request("GET", asking(authn_request(ID="_three")))).status == "Success"
        assert [one["application"]["slug"] for one in hooked.heard] == ["app"] * 3
