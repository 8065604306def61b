"""The jobs of owners, done as a person does them: by clicks and typing in Chromium, from the overview to the result. Each press, each field
and each choice counts. `tests/security/organizations/test_distances.py` counts the same by links, in the ordinary run too.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pyotp
import pytest

from core.domain.secrets import Password
from ops.browser.page import WIDE
from ops.stand_ins.fake_providers import FakeProvider
from tests.browser.console.bars import JOBS, Job, clicked, too_long
from tests.browser.console.clicking import CountedClicks, told
from tests.browser.test_console import Town, town
from tests.http.people import Person
from tests.http.signing_in import PASSWORD, unlimited
from tests.pictures import drawn_png
from tests.security.organizations.console import signed_in

__all__ = ["town"]  # a fixture
HOME: Final = "/ui/o/globex"
PLATFORM: Final = "/ui/platform"
# With the fields.
MOST: Final = 8
ALL_JOBS: Final = 38
OF_OWNERS: Final[dict[str, Job]] = {}
SAFER: Final[dict[str, Job]] = {}
"""With a second factor of one's own, without which an owner cannot demand it."""
OF_PLATFORM: Final[dict[str, Job]] = {}


def job(name: str, among: dict[str, Job] = OF_OWNERS) -> Callable[[Job], Job]:
    def declared(done: Job) -> Job:
        among[name] = done
        return done

    return declared


@job("thirty people invited at once")
async def _(one: CountedClicks) -> None:
    await one.press("People")
    await one.press("Invite people")
    await one.type("Email addresses", "\n".join(f"p{number}@new.example" for number in range(30)))
    await one.press("Send invitations")
    await one.reads("30 invitations")


@job("why a person cannot sign in")
async def _(one: CountedClicks) -> None:
    await one.press("People")
    await one.press("bob@people.example")
    await one.reads("Access to applications")


@job("a second client secret")
async def _(one: CountedClicks) -> None:
    await one.press("Applications")
    await one.press("Shop")
    await one.press("Credentials")
    await one.press("Create client secret")
    await one.press("Create client secret")
    await one.reads("Copy this value now")


@job("the end of the old secret")
async def _(one: CountedClicks) -> None:
    await one.press("Applications")
    await one.press("Shop")
    await one.press("Credentials")
    await one.press("Client secrets")
    await one.press("shop")
    await one.press("Delete client secret")
    await one.press("Delete client secret")
    await one.reads("Client secret deleted")


@job("passkeys for administrators", SAFER)
async def _(one: CountedClicks) -> None:
    await one.press("Security")
    await one.press("Edit: Multi-factor authentication (MFA)")
    await one.choose("MFA for administrators", "MFA and a passkey required")
    await one.press("Continue")
    await one.press("Edit MFA rules")
    await one.reads("Administrators must use MFA and have a passkey")


@job("who signed in to an application last week, as a file")
async def _(one: CountedClicks) -> None:
    await one.press("All sign-ins")
    await one.choose("Application", "Shop")
    week = datetime.now(UTC) - timedelta(days=7)
    await one.type_moment("From (UTC)", f"{week:%m%d%Y}\t1200A")
    await one.press("Apply")
    assert "bob@people.example" in await one.download("Download as CSV")


@job("a team")
async def _(one: CountedClicks) -> None:
    await one.press("People")
    await one.press("Teams")
    await one.press("Create team")
    await one.type("Name", "Support")
    await one.press("Create team")
    await one.reads("Support")


@job("a person in a team")
async def _(one: CountedClicks) -> None:
    await one.press("People")
    await one.press("Teams")
    await one.press("Support")
    await one.press("Team members")
    await one.type("Member", "bob@people.example")
    await one.press("Add member")
    await one.reads("bob@people.example")


@job("a role of an application")
async def _(one: CountedClicks) -> None:
    await one.press("Applications")
    await one.press("Shop")
    await one.press("Access")
    await one.press("Roles")
    await one.press("Create role")
    await one.type("Name", "Agent")
    await one.press("Create role")
    await one.reads("Agent")


@job("a role of an application for a team")
async def _(one: CountedClicks) -> None:
    await one.press("Applications")
    await one.press("Shop")
    await one.press("Access")
    await one.press("Assign role")
    await one.choose("Role", "Agent")
    await one.choose("Team", "Support")
    await one.press("Assign role")
    await one.reads("support")


@job("Okta by SAML")
async def _(one: CountedClicks) -> None:
    await one.press("Identity providers")
    await one.press("Add identity provider")
    await one.pick("Okta SAML")
    await one.type("Name", "Okta")
    await one.press("Add identity provider")
    await one.reads("Okta")


@job("a mail domain")
async def _(one: CountedClicks) -> None:
    await one.press("Identity providers")
    await one.press("Domains")
    await one.press("Add domain")
    await one.type("Domain", "new.example")
    await one.press("Add domain")
    await one.reads("new.example", "TXT")


@job("a token for SCIM")
async def _(one: CountedClicks) -> None:
    await one.press("Identity providers")
    await one.press("Directory sync (SCIM)")
    await one.press("Create SCIM token")
    await one.type("Name", "Okta")
    await one.press("Create SCIM token")
    await one.reads("Copy this value now")


@job("the end of one person's sessions")
async def _(one: CountedClicks) -> None:
    await one.press("People")
    await one.press("bob@people.example")
    await one.press("Revoke sessions")
    await one.press("Revoke sessions")
    await one.reads("Sessions of bob@people.example in this organization revoked")


@job("a logo")
async def _(one: CountedClicks) -> None:
    await one.press("Branding")
    await one.upload("Logo from a file", Path("logo.png").resolve())
    await one.press("Upload logo")
    await one.reads("Logo saved")


@job("a changed setting put back")
async def _(one: CountedClicks) -> None:
    await one.press("Settings")
    await one.type("Name", "Globex Limited")
    await one.press("Save")
    await one.press("Undo change")
    await one.reads("Change undone")


@job("one entry of the audit log")
async def _(one: CountedClicks) -> None:
    await one.press("Logs")
    await one.press("Audit log")
    await one.press("ada@people.example created the team Support")
    await one.reads("Time", "Target Support")


@job("a failed delivery sent again")
async def _(one: CountedClicks) -> None:
    await one.press("Developers")
    await one.press("CRM")
    await one.press("user.removed")
    await one.press("Redeliver")
    await one.reads("Event queued for redelivery")


@job("the events of a span sent again")
async def _(one: CountedClicks) -> None:
    await one.press("Developers")
    await one.press("CRM")
    await one.press("Replay events")
    week = datetime.now(UTC) - timedelta(days=1)
    await one.type_moment("Since", f"{week:%m%d%Y}\t1200A")
    await one.press("Replay events")
    await one.reads("Events queued for redelivery")


@job("a key for machines")
async def _(one: CountedClicks) -> None:
    await one.press("Developers")
    await one.press("Management API keys")
    await one.press("Create management API key")
    await one.type("Name", "Build")
    await one.pick("View members")
    await one.press("Create management API key")
    await one.reads("Copy this value now")


@job("a claim of one's own")
async def _(one: CountedClicks) -> None:
    await one.press("Applications")
    await one.press("Shop")
    await one.press("Sign-in")
    await one.press("Claims")
    await one.press("Add claim")
    await one.type("Name", "departments")
    await one.pick("Teams")
    await one.press("Add claim")
    await one.reads("departments")


@job("a test sign-in")
async def _(one: CountedClicks) -> None:
    await one.press("Applications")
    await one.press("Shop")
    await one.press("Test sign-in")
    await one.press("Start test")
    await one.type("Password", PASSWORD)
    await one.press("Sign in")
    await one.reads("What the application would have received", "Can this person sign in? Yes")


@job("what ends soon")
async def _(one: CountedClicks) -> None:
    await one.press("Expiring soon")
    await one.reads("Robot")


@job("the end of an application")
async def _(one: CountedClicks) -> None:
    await one.press("Applications")
    await one.press("App")
    await one.press("Settings")
    await one.pick("More: API, ID and deletion")
    await one.press("Delete application")
    await one.type("To continue, type App", "App")
    await one.press("Delete application")
    await one.reads("Application deleted")


@job("another owner", SAFER)
async def _(one: CountedClicks) -> None:
    await one.press("Settings")
    await one.pick("More: API, ID and deletion")
    await one.press("Transfer ownership")
    await one.pick("admin-of-globex@people.example")
    await one.press("Transfer ownership")
    await one.reads("Ownership transferred")


@job("a person found everywhere", OF_PLATFORM)
async def _(one: CountedClicks) -> None:
    await one.search("cleo")
    await one.reads("cleo@people.example")


@job("higher limits", OF_PLATFORM)
async def _(one: CountedClicks) -> None:
    await one.press("Organizations")
    await one.type("Name, short name or ID", "globex")
    await one.press("Apply")
    await one.press("A company")
    await one.pick("Tier and limits Edit")
    await one.type("Maximum members", "1000")
    await one.press("Save")
    await one.reads("1000")


@job("a provider of a preset, to its test", OF_PLATFORM)
async def _(one: CountedClicks) -> None:
    await one.press("Social providers")
    await one.press("Add provider")
    await one.press("Discord")
    await one.type("Client ID", "1234567890")
    await one.type("Client secret", "3c6e0b8a9c15224a")
    await one.press("Add provider")
    await one.press("Test provider")
    await one.reads("Test Discord")


@job("any provider by its issuer, to its test", OF_PLATFORM)
async def _(one: CountedClicks) -> None:
    with FakeProvider(client_id="own-client", client_secret="own-provider-secret-77") as own:
        await one.press("Social providers")
        await one.press("Add provider")
        await one.type("Issuer", own.issuer)
        await one.press("Continue with OpenID Connect")
        await one.type("Client ID", own.client_id)
        await one.type("Client secret", own.client_secret)
        await one.press("Add provider")
        await one.press("Test provider")
        await one.reads("Test 127.0.0.1")


@job("acting as a person", OF_PLATFORM)
async def _(one: CountedClicks) -> None:
    await one.search("bob@")
    await one.press("bob@people.example")
    await one.press("Impersonate")
    await one.type("Reason", "Ticket 4711")
    await one.press("Impersonate")
    await one.reads("You are impersonating bob@people.example")


async def has_second_factor(town: Town, person: Person) -> None:
    """A code and a passkey, without which an owner cannot demand them."""
    client, token = unlimited(town.postern), await town.people.token(person)
    secret = (await client.post("/api/user/mfa/setup", token=token)).ok()["secret"]
    (await client.post("/api/user/mfa/verify", {"code": pyotp.TOTP(secret).now()}, token=token)).ok()
    town.people.give_passkey(person, second_factor=True)


async def test_each_job_takes_eight_actions_at_most(town: Town, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "logo.png").write_bytes(drawn_png(64, 64))
    monkeypatch.chdir(tmp_path)
    await town.page.show(width=WIDE)
    known = await town.postern.identity.passwords.hash(Password(PASSWORD))
    town.people.change("update users set password_hash = %s where id = %s", known, town.world.ada.user)
    counted: dict[str, CountedClicks] = {}
    for person, home, jobs in (
        (town.world.ada, HOME, OF_OWNERS),
        (town.world.ada, HOME, SAFER),
        (town.world.governor, PLATFORM, OF_PLATFORM),
    ):
        if jobs is SAFER:
            await has_second_factor(town, person)
        else:
            await town.enter(signed_in(town.postern, town.people, person))
        counted |= await clicked(town.page, home, jobs)
    assert [said for name, clicks in counted.items() if (said := too_long(name, clicks))] == []
    assert {name: told(clicks.actions) for name, clicks in counted.items() if len(clicks.actions) > MOST} == {}


def test_each_of_the_jobs_is_done_by_one_test() -> None:
    files = [file.read_text() for file in Path(__file__).parent.glob("test_*.py")]
    assert len(JOBS) == ALL_JOBS
    assert {name: found for name in JOBS if (found := sum(text.count(f'"{name}"') for text in files)) != 1} == {}
