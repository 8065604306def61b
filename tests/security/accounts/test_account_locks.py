"""Locks of accounts: who may lock one, what the link in a mail is bound to, and how the person comes back."""

import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import pytest

from core.domain.mail import Mail
from core.domain.services.user_keys import MOST_NAMED
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.browsing import Tab, Tabs
from tests.http.cast import all_at_once
from tests.http.client import Received
from tests.http.federation.scim.directories import PATCH_OP
from tests.http.people import People, Person
from tests.http.postbox import link_in, token_in
from tests.http.routing import route
from tests.http.signing_in import PASSWORD, Browser, unlimited
from tests.security.accounts.test_whose_account import ADA, HOLDS, Home, by_directory, by_key, listed_elsewhere

database_url, postern, people = http.database_url, http.postern, http.people

LOCK: Final = "/ui/lock-account"
BOB: Final = "bob@example.org"
NEW: Final = "a fresh and lively password"
_LOCK_LINK: Final = re.compile(r"https://id\.example\.org(/ui/lock-account\?token=\S+)")


def lock_link(mail: Mail) -> str:
    found = _LOCK_LINK.search(mail.text)
    assert found is not None, mail.text
    assert f"https://id.example.org{found[1]}" in mail.html.replace("&amp;", "&")
    return found[1]


class LockScene(Home):
    async def comes(self) -> "LockScene":
        """Ada chooses a password, and signs in."""
        person = await self.people.with_password(PASSWORD, ADA)
        self.ada = person
        self.token = (await self.signs_in()).ok()["access_token"]
        await self.box.empty()
        return self

    async def warned(self, person: Person | None = None, password: str = PASSWORD) -> str:
        """The link in the mail about a sign-in from an unknown browser."""
        person = person or self.ada
        # The very first sign-in needs no mail.
        for _ in range(2):
            self.people.change("update devices set revoked_at = now() where user_id = %s", person.user)
            (await Browser(self.client).login(person, password)).ok()
        return lock_link([mail for mail in await self.box.empty() if mail.to == person.email][-1])

    def nobody(self) -> Tab:
        return Tabs(self.client).tab()

    async def locks(self, link: str) -> Tab:
        tab = await self.nobody().open(link)
        assert tab.status == 200, tab.page.text
        return await tab.send(0)

    async def posts(self, token: str) -> Received:
        return await Tabs(self.client).request("POST", LOCK, {"token": token})

    def is_locked(self, person: Person | None = None) -> bool:
        (row,) = self.people.rows("select deactivated_at, locked_at from users where id = %s", (person or self.ada).user)
        return row["locked_at"] is not None and row["locked_at"] == row["deactivated_at"]

    def living(self) -> int:
        return len(self.people.rows("select from sessions where user_id = %s and revoked_at is null", self.ada.user))

    async def back_link(self) -> str:
        """The link for a new password, in the mail that tells of the lock."""
        (mail,) = [one for one in await self.box.empty() if one.to == ADA and one.subject == "Your account is locked"]
        return link_in(mail)

    async def comes_back(self, link: str, **fields: Any) -> Tab:
        tab = await self.nobody().open(link.removeprefix("https://id.example.org"))
        assert tab.status == 200, tab.page.text
        return await tab.send(0, new_password=NEW, repeated=NEW, **fields)

    def passkey(self, name: str, age: timedelta, *, second_factor: bool = False) -> UUID:
        self.people.give_passkey(self.ada, second_factor=second_factor)
        (row,) = self.people.rows(
            "update passkeys set name = %s, created_at = now() - %s where name = 'Key' and user_id = %s returning id",
            name,
            age,
            self.ada.user,
        )
        return UUID(str(row["id"]))

    def passkeys(self) -> list[str]:
        return [row["name"] for row in self.people.rows("select name from passkeys where user_id = %s order by name", self.ada.user)]


@pytest.fixture
async def scene(postern: Postern, people: People, log: CapturedLog) -> LockScene:
    return await LockScene(postern, people, unlimited(postern), log).comes()


@pytest.fixture
def empty(postern: Postern, people: People, log: CapturedLog) -> LockScene:
    """Without Ada."""
    return LockScene(postern, people, unlimited(postern), log)


# The link in a mail.


async def test_the_link_locks_without_a_sign_in_and_opening_it_changes_nothing(scene: LockScene) -> None:
    link = await scene.warned()
    page = await scene.nobody().open(link)
    assert "Lock this account?" in page.page.text
    assert ADA in page.page.text
    assert not scene.is_locked()
    living = scene.living()
    done = await scene.locks(link)
    assert (done.status, scene.is_locked(), scene.living()) == (200, True, 0)
    assert "The account is locked" in done.page.text
    assert f"{living} sessions" in done.page.text
    assert "No longer valid Password" in done.page.text
    assert (await scene.signs_in()).status == 401
    # Nobody is known by a browser any more.
    assert scene.people.rows("select from devices where user_id = %s and revoked_at is null", scene.ada.user) == []
    assert (await scene.client.get("/api/user", token=scene.token)).status == 401
    (entry,) = [one for one in scene.audited("security.account.locked") if one["organization_id"] is None]
    assert (entry["actor_id"], entry["details"]) == (scene.ada.user, {"how": "mail", "mail": "new_device"})


async def test_the_link_works_once_and_uses_up_those_of_other_mails(scene: LockScene) -> None:
    first, second = await scene.warned(), await scene.warned()
    await scene.locks(first)
    # The same form, sent twice, and another mail say that it is locked, and end nothing more.
    back = await scene.back_link()
    for link in (first, second):
        assert "The account is locked" in (await scene.nobody().open(link)).page.text
        assert (await scene.posts(token_in(link))).status == 200
    assert await scene.box.empty() == []
    assert (await scene.comes_back(back)).status == 200
    for link in (first, second):
        assert (await scene.nobody().open(link)).status == 400
        assert (await scene.posts(token_in(link))).status == 400
    assert not scene.is_locked()
    # A mail from afterwards has a link that works.
    assert (await scene.locks(await scene.warned(password=NEW))).status == 200
    assert scene.is_locked()


async def test_of_fifty_at_once_one_locks(scene: LockScene) -> None:
    token = token_in(await scene.warned())
    answers = await all_at_once(*(lambda: scene.posts(token) for _ in range(50)))
    # On a busy machine some wait longer for the account than a statement may.
    assert {200} <= {answer.status for answer in answers} <= {200, 503}
    assert len([one for one in scene.audited("security.account.locked") if one["organization_id"] is None]) == 1
    assert len(await scene.box.empty()) == 1


async def test_whoever_signs_in_at_that_moment_is_out_too(scene: LockScene) -> None:
    token = token_in(await scene.warned())

    async def lock() -> None:
        while (status := (await scene.posts(token)).status) == 503:
            pass  # as the page says: once more
        assert status == 200

    async def sign_in() -> None:
        await scene.signs_in()

    await all_at_once(lock, *([sign_in] * 4))
    assert scene.living() == 0


async def test_a_link_is_bound_to_its_account_and_to_its_address(scene: LockScene) -> None:
    bob = await scene.people.with_password(PASSWORD, BOB)
    link, his = token_in(await scene.warned()), token_in(await scene.warned(bob))
    forged = [
        "",
        "x",
        "A" * 4000,
        link[:-2],
        link[:-2] + ("AA" if link[-2:] != "AA" else "BB"),
        # The first half names the one, the second half the other.
        link[: len(link) // 2] + his[len(his) // 2 :],
        "é",
    ]
    for token in forged:
        answer = await scene.posts(token)
        assert (answer.status, scene.is_locked(), scene.is_locked(bob)) == (400, False, False), token
    assert (await scene.posts(his)).status == 200
    assert (scene.is_locked(), scene.is_locked(bob)) == (False, True)
    # Whoever reads the former mailbox locks nobody out.
    scene.people.change("update users set email = 'new@example.org', email_key = 'new@example.org' where id = %s", scene.ada.user)
    assert (await scene.posts(link)).status == 400
    assert not scene.is_locked()
    # "Forgot your password?" mails nothing there: whoever finds the account moved by a thief is sent to somebody who helps.
    moved = await scene.nobody().open(f"{LOCK}?token={link}")
    assert (moved.status, "contact your administrator immediately" in moved.page.text) == (400, True)
    assert "Choose a new password" not in moved.page.text
    scene.people.change("update users set deactivated_at = now() where id = %s", scene.ada.user)
    assert "contact your administrator immediately" not in (await scene.nobody().open(f"{LOCK}?token={link}")).page.text


async def test_other_links_and_codes_lock_nothing(scene: LockScene) -> None:
    (await scene.client.post("/api/auth/forgot-password", {"email": ADA})).ok()
    (mail,) = await scene.box.empty()
    assert "lock-account" not in mail.text
    assert (await scene.posts(token_in(link_in(mail)))).status == 400
    # Nor does the link that locks do anything else.
    token = token_in(await scene.warned())
    answer = await scene.client.post("/api/auth/reset-password", {"token": token, "new_password": NEW})
    assert (answer.status, scene.is_locked()) == (400, False)


async def test_an_old_link_locks_nothing(scene: LockScene, monkeypatch: pytest.MonkeyPatch) -> None:
    link = await scene.warned()
    monkeypatch.setattr("core.domain.identity.account_locks.LOCK_LINK_LIFETIME", timedelta(0))
    answer = await scene.nobody().open(link)
    assert (answer.status, "This link has expired" in answer.page.text) == (400, True)
    assert (await scene.posts(token_in(link))).status == 400
    assert not scene.is_locked()


async def test_a_deactivated_account_has_nothing_to_lock(scene: LockScene) -> None:
    token = token_in(await scene.warned())
    scene.people.change("update users set deactivated_at = now() where id = %s", scene.ada.user)
    assert (await scene.posts(token)).status == 400
    assert not scene.is_locked()


# The way back.


async def test_a_new_password_opens_it_and_nothing_else_does(scene: LockScene) -> None:
    await scene.locks(await scene.warned())
    back = await scene.back_link()
    # Neither a sign-in link, nor another mail than one for a new password.
    for path in ("/api/auth/magic-link", "/api/auth/resend-verification"):
        await scene.client.post(path, {"email": ADA})
    assert await scene.box.empty() == []
    (await scene.client.post("/api/auth/forgot-password", {"email": ADA})).ok()
    newer = await scene.box.link()
    assert (await scene.nobody().open(back.removeprefix("https://id.example.org"))).status == 400
    assert (await scene.comes_back(newer)).status == 200
    assert not scene.is_locked()
    assert (await Browser(scene.client).login(scene.ada, NEW)).status == 200
    assert (await scene.signs_in()).status == 401
    assert len([one for one in scene.audited("security.account.unlocked") if one["organization_id"] is None]) == 1


async def test_who_must_sign_in_at_a_provider_comes_back_by_the_mailbox_too(scene: LockScene) -> None:
    link = await scene.warned()
    route(scene.people, scene.acme, "example.org", login="upstream_only")
    (await scene.client.post("/api/auth/forgot-password", {"email": ADA})).ok()
    assert await scene.box.empty() == []
    await scene.locks(link)
    back = await scene.back_link()
    (await scene.client.post("/api/auth/forgot-password", {"email": ADA})).ok()
    newer = await scene.box.link()
    assert (await scene.nobody().open(back.removeprefix("https://id.example.org"))).status == 400
    assert (await scene.comes_back(newer)).status == 200
    assert not scene.is_locked()
    # The password is of no use at the door.
    assert (await Browser(scene.client).login(scene.ada, NEW)).status != 200


async def test_of_the_last_thirty_days_only_what_the_person_keeps_comes_back(scene: LockScene) -> None:
    scene.passkey("Old", timedelta(days=31))
    mine = scene.passkey("Mine", timedelta(days=2))
    scene.passkey("Thief's", timedelta(hours=1))
    scene.people.connect(scene.ada, "codehost", subject="thief")
    scene.people.connect(scene.ada, "websuite", subject="ada")
    scene.people.change("update identities set linked_at = now() - interval '40 days' where provider = 'websuite'")
    done = await scene.locks(await scene.warned())
    assert "Thief's" in done.page.text
    assert "Old" not in done.page.text
    page = await scene.nobody().open((link := await scene.back_link()).removeprefix("https://id.example.org"))
    assert "Did you add this?" in page.page.text
    assert "Old" not in page.page.text
    # A wrong repetition loses no tick.
    tab = await page.send(0, new_password=NEW, repeated="something else", keep_ways=[f"passkey:{mine}"])
    assert (tab.status, tab.page.forms[0].fields["keep_ways"]) == (400, [f"passkey:{mine}"])
    assert (await scene.comes_back(link, keep_ways=[f"passkey:{mine}", f"passkey:{UUID(int=7)}"])).status == 200
    assert scene.passkeys() == ["Mine", "Old"]
    assert [row["provider"] for row in scene.people.rows("select provider from identities where user_id = %s", scene.ada.user)] == [
        "websuite"
    ]
    assert len(scene.audited("security.passkey.removed")) == 1


async def test_by_the_interface_all_of_it_ends_that_is_not_named(scene: LockScene) -> None:
    mine = scene.passkey("Mine", timedelta(days=2))
    scene.passkey("Thief's", timedelta(hours=1))
    await scene.locks(await scene.warned())
    body = {"token": token_in(await scene.back_link()), "new_password": NEW, "keep_ways": [f"passkey:{mine}"]}
    (await scene.client.post("/api/auth/reset-password", body)).ok()
    assert scene.passkeys() == ["Mine"]


async def test_whoever_reads_the_mailbox_does_not_get_past_the_second_factor(scene: LockScene) -> None:
    link = await scene.warned()
    thiefs = scene.passkey("Only one", timedelta(days=1), second_factor=True)
    await scene.locks(link)
    back = await scene.back_link()
    refused = await scene.comes_back(back)
    assert refused.status == 400
    assert "select a passkey that is yours" in refused.page.text
    assert (scene.is_locked(), scene.passkeys()) == (True, ["Only one"])
    body = {"token": token_in(back), "new_password": NEW}
    assert (await scene.client.post("/api/auth/reset-password", body)).status == 400
    assert scene.is_locked()
    assert (await scene.comes_back(back, keep_ways=[f"passkey:{thiefs}"])).status == 200
    assert (await Browser(scene.client).login(scene.ada, NEW)).json().get("mfa_required") is True


async def test_an_app_of_the_last_thirty_days_is_told_and_stays(scene: LockScene) -> None:
    link = await scene.warned()
    scene.people.change(
        "insert into mfa_secrets (user_id, sealed_secret, created_at, enabled_at) values (%s, 'x', now(), now())", scene.ada.user
    )
    await scene.locks(link)
    (mail,) = await scene.box.empty()
    assert "Two-step sign-in was turned on in the last 30 days" in mail.text.replace("\n", " ")
    page = await scene.nobody().open(link_in(mail).removeprefix("https://id.example.org"))
    assert "If you did not turn it on, contact your administrator" in page.page.text
    assert (await scene.comes_back(link_in(mail))).status == 200
    assert scene.people.rows("select from mfa_secrets where user_id = %s and enabled_at is not null", scene.ada.user)


async def test_the_way_back_of_an_address_that_nobody_has_proved_ends_all_of_it(scene: LockScene) -> None:
    link = await scene.warned()
    scene.passkey("Thief's", timedelta(days=50))
    scene.people.change("update users set email_verified_at = null where id = %s", scene.ada.user)
    await scene.locks(link)
    assert (await scene.comes_back(await scene.back_link())).status == 200
    assert (scene.is_locked(), scene.passkeys()) == (False, [])


# Who else.


async def test_the_person_locks_their_own_account(scene: LockScene) -> None:
    answer = await scene.client.post("/api/user/lock", token=scene.token)
    assert answer.ok()["password"] is True
    assert answer.json()["sessions"] >= 1
    assert (scene.is_locked(), scene.living()) == (True, 0)
    assert (await scene.client.post("/api/user/lock", token=scene.token)).status == 401
    mail = (await scene.box.empty())[-1]
    assert "by you or by someone who was signed in to it" in mail.text.replace("\n", " ")


async def test_an_application_does_not_lock_its_users(scene: LockScene) -> None:
    token = (await scene.signs_in(org_slug="acme", service_slug=scene.shop.slug)).ok()["access_token"]
    assert (await scene.client.post("/api/user/lock", token=token)).status == 403
    for path in (f"/api/service/users/{scene.ada.user}/lock", f"/api/organizations/acme/users/{scene.ada.user}/lock"):
        assert (await scene.client.request("POST", path, headers=[("x-api-key", scene.shops["acme"].key)])).status in {401, 404}
    assert not scene.is_locked()


def lock_of(home: Home, organization: str, kind: str = "members") -> str:
    return f"/api/organizations/{organization}/{kind}/{home.ada.user}/lock"


async def made(scene: LockScene, by: Callable[[Home], Awaitable[None]]) -> LockScene:
    """Somebody else has made the account, and Ada has chosen a password."""
    await by(scene)
    scene.known()
    await scene.box.empty()
    await scene.resets()
    scene.token = (await scene.signs_in()).ok()["access_token"]
    await scene.box.empty()
    return scene


async def test_the_maker_locks_while_nobody_else_holds_the_account(empty: LockScene) -> None:
    home = await made(empty, by_directory)
    answer = (await home.request("POST", lock_of(home, "acme"), by=home.owners["acme"])).ok()
    assert (answer["account_locked"], home.is_locked(), home.living()) == (True, True, 0)
    (entry,) = [one for one in home.audited("security.account.locked") if one["organization_id"] == home.acme.id]
    assert (entry["actor_id"], entry["details"]) == (home.owners["acme"].user, {"how": "organization"})
    assert (await home.request("POST", lock_of(home, "acme"), by=home.owners["acme"])).ok()["account_locked"] is True
    (mail,) = await home.box.empty()
    assert "Your organization locked your account" in mail.text
    # It stays the maker's: her way back does not take it away from acme.
    assert (await home.comes_back(link_in(mail))).status == 200
    assert home.row()["origin_org_id"] == home.acme.id


async def test_a_key_makes_accounts_that_its_organization_locks(empty: LockScene) -> None:
    home = await made(empty, by_key)
    assert (await home.request("POST", lock_of(home, "acme"), by=home.owners["acme"])).status == 404
    answer = (await home.request("POST", lock_of(home, "acme", "users"), by=home.owners["acme"])).ok()
    assert (answer["account_locked"], home.is_locked()) == (True, True)


async def test_the_maker_reads_how_many_keys_ended_also_of_many(empty: LockScene) -> None:
    home = await made(empty, by_directory)
    (await home.signs_in(org_slug="acme", service_slug=home.shop.slug)).ok()
    for number in range(MOST_NAMED + 5):
        home.people.change(
            "insert into user_keys (id, user_id, service_id, name, prefix, digest, scopes, created_at)"
            " values (gen_random_uuid(), %s, %s, %s, %s, %s, '{}', now())",
            home.ada.user,
            home.shop.id,
            f"key {number}",
            f"key_{number}",
            str(number).encode(),
        )
    answer = (await home.request("POST", lock_of(home, "acme"), by=home.owners["acme"])).ok()
    assert (answer["account_locked"], answer["keys_ended"]) == (True, MOST_NAMED + 5)


@pytest.mark.parametrize("happened", ["one that she confirmed", "an organization of hers", "a session at a service elsewhere"])
async def test_once_somebody_else_holds_it_the_maker_ends_its_own(empty: LockScene, happened: str) -> None:
    home = await made(empty, by_directory)
    await HOLDS[happened](home)
    there = (await home.signs_in(org_slug="acme", service_slug=home.shop.slug)).ok()["access_token"]
    elsewhere = (await home.signs_in()).ok()["access_token"]
    answer = (await home.request("POST", lock_of(home, "acme"), by=home.owners["acme"])).ok()
    assert (answer["account_locked"], home.is_locked()) == (False, False)
    assert answer["sessions_ended"] >= 1
    assert (await home.client.get("/api/user", token=there)).status == 401
    assert (await home.client.get("/api/user", token=elsewhere)).status == 200
    assert home.audited("security.account.locked") == []


async def test_nobody_locks_their_own_account_as_an_organization(empty: LockScene) -> None:
    home = await made(empty, by_directory)
    owner = home.owners["acme"]
    for kind in ("members", "users"):
        answer = await home.request("POST", f"/api/organizations/acme/{kind}/{owner.user}/lock", by=owner)
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
    assert not home.is_locked(owner)


async def test_a_tenant_that_lists_somebody_locks_nobody(empty: LockScene) -> None:
    home = await made(empty, by_directory)
    await listed_elsewhere(home)
    await home.box.empty()
    there = (await home.signs_in(org_slug="acme", service_slug=home.shop.slug)).ok()["access_token"]
    answer = (await home.request("POST", lock_of(home, "globex"), by=home.owners["globex"])).ok()
    assert (answer["account_locked"], answer["sessions_ended"], home.is_locked()) == (False, 0, False)
    for token in (there, home.token):
        assert (await home.client.get("/api/user", token=token)).status == 200
    # Of somebody whom it does not know, it learns nothing.
    home.people.change("delete from memberships where org_id = %s and user_id = %s", home.globex.id, home.ada.user)
    for kind in ("members", "users"):
        assert (await home.request("POST", lock_of(home, "globex", kind), by=home.owners["globex"])).status == 404
    assert await home.box.empty() == []


async def test_of_somebody_who_registered_an_organization_ends_its_own(scene: LockScene) -> None:
    there = (await scene.signs_in(org_slug="acme", service_slug=scene.shop.slug)).ok()["access_token"]
    answer = (await scene.request("POST", lock_of(scene, "acme", "users"), by=scene.owners["acme"])).ok()
    assert answer == {"account_locked": False, "sessions_ended": 1, "keys_ended": 0}
    assert not scene.is_locked()
    assert (await scene.client.get("/api/user", token=there)).status == 401
    assert (await scene.client.get("/api/user", token=scene.token)).status == 200


async def test_an_organization_ends_the_keys_for_its_own_applications(empty: LockScene) -> None:
    home = await made(empty, by_directory)
    await HOLDS["one that she confirmed"](home)
    for service, name in ((home.shop, "here"), (home.theirs, "there")):
        (await home.signs_in(org_slug="acme" if service is home.shop else "globex", service_slug=service.slug)).ok()
        home.people.change(
            "insert into user_keys (id, user_id, service_id, name, prefix, digest, scopes, created_at)"
            " values (gen_random_uuid(), %s, %s, %s, %s, %s, '{}', now())",
            home.ada.user,
            service.id,
            name,
            f"key_{name}",
            name.encode(),
        )
    answer = (await home.request("POST", lock_of(home, "acme"), by=home.owners["acme"])).ok()
    assert (answer["account_locked"], answer["keys_ended"]) == (False, 1)
    assert [row["name"] for row in home.people.rows("select name from user_keys")] == ["there"]


async def test_members_and_lesser_administrators_lock_nobody(empty: LockScene) -> None:
    home = await made(empty, by_directory)
    member, admin = home.resident(home.acme, "member", "peer"), home.resident(home.acme, "admin", "second")
    for kind in ("members", "users"):
        assert (await home.request("POST", lock_of(home, "acme", kind), by=member)).status == 403
        assert (await home.request("POST", lock_of(home, "acme", kind), by=home.owners["globex"])).status == 403
    owner = home.owners["acme"]
    home.people.change("update users set origin_org_id = %s where id = %s", home.acme.id, owner.user)
    assert (await home.request("POST", f"/api/organizations/acme/members/{owner.user}/lock", by=admin)).status == 403
    own = await home.request("POST", f"/api/organizations/acme/members/{owner.user}/lock", by=owner)
    assert own.status == 400
    assert not home.is_locked()
    assert not home.is_locked(owner)


async def test_a_platform_owner_locks_and_nobody_else_of_the_platform(scene: LockScene) -> None:
    governor = scene.people.proved("governor@example.org", platform_owner=True)
    path = f"/api/platform/users/{scene.ada.user}/lock"
    for by in (scene.owners["acme"], scene.ada):
        token = await scene.people.token(scene.people.session_of(by))
        assert (await scene.client.post(path, token=token)).status == 403
    assert (await scene.request("POST", f"/api/platform/users/{governor.user}/lock", by=governor)).status == 400
    answer = (await scene.request("POST", path, by=governor)).ok()
    assert (answer["changed"], answer["user"]["locked_at"] is not None, answer["ended"]["password"]) == (True, True, True)
    assert (await scene.request("POST", path, by=governor)).ok()["changed"] is False
    assert scene.is_locked()
    assert (await scene.request("POST", f"/api/platform/users/{UUID(int=9)}/lock", by=governor)).status == 404


# A deactivation that comes then counts.


async def test_the_platforms_deactivation_takes_a_lock_over(scene: LockScene) -> None:
    governor = scene.people.proved("governor@example.org", platform_owner=True)
    await scene.locks(await scene.warned())
    back = await scene.back_link()
    (await scene.request("POST", f"/api/platform/users/{scene.ada.user}/deactivate", by=governor)).ok()
    assert not scene.is_locked()
    assert (await scene.client.post("/api/auth/reset-password", {"token": token_in(back), "new_password": NEW})).status == 400
    (await scene.client.post("/api/auth/forgot-password", {"email": ADA})).ok()
    assert await scene.box.empty() == []


async def test_the_makers_directory_deactivates_a_locked_account(empty: LockScene) -> None:
    home = await made(empty, by_directory)
    (await home.request("POST", lock_of(home, "acme"), by=home.owners["acme"])).ok()
    back = await home.back_link()
    body = {"schemas": [PATCH_OP], "Operations": [{"op": "replace", "path": "active", "value": False}]}
    (await home.scim("PATCH", f"/{home.ada.user}", body)).ok()
    assert (home.is_locked(), home.row()["deactivated_by"]) == (False, home.acme.id)
    assert (await home.uses_link(token_in(back))).status == 400


async def test_a_directory_opens_no_locked_account(empty: LockScene) -> None:
    home = await made(empty, by_directory)
    await home.patch("active", value=False)
    await home.patch("active", value=True)
    (await home.request("POST", lock_of(home, "acme"), by=home.owners["acme"])).ok()
    await home.patch("active", value=True)
    assert home.is_locked()


@pytest.mark.parametrize("lifts", ["the directory", "the person alone"])
async def test_a_directory_that_suspends_somebody_does_not_wash_a_lock_off(empty: LockScene, lifts: str) -> None:
    home = await made(empty, by_directory)
    home.passkey("Thief's", timedelta(hours=1))
    (await home.request("POST", lock_of(home, "acme"), by=home.owners["acme"])).ok()
    await home.patch("active", value=False)
    await home.box.empty()
    if lifts == "the directory":
        await home.patch("active", value=True)
        assert home.is_locked()
    # No sign-in link opens it either.
    await home.client.post("/api/auth/magic-link", {"email": ADA})
    assert await home.box.empty() == []
    assert (await home.signs_in()).status == 401
    link = await home.asks_for_link()
    (await home.client.post("/api/auth/reset-password", {"token": link, "new_password": NEW})).ok()
    assert home.passkeys() == []
    assert (await Browser(home.client).login(home.ada, NEW)).status == 200


async def test_what_the_platform_opens_is_not_locked_again_by_a_directory(empty: LockScene) -> None:
    home = await made(empty, by_directory)
    governor = home.people.proved("governor@example.org", platform_owner=True)
    (await home.request("POST", lock_of(home, "acme"), by=home.owners["acme"])).ok()
    (await home.request("POST", f"/api/platform/users/{home.ada.user}/activate", by=governor)).ok()
    await home.patch("active", value=False)
    await home.patch("active", value=True)
    assert home.row()["deactivated_at"] is None


async def test_the_platforms_reset_gives_a_link_that_opens(scene: LockScene) -> None:
    await scene.locks(await scene.warned())
    await scene.box.empty()
    administration = scene.postern.platform.account_administration
    done = await administration.reset_password(scene.postern.foundation.email_syntax.parse(ADA), "root", by_mail=False)
    assert done.link is not None
    assert (await scene.comes_back(done.link.reveal())).status == 200
    assert not scene.is_locked()
