"""Enumeration: a stranger who requests a mail for an address does not learn whether the address has an account, neither from the answer nor
from the work before or after the answer.
"""

import re
import time
from datetime import timedelta
from typing import Any

import pytest

from actors.mailers import ACCOUNT_MAIL_PACE
from adapters.crypto.key_ring import AesGcmKeyRing
from adapters.crypto.passwords import Argon2Passwords
from adapters.mail.templates import ShippedMailTemplates
from adapters.postgres import branding, rate_limits
from adapters.postgres.driver.connection import TripCounter, round_trips
from adapters.postgres.identity import sign_in_domains
from adapters.postgres.identity.proofs import sign_in
from adapters.postgres.statements import Transaction
from core.domain.identity.account_mails import AccountMail, AskedMail
from core.domain.identity.foreign_hashes.texts import foreign_hash
from core.domain.identity.sign_in import Priority
from core.domain.mail import Email
from core.domain.secrets import Password
from core.frozen import replace
from entrypoints.bootstrap import Postern
from ports.crypto import Examined
from tests.conftest import CapturedLog
from tests.foreign_hashes import MADE, TYPED
from tests.http.client import Client, Received
from tests.http.conftest import client, database_url, people, postern
from tests.http.people import People
from tests.http.routing import route
from tests.http.signing_in import unlimited
from tests.http.tenants import Tenants

__all__ = ["client", "database_url", "people", "postern"]  # fixtures

FORGOT, RESEND, LOGIN = "/api/auth/forgot-password", "/api/auth/resend-verification", "/api/auth/login"
LOOKUP = "/api/auth/lookup-email"
SHOP = {"org_slug": "acme", "service_slug": "shop"}
# Headers that differ in every answer.
OWN = {"x-request-id", "date"}


def said(answer: Received) -> tuple[int, list[tuple[str, str]], bytes]:
    return answer.status, sorted((name, value) for name, value in answer.headers if name not in OWN), answer.body


@pytest.fixture
async def addresses(people: People, postern: Postern) -> dict[str, str]:
    """An address of each kind of account, and one without an account."""
    kinds = {kind: f"{kind}@example.org" for kind in ("verified", "unverified", "passwordless", "deactivated", "strangers")}
    for kind, address in kinds.items():
        if kind != "strangers":
            people.add(address)
    encoded = await postern.identity.passwords.hash(Password("a long and quiet afternoon"))
    people.change("update users set email_verified_at = now(), password_hash = %s", encoded)
    people.change("update users set email_verified_at = null where email = 'unverified@example.org'")
    people.change("update users set password_hash = null where email = 'passwordless@example.org'")
    people.change("update users set deactivated_at = now() where email = 'deactivated@example.org'")
    return kinds


@pytest.mark.parametrize("path", [FORGOT, RESEND])
async def test_the_answer_is_the_same_for_everybody(path: str, client: Client, addresses: dict[str, str]) -> None:
    answers = {
        kind: said(await Client(client.application, f"198.51.100.{number}").post(path, {"email": address}))
        for number, (kind, address) in enumerate(addresses.items())
    }
    assert answers["strangers"][0] == 200
    for kind, answer in answers.items():
        assert answer == answers["strangers"], kind


@pytest.mark.parametrize("path", [FORGOT, RESEND])
async def test_the_same_statements_run_for_everybody_and_none_of_them_looks_an_account_up(
    path: str, client: Client, addresses: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    statements: list[str] = []
    for name in ("tell", "ask"):
        real = getattr(Transaction, name)

        async def recorded(self: Any, *args: Any, _real: Any = real) -> Any:
            statements.append(next(argument for argument in args if isinstance(argument, str)))
            return await _real(self, *args)

        monkeypatch.setattr(Transaction, name, recorded)
    ran = {}
    for number, (kind, address) in enumerate(addresses.items()):
        statements.clear()
        await Client(client.application, f"198.51.100.{number}").post(path, {"email": address})
        ran[kind] = list(statements)
    assert ran["strangers"]
    assert not [statement for statement in ran["strangers"] if "users" in statement]
    for kind, one in ran.items():
        assert one == ran["strangers"], kind


@pytest.mark.parametrize("kind", [AccountMail.RESET, AccountMail.VERIFICATION])
@pytest.mark.parametrize("organization", ["", "acme"])
async def test_the_work_that_follows_a_request_is_the_same_for_everybody(
    kind: AccountMail,
    organization: str,
    addresses: dict[str, str],
    people: People,
    postern: Postern,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Compares statements, waits for the database, rendered mails and sealed texts: all that takes the process's time."""
    Tenants(postern, people).add("acme")
    done: list[str] = []
    for where, name in ((Transaction, "tell"), (Transaction, "ask"), (rate_limits, "ask"), (branding, "ask")):
        _record(monkeypatch, where, name, done)
    _count(monkeypatch, ShippedMailTemplates, "mail", done)
    _count(monkeypatch, AesGcmKeyRing, "seal", done)
    worked, trips = {}, {}
    # The first prepares the statements.
    for role, address in [("first", "first@example.org"), *addresses.items()]:
        done.clear()
        counted = TripCounter()
        round_trips.set(counted)
        queued = await postern.identity.account_mails.send(AskedMail(kind, Email(address), organization))
        worked[role], trips[role] = list(done), counted.count
        assert queued is (role in MAILED[kind])
    assert {"mail", "seal"} <= set(worked["strangers"])
    for role in addresses:
        assert worked[role] == worked["strangers"], role
        assert trips[role] == trips["strangers"], role


MAILED = {
    AccountMail.RESET: {"verified", "unverified", "passwordless"},
    AccountMail.VERIFICATION: {"unverified"},
}


def _record(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, done: list[str]) -> None:
    real = getattr(where, name)

    async def recorded(*args: Any) -> Any:
        done.append(next(argument for argument in args if isinstance(argument, str)))
        return await real(*args)

    monkeypatch.setattr(where, name, recorded)


def _count(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, done: list[str]) -> None:
    real = getattr(where, name)

    def counted(*args: Any, **named: Any) -> Any:
        done.append(name)
        return real(*args, **named)

    monkeypatch.setattr(where, name, counted)


def _count_awaited(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, done: list[str]) -> None:
    real = getattr(where, name)

    async def counted(*args: Any, **named: Any) -> Any:
        done.append(name)
        return await real(*args, **named)

    monkeypatch.setattr(where, name, counted)


def test_the_account_mailer_heeds_no_request() -> None:
    """The mailer works at times of its own (tests/actors/test_job_worker_pace.py); a request does not wake it."""
    assert ACCOUNT_MAIL_PACE.rhythm is not None
    assert timedelta(seconds=2) <= ACCOUNT_MAIL_PACE.rhythm <= timedelta(seconds=5)


@pytest.mark.parametrize("named", [{}, SHOP, {**SHOP, "service_slug": "none"}, {**SHOP, "org_slug": "halted"}])
async def test_signing_in_runs_the_same_statements_for_everybody_who_is_turned_away(
    named: dict[str, str],
    client: Client,
    addresses: dict[str, str],
    people: People,
    postern: Postern,
    monkeypatch: pytest.MonkeyPatch,
    log: CapturedLog,
) -> None:
    tenants = Tenants(postern, people)
    shop = tenants.service(tenants.add("acme"), "shop")
    tenants.service(tenants.add("halted", status="suspended"), "shop")
    user = people.add("user@example.org")
    people.change(
        "update users set password_hash = (select max(password_hash) from users), email_verified_at = now() where id = %s", user.user
    )
    tenants.uses(user, shop)
    statements: list[str] = []
    for where, name in ((Transaction, "tell"), (Transaction, "ask"), (sign_in, "ask")):
        real = getattr(where, name)

        async def recorded(*args: Any, _real: Any = real) -> Any:
            statements.append(next(argument for argument in args if isinstance(argument, str)))
            return await _real(*args)

        monkeypatch.setattr(where, name, recorded)
    answers, ran, trips = {}, {}, {}
    # The first prepares the statements.
    for number, (kind, address) in enumerate([("first", "first@example.org"), *addresses.items(), ("user", "user@example.org")]):
        statements.clear()
        tried = {"email": address, "password": "a wrong one", **named}
        answers[kind] = said(await Client(client.application, f"198.51.100.{number}").post(LOGIN, tried))
        ran[kind] = list(statements)
        trips[kind] = log.events("request")[-1]["db_round_trips"]
    assert answers["strangers"][0] in {401, 403, 404}
    for kind in ("first", *addresses, "user"):
        assert _untimed(answers[kind]) == _untimed(answers["strangers"]), kind
        assert ran[kind] == ran["strangers"], kind
        assert kind == "first" or trips[kind] == trips["strangers"], kind


def _untimed(answer: tuple[int, list[tuple[str, str]], bytes]) -> tuple[int, list[tuple[str, str]], bytes]:
    status, headers, body = answer
    return status, headers, re.sub(rb'"timestamp":"[^"]*"', b"", body)


@pytest.fixture
async def brought(addresses: dict[str, str], people: People, postern: Postern) -> dict[str, str]:
    """Beside the other addresses, people whose hash another system made: kept as it came, and wrapped."""
    kinds = {"kept": MADE["django scrypt"], "wrapped": MADE["passlib ldap_salted_sha256"], "locked": MADE["werkzeug scrypt"]}
    for kind, text in kinds.items():
        (stored,) = await postern.identity.passwords.stored([foreign_hash(text)])
        person = people.add(f"{kind}@example.org")
        people.change("update users set email_verified_at = now(), password_hash = %s where id = %s", stored, person.user)
    people.change("update users set deactivated_at = now() where email = 'locked@example.org'")
    return {**addresses, **{kind: f"{kind}@example.org" for kind in kinds}}


async def test_while_hashes_of_others_remain_everybody_is_turned_away_at_the_same_moment(
    client: Client, brought: dict[str, str], people: People, postern: Postern, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The durations are made up, so that the test depends on no clock: hashes of others take 0.8 s, and all else 0.02 s."""
    passwords = postern.identity.passwords
    assert isinstance(passwords, Argon2Passwords)
    work, held, statements = passwords._work, list[float | None](), list[str]()

    async def timed(priority: Priority, function: Any, *args: Any) -> Any:
        done = await work(priority, function, *args)
        return replace(done, began=100.0, seconds=0.8 if function == passwords._argon2.verify_foreign else 0.02)

    async def hold_back(examined: Examined) -> None:
        # The refusal is in the log by now, so that nothing else follows the wait.
        assert people.rows("select count(*) as number from login_events")[0]["number"] == len(held) + 1
        held.append(examined.not_before)

    monkeypatch.setattr(passwords, "_work", timed)
    monkeypatch.setattr(passwords, "hold_back", hold_back)
    for where, name in ((Transaction, "tell"), (Transaction, "ask"), (sign_in, "ask")):
        _record(monkeypatch, where, name, statements)
    await postern.identity.foreign_hashes.look()
    ran, answers = {}, {}
    tries = [(kind, "a wrong one") for kind in brought] + [("locked", TYPED), ("deactivated", "a long and quiet afternoon")]
    for number, (kind, password) in enumerate([("strangers", "a wrong one"), *tries]):
        statements.clear()
        tried = {"email": brought[kind], "password": password}
        answers[number] = said(await Client(client.application, f"198.51.100.{number}").post(LOGIN, tried))
        ran[number] = list(statements)
    assert held == [101.0] * (len(tries) + 1)
    assert {_untimed(answer)[0] for answer in answers.values()} == {401}
    assert {_untimed(answer)[2] for answer in answers.values()} == {_untimed(answers[0])[2]}
    assert all(one == ran[0] for one in ran.values())
    # After the last of them, nobody waits.
    people.change("update users set password_hash = null where left(password_hash, 9) = '$foreign$'")
    await postern.identity.foreign_hashes.look()
    held.clear()
    people.change("delete from login_events")
    for number, kind in enumerate(brought):
        tried = {"email": brought[kind], "password": "a wrong one"}
        await Client(client.application, f"203.0.113.{number}").post(LOGIN, tried)
    assert held == [None] * len(brought)


@pytest.mark.parametrize("login", ["upstream_only", "password_fallback_if_provider_unavailable"])
@pytest.mark.parametrize("password", ["a wrong one", "a long and quiet afternoon"])
async def test_where_people_sign_in_at_a_provider_everybody_is_turned_away_by_the_same_work(
    login: str,
    password: str,
    client: Client,
    addresses: dict[str, str],
    people: People,
    postern: Postern,
    monkeypatch: pytest.MonkeyPatch,
    log: CapturedLog,
) -> None:
    route(people, Tenants(postern, people).add("acme"), "example.org", login=login)
    done: list[str] = []

    async def looked(*_site: object, **_how: object) -> None:
        """The provider is there, and everybody's try looks."""
        done.append("look at the provider")

    monkeypatch.setattr(postern.foundation.upstreams, "look", looked)
    for where, name in ((Transaction, "tell"), (Transaction, "ask"), (sign_in, "ask"), (sign_in_domains, "ask")):
        _record(monkeypatch, where, name, done)
    _count_awaited(monkeypatch, type(postern.identity.passwords), "examine", done)
    answers, worked, trips = {}, {}, {}
    # The first prepares the statements.
    for number, (kind, address) in enumerate([("first", "first@example.org"), *addresses.items()]):
        done.clear()
        tried = {"email": address, "password": password}
        answers[kind] = said(await Client(client.application, f"198.51.100.{number}").post(LOGIN, tried))
        worked[kind], trips[kind] = list(done), log.events("request")[-1]["db_round_trips"]
    assert answers["strangers"][0] == 403
    assert "examine" in worked["strangers"]
    for kind in addresses:
        assert _untimed(answers[kind]) == _untimed(answers["strangers"]), kind
        assert (worked[kind], trips[kind]) == (worked["strangers"], trips["strangers"]), kind


@pytest.mark.parametrize("routed", [False, True])
async def test_the_lookup_of_a_domain_tells_nothing_of_an_address(
    routed: bool, addresses: dict[str, str], people: People, postern: Postern, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five hundred pairs in turn: the same bytes, in the same time, by the same statements, none of which reads accounts."""
    if routed:
        route(people, Tenants(postern, people).add("acme"), "example.org")
    client, known = unlimited(postern), addresses["verified"]
    statements: list[str] = []
    _record(monkeypatch, sign_in_domains, "ask", statements)
    of_known, of_unknown = list[float](), list[float]()
    for number in range(500):
        ran, answers = {}, {}
        pair = (known, f"nobody{number}@example.org")
        for address in pair if number % 2 else pair[::-1]:
            statements.clear()
            began = time.perf_counter()
            answers[address] = said(await client.post(LOOKUP, {"email": address}))
            (of_known if address == known else of_unknown).append(time.perf_counter() - began)
            ran[address] = list(statements)
        assert answers[pair[0]] == answers[pair[1]]
        assert ran[pair[0]] == ran[pair[1]]
    assert not any("users" in statement for statement in statements)
    # The quickest of each: other load on the machine makes an answer slower, and none quicker.
    assert abs(min(of_known) - min(of_unknown)) <= 0.001


async def test_only_the_reader_of_the_mailbox_learns_of_an_account(client: Client, addresses: dict[str, str], postern: Postern) -> None:
    for number, address in enumerate(addresses.values()):
        await Client(client.application, f"198.51.100.{number}").post(FORGOT, {"email": address})
        await Client(client.application, f"198.51.100.{number}").post(RESEND, {"email": address})
    states = {state.kind: state.waiting for state in await postern.foundation.jobs.state()}
    assert states == {"account.mail": 10}
