"""Known devices: a guesser is slowed down, over all addresses, and the owner still gets in from a known device."""

from typing import Any, Final

import psycopg
import pytest
from psycopg.rows import dict_row

from adapters.crypto.passwords import Argon2Passwords
from core.domain.identity.sign_in import TRIES_FROM_ANYWHERE, TRIES_FROM_DEVICE
from core.domain.secrets import Password
from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.application import build_application
from ports.crypto import Examined
from tests.http import conftest as http
from tests.http.client import Client, Received
from tests.http.people import People, Person
from tests.http.postbox import Postbox
from tests.http.signing_in import FIREFOX, LOGIN, PASSWORD, SAFARI, Browser, enable_mfa

database_url, postern, people = http.database_url, http.postern, http.people

GUESS: Final = "the sun over the harbour"


class ManyAddresses:
    """Endless addresses. Each address has buckets of its own, so that only the account's buckets limit the tries."""

    def __init__(self, postern: Postern) -> None:
        self._application = build_application(postern, http.SETTINGS)
        self._last = 0

    def client(self) -> Client:
        self._last += 1
        return Client(self._application, f"203.0.113.{self._last}")

    async def guess(self, person: Person, *, agent: str = SAFARI, headers: tuple[tuple[str, str], ...] = ()) -> Received:
        given = [("user-agent", agent), *headers]
        return await self.client().post(LOGIN, {"email": person.email, "password": GUESS}, headers=given)

    async def besiege(self, person: Person) -> None:
        """Guesses until the account takes no more tries from any address."""
        answers = [(await self.guess(person)).status for _ in range(TRIES_FROM_ANYWHERE.burst + 2)]
        assert answers == [401] * TRIES_FROM_ANYWHERE.burst + [429] * 2


@pytest.fixture
def street(postern: Postern) -> ManyAddresses:
    return ManyAddresses(postern)


@pytest.fixture
async def ada(people: People) -> Person:
    return await people.with_password(PASSWORD, "ada@example.org")


def rows(url: str, query: str) -> list[dict[str, Any]]:
    with psycopg.connect(url, row_factory=dict_row) as connection:
        return connection.execute(query.encode()).fetchall()


async def test_many_addresses_together_get_no_more_tries_than_one(street: ManyAddresses, ada: Person) -> None:
    await street.besiege(ada)
    answer = await Browser(street.client(), SAFARI).login(ada)
    # The server does not even check the right password, and the answer does not say that it was right.
    assert (answer.status, answer.error_code) == (429, "RATE_LIMIT_EXCEEDED")
    assert int(answer.header("retry-after") or 0) > 0


async def test_strangers_do_not_lock_the_owner_out_of_a_known_device(street: ManyAddresses, ada: Person) -> None:
    browser = Browser(street.client())
    await browser.tokens(ada)
    await street.besiege(ada)
    browser.client = street.client()
    assert (await browser.login(ada)).status == 200


@pytest.mark.parametrize("header", ["cookie", "x-device-token"])
async def test_only_a_token_makes_a_device_known_not_its_looks(street: ManyAddresses, ada: Person, header: str) -> None:
    browser = Browser(street.client())
    await browser.tokens(ada)
    await street.besiege(ada)
    token = next(iter(browser.cookies.values()))
    for value in (token[:-1], token[::-1], token + "A", "", "x" * 5000, "\x7f"):
        carried = f"{next(iter(browser.cookies))}={value}" if header == "cookie" else value
        assert (await street.guess(ada, agent=FIREFOX, headers=((header, carried),))).status == 429


async def test_anothers_known_device_is_a_stranger(street: ManyAddresses, ada: Person, people: People) -> None:
    browser = Browser(street.client())
    await browser.tokens(await people.with_password(PASSWORD, "bob@example.org"))
    await street.besiege(ada)
    browser.client = street.client()
    assert (await browser.login(ada)).status == 429


async def test_a_revoked_device_is_a_stranger(street: ManyAddresses, ada: Person) -> None:
    lost, here = Browser(street.client()), Browser(street.client(), SAFARI)
    await lost.tokens(ada)
    token = (await here.tokens(ada))["access_token"]
    client = street.client()
    devices = (await client.get("/api/user/devices", token=token)).json()["devices"]
    (device,) = [one["id"] for one in devices if not one["is_current"]]
    assert (await client.request("DELETE", f"/api/user/devices/{device}", token=token)).status == 200
    await street.besiege(ada)
    lost.client = here.client = street.client()
    assert (await lost.login(ada)).status == 429
    assert (await here.login(ada)).status == 200


async def test_a_holder_of_the_device_may_not_guess_without_end_and_locks_nobody_else_out(street: ManyAddresses, ada: Person) -> None:
    stolen, other = Browser(street.client()), Browser(street.client(), SAFARI)
    await stolen.tokens(ada)
    await other.tokens(ada)
    answers = []
    for _ in range(TRIES_FROM_DEVICE.burst + 2):
        stolen.client = street.client()
        answers.append((await stolen.login(ada, GUESS)).status)
    assert answers == [401] * TRIES_FROM_DEVICE.burst + [429] * 2
    other.client = street.client()
    assert (await other.login(ada)).status == 200
    assert (await Browser(street.client(), "curl/8.5.0").login(ada)).status == 200


async def test_after_many_guesses_the_owner_of_a_trusted_device_is_asked_for_the_second_factor(
    street: ManyAddresses, ada: Person, people: People
) -> None:
    totp = await enable_mfa(street.client(), people, ada)
    browser = Browser(street.client())
    preauth = (await browser.login(ada)).json()["access_token"]
    assert (await browser.verify(preauth, totp.now(), trust_device=True)).status == 200
    assert "mfa_required" not in (await browser.login(ada)).json()
    for _ in range(4):
        await street.guess(ada)
    browser.client = street.client()
    assert (await browser.login(ada)).json()["mfa_required"] is True


REVOKE: Final = "update devices set revoked_at = now()"
DISTRUST: Final = "update devices set trusted_until = null, trust_digest = null"


def meanwhile(monkeypatch: pytest.MonkeyPatch, people: People, change: str, *values: Any) -> None:
    """Lets this change happen while a password is checked."""
    examine = Argon2Passwords.examine

    async def slowly(passwords: Argon2Passwords, encoded: str | None, password: Password, *priority: Any) -> Examined:
        people.change(change, *values)
        return await examine(passwords, encoded, password, *priority)

    monkeypatch.setattr(Argon2Passwords, "examine", slowly)


@pytest.mark.parametrize("change", [REVOKE, DISTRUST])
async def test_a_device_that_loses_its_trust_while_the_password_is_checked_skips_no_second_factor(
    street: ManyAddresses, ada: Person, people: People, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    totp = await enable_mfa(street.client(), people, ada)
    browser = Browser(street.client())
    preauth = (await browser.login(ada)).json()["access_token"]
    assert (await browser.verify(preauth, totp.now(), trust_device=True)).status == 200
    sessions = people.rows("select count(*) from sessions")
    with monkeypatch.context() as patched:
        meanwhile(patched, people, change)
        assert (await browser.login(ada)).status == 401
    assert people.rows("select count(*) from sessions") == sessions
    assert (await browser.login(ada)).json()["mfa_required"] is True


async def test_a_device_that_is_swept_away_while_the_password_is_checked_is_there_again(
    street: ManyAddresses, ada: Person, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser, kept = Browser(street.client()), "select id, user_id, name, browser, token_digest from devices"
    assert (await browser.login(ada)).status == 200
    known = people.rows(kept)
    with monkeypatch.context() as patched:
        meanwhile(patched, people, "delete from devices")
        assert (await browser.login(ada)).status == 200
    assert people.rows(kept) == known
    # The device keeps its token, and counts as the same device.
    assert (await browser.login(ada)).status == 200
    assert people.rows("select distinct device_id as id from sessions where device_id is not null") == [{"id": known[0]["id"]}]


async def test_a_second_factor_that_is_enabled_while_the_password_is_checked_is_not_skipped(
    street: ManyAddresses, ada: Person, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    enabled = "insert into mfa_secrets (user_id, sealed_secret, created_at, enabled_at) values (%s, '', now(), now())"
    with monkeypatch.context() as patched:
        meanwhile(patched, people, enabled, ada.user)
        assert (await Browser(street.client()).login(ada)).status == 401
    assert people.rows("select from sessions") == []


async def test_after_many_guesses_an_owner_without_second_factor_gets_in_and_is_told(
    street: ManyAddresses, ada: Person, postern: Postern, database_url: str
) -> None:
    postbox = Postbox(postern)
    browser = Browser(street.client())
    await browser.tokens(ada)
    assert await postbox.empty() == []
    for _ in range(4):
        await street.guess(ada)
    browser.client = street.client()
    assert (await browser.login(ada)).status == 200
    (mail,) = await postbox.empty()
    assert mail.to == ada.email
    last = rows(database_url, "select flagged, risk_score, risk_factors from login_events order by id desc limit 1")
    assert [(row["flagged"], round(row["risk_score"], 2), row["risk_factors"]) for row in last] == [(True, 0.8, ["failed_attempts"])]
    # The tries before a success no longer count.
    assert (await browser.login(ada)).status == 200
    assert await postbox.empty() == []


async def test_no_bucket_knows_what_was_guessed_or_who_was_meant(street: ManyAddresses, ada: Person, database_url: str) -> None:
    browser = Browser(street.client())
    await browser.tokens(ada)
    await browser.login(ada, GUESS)
    await street.guess(ada)
    buckets = str(rows(database_url, "select * from rate_limit_buckets"))
    assert TRIES_FROM_ANYWHERE.name in buckets
    assert TRIES_FROM_DEVICE.name in buckets
    secrets = [GUESS, PASSWORD, ada.email, *browser.cookies.values()]
    assert not [secret for secret in secrets if secret in buckets]


async def test_an_account_that_nobody_has_is_slowed_down_alike(street: ManyAddresses, ada: Person) -> None:
    stranger = replace(ada, email="nobody@example.org")
    await street.besiege(stranger)
    await street.besiege(ada)
    known, unknown = await street.guess(ada), await street.guess(stranger)
    assert {name for name, _ in known.headers} == {name for name, _ in unknown.headers}
    assert known.json()["error"] == unknown.json()["error"]
