"""Whoever a hook refuses presses the same form again and again: the consent page, the password page, SAML's, the console's page, a device,
each with the organization's hook and the installation's. And what is answered where no page may be shown.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import pytest
import trio

from core.domain.identity.guards.hook_verdicts import RefusedByHook
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.browsing import Tab
from tests.http.federation.arriving import CALLBACK, VERIFIER, Arriving, answer_in
from tests.http.federation.devices import Sets
from tests.http.federation.providing import Providing, asking, authn_request, sent
from tests.http.federation.relying import oauth
from tests.http.people import People, Person
from tests.http.signing_in import PASSWORD, unlimited
from tests.http.tenants import Tenant
from tests.receiver import Call, answering
from tests.security.hooks.hooked import GO_ON, Hooked, Hooks, no, saying, until
from tests.security.hooks.test_doors import member

PRESSED: Final = 10
SILENCES: Final = ("go_on", "refuse")
KEEPERS: Final = ("the organization's", "the installation's")


def kept(hooks: Hooks, keeper: str, tenant: Tenant, said: Any, silence: str) -> AbstractAsyncContextManager[Hooked]:
    return hooks.of(tenant if keeper == "the organization's" else None, said, silence=silence)


async def pressed(tab: Tab, **fields: str) -> list[int]:
    """The form that the page shows, ten times."""
    (form, *_) = tab.page.forms
    return [(await tab._go("POST", form.action, {**form.fields, **fields})).status for _ in range(PRESSED)]


@pytest.mark.parametrize("keeper", KEEPERS)
@pytest.mark.parametrize("silence", SILENCES)
async def test_the_consent_page_gives_no_code(arriving: Arriving, hooks: Hooks, silence: str, keeper: str) -> None:
    grace = member(arriving)
    async with kept(hooks, keeper, arriving.acme, no("account"), silence) as hooked:
        tab = await arriving.signed_in(grace).tab().open(arriving.asking())
        assert 200 not in await pressed(tab, answer="allow")
        # Asked three times, and the flow was over.
        assert len(hooked.heard) == 3
        assert arriving.codes() == []
        again = await arriving.signed_in(arriving.people.session_of(grace)).tab().open(arriving.asking())
        await again.send(answer="allow")
        assert again.status == 403
    assert arriving.codes() == []


@pytest.mark.parametrize("keeper", KEEPERS)
@pytest.mark.parametrize("silence", SILENCES)
async def test_the_password_page_gives_no_code(arriving: Arriving, hooks: Hooks, silence: str, keeper: str) -> None:
    grace = arriving.tenants.join(await arriving.people.with_password(PASSWORD, "grace@acme.example"), arriving.acme)
    arriving.allow(grace)
    async with kept(hooks, keeper, arriving.acme, no("account"), silence):
        tab = await arriving.browser().tab().open(arriving.asking())
        await tab.send(email=grace.email)
        assert 200 not in await pressed(tab, password=PASSWORD)
        place = tab.place
        for _ in range(PRESSED):
            assert (await tab.open(place)).status != 200
        assert arriving.codes() == []


@pytest.mark.parametrize("keeper", KEEPERS)
@pytest.mark.parametrize("silence", SILENCES)
async def test_the_page_of_the_console_stays_closed(arriving: Arriving, hooks: Hooks, silence: str, keeper: str) -> None:
    grace = member(arriving, "admin")
    async with kept(hooks, keeper, arriving.acme, no("account"), silence) as hooked:
        tabs = arriving.signed_in(grace)
        for _ in range(PRESSED):
            assert (await tabs.tab().open("/ui/o/acme/people")).status == 403
        hooked.receiver.answer = answering(500)
        for _ in range(PRESSED):
            assert (await tabs.tab().open("/ui/o/acme/people")).status in {403, 429}


async def test_a_yes_about_an_application_opens_no_console_and_takes_no_no_back_there(arriving: Arriving, hooks: Hooks) -> None:
    """A hook that judges by application: row 10 of issue 95."""
    grace = member(arriving, "admin")
    arriving.allow(grace)
    arriving.allow(grace, arriving.desktop)

    async def by_application(stream: trio.abc.Stream, call: Call) -> bool:
        said = GO_ON if b'"slug":"app"' in call.body else no("account")
        return await saying(said)(stream, call)

    async with hooks.of(arriving.acme, by_application) as hooked:
        tabs = arriving.signed_in(grace)
        assert "code" in answer_in((await tabs.tab().open(arriving.asking())).shown.header("location"))
        assert (await tabs.tab().open("/ui/o/acme/people")).status == 403
        # A no closes the organization, and a yes opens what it is about.
        assert "code" in answer_in((await tabs.tab().open(arriving.asking())).shown.header("location"))
        assert (await tabs.tab().open("/ui/o/acme/people")).status == 403
        assert (await arriving.request("GET", "/api/organizations/acme", by=grace)).status == 403
        assert [one["application"] is None for one in hooked.heard] == [False, True, False, True]


@pytest.mark.parametrize("keeper", KEEPERS)
@pytest.mark.parametrize("silence", SILENCES)
async def test_a_service_provider_gets_no_assertion(
    postern: Postern, people: People, log: CapturedLog, hooks: Hooks, silence: str, keeper: str
) -> None:
    provider = Providing(postern, people, unlimited(postern), log)
    await provider.ready()
    grace = provider.tenants.join(people.proved("grace@acme.example"), provider.acme)
    async with kept(hooks, keeper, provider.acme, no("account"), silence) as hooked:
        # The flow begins with the form of another site, and goes on from its address.
        tab = await provider.opened(provider.browser().tab(), asking(authn_request(ID="_one")))
        place = tab.place
        tab.tabs.cookies.update(provider.signed_in(grace, age=120).cookies)
        for _ in range(PRESSED):
            assert (await provider.opened(tab, place)).status != 200
        assert len(hooked.heard) == 3
        for number in range(PRESSED):
            shown = await provider.signed_in(people.session_of(grace)).request("GET", asking(authn_request(ID=f"_further{number}")))
            assert shown.status == 403


@pytest.mark.parametrize("silence", SILENCES)
async def test_a_device_stays_out(postern: Postern, people: People, log: CapturedLog, hooks: Hooks, silence: str) -> None:
    scene = Sets(postern, people, unlimited(postern), log)
    scene.tenants.join(scene.ada, scene.acme)
    async with hooks.of(scene.acme, no(), silence=silence) as hooked:
        codes = await scene.ask_for_codes(scene.box)
        for _ in range(PRESSED):
            with pytest.raises(RefusedByHook):
                await scene.approve(codes)
        hooked.receiver.answer = answering(500)
        for _ in range(4):
            with pytest.raises(RefusedByHook):
                await scene.approve(codes)
        assert oauth(await scene.poll(codes)) == (400, "authorization_pending")


async def test_a_device_that_a_silence_lets_in_comes_within_five_minutes(
    postern: Postern, people: People, log: CapturedLog, hooks: Hooks
) -> None:
    scene = Sets(postern, people, unlimited(postern), log)
    scene.tenants.join(scene.ada, scene.acme)
    async with hooks.of(scene.acme, answering(500), silence="go_on"):
        codes = await scene.ask_for_codes(scene.box)
        await scene.approve(codes)
        scene.rest()
        tokens = (await scene.poll(codes)).ok()
        log.remember(tokens["access_token"], tokens["refresh_token"])
        (row,) = people.rows("select ends_at <= now() + interval '12 hours' as soon from sessions where service_id is not null")
        assert row["soon"]
        late = await scene.ask_for_codes(scene.box)
        await scene.approve(late)
        people.change(
            "update sessions set hook_verdicts = (select jsonb_object_agg(key, value || jsonb_build_object('at', (value ->> 'at')::float8"
            " - 360)) from jsonb_each(hook_verdicts)) where hook_verdicts is not null"
        )
        scene.rest()
        assert oauth(await scene.poll(late)) == (400, "access_denied")


async def test_a_code_that_a_silence_gave_is_redeemed_and_its_tokens_end(arriving: Arriving, hooks: Hooks) -> None:
    grace = member(arriving)
    arriving.allow(grace, scopes="openid email offline_access")
    async with hooks.of(arriving.acme, answering(500), silence="go_on"):
        tabs = arriving.signed_in(grace)
        tab = await tabs.tab().open(arriving.asking(scope="openid email offline_access"))
        code = answer_in(tab.shown.header("location"))["code"]
        answer = await redeemed(arriving, code)
        tokens = answer.ok()
        arriving.log.remember(*(tokens[name] for name in ("access_token", "refresh_token", "id_token") if name in tokens))
        (row,) = arriving.people.rows(
            "select ends_at <= now() + interval '12 hours' as soon, parent_id from sessions where service_id is not null"
        )
        assert row == {"soon": True, "parent_id": None}


async def redeemed(arriving: Arriving, code: str) -> Any:
    fields = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": CALLBACK,
        "client_id": arriving.client_id(arriving.app),
        "code_verifier": VERIFIER,
    }
    return await arriving.browser().request("POST", "/oauth/token", fields)


@pytest.fixture
def hung(arriving: Arriving) -> Callable[[Person], Awaitable[None]]:
    """Makes eight requests of this person wait."""

    async def eight(person: Person) -> None:
        places = arriving.postern.identity.hook_asking.places
        await until(lambda: places._of_person[arriving.acme.id, person.user] == 8)  # type: ignore[attr-defined]

    return eight


@pytest.mark.usefixtures("unhurried")
async def test_where_no_page_may_be_shown_the_application_hears_that_nobody_could_be_asked(
    arriving: Arriving, hooks: Hooks, hung: Callable[[Person], Awaitable[None]]
) -> None:
    grace, answered = member(arriving, "admin"), trio.Event()
    arriving.allow(grace)

    async def waits(stream: trio.abc.Stream, call: Call) -> bool:
        await answered.wait()
        return await saying(GO_ON)(stream, call)

    async def one(session: Person) -> None:
        await arriving.request("POST", "/api/organizations/acme/select", by=session)

    sessions = [arriving.people.session_of(grace) for _ in range(8)]
    async with hooks.of(arriving.acme, waits, silence="go_on", seconds=5), trio.open_nursery() as nursery:
        for session in sessions:
            nursery.start_soon(one, session)
        await hung(grace)
        tabs = arriving.signed_in(grace)
        hidden = await tabs.tab().open(arriving.asking(prompt="none"))
        assert answer_in(hidden.shown.header("location"))["error"] == "temporarily_unavailable"
        shown = await tabs.tab().open(arriving.asking())
        assert shown.status == 429
        # A page of the console and what it loads later are answered alike.
        for place in ("/ui/o/acme/people", "/ui/o/acme"):
            page = await tabs.tab().open(place)
            assert (page.status, page.shown.header("content-type")) == (429, "text/html; charset=utf-8")
        assert arriving.codes() == []
        answered.set()


async def test_a_passive_request_gets_a_status_of_saml(postern: Postern, people: People, log: CapturedLog, hooks: Hooks) -> None:
    provider = Providing(postern, people, unlimited(postern), log)
    await provider.ready()
    grace = provider.tenants.join(people.proved("grace@acme.example"), provider.acme)
    tabs = provider.signed_in(grace, age=120)
    async with hooks.of(provider.acme, answering(500), silence="go_on"):
        for number in range(5):
            assert sent(await tabs.request("GET", asking(authn_request(ID=f"_one{number}")))).status == "Success"
        # Five failures in a minute: nobody is asked about this person now.
        passive = await tabs.request("GET", asking(authn_request(ID="_passive", IsPassive="true")))
        assert sent(passive).status != "Success"
        assert (await tabs.request("GET", asking(authn_request(ID="_shown")))).status == 429
