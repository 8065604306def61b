"""Stolen passwords: refused wherever a person chooses one, and at a sign-in only after the password was right."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from core.domain.errors import BadRequest
from core.domain.identifiers import SessionId, UserId
from core.domain.identity.account_mails import AccountMail
from core.domain.record.events import Actor
from core.domain.secrets import Password
from entrypoints.bootstrap import Postern
from entrypoints.http.application import build_application
from entrypoints.settings import SettingsError
from tests.adapters.crypto.known_passwords.lists import built, sha1
from tests.changed_fields import put
from tests.conftest import CapturedLog
from tests.http.browsing import Tabs
from tests.http.client import Client
from tests.http.conftest import SETTINGS, postern_on, with_keys
from tests.http.inviting import Inviting
from tests.http.people import People, Person
from tests.http.postbox import Postbox
from tests.http.signing_in import LOGIN, Browser, enable_mfa, unlimited

STOLEN, GOOD = "a long but stolen password", "a fresh and lively password"
REFUSAL = "The password is in a list of breached passwords: choose another"
AT_SIGN_IN = "The password is in a list of breached passwords: choose another with the link that was emailed to you"


@pytest.fixture
def rule() -> str:
    """What a sign-in does; tests say otherwise by `parametrize`."""
    return "off"


@pytest.fixture
async def postern(database_url: str, tmp_path: Path, rule: str) -> AsyncIterator[Postern]:
    built(tmp_path / "filter", STOLEN)
    more = {"POSTERN_PASSWORD_FILTER": str(tmp_path / "filter"), "POSTERN_BREACHED_AT_SIGN_IN": rule}
    async with postern_on(database_url, tmp_path, more) as opened:
        await with_keys(opened)
        yield opened


@pytest.fixture
def door(postern: Postern) -> Client:
    return unlimited(postern)


@pytest.fixture
def postbox(postern: Postern) -> Postbox:
    return Postbox(postern)


@pytest.fixture
async def ada(people: People) -> Person:
    """Ada has a password that was stolen since she chose it."""
    return await people.with_password(STOLEN, "ada@example.org")


def failures(people: People) -> Sequence[str]:
    return [row["reason"] for row in people.rows("select reason from login_events where not success order by id")]


def told(people: People) -> Sequence[dict[str, Any]]:
    return people.rows("select actor_id, target_id, details from audit_log where action = 'security.password.breached'")


async def test_nobody_registers_with_one(door: Client, people: People) -> None:
    answer = await door.post("/api/auth/register", {"email": "bob@example.org", "password": STOLEN})
    assert (answer.status, answer.json()["error"]) == (400, REFUSAL)
    assert not people.rows("select from users")
    assert (await door.post("/api/auth/register", {"email": "bob@example.org", "password": GOOD})).status == 200


async def test_nobody_sets_changes_or_resets_to_one(door: Client, people: People, ada: Person, postern: Postern, postbox: Postbox) -> None:
    token = await people.token(people.session_of(ada))
    answer = await door.post("/api/user/change-password", {"current_password": STOLEN, "new_password": STOLEN}, token=token)
    assert (answer.status, answer.json()["error"]) == (400, REFUSAL)
    await postern.identity.accounts.ask_for_mail(AccountMail.RESET, ada_email(postern), "")
    mailed = await postbox.token()
    answer = await door.post("/api/auth/reset-password", {"token": mailed, "new_password": STOLEN})
    assert (answer.status, answer.json()["error"]) == (400, REFUSAL)
    assert (await door.post("/api/auth/reset-password", {"token": mailed, "new_password": GOOD})).status == 200
    answer = await door.post("/api/user/set-password", {"new_password": STOLEN}, token=await people.token(people.proved()))
    assert (answer.status, answer.json()["error"]) == (400, REFUSAL)


def ada_email(postern: Postern) -> Any:
    return postern.foundation.email_syntax.parse("ada@example.org")


async def test_the_pages_say_so_beside_the_field(door: Client, postern: Postern, people: People, log: CapturedLog) -> None:
    tab = await Tabs(door).tab().open("/ui/register")
    await tab.send(email="bob@example.org", password=STOLEN)
    assert (tab.status, "This password appears in a known data breach. Choose another one." in tab.page.text) == (400, True)
    scene = Inviting(postern, people, door, log)
    await scene.invite("eve@example.org")
    ((_, mailed),) = await scene.mailed()
    tab = await Tabs(door).tab().open(f"/ui/invitations/accept?token={mailed}")
    await tab.send(password=STOLEN)
    assert (tab.status, "This password appears in a known data breach. Choose another one." in tab.page.text) == (400, True)
    assert not people.rows("select from users where email = 'eve@example.org'")


class AskedService:
    """A service that knows nothing, and remembers what it was asked."""

    def __init__(self) -> None:
        self.passwords: list[str] = []

    async def contains(self, password: Password) -> bool:
        self.passwords.append(password.reveal())
        return False


async def test_each_page_asks_once_what_it_sets(door: Client, postern: Postern, people: People, ada: Person, log: CapturedLog) -> None:
    """A range service is asked on each question, and may take half a second."""
    asked = AskedService()
    put(postern.identity.account_passwords.rules, breached_passwords=asked)
    scene = Inviting(postern, people, door, log)
    await scene.invite("eve@example.org")
    ((_, mailed),) = await scene.mailed()
    tab = await Tabs(door).tab().open(f"/ui/invitations/accept?token={mailed}")
    await tab.send(password=f"{GOOD} 1")
    assert tab.status == 200
    tab = await Tabs(door).tab().open("/ui/register")
    await tab.send(email="bob@example.org", password=f"{GOOD} 2")
    assert tab.status == 200
    tab = await Tabs(door).tab().open("/ui/sign-in")
    await tab.send(email=ada.email)
    await tab.send(password=STOLEN)
    await tab.open("/ui/password")
    (number,) = [number for number, form in enumerate(tab.page.forms) if form.action == "/ui/password"]
    await tab.send(number, current=STOLEN, new_password=f"{GOOD} 3", repeated=f"{GOOD} 3")
    assert (tab.status, tab.place) == (200, "/ui/password?done=changed")
    people.change("update users set password_hash = null where id = %s", ada.user)
    await tab.open("/ui/password")
    await tab.send(number, new_password=f"{GOOD} 4", repeated=f"{GOOD} 4")
    assert (tab.status, tab.place) == (200, "/ui/password?done=set")
    assert asked.passwords == [f"{GOOD} {number}" for number in (1, 2, 3, 4)]


async def test_what_was_asked_for_another_address_is_asked_again(postern: Postern, people: People, ada: Person) -> None:
    passwords, earlier = postern.identity.account_passwords, postern.foundation.email_syntax.parse("ada@old.example")
    fitting = await passwords.rules.fitting(Password("ada@example.org"), earlier)
    with pytest.raises(BadRequest):
        await passwords.change(UserId(ada.user), SessionId(ada.session), Password(STOLEN), fitting, Actor(UserId(ada.user)))
    assert not people.rows("select from audit_log where action = 'security.password.changed'")


async def test_the_command_line_refuses_it_for_a_platform_owner(postern: Postern) -> None:
    with pytest.raises(BadRequest, match="breached"):
        await postern.platform.platform_owners.create_first(ada_email(postern), Password(STOLEN))


async def test_without_a_rule_a_sign_in_goes_as_before(door: Client, ada: Person, people: People, postbox: Postbox) -> None:
    assert (await Browser(door).login(ada, STOLEN)).status == 200
    assert (await postbox.empty(), told(people)) == ([], [])


@pytest.mark.parametrize("rule", ["tell"])
async def test_tell_lets_the_person_in_and_mails_them_once_a_month(door: Client, ada: Person, people: People, postbox: Postbox) -> None:
    browser = Browser(door)
    assert (await browser.login(ada, STOLEN)).status == 200
    (mail,) = await postbox.empty()
    assert (mail.to, mail.subject) == ("ada@example.org", "Your password appears in a data breach")
    assert (await browser.login(ada, STOLEN)).status == 200
    assert await postbox.empty() == []
    (entry,) = told(people)
    assert (entry["actor_id"], entry["target_id"], entry["details"]) == (ada.user, str(ada.user), {})


@pytest.mark.parametrize("rule", ["tell"])
async def test_tell_waits_for_no_second_factor(door: Client, ada: Person, people: People, postbox: Postbox) -> None:
    await enable_mfa(door, people, ada)
    await postbox.empty()
    assert (await Browser(door).login(ada, STOLEN)).json()["mfa_required"]
    assert [mail.subject for mail in await postbox.empty()] == ["Your password appears in a data breach"]


@pytest.mark.parametrize("rule", ["tell", "change"])
async def test_a_good_password_meets_no_rule_and_costs_no_statement_more(
    postern: Postern, people: People, postbox: Postbox, log: CapturedLog
) -> None:
    browser = Browser(Client(build_application(postern, SETTINGS)))
    bob = await people.with_password(GOOD)
    await browser.login(bob, GOOD)
    assert (await browser.login(bob, GOOD)).status == 200
    assert log.events("request")[-1]["db_round_trips"] == 4
    assert (await postbox.empty(), told(people)) == ([], [])


@pytest.mark.parametrize("rule", ["change"])
async def test_change_lets_nobody_in_and_mails_a_link(door: Client, ada: Person, people: People, postbox: Postbox) -> None:
    browser = Browser(door)
    answer = await browser.login(ada, STOLEN)
    assert (answer.status, answer.error_code, answer.json()["error"]) == (401, "UNAUTHORIZED", AT_SIGN_IN)
    assert not browser.cookies
    assert failures(people) == ["breached_password"]
    assert len(told(people)) == 1
    token = await postbox.token()
    assert (await door.post("/api/auth/reset-password", {"token": token, "new_password": GOOD})).status == 200
    assert (await browser.login(ada, GOOD)).status == 200
    assert (await browser.login(ada, STOLEN)).json()["error"] == "The email address or the password is wrong"


@pytest.mark.parametrize("rule", ["change"])
async def test_the_page_says_why_and_that_a_mail_is_under_way(door: Client, ada: Person, people: People, postbox: Postbox) -> None:
    tab = await Tabs(door).tab().open("/ui/sign-in")
    await tab.send(email=ada.email)
    await tab.send(password=STOLEN)
    assert tab.status == 400
    assert "you can no longer sign in with it. An email with a link" in tab.page.text
    assert [mail.to for mail in await postbox.empty()] == ["ada@example.org"]
    assert not people.rows("select from sessions where id <> %s", ada.session)


@pytest.mark.parametrize("rule", ["change"])
async def test_a_list_is_no_oracle_before_the_password_was_right(
    door: Client, ada: Person, people: People, postern: Postern, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stolen password of another account, and of none, gets the answer of any wrong one, and nobody has looked it up."""
    people.change("update users set password_hash = %s", await postern.identity.passwords.hash(Password(GOOD)))
    asked: list[object] = []
    known = type(postern.identity.sign_in.passwords.breaches.known)
    monkeypatch.setattr(known, "contain", lambda _self, password: asked.append(password))
    unverified = await people.with_password(STOLEN, verified=False)
    gone = await people.with_password(STOLEN)
    people.change("update users set deactivated_at = now() where id = %s", gone.user)
    browser = Browser(door)
    answers = [await browser.login(ada, password) for password in (STOLEN, "never stolen, and wrong")]
    answers.append(await browser.post(LOGIN, {"email": "nobody@example.org", "password": STOLEN}))
    answers.append(await browser.login(gone, STOLEN))
    assert len({(one.status, one.json()["error"]) for one in answers}) == 1
    assert (await browser.login(unverified, STOLEN)).json()["error"].startswith("The email address is not verified")
    assert asked == []


@pytest.mark.parametrize("rule", ["change"])
async def test_the_password_stands_in_no_log_and_no_table(door: Client, ada: Person, people: People, log: CapturedLog) -> None:
    log.remember(STOLEN)
    await Browser(door).login(ada, STOLEN)
    tables = [
        row["t"] for row in people.rows("select table_name as t from information_schema.tables where table_schema = current_schema()")
    ]
    digest = sha1(STOLEN).hex()
    assert len(tables) > 50
    for table in tables:
        for text in (STOLEN, digest, digest[:10]):
            assert not people.rows(f"select from {table} as one where one::text ilike %s", f"%{text}%"), table


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"POSTERN_PASSWORD_FILTER": "/nowhere/filter"}, "POSTERN_PASSWORD_FILTER: the file /nowhere/filter cannot be read"),
        (
            {"POSTERN_PASSWORD_FILTER": "/nowhere/filter", "POSTERN_PASSWORD_RANGES": "https://ranges.example.org"},
            "exclude each other",
        ),
        ({"POSTERN_PASSWORD_RANGES": "https://127.1/range"}, "POSTERN_PASSWORD_RANGES "),
        ({"POSTERN_BREACHED_AT_SIGN_IN": "block"}, "POSTERN_BREACHED_AT_SIGN_IN must be off, tell or change"),
    ],
)
async def test_settings_that_cannot_hold_stop_the_start(database_url: str, tmp_path: Path, more: dict[str, str], reason: str) -> None:
    with pytest.raises(SettingsError, match=reason):
        async with postern_on(database_url, tmp_path, more):
            pass


async def test_a_range_service_is_asked_instead(database_url: str, tmp_path: Path, log: CapturedLog) -> None:
    """Through the guarded client: a private address that the operator has not named is not called, and the choice goes on."""
    async with postern_on(database_url, tmp_path, {"POSTERN_PASSWORD_RANGES": "http://10.0.0.1/range"}) as opened:
        assert not await opened.identity.account_passwords.rules.breached_passwords.contains(Password(STOLEN))
    (silent,) = log.events("password_ranges_silent")
    assert silent["reason"] == "address_not_allowed"
