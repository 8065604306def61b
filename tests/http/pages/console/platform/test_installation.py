"""Jobs, keys, logs, settings and health of the installation."""

from datetime import timedelta

import pytest

from core.domain.languages import CONSOLE_LANGUAGES
from entrypoints import checks
from entrypoints.http.console.platform.overview import mend_key, subject_key
from entrypoints.http.pages.kit import shipped_pages
from tests.http.pages.console.platform.conftest import HOME, PlatformScene

DEAD = "01a20686-52f3-77fe-b295-49fbf1cdd2d2"


async def test_a_dead_job_is_taken_up_again_once(platform: PlatformScene) -> None:
    platform.people.change(
        """insert into jobs (id, kind, payload, state, attempts, run_at, died_at, last_error)
           values (%s, 'mail', '{"to": "secret@example.org"}', 'dead', 7, now(), now(), 'The mail server answered 550')""",
        DEAD,
    )
    assert "1 background job failed" in (await platform.at()).page.text
    tab = await platform.at("/jobs")
    assert "550" in tab.page.text
    assert "secret@example.org" not in tab.page.text
    action = f"{HOME}/jobs/{DEAD}/revive"
    form = next(form for form in tab.page.forms if form.action == action)
    for _ in range(2):
        tab = await platform.tab._go("POST", action, form.fields)
        assert tab.place == f"{HOME}/jobs?done=console.jobs.revive"
    assert platform.people.rows("select state, attempts from jobs") == [{"state": "waiting", "attempts": 0}]
    (row,) = platform.audited("platform.job.revived")
    assert (row["actor_id"], row["target_id"], row["details"]) == (platform.grace.user, DEAD, {"kind": "mail"})


async def test_the_side_list_counts_what_needs_a_hand(platform: PlatformScene) -> None:
    assert b'class="count"' not in (await platform.at("/tiers")).shown.body
    platform.people.change(
        "insert into jobs (id, kind, payload, state, attempts, run_at, died_at) values (%s, 'mail', '{}', 'dead', 7, now(), now())", DEAD
    )
    platform.tenants.add("globex")
    platform.people.change("update all_organizations set status = 'pending' where slug = 'globex'")
    orders = "https://orders.nowhere.example/"
    api = {"name": "Orders", "identifier": orders, "scopes": []}
    made = (await platform.request("POST", "/api/organizations/acme/resource-servers", api, by=platform.ada)).ok(201)
    asked = await platform.request("POST", f"/api/organizations/acme/resource-servers/{made['id']}/ask-approval", by=platform.ada)
    assert asked.status < 300, asked.body
    page = (await platform.at("/tiers")).page.text
    assert "System 1 " in page
    assert "Organizations 2 " in page
    overview = (await platform.at()).page.text
    for said in ("1 organization is pending approval", "1 API host is pending approval", "1 background job failed"):
        assert said in overview, said
    platform.people.change("update all_organizations set deleted_at = now() where slug = 'globex'")
    assert "Organizations 1 " in (await platform.at("/tiers")).page.text
    # In somebody else's name nobody changes the place, and counts stay.
    assert platform.log.events("request")[-1]["db_round_trips"] <= 3


async def test_prices_of_tiers_have_a_currency(platform: PlatformScene) -> None:
    page = (await platform.at("/tiers")).page.text
    assert "49.00 USD" in page, page


async def test_the_overview_draws_organizations_and_people_over_time(platform: PlatformScene) -> None:
    now = platform.postern.foundation.clock.now()
    platform.people.change("update users set created_at = %s where id = %s", now - timedelta(days=3), platform.ada.user)
    page = await platform.at()
    assert page.shown.body.count(b'class="chart narrow"') == 2
    days = [(now - timedelta(days=back)).date().isoformat() for back in range(7)]
    people = page.page.text.rpartition(" Day People ")[2].split()
    counts = {day: people[people.index(day) + 1] for day in days}
    assert [counts[day] for day in days] == ["2", "1", "1", "1", "0", "0", "0"]


async def test_signing_keys_are_rotated(platform: PlatformScene) -> None:
    await platform.postern.foundation.signing_keys.ensure()
    before = {row["id"] for row in platform.people.rows("select id from signing_keys where state = 'next'")}
    tab = await platform.answer("/signing-keys/rotate")
    assert tab.place == f"{HOME}/signing-keys?done=console.installation_keys.rotate"
    assert {row["id"] for row in platform.people.rows("select id from signing_keys where state = 'current'")} == before
    assert {row["actor_id"] for row in platform.audited("platform.signing_keys.rotated")} == {platform.grace.user}


async def test_encryption_keys_in_a_setting_are_not_rotated_here(platform: PlatformScene) -> None:
    tab = await platform.at("/signing-keys")
    assert "POSTERN_ENCRYPTION_KEYS" in tab.page.text
    assert f"{HOME}/signing-keys/rotate-encryption" not in tab.page.links
    assert (await platform.answer("/signing-keys/rotate-encryption")).status == 409


async def test_a_key_for_machines_is_made_adopted_and_ended(platform: PlatformScene) -> None:
    await platform.at("/keys/~new")
    tab = await platform.send_to(f"{HOME}/keys/~new", name="Onboarding", capabilities=["organizations.view"], expires_in_days="30")  # type: ignore[arg-type]
    assert "ptp_" in tab.page.text
    (key,) = platform.people.rows("select id from management_keys")
    one = f"/keys/{key['id']}"
    tab = await platform.at(one)
    assert "View organizations" in tab.page.text
    await platform.answer(f"{one}/adopt")
    await platform.answer(f"{one}/end")
    assert [row["action"] for row in platform.audited("platform.management_key.%")] == [
        "platform.management_key.created",
        "platform.management_key.adopted",
        "platform.management_key.ended",
    ]


async def test_the_log_is_filtered_and_an_entry_opens(platform: PlatformScene) -> None:
    await platform.at(f"/people/{platform.ada.user}")
    await platform.answer(f"/people/{platform.ada.user}/deactivate")
    tab = await platform.at(f"/audit-log?action=user.viewed&actor={platform.grace.user}&target_type=user&target_id={platform.ada.user}")
    entry, *_ = [link for link in tab.page.links if link.startswith(f"{HOME}/audit-log/")]
    tab = await platform.tab.open(entry)
    assert "user.viewed" in tab.page.text
    assert platform.grace.email in tab.page.text
    # An entry of an organization's own log is not in the installation's.
    other = platform.people.rows("select id from audit_entries where organization_id is not null")
    for row in other:
        assert (await platform.at(f"/audit-log/{row['id']}")).status == 404


@pytest.mark.parametrize(
    "query",
    [
        "actor=nobody@nowhere.example",
        "actor=example.org",
        "since=yesterday",
        "until=31.3.2026",
        "target_id=7",
        "target_type=nothing",
    ],
)
async def test_a_filter_that_cannot_be_is_named(query: str, platform: PlatformScene) -> None:
    tab = await platform.at(f"/audit-log?{query}")
    assert tab.status == 400
    assert "There is a problem" in tab.page.text


async def test_the_log_is_filtered_by_a_person_as_people_call_them_and_names_their_program(platform: PlatformScene) -> None:
    platform.tabs.agent = "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0"
    await platform.answer(f"/people/{platform.ada.user}/deactivate")
    for who in ("GRACE@example.org", "grace", str(platform.grace.user)):
        tab = await platform.at(f"/audit-log?action=user.deactivated&actor={who}")
        assert "deactivated the account of" in tab.page.text, who
    assert "No results" in (await platform.at("/audit-log?action=user.deactivated&actor=ada@example.org")).page.text
    await platform.at(f"/audit-log?action=user.deactivated&actor={platform.grace.user}")
    entry, *_ = [link for link in platform.tab.page.links if link.startswith(f"{HOME}/audit-log/")]
    assert "User agent Firefox on Linux" in (await platform.tab.open(entry)).page.text


async def test_settings_are_shown_without_secrets(platform: PlatformScene) -> None:
    tab = await platform.at("/settings")
    assert "POSTERN_ENCRYPTION_KEYS" in tab.page.text
    settings = platform.postern.settings
    assert settings.encryption_keys is not None
    assert settings.encryption_keys.reveal() not in tab.page.text


async def test_health_says_what_needs_somebody_first_and_folds_the_rest(platform: PlatformScene) -> None:
    tab = await platform.at("/health")
    text = tab.page.text
    # This installation has proved no backup, and its mail reaches nobody.
    backups, in_order = text.index("Create and verify a backup"), text.index("Passed (")
    assert backups < in_order < text.index("Encryption keys")
    assert "`" not in text
    assert "Not configured: " in text
    assert "not set up: checkout" not in text
    assert "/ui/platform/settings" in tab.page.links


async def test_health_says_in_each_language_what_each_check_is_about_and_what_mends_it(platform: PlatformScene) -> None:
    found = await checks.of_running(platform.postern)
    keys = [key(subject) for subject, _ in found for key in (subject_key, mend_key)]
    said = {language: [shipped_pages().text(language)(key) for key in keys] for language in CONSOLE_LANGUAGES}
    assert len(found) > 20
    assert all(len(set(texts)) == len(keys) for texts in said.values())
    platform.tabs.language = "de"
    text = (await platform.at("/health")).page.text
    assert "Erstellen und prüfen Sie eine Sicherung" in text


async def test_a_provider_that_is_away_and_the_processes_stand_on_the_page_of_health(platform: PlatformScene) -> None:
    platform.people.change("insert into provider_outages (provider, failed_at) values ('codehost', now())")
    tab = await platform.at("/health")
    assert "codehost" in tab.page.text
    assert platform.postern.foundation.version in tab.page.text


async def test_the_log_says_sentences_about_people_by_their_address(platform: PlatformScene) -> None:
    await platform.answer(f"/people/{platform.ada.user}/deactivate")
    tab = await platform.at("/audit-log?action=user.deactivated")
    assert f"{platform.grace.email} deactivated the account of {platform.ada.email}" in tab.page.text
    assert f"{HOME}/people/{platform.ada.user}" in tab.page.links
    platform.people.change("update users set language = 'de' where id = %s", platform.grace.user)
    entry, *_ = [link for link in tab.page.links if link.startswith(f"{HOME}/audit-log/")]
    tab = await platform.tab.open(entry)
    assert f"{platform.grace.email} hat das Konto von {platform.ada.email} deaktiviert" in tab.page.text
    assert "user.deactivated" in tab.page.text
