"""The receivers of an entry on pages: of the entry, of a person, and of somebody who has left."""

import jwt

from core.domain.identifiers import OrganizationId, UserId
from core.domain.record.events import Actor, Event, Target
from core.domain.tenancy.roles import Capability
from tests.http.pages.console.conftest import ConsoleScene
from tests.http.people import Person

MARKUP = "<script>alert(1)</script>"


async def happens(console: ConsoleScene, name: str, person: Person) -> str:
    event = Event(name, Actor(UserId(console.ada.user)), Target("user", str(person.user)), OrganizationId(console.acme.id))
    async with console.postern.foundation.unit_of_work() as uow:
        entry = await uow.record(event)
        await uow.commit()
    return str(entry)


async def webhook(console: ConsoleScene, name: str = "CRM") -> None:
    body = {"name": name, "url": "https://crm.example/hooks?key=fig", "events": ["user.removed"]}
    console.log.remember((await console.request("POST", "/api/organizations/acme/webhooks", body, by=console.ada)).ok()["secret"])


def member(console: ConsoleScene) -> Person:
    return console.tenants.join(console.people.add("mary@acme.example"), console.acme)


async def test_the_page_of_an_entry_has_its_receivers(console: ConsoleScene) -> None:
    mary = member(console)
    await webhook(console)
    await webhook(console, MARKUP)
    entry = await happens(console, "user.removed", mary)
    tab = await console.at(f"/audit-log/{entry}")
    assert tab.status == 200
    assert "CRM" in tab.page.text
    assert "Pending" in tab.page.text
    assert MARKUP in tab.page.text
    assert MARKUP.encode() not in tab.shown.body
    assert f"/ui/o/acme/audit-log/~offboarding/{mary.user}" in tab.page.links
    # What was sent does not name the receiver's address.
    assert b"fig" not in tab.shown.body
    console.people.change(
        "update webhook_deliveries set next_at = null, attempts = 8, status_code = 503, error = 'answered 503', updated_at = now()"
    )
    text = (await console.at(f"/audit-log/{entry}")).page.text
    assert "Failed" in text
    assert "HTTP status 503. 8 attempts." in text


async def test_an_organization_without_receivers_reads_so(console: ConsoleScene) -> None:
    entry = await happens(console, "user.removed", member(console))
    assert "The organization has no receivers" in (await console.at(f"/audit-log/{entry}")).page.text


async def test_the_page_of_a_person_counts_and_the_page_stays_when_they_have_left(console: ConsoleScene) -> None:
    mary = member(console)
    await webhook(console)
    tab = await console.at(f"/people/{mary.user}")
    assert "Offboarding" not in tab.page.text
    entry = await happens(console, "user.removed", mary)
    tab = await console.at(f"/people/{mary.user}")
    assert "Offboarding" in tab.page.text
    assert "Pending: 1" in tab.page.text
    assert f"/ui/o/acme/audit-log/{entry}" in tab.page.links
    console.people.change("delete from memberships where user_id = %s", mary.user)
    assert (await console.at(f"/people/{mary.user}")).status == 404
    tab = await console.at(f"/audit-log/~offboarding/{mary.user}")
    assert tab.status == 200
    assert "Person removed" in tab.page.text
    assert "CRM" in tab.page.text
    other = await console.at(f"/audit-log/~offboarding/{console.ada.user}")
    assert "no entry that ends or weakens" in other.page.text


async def test_who_may_not_read_the_log_is_shown_nothing(console: ConsoleScene) -> None:
    mary = member(console)
    await webhook(console)
    entry = await happens(console, "user.removed", mary)
    role = console.tenants.role(console.acme, "people", [Capability.MEMBERS_VIEW, Capability.END_USERS_VIEW])
    tab = console.browser(console.tenants.join(console.people.add(), console.acme, role)).tab()
    shown = await tab.open(f"/ui/o/acme/people/{mary.user}")
    assert shown.status == 200
    assert "Offboarding" not in shown.page.text
    for place in (f"/ui/o/acme/audit-log/{entry}", f"/ui/o/acme/audit-log/~offboarding/{mary.user}"):
        assert (await tab.open(place)).status == 403


async def test_texts_of_all_states_are_there(console: ConsoleScene) -> None:
    """In each language, for what a page of an application with everything says."""
    mary = member(console)
    service = console.tenants.service(console.acme, "shop")
    console.people.change("update services set frontchannel_logout_uri = 'https://shop.example/out' where id = %s", service.id)
    console.tenants.export_sign_ins(console.acme)
    entry = await happens(console, "user.removed", mary)
    await webhook(console)
    text = (await console.at(f"/audit-log/{entry}")).page.text
    for word in ("Not recorded", "The browser was asked", "Exported up to entry 0", "Added later", "SIEM export", "Front-channel logout"):
        assert word in text, word


async def test_the_page_to_print_leads_to_a_signed_file(console: ConsoleScene) -> None:
    mary = member(console)
    await webhook(console)
    await happens(console, "user.removed", mary)
    tab = await console.at(f"/audit-log/~offboarding/{mary.user}")
    assert "print it" in tab.page.text
    place = f"/ui/o/acme/audit-log/~offboarding/{mary.user}/evidence"
    assert place in tab.page.links
    form = await console.at(f"/audit-log/~offboarding/{mary.user}/evidence")
    assert form.status == 200
    (number,) = [number for number, one in enumerate(form.page.forms) if one.action == place]
    stored = (await form.send(number)).shown
    assert (stored.status, stored.header("content-type")) == (200, "application/jwt")
    assert stored.header("content-disposition") == f'attachment; filename="acme-offboarding-{mary.user}.jwt"'
    told = jwt.decode(stored.body.decode(), options={"verify_signature": False})
    assert [one["action"] for one in told["entries"]] == ["user.removed"]


async def test_the_name_of_a_late_receiver_stays_text(console: ConsoleScene) -> None:
    mary = member(console)
    event = Event(
        "offboarding.late",
        Actor(None),
        Target("user", str(mary.user)),
        OrganizationId(console.acme.id),
        {"receiver": MARKUP, "receiver_kind": "webhook", "entry_action": "user.removed"},
    )
    async with console.postern.foundation.unit_of_work() as uow:
        entry = await uow.record(event)
        await uow.commit()
    shown = await console.at(f"/audit-log/{entry}")
    assert MARKUP in shown.page.text
    assert MARKUP.encode() not in shown.shown.body
