"""The audit log on pages: filters, one entry, files, and the check of its chain."""

import csv
import io
import json
from urllib.parse import quote

from core.domain.identifiers import OrganizationId, UserId
from core.domain.record.audit import AuditFilter
from core.domain.record.events import Actor, Event, Target
from core.domain.tenancy.roles import Capability
from entrypoints.http.console.organization.settings.audit_log import batches_of
from tests.http.pages.console.conftest import ConsoleScene

LOG = "/audit-log"


async def recorded(console: ConsoleScene, count: int, name: str = "t") -> None:
    """Entries of Acme's log."""
    actor = Actor(UserId(console.ada.user), address="192.0.2.7", user_agent="=cmd|x")
    organization = OrganizationId(console.acme.id)
    async with console.postern.foundation.unit_of_work() as uow:
        for number in range(count):
            target = Target("organization", f"{name}{number}")
            event = Event("organization.updated", actor, target, organization, {"number": number})
            await uow.record(event)
        await uow.commit()


async def linked(console: ConsoleScene) -> None:
    while await console.postern.record.audit.link():
        pass


async def test_the_list_filters_and_leads_to_one_entry(console: ConsoleScene) -> None:
    await recorded(console, 3)
    tab = await console.at(f"{LOG}?action=organization.updated&target_type=organization&target_id=t1&success=true")
    assert tab.status == 200
    entries = [link for link in tab.page.links if link.startswith(f"/ui/o/acme{LOG}/0")]
    assert len(entries) == 1
    tab = await console.tab.open(entries[0])
    assert "192.0.2.7" in tab.page.text
    assert '"number": 1' in tab.page.text
    tab = await console.at(f"{LOG}?action=user.joined")
    assert "No results" in tab.page.text


async def test_the_log_is_filtered_by_a_person_or_key_as_people_call_them(console: ConsoleScene) -> None:
    await recorded(console, 1)
    mary = console.people.add("mary@acme.example")
    console.people.change("update users set name = 'Mary Shelley' where id = %s", mary.user)
    console.tenants.join(mary, console.acme)
    console.people.change("update memberships set own_since = now()")

    async def shown(who: str) -> str:
        return (await console.at(f"{LOG}?action=organization.updated&actor_id={quote(who)}")).page.text

    for who in ("ada@example.org", "ADA@", str(console.ada.user)):
        assert "updated the organization" in await shown(who), who
    for who in ("Mary Shelley", "shelley", "mary@acme.example"):
        assert "No results" in await shown(who), who
    # The file has the same entries.
    file = (await console.at(f"{LOG}/~csv?action=organization.updated&actor_id=ada%40example.org")).shown.body.decode()
    assert len(file.splitlines()) == 2
    assert "No actor has this name or email address" in await shown("nobody")
    assert console.tab.status == 400
    assert console.tab.page.inputs["actor_id"]["value"] == "nobody"
    other = console.people.add("mary@globex.example")
    console.tenants.join(other, console.acme)
    assert "Several actors match: mary@acme.example, mary@globex.example" in await shown("mary")
    # Another organization's people are nobody here.
    console.tenants.join(console.people.add("zoe@globex.example"), console.tenants.add("globex"))
    assert "No actor has this name or email address" in await shown("zoe@globex.example")
    key = {"name": "Nightly sync", "capabilities": ["org.members.view"], "expires_in_days": 30}
    made = (await console.request("POST", "/api/organizations/acme/management-keys", key, by=console.ada)).ok(201)
    assert "No results" in await shown("nightly sync")
    assert "No results" in await shown(made["prefix"])
    # Who reads the log alone is told of nobody: an id still works.
    reader = console.tenants.role(console.acme, "reader", [Capability.AUDIT_LOGS_VIEW])
    tab = console.browser(console.tenants.join(console.people.add(), console.acme, reader)).tab()
    assert "No actor has this name or email address" in (await tab.open(f"/ui/o/acme{LOG}?actor_id=ada%40example.org")).page.text
    assert (await tab.open(f"/ui/o/acme{LOG}?actor_id={console.ada.user}")).status == 200


async def test_a_filter_that_does_not_fit_stays_in_its_form(console: ConsoleScene) -> None:
    tab = await console.at(f"{LOG}?target_id=t1")
    assert tab.status == 400
    assert "Choose the target type as well" in tab.page.text
    assert tab.page.inputs["target_id"]["value"] == "t1"
    tab = await console.at(f"{LOG}?since=2026-01-01T10:00&until=2025-01-01T10:00")
    assert tab.status == 400


async def test_the_span_is_in_utc(console: ConsoleScene) -> None:
    await recorded(console, 1)
    assert "organization.updated" in (await console.at(f"{LOG}?since=2020-01-01T10:00&action=organization.updated")).page.text
    assert "No results" in (await console.at(f"{LOG}?until=2020-01-01T10:00")).page.text


async def test_the_whole_log_becomes_a_file(console: ConsoleScene) -> None:
    await recorded(console, 1203)
    tab = await console.at(f"{LOG}/~lines")
    assert tab.shown.header("content-type") == "application/x-ndjson"
    entries = [json.loads(one) for one in tab.shown.body.splitlines()]
    assert len({one["id"] for one in entries}) == len(entries) >= 1203
    tab = await console.at(f"{LOG}/~csv?action=organization.updated")
    rows = list(csv.DictReader(io.StringIO(tab.shown.body.decode("utf-8-sig"), newline="")))
    assert len(rows) == 1203
    assert json.loads(rows[0]["details"]) == {"number": 1202}
    # What a client calls itself is no formula of the spreadsheet.
    assert rows[0]["user_agent"] == "'=cmd|x"
    assert rows[0]["actor"] == "ada@example.org"


async def test_the_file_has_what_stood_there_at_the_beginning(console: ConsoleScene) -> None:
    await recorded(console, 700)
    batches = batches_of(console.postern, OrganizationId(console.acme.id), AuditFilter())
    first = await anext(batches)
    await recorded(console, 40, "later")
    rest = [entry for batch in [one async for one in batches] for entry in batch]
    ids = [entry.id for entry in (*first, *rest)]
    assert len(ids) == len(set(ids)) == 700
    assert not any(entry.target_id.startswith("later") for entry in rest)


async def test_the_chain_is_checked_here(console: ConsoleScene) -> None:
    await recorded(console, 5)
    await linked(console)
    await console.at(f"{LOG}/~verify")
    tab = await console.submit(f"{LOG}/~verify")
    assert tab.status == 200
    assert "No entries were removed, altered or added" in tab.page.text
    console.people.change("update audit_entries set target_id = 'forged' where target_id = 't3'")
    tab = await console.submit(f"{LOG}/~verify")
    assert "One error found" in tab.page.text
    assert "The entry or its position was altered" in tab.page.text


async def test_others_read_nothing(console: ConsoleScene) -> None:
    await recorded(console, 1)
    (entry,) = console.people.rows("select id from audit_entries where target_id = 't0'")
    member, (_, stranger) = console.colleague(), console.stranger()
    for place in ("", "/~csv", "/~lines", "/~verify", f"/{entry['id']}"):
        assert (await member.open(f"/ui/o/acme{LOG}{place}")).status == 403
        assert (await stranger.open(f"/ui/o/acme{LOG}{place}")).status == 403
    assert (await stranger.open(f"/ui/o/globex{LOG}/{entry['id']}")).status == 404
    assert str(entry["id"]) not in (await stranger.open(f"/ui/o/globex{LOG}/~lines")).shown.body.decode()
