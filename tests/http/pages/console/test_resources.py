"""What every resource does, seen on webhooks: its list, its forms, its secrets, its end, and who may do it."""

import pytest

from tests.http.pages.console.conftest import ConsoleScene

NEEDS_PROVIDER = "Choose the identity provider for people with this email domain"
EVENTS = "/events"
RECEIVER = "https://crm.example.org/hooks"


async def made(console: ConsoleScene, name: str = "CRM") -> str:
    """Makes a webhook by the form. Returns its address below the organization."""
    await console.at(f"{EVENTS}/~new")
    await console.submit(f"{EVENTS}/~new", name=name, url=RECEIVER, events=["user.joined", "user.removed"])
    (webhook,) = console.people.rows("select id from webhooks where name = %s", name)
    return f"{EVENTS}/{webhook['id']}"


async def test_an_empty_list_says_how_the_first_one_comes(console: ConsoleScene) -> None:
    tab = await console.at(EVENTS)
    assert tab.status == 200
    assert "No webhooks" in tab.page.text
    assert "/ui/o/acme/events/~new" in tab.page.links
    # The call that does the same.
    assert "/api/organizations/acme/webhooks" in tab.page.text


async def test_a_thing_is_made_and_its_secret_is_shown_once(console: ConsoleScene) -> None:
    webhook = await made(console)
    assert console.tab.status == 200
    assert "whsec_" in console.tab.page.text
    await console.at(webhook)
    assert "whsec_" not in console.tab.page.text
    assert "CRM" in console.tab.page.text
    assert console.fields(f"{webhook}/change").fields["events"] == ["user.joined", "user.removed"]
    await console.at(EVENTS)
    assert f"/ui/o/acme{webhook}" in console.tab.page.links


async def test_a_wrong_form_comes_back_with_its_values_and_says_what_is_wrong(console: ConsoleScene) -> None:
    await console.at(f"{EVENTS}/~new")
    tab = await console.submit(f"{EVENTS}/~new", name="CRM", url="ftp://crm.example.org", events=["user.joined"])
    assert tab.status == 400
    assert "There is a problem" in tab.page.text
    assert console.fields(f"{EVENTS}/~new").fields["url"] == "ftp://crm.example.org"
    assert console.people.rows("select from webhooks") == []


async def test_a_form_says_all_of_its_faults_at_once(console: ConsoleScene) -> None:
    console.tenants.service(console.acme, "shop")
    place = "/applications/shop/plans/~new"
    await console.at(place)
    tab = await console.submit(place, name="", price_cents="much", currency="eur", billing_price_id="p" * 300)
    assert tab.status == 400
    for field in ("name", "price_cents", "billing_price_id"):
        assert tab.page.inputs[field].get("aria-invalid") == "true", field
    assert tab.page.inputs["currency"].get("aria-invalid") is None


async def test_the_form_of_a_domain_says_all_of_its_faults_at_once(console: ConsoleScene) -> None:
    place = "/directories/domains/~new"
    await console.at(place)
    tab = await console.submit(place, domain="gmail.com", login_policy="upstream_only", join_policy="off")
    assert tab.status == 400
    assert all(said in tab.page.text for said in ("Anyone can get an email address in this domain", NEEDS_PROVIDER))
    assert console.people.rows("select from domain_routes") == []
    # A single fault is the endpoint's.
    tab = await console.submit(place, domain="acme.example", login_policy="upstream_only", join_policy="off")
    assert (tab.status, tab.page.inputs["domain"].get("aria-invalid")) == (400, None)
    assert NEEDS_PROVIDER in tab.page.text
    tab = await console.submit(place, domain="acme.example", login_policy="password_allowed", join_policy="off")
    assert console.people.rows("select domain from domain_routes") == [{"domain": "acme.example"}]


async def test_a_change_sends_only_what_was_changed(console: ConsoleScene) -> None:
    webhook = await made(console)
    await console.at(webhook)
    form = console.fields(f"{webhook}/change")
    # Somebody else changes another field meanwhile: their change stays.
    console.people.change("update webhooks set is_active = false")
    tab = await console.tab._go("POST", form.action, {**form.fields, "name": "Sales"})
    assert tab.place == f"/ui/o/acme{webhook}?done=saved&fields=name"
    assert "Saved: Name." in tab.page.text
    assert console.people.rows("select name, is_active from webhooks") == [{"name": "Sales", "is_active": False}]


async def test_the_second_of_two_sees_what_the_first_has_changed(console: ConsoleScene) -> None:
    webhook = await made(console)
    await console.at(webhook)
    form = console.fields(f"{webhook}/change")
    console.people.change("update webhooks set name = 'Sales'")
    tab = await console.tab._go("POST", form.action, {**form.fields, "name": "Marketing"})
    assert tab.status == 409
    assert "Someone else changed these values in the meantime" in tab.page.text
    assert "Sales" in tab.page.text
    assert console.fields(f"{webhook}/change").fields["name"] == "Marketing"
    assert console.people.rows("select name from webhooks") == [{"name": "Sales"}]
    # The same form again, which the person now sends knowingly.
    tab = await console.submit(f"{webhook}/change")
    assert tab.place.endswith("?done=saved&fields=name")
    assert console.people.rows("select name from webhooks") == [{"name": "Marketing"}]
    # The names stand in the address, so they may be anything.
    for fields, said in (("name+url", "Saved: Name; URL."), ("%3Cb%3Egone%3C/b%3E", "Saved."), ("", "Saved.")):
        tab = await console.at(f"{webhook}?done=saved&fields={fields}")
        assert said in tab.page.text
        assert "gone" not in tab.page.text


async def test_a_form_without_a_change_changes_nothing(console: ConsoleScene) -> None:
    webhook = await made(console)
    await console.at(webhook)
    tab = await console.submit(f"{webhook}/change")
    assert tab.place.endswith("?done=unchanged")
    assert "No changes were made" in tab.page.text


async def test_an_act_that_asks_first_and_shows_a_secret(console: ConsoleScene) -> None:
    webhook = await made(console)
    await console.at(f"{webhook}/rotate-secret")
    tab = await console.submit(f"{webhook}/rotate-secret")
    assert "whsec_" in tab.page.text


async def test_an_end_asks_once_and_sent_twice_is_harmless(console: ConsoleScene) -> None:
    webhook = await made(console)
    await console.at(f"{webhook}/end")
    form = console.fields(f"{webhook}/end")
    for _ in range(2):
        tab = await console.tab._go("POST", form.action, form.fields)
        assert tab.place == "/ui/o/acme/events?done=console.webhooks.end"
        assert "Webhook deleted." in tab.page.text
    assert console.people.rows("select from webhooks") == []


@pytest.mark.parametrize("place", ["", "/~new", "/{webhook}", "/{webhook}/end", "/{webhook}/change"])
async def test_others_see_and_do_nothing(place: str, console: ConsoleScene) -> None:
    webhook = await made(console)
    target = f"/ui/o/acme{EVENTS}{place.format(webhook=webhook.rpartition('/')[2])}"
    member = await console.colleague().open(target)
    assert member.status == 403
    _, stranger = console.stranger()
    assert (await stranger.open(target)).status == 403
    # The webhook of one organization is nothing in another, also for the owner of that other one.
    elsewhere = target.replace("/acme/", "/globex/")
    if place.startswith("/{"):
        assert (await stranger.open(elsewhere)).status == 404


async def test_a_form_of_another_session_is_out_of_date(console: ConsoleScene) -> None:
    webhook = await made(console)
    await console.at(f"{webhook}/end")
    form = console.fields(f"{webhook}/end")
    tab = await console.tab._go("POST", form.action, {**form.fields, "form_token": "another"})
    assert tab.status == 403
    assert len(console.people.rows("select from webhooks")) == 1


async def test_an_id_that_is_none_names_nothing(console: ConsoleScene) -> None:
    assert (await console.at(f"{EVENTS}/none")).status == 404
    assert (await console.at(f"{EVENTS}/01a20686-52f3-77fe-b295-49fbf1cdd2d2")).status == 404


async def test_what_was_done_is_said_by_the_words_of_a_button_alone(console: ConsoleScene) -> None:
    assert "Webhook deleted." in (await console.at(f"{EVENTS}?done=console.webhooks.end")).page.text
    for invented in ("console.webhooks.title", "You%20have%20won", "made.x", "refusals.forbidden"):
        assert "Done:" not in (await console.at(f"{EVENTS}?done={invented}")).page.text


async def test_a_webhook_that_fails_says_so_in_the_list_and_on_its_page(console: ConsoleScene) -> None:
    webhook = await made(console)
    assert "Failing" not in (await console.at(EVENTS)).page.text.replace("Failing since", "")
    console.people.change("update webhooks set failing_since = now() - interval '1 hour'")
    tab = await console.at(EVENTS)
    assert 'class="state bad">Failing<' in tab.shown.body.decode()
    assert "Failing since 1 hour ago" in (await console.at(webhook)).page.text
    console.people.change(
        """insert into webhook_deliveries (id, webhook_id, event_id, event_name, attempts, error, created_at, updated_at)
           select %s, webhooks.id, events.id, events.name, 3, 'name_not_found', now(), now() from webhooks, events limit 1""",
        console.postern.foundation.ids.new(),
    )
    assert "Failing since 1 hour ago : Host name not found" in (await console.at(webhook)).page.text
    # A new address has not failed yet.
    form = console.fields(f"{webhook}/change")
    await console.tab._go("POST", form.action, {**form.fields, "url": "https://crm.example.org/other"})
    assert console.people.rows("select failing_since from webhooks") == [{"failing_since": None}]
