"""Entries of the audit log as sentences, folded runs, and what changed."""

import tomllib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from core.domain.identifiers import OrganizationId, UserId
from core.domain.languages import CONSOLE_LANGUAGES, Language
from core.domain.record.event_types import EVENT_DATA
from core.domain.record.events import Actor, Event, Target, TargetType
from entrypoints.http.console.organization import events
from entrypoints.http.console.organization.settings.audit_sentences import SENTENCES, changes_in, folded, place_of, sentence_of
from entrypoints.http.pages.kit import shipped_pages
from entrypoints.http.routes.record.audit import AuditActor, AuditEntryRecord, AuditService
from tests.http.pages.console.conftest import ConsoleScene
from tests.http.people import Person

LOG = "/audit-log"
ID = UUID("018f3c5a-7b1e-7c3d-9f4a-2b6c8d0e1f23")
PATH = {"org_slug": "acme"}
BOARD = AuditService(slug="board", name="Board")


def entry(action: str, target: str = "organization", *, of: UUID = ID, actor: AuditActor | None = None, **details: Any) -> AuditEntryRecord:
    return AuditEntryRecord(
        org_id=ID,
        id=ID,
        actor=actor,
        impersonator=None,
        action=action,
        target_type=target,
        target_id=str(of),
        ip_address=None,
        user_agent=None,
        success=True,
        details=details,
        created_at=datetime.now(UTC),
    )


def person(name: str = "Ada") -> AuditActor:
    return AuditActor(id=ID, email="ada@acme.example", name=name, is_platform_owner=False)


@pytest.mark.parametrize("language", CONSOLE_LANGUAGES)
def test_each_action_has_a_sentence_in_each_language(language: Language) -> None:
    text, english = shipped_pages().text(language), shipped_pages().text(Language.ENGLISH)
    for name in SENTENCES:
        data: Any = EVENT_DATA[name].example if name in EVENT_DATA else {}
        for target in (TargetType.USER, TargetType.SERVICE):
            for details in (data, dict[str, Any]()):
                said = sentence_of(entry(name, target, actor=person(), **details), text)
                assert said, name
                assert "{" not in said, name
                assert language is Language.ENGLISH or said != sentence_of(entry(name, target, actor=person(), **details), english), said


def test_the_page_of_an_application_is_found_by_its_name_of_today() -> None:
    given = entry("user.consent.given", "service", actor=person(), service_slug="former", service_name="Former")
    assert place_of(replace(given, service=BOARD), PATH) == "/ui/o/acme/applications/board"
    assert place_of(entry("user.consent.given", "service", actor=person()), PATH) == ""


def test_sentences_say_who_did_what_to_whom() -> None:
    text = shipped_pages().text(Language.ENGLISH)
    for said, one in (
        (
            "Ada invited grace@example.org as Member",
            entry("user.invited", "user", actor=person(), role="member", invited_email="grace@example.org"),
        ),
        ("Ada created the role Support", entry("role.created", "role", actor=person(), name="Support", role_slug="support")),
        (
            "Ada created the role Editor of billing",
            entry("service.role.created", "service", actor=person(), name="Editor", service_slug="billing"),
        ),
        ("The system updated the organization", entry("organization.updated")),
        ("Ada granted an application access", entry("user.consent.given", "service", actor=person())),
        ("Ada granted Board access", entry("user.consent.given", "service", actor=person(), service_slug="board", service_name="Board")),
        # Entries of before say the application by its id alone.
        ("Ada granted Board access", replace(entry("user.consent.given", "service", actor=person()), service=BOARD)),
        ("Ada revoked the access of Board", replace(entry("user.consent.revoked", "service", actor=person()), service=BOARD)),
        (
            "Ada assigned the role agent in shop to the team support",
            entry("service.assignment.added", "service", actor=person(), role_slug="agent", service_slug="shop", team="support"),
        ),
        (
            "Ada assigned the role agent in The shop to the team First line",
            entry(
                "service.assignment.added",
                "service",
                actor=person(),
                role_slug="agent",
                service_slug="shop",
                service_name="The shop",
                team="support",
                team_name="First line",
            ),
        ),
        (
            "Ada added Ada to the team First line",
            entry("team.member.added", "user", actor=person(), team_slug="support", team_name="First line"),
        ),
        ("Ada updated the team First line", entry("team.updated", "team", actor=person(), team_slug="support", name="First line")),
        (
            "Ada removed the role agent in shop from all people with the role Administrator",
            entry(
                "service.assignment.removed",
                "service",
                actor=person(),
                role_slug="agent",
                service_slug="shop",
                organization_role="admin",
            ),
        ),
        (
            "Ada assigned the role agent in shop to someone",
            entry("service.assignment.added", "service", actor=person(), role_slug="agent", service_slug="shop"),
        ),
        ("Ada joined the organization", entry("user.joined", "user", actor=person())),
        ("someone joined the organization", entry("user.joined", "user")),
        ("an.old.action", entry("an.old.action")),
    ):
        assert sentence_of(one, text) == said


def test_things_lead_to_their_pages() -> None:
    for place, one in (
        ("/ui/o/acme/applications/billing", entry("service.updated", "service", service_slug="billing")),
        ("", entry("service.updated", "service")),
        ("", entry("service.deleted", "service", service_slug="billing")),
        (f"/ui/o/acme/people/roles/{ID}", entry("role.updated", "role")),
        ("", entry("user.joined", "user")),
        ("", entry("user.joined", "job")),
        (f"/ui/o/acme/directories/domains/{ID}", entry("domain_route.created", "organization", domain="acme.example", domain_id=str(ID))),
        # What an entry says does not change where the address leads.
        ("/ui/o/acme/applications/..%2Fx", entry("service.updated", "service", service_slug="../x", org_slug="globex")),
    ):
        assert place_of(one, PATH) == place, one.action


def test_runs_of_like_entries_are_folded() -> None:
    text = shipped_pages().text(Language.ENGLISH)
    invited = [
        entry("user.invited", "user", actor=person(), role="member", invited_email=f"p{number}@acme.example") for number in range(29)
    ]
    rows = folded([*invited, entry("role.created", "role", name="A"), entry("role.created", "role", name="B")])
    assert [row.more for row in rows] == [28, 0, 0]
    assert sentence_of(rows[0], text) == "Ada invited p0@acme.example as Member, and 28 similar entries"


def test_changes_are_before_and_after() -> None:
    text = shipped_pages().text(Language.ENGLISH)
    one = entry("organization.updated", changed=["name"], old_name="Acme", name="Acme Ltd", old_port=None, new_port=587, old_on=True)
    assert [(change.part, change.old, change.new) for change in changes_in(one, text)] == [
        ("name", "Acme", "Acme Ltd"),
        ("port", "", "587"),
        ("on", "Yes", ""),
    ]


def test_changes_are_told_in_the_words_of_forms() -> None:
    text = shipped_pages().text(Language.GERMAN)
    for expected, one in (
        (("MFA für Mitglieder", "Optional", "Erforderlich"), entry("x", old_mfa_policy="optional", new_mfa_policy="required")),
        (("Rolle", "Mitglied", "auditor"), entry("x", old_role="member", new_role="auditor")),
        (("Aktiv", "Ja", "Nein"), entry("x", old_is_active=True, new_is_active=False)),
        (("Inhaber", "1", "2"), entry("x", old_owner_user_id="1", new_owner_user_id="2")),
        (("Umleitungs-URIs", "a, b", "c"), entry("x", redirect_uris_removed=["a", "b"], redirect_uris_added=["c"])),
        (("Berechtigungen", "", "Mitglieder anzeigen"), entry("x", granted=["org.members.view"], revoked=[])),
        (("", "", "x"), entry("x", old_unheard=None, new_unheard="x")),
        # A word that we no longer have.
        (
            ("Beitrittsrichtlinie", "perhaps", "Personen können um Beitritt bitten"),
            entry("x", old_join_policy="perhaps", new_join_policy="ask"),
        ),
    ):
        (change,) = changes_in(one, text)
        assert (change.label, change.old, change.new) == expected


async def recorded(console: ConsoleScene, target: Target, action: str, number: int = 1, **details: Any) -> None:
    actor = Actor(UserId(console.ada.user), address="192.0.2.7", user_agent="x")
    async with console.postern.foundation.unit_of_work() as uow:
        for _ in range(number):
            await uow.record(Event(action, actor, target, OrganizationId(console.acme.id), details))
        await uow.commit()


async def test_the_list_says_sentences_and_folds_runs(console: ConsoleScene) -> None:
    await recorded(console, Target("organization", str(console.acme.id)), "organization.updated", 5, changed=["name"])
    tab = await console.at(LOG)
    assert "ada@example.org updated the organization, and 4 similar entries" in tab.page.text
    (run,) = [link for link in tab.page.links if "action=organization.updated" in link]
    tab = await tab.open(run)
    assert "similar entries" not in tab.page.text
    assert len([link for link in tab.page.links if link.startswith(f"/ui/o/acme{LOG}/0")]) == 5


async def test_an_entry_says_before_and_after(console: ConsoleScene) -> None:
    await recorded(console, Target("organization", str(console.acme.id)), "organization.updated", old_name="Acme", name="Acme Corporation")
    tab = await console.at(LOG)
    tab = await tab.open(next(link for link in tab.page.links if link.startswith(f"/ui/o/acme{LOG}/0")))
    for said in ("Changes", "Before", "After", "Acme Corporation", "Details (JSON and API)", "192.0.2.7"):
        assert said in tab.page.text, said


def member(console: ConsoleScene) -> Person:
    mary = console.people.add("mary@acme.example")
    console.people.change("update users set name = 'Mary' where id = %s", mary.user)
    console.tenants.join(mary, console.acme)
    return mary


async def test_a_person_has_a_name_while_they_have_to_do_with_the_organization(console: ConsoleScene) -> None:
    mary = member(console)
    await recorded(console, Target("user", str(mary.user)), "user.role_updated", old_role="member", new_role="admin")
    tab = await console.at(LOG)
    assert "ada@example.org changed the role of Mary to Administrator" in tab.page.text
    assert f"/ui/o/acme/people/users/{mary.user}" in tab.page.links
    answer = await console.request("GET", "/api/organizations/acme/audit-log", by=console.ada)
    (logged,) = [one for one in answer.ok()["logs"] if one["action"] == "user.role_updated"]
    assert logged["subject"] == {"id": str(mary.user), "email": "mary@acme.example", "name": "Mary"}
    console.people.change("delete from memberships where user_id = %s", mary.user)
    tab = await console.at(LOG)
    assert "ada@example.org changed the role of someone to Administrator" in tab.page.text
    assert "mary@acme.example" not in tab.page.text
    answer = await console.request("GET", "/api/organizations/acme/audit-log", by=console.ada)
    assert all("subject" not in one for one in answer.ok()["logs"] if one["action"] == "user.role_updated")


@pytest.mark.parametrize("language", CONSOLE_LANGUAGES)
def test_each_event_has_a_label_in_each_language_and_no_other_has(language: Language) -> None:
    text, english = shipped_pages().text(language), shipped_pages().text(Language.ENGLISH)
    files = tomllib.loads((Path(events.__file__).parent / "texts" / "events.toml").read_text())
    assert set(_named(files[language.value]["console"]["event"])) == events.LABELLED
    same = {name for name in events.LABELLED if events.event_in_words(name, text) == events.event_in_words(name, english)}
    assert language is Language.ENGLISH or same == set()
    assert events.event_in_words("an.old.event", text) == "an.old.event"


def _named(section: Mapping[str, Any], above: str = "") -> Iterator[str]:
    for name, value in section.items():
        if isinstance(value, str):
            yield above + name
        else:
            yield from _named(value, f"{above}{name}.")


async def test_webhooks_choose_among_events_in_the_language_of_the_page(console: ConsoleScene) -> None:
    console.people.change("update users set language = 'de' where id = %s", console.ada.user)
    tab = await console.at("/events/~new")
    assert "Person beigetreten" in tab.page.text
    assert "User joined" not in tab.page.text
    assert "Person beigetreten" in (await console.at(f"{LOG}?action=user.joined")).page.text
