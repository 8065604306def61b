"""A webhook's form has its events in groups, and its page has its deliveries above what changes it."""

import pytest

from core.domain.languages import CONSOLE_LANGUAGES, Language
from core.domain.record.event_types import WEBHOOK_EVENTS
from entrypoints.http.console.organization.events import group_key
from entrypoints.http.pages.kit import shipped_pages
from tests.http.pages.console.conftest import ConsoleScene
from tests.http.pages.console.test_resources import EVENTS, RECEIVER, made

TEAMS = [one.name for one in WEBHOOK_EVENTS if one.category == "Teams"]


async def test_a_tick_for_a_group_stands_for_each_of_its_events(console: ConsoleScene) -> None:
    await console.at(f"{EVENTS}/~new")
    assert "Management API keys" in console.tab.page.text
    await console.submit(f"{EVENTS}/~new", name="CRM", url=RECEIVER, events=[" ".join(TEAMS), TEAMS[0], "user.joined"])
    (webhook,) = console.people.rows("select id, events from webhooks")
    assert webhook["events"] == [one.name for one in WEBHOOK_EVENTS if one.name in {*TEAMS, "user.joined"}]
    await console.at(f"{EVENTS}/{webhook['id']}")
    # The tick of the group itself is none of them, so that each event can be unticked.
    form = console.fields(f"{EVENTS}/{webhook['id']}/change")
    assert sorted(form.fields["events"]) == sorted([*TEAMS, "user.joined"])
    tab = await console.submit(f"{EVENTS}/{webhook['id']}/change", events=[" ".join(TEAMS), "user.joined"])
    assert tab.place.endswith("?done=unchanged")


async def test_a_form_that_comes_back_has_each_event_of_the_group_ticked(console: ConsoleScene) -> None:
    await console.at(f"{EVENTS}/~new")
    await console.submit(f"{EVENTS}/~new", name="CRM", url="ftp://crm.example.org", events=[" ".join(TEAMS)])
    assert sorted(console.fields(f"{EVENTS}/~new").fields["events"]) == sorted(TEAMS)


async def test_the_deliveries_stand_above_the_form_that_changes_the_webhook(console: ConsoleScene) -> None:
    webhook = await made(console)
    text = (await console.at(webhook)).page.text
    assert "No deliveries." in text
    await console.submit(f"{webhook}/test")
    tab = await console.at(webhook)
    headings = ("Send test event", "Replay events", "Recent deliveries", "webhook.tested", "All deliveries", "Save")
    assert [tab.page.text.index(one) for one in headings] == sorted(tab.page.text.index(one) for one in headings)
    (delivery,) = console.people.rows("select id from webhook_deliveries")
    assert {f"/ui/o/acme{webhook}/deliveries", f"/ui/o/acme{webhook}/deliveries/{delivery['id']}"} <= set(tab.page.links)


@pytest.mark.parametrize("language", CONSOLE_LANGUAGES)
def test_every_group_of_events_has_a_heading(language: Language) -> None:
    text = shipped_pages().text(language)
    assert all(text(group_key(one.category)) for one in WEBHOOK_EVENTS)
