"""The effect of an organization's sign-in rules on people who sign in to its applications."""

import pyotp
import pytest

from core.domain.errors import SecondFactorRequired
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.browsing import Tab, secret_on
from tests.http.cast import all_at_once
from tests.http.client import refused
from tests.http.federation.arriving import Arriving, is_page, left, told
from tests.http.federation.devices import Sets
from tests.http.federation.relying import Relying, oauth
from tests.http.people import People, Person
from tests.http.signing_in import PASSWORD, unlimited
from tests.http.tenants import Tenant

REQUIRED = "/ui/second-factor-required"
SET_UP = "/ui/second-factor"


def require(people: People, tenant: Tenant, *, ago: str = "2 days", grace_days: int = 0) -> None:
    people.change(
        "update all_organizations set mfa_required_since = now() - %s::interval, mfa_grace_days = %s where id = %s",
        ago,
        grace_days,
        tenant.id,
    )
    people.change("update memberships set created_at = now() - interval '1 year' where org_id = %s", tenant.id)


def limit_sessions(people: People, tenant: Tenant, hours: int) -> None:
    people.change("update all_organizations set session_hours = %s where id = %s", hours, tenant.id)


def protect(people: People, person: Person) -> None:
    people.change("insert into mfa_secrets (user_id, sealed_secret, created_at, enabled_at) values (%s, '', now(), now())", person.user)


@pytest.fixture
async def grace(scene: Arriving) -> Person:
    """A member of acme who can sign in, and has no second factor."""
    return scene.tenants.join(await scene.people.with_password(PASSWORD, "grace@acme.example"), scene.acme)


async def sign_in(scene: Arriving, person: Person) -> Tab:
    tab = await scene.browser().tab().open(scene.asking())
    await tab.send(email=person.email)
    return await tab.send(password=PASSWORD)


async def test_within_the_grace_period_a_member_is_reminded_at_the_sign_in_and_may_put_it_off(scene: Arriving, grace: Person) -> None:
    scene.allow(grace)
    require(scene.people, scene.acme, grace_days=3)
    tab = await sign_in(scene, grace)
    assert tab.place.startswith(f"{REQUIRED}?flow=")
    assert "Acme requires two-step sign-in" in tab.page.text
    assert "Set it up by" in tab.page.text
    later = [form for form in tab.page.forms if form.action.startswith(REQUIRED)]
    assert len(later) == 1
    await tab.send(tab.page.forms.index(later[0]))
    left(tab)
    # People are reminded at the sign-in, not at each application.
    told(await tab.tabs.request("GET", scene.asking()))
    told(await tab.tabs.request("GET", scene.asking(prompt="none")))


async def test_two_clicks_put_it_off_once(scene: Arriving, grace: Person) -> None:
    scene.allow(grace)
    require(scene.people, scene.acme, grace_days=3)
    tab = await sign_in(scene, grace)
    (form,) = [form for form in tab.page.forms if form.action.startswith(REQUIRED)]

    async def send() -> str:
        other = tab.tabs.tab()
        await other._go("POST", form.action, form.fields)
        return left(other)["code"]

    codes = [*await all_at_once(send, send), await send()]
    assert len({*codes}) == 3
    scene.people.change("update flows set completed_at = completed_at - interval '11 seconds'")
    late = await tab.tabs.request("POST", form.action, form.fields)
    assert (late.status, b"out of date" in late.body) == (400, True)


async def test_who_puts_it_off_is_asked_for_consent_and_not_again(scene: Arriving, grace: Person) -> None:
    require(scene.people, scene.acme, grace_days=3)
    tab = await sign_in(scene, grace)
    await tab.send([form.action.partition("?")[0] for form in tab.page.forms].index(REQUIRED))
    assert tab.place.startswith("/ui/consent")
    await tab.send(answer="allow")
    left(tab)


async def test_afterwards_the_way_leads_over_the_set_up_and_back_to_the_application(scene: Arriving, grace: Person) -> None:
    scene.allow(grace)
    require(scene.people, scene.acme)
    tab = await sign_in(scene, grace)
    assert "The deadline to set it up has passed" in tab.page.text
    assert REQUIRED not in [form.action.partition("?")[0] for form in tab.page.forms]
    # A person who sends the form all the same gets no further, on this page or on another.
    flow = tab.place.partition("flow=")[2]
    form = {"flow": flow, "form_token": tab.page.forms[0].fields["form_token"]}
    answer = await tab.tabs.request("POST", REQUIRED, form)
    assert (answer.status, answer.header("location")) == (303, f"{REQUIRED}?flow={flow}")
    for place in ("/ui/authorize", "/ui/consent"):
        assert (await tab.tabs.tab().open(f"{place}?flow={flow}")).place == tab.place
    await tab.tabs.request("POST", "/ui/consent", {**form, "answer": "allow"})
    assert told(await tab.tabs.request("GET", scene.asking(prompt="none")))["error"] == "interaction_required"
    assert scene.codes() == []
    await tab.send(0)
    assert tab.place.startswith(f"{SET_UP}/set-up?to=/ui/authorize")
    secret = secret_on(tab.shown.body)
    scene.log.remember(secret)
    await tab.send(len(tab.page.forms) - 1, code="12")
    assert tab.status == 400
    await tab.send(len(tab.page.forms) - 1, code=pyotp.TOTP(secret).now())
    (onward,) = [link for link in tab.page.links if link.startswith("/ui/authorize?flow=")]
    await tab.open(onward)
    left(tab)
    assert len(scene.codes()) == 1


async def test_the_page_that_is_loaded_again_after_the_set_up_leaves(scene: Arriving, grace: Person) -> None:
    scene.allow(grace)
    require(scene.people, scene.acme)
    tab = await sign_in(scene, grace)
    protect(scene.people, grace)
    await tab.open(tab.place)
    left(tab)


async def test_one_may_go_back_or_take_another_account(scene: Arriving, grace: Person) -> None:
    require(scene.people, scene.acme)
    tab = await sign_in(scene, grace)
    last = len(tab.page.forms) - 1
    other = await tab.tabs.tab().open(tab.place)
    await other.send(last, answer="another")
    assert other.place.startswith("/ui/sign-in?flow=")
    await tab.send(last, answer="deny")
    assert left(tab)["error"] == "access_denied"


async def test_nobody_else_is_asked(scene: Arriving, grace: Person, ada: Person) -> None:
    scene.allow(ada)
    scene.allow(grace)
    globex = scene.tenants.add("globex")
    scene.tenants.join(grace, globex)
    require(scene.people, globex)
    told(await scene.signed_in(scene.tenants.session(grace)).request("GET", scene.asking()))
    require(scene.people, scene.acme)
    # An end user is not a member, so the rule does not apply.
    told(await scene.signed_in(ada).request("GET", scene.asking()))
    protect(scene.people, grace)
    told(await scene.signed_in(scene.tenants.session(grace)).request("GET", scene.asking()))


async def test_a_sign_in_that_is_too_old_for_the_organization_is_made_again(scene: Arriving, ada: Person) -> None:
    scene.allow(ada)
    limit_sessions(scene.people, scene.acme, 1)
    told(await scene.signed_in(ada, age=3500).request("GET", scene.asking()))
    old = scene.signed_in(scene.tenants.session(ada), age=3700)
    assert told(await old.request("GET", scene.asking(prompt="none")))["error"] == "login_required"
    assert (await old.tab().open(scene.asking())).place.startswith("/ui/sign-in/password?flow=")
    # The person's own account stays open in that browser.
    is_page(await old.request("GET", "/ui"), 200)


async def test_the_session_of_an_application_ends_with_the_rules(relying: Relying) -> None:
    relying.tenants.join(relying.ada, relying.acme)
    tokens = await relying.signed_in(relying.shop)
    lasting = await relying.signed_in(relying.shop, scopes="openid offline_access")
    require(relying.people, relying.acme)
    assert refused(await relying.userinfo(tokens["access_token"])) == (403, "MFA_REQUIRED")
    for token in (tokens["access_token"], tokens["refresh_token"]):
        assert await relying.introspect(relying.shop, token) == {"active": False}
    assert oauth(await relying.refresh(relying.shop, lasting["refresh_token"])) == (400, "invalid_grant")
    # The request waits for the set-up, and is not used up.
    protect(relying.people, relying.ada)
    assert (await relying.userinfo(tokens["access_token"])).status == 200
    lasting = (await relying.refresh(relying.shop, lasting["refresh_token"])).ok()
    relying.log.remember(lasting["access_token"], lasting["refresh_token"])
    limit_sessions(relying.people, relying.acme, 1)
    relying.people.change("update sessions set proved_at = now() - interval '61 minutes' where scopes is not null")
    assert refused(await relying.userinfo(lasting["access_token"])) == (401, "UNAUTHORIZED")
    for token in (lasting["access_token"], lasting["refresh_token"]):
        assert await relying.introspect(relying.shop, token) == {"active": False}
    assert oauth(await relying.refresh(relying.shop, lasting["refresh_token"])) == (400, "invalid_grant")


async def test_what_stands_for_no_person_goes_on(relying: Relying) -> None:
    require(relying.people, relying.acme)
    limit_sessions(relying.people, relying.acme, 1)
    own = (await relying.ask(fields={"grant_type": "client_credentials"}, headers=relying.shop.basic)).ok()["access_token"]
    assert (await relying.introspect(relying.shop, own))["active"]


async def test_a_device_is_let_in_by_no_member_who_owes_a_second_factor(postern: Postern, people: People, log: CapturedLog) -> None:
    sets = Sets(postern, people, unlimited(postern), log)
    sets.tenants.join(sets.ada, sets.acme)
    approved, waiting = await sets.ask_for_codes(), await sets.ask_for_codes()
    await sets.approve(approved)
    require(people, sets.acme)
    with pytest.raises(SecondFactorRequired):
        await sets.approve(waiting)
    assert oauth(await sets.poll(approved)) == (400, "access_denied")
