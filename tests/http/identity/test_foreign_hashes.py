"""Accounts that were brought along with the hash of another system: everything that asks for a password takes it, and the first sign-in
leaves a hash of ours.
"""

from typing import Any

import pytest
import trio

from core.domain.identity.foreign_hashes.hashes import ForeignHash, is_foreign
from core.domain.identity.foreign_hashes.sources import keycloak_hash
from core.domain.identity.foreign_hashes.texts import foreign_hash
from core.domain.secrets import Password
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.foreign_hashes import KEYCLOAK, MADE, TYPED
from tests.http.browsing import Tabs
from tests.http.people import People, Person
from tests.http.postbox import Postbox
from tests.http.signing_in import FIREFOX, LOGIN, Browser, enable_mfa, unlimited
from tests.meanwhile import meanwhile

NEW = "a fresh and lively password"
# One that is kept as it came, and one that is wrapped.
KEPT, WRAPPED = keycloak_hash(*KEYCLOAK[2]), foreign_hash(MADE["passlib ldap_salted_sha256"])


@pytest.fixture
def browser(postern: Postern) -> Browser:
    return Browser(unlimited(postern))


@pytest.fixture
async def ada(people: People, postern: Postern) -> Person:
    return await brought(people, postern, KEPT)


async def brought(people: People, postern: Postern, foreign: ForeignHash, email: str = "ada@example.org") -> Person:
    """A person who comes with this hash and has never signed in."""
    person = await people.with_password("another", email)
    (stored,) = await postern.identity.passwords.stored([foreign])
    people.change("update users set password_hash = %s where id = %s", stored, person.user)
    return person


def stored_of(people: People, person: Person) -> dict[str, Any]:
    return people.rows("select password_hash, password_changed_at from users where id = %s", person.user)[0]


async def test_the_first_sign_in_leaves_a_hash_of_ours_without_one_more_round_trip(
    browser: Browser, people: People, postern: Postern, log: CapturedLog
) -> None:
    trips = []
    # The first prepares the statements.
    await browser.login(await people.with_password(TYPED, "first@example.org"), TYPED)
    for number, foreign in enumerate((KEPT, WRAPPED)):
        person = await brought(people, postern, foreign, f"person{number}@example.org")
        before = stored_of(people, person)["password_hash"]
        assert (await browser.login(person, "a wrong one")).status == 401
        assert stored_of(people, person)["password_hash"] == before
        for _ in range(2):
            assert (await browser.login(person, TYPED)).status == 200
            after = stored_of(people, person)
            assert not postern.identity.passwords.is_outdated(after["password_hash"])
            # It is the same password, so nothing that rests on it ends.
            assert after["password_changed_at"] is None
            trips.append(log.events("request")[-1]["db_round_trips"])
        assert (await browser.login(person, "a wrong one")).status == 401
    assert len({*trips}) == 1, trips


async def test_two_sign_ins_at_once_both_come_in(postern: Postern, people: People, ada: Person) -> None:
    statuses = []

    async def sign_in(number: int) -> None:
        client = unlimited(postern, address=f"192.0.2.{number}")
        answer = await client.post(LOGIN, {"email": ada.email, "password": TYPED}, headers=[("user-agent", FIREFOX)])
        statuses.append(answer.status)

    async with trio.open_nursery() as nursery:
        for number in range(1, 6):
            nursery.start_soon(sign_in, number)
    assert statuses == [200] * 5
    assert not is_foreign(stored_of(people, ada)["password_hash"])


@pytest.mark.parametrize("method", ["examine", "renew"])
async def test_a_password_that_changes_meanwhile_stays_and_nobody_comes_in(
    browser: Browser, people: People, postern: Postern, ada: Person, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    another = await postern.identity.passwords.hash(Password(NEW))
    change = "update users set password_hash = %s, password_changed_at = now() where id = %s"
    with monkeypatch.context() as patched:
        meanwhile(patched, postern.identity.passwords, method, lambda: people.change(change, another, ada.user))
        assert (await browser.login(ada, TYPED)).status == 401
    assert stored_of(people, ada)["password_hash"] == another
    assert people.rows("select from sessions") == []
    assert (await browser.login(ada, TYPED)).status == 401
    assert (await browser.login(ada, NEW)).status == 200


async def test_a_hash_that_was_restored_by_a_slow_sign_in_would_be_the_old_one(
    browser: Browser, people: People, postern: Postern, ada: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sign-in overtakes another one: the slower one finds the hash of ours, and changes nothing."""
    old = stored_of(people, ada)["password_hash"]
    ours = await postern.identity.passwords.renew(old, Password(TYPED))
    with monkeypatch.context() as patched:
        change = "update users set password_hash = %s where id = %s"
        meanwhile(patched, postern.identity.passwords, "renew", lambda: people.change(change, ours, ada.user))
        assert (await browser.login(ada, TYPED)).status == 200
    assert stored_of(people, ada)["password_hash"] == ours


async def test_a_browser_comes_in_with_it(people: People, postern: Postern, ada: Person) -> None:
    tabs = Tabs(unlimited(postern))
    tab = await (await tabs.tab().open("/ui/sign-in")).send(email=ada.email)
    await tab.send(password="a wrong one")
    assert (tab.status, tabs.session) == (400, None)
    await tab.send(password=TYPED)
    assert (tab.place, tab.status) == ("/ui", 200)
    assert not is_foreign(stored_of(people, ada)["password_hash"])


async def test_a_second_factor_is_asked_for_after_it(browser: Browser, people: People, ada: Person) -> None:
    totp = await enable_mfa(browser.client, people, ada)
    first = (await browser.login(ada, TYPED)).json()
    assert first["mfa_required"] is True
    # The hash has been renewed meanwhile, and that is no change of the password.
    assert not is_foreign(stored_of(people, ada)["password_hash"])
    assert (await browser.verify(first["access_token"], totp.now())).status == 200


async def test_whoever_is_signed_in_proves_and_changes_it(browser: Browser, people: People, postern: Postern, ada: Person) -> None:
    token = (await browser.login(ada, TYPED)).json()["access_token"]
    people.change("update users set password_hash = %s", KEPT.stored())
    assert (await browser.post("/api/auth/reauthenticate", {"password": "a wrong one"}, token=token)).status == 401
    assert (await browser.post("/api/auth/reauthenticate", {"password": TYPED}, token=token)).status == 200
    assert not is_foreign(stored_of(people, ada)["password_hash"])
    people.change("update users set password_hash = %s", KEPT.stored())
    change = {"current_password": "a wrong one", "new_password": NEW}
    assert (await browser.post("/api/user/change-password", change, token=token)).status == 401
    assert (await browser.post("/api/user/change-password", {**change, "current_password": TYPED}, token=token)).status == 200
    assert not postern.identity.passwords.is_outdated(stored_of(people, ada)["password_hash"])
    assert (await browser.login(ada, TYPED)).status == 401


async def test_a_forgotten_one_is_replaced(browser: Browser, people: People, postern: Postern, ada: Person) -> None:
    postbox = Postbox(postern)
    await browser.post("/api/auth/forgot-password", {"email": ada.email})
    assert (await browser.post("/api/auth/reset-password", {"token": await postbox.token(), "new_password": NEW})).status == 200
    assert not is_foreign(stored_of(people, ada)["password_hash"])
    assert (await browser.login(ada, TYPED)).status == 401
    assert (await browser.login(ada, NEW)).status == 200


async def test_how_many_remain_is_counted_by_kind(browser: Browser, people: People, postern: Postern, ada: Person) -> None:
    for number, foreign in enumerate((WRAPPED, WRAPPED, foreign_hash(MADE["bcrypt 2a"]))):
        await brought(people, postern, foreign, f"person{number}@example.org")
    people.add("without@example.org")
    hashes = postern.identity.foreign_hashes
    counts = await hashes.counts()
    assert (counts.ours, counts.none, counts.foreign) == (0, 1, {"argon2id": 1, "bcrypt": 1, "ssha256": 2})
    assert await hashes.store.shapes() == ["argon2id$v=19,m=7168,t=5,p=1,l=32", "bcrypt$r=4", "ssha256$"]
    await hashes.count(remain=True)
    assert b'sso_foreign_passwords{kind="ssha256"} 2.0' in postern.foundation.metrics.render()
    await browser.login(ada, TYPED)
    counts = await hashes.counts()
    assert (counts.ours, counts.none, counts.foreign) == (1, 1, {"bcrypt": 1, "ssha256": 2})
    people.change("update users set password_hash = null")
    assert not await hashes.look()
    await hashes.count(remain=False)
    assert b'sso_foreign_passwords{kind="ssha256"} 0.0' in postern.foundation.metrics.render()
