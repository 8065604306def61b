"""Passwords over HTTP: forgotten, reset, chosen, changed; and the sessions that end with a change."""

from typing import Any

import pytest
import trio

from core.domain.identity.account_mails import AccountMail, AskedMail
from core.domain.mail import Email
from core.domain.secrets import Password
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.client import Client, Received
from tests.http.identity.test_accounts import BAD_VALUES, impersonating, rows
from tests.http.people import BASE_URL, People, Person
from tests.http.postbox import Postbox, link_in, proof_by, token_in
from tests.meanwhile import meanwhile

OLD, NEW = "an old and tired password", "a fresh and lively password"
FORGOT, RESET = "/api/auth/forgot-password", "/api/auth/reset-password"
SET, CHANGE = "/api/user/set-password", "/api/user/change-password"


@pytest.fixture
def postbox(postern: Postern) -> Postbox:
    return Postbox(postern)


@pytest.fixture
async def ada(people: People, postern: Postern) -> Person:
    """Ada, verified, with a password, a second session and a trusted device."""
    person = people.add("ada@example.org")
    people.change("update users set email_verified_at = now(), password_hash = %s", await postern.identity.passwords.hash(Password(OLD)))
    people.change(
        """
        insert into sessions (id, user_id, created_at, last_seen_at, expires_at, ends_at)
        select %s, user_id, created_at, last_seen_at, expires_at, ends_at from sessions
        """,
        postern.foundation.ids.new(),
    )
    people.change(
        """
        insert into devices (id, user_id, name, device_type, trust_digest, trusted_until, last_used_at, created_at, updated_at)
        values (%s, %s, 'Laptop', 'browser', %s, now() + interval '30 days', now(), now(), now())
        """,
        postern.foundation.ids.new(),
        person.user,
        b"digest",
    )
    return person


async def password_is(postern: Postern, password: str) -> bool:
    (user,) = await rows(postern, "select password_hash from users where email = 'ada@example.org'")
    return await postern.identity.passwords.verify(user["password_hash"], Password(password))


async def living_sessions(postern: Postern) -> list[Any]:
    return [row["id"] for row in await rows(postern, "select id from sessions where revoked_at is null")]


async def trusted_devices(postern: Postern) -> int:
    return len(await rows(postern, "select from devices where trust_digest is not null and trusted_until > now()"))


async def forgotten(client: Client, postbox: Postbox, person: Person) -> str:
    assert (await client.post(FORGOT, {"email": person.email})).status == 200
    return await postbox.token()


async def reset(client: Client, token: str, password: str = NEW) -> Received:
    return await client.post(RESET, {"token": token, "new_password": password})


async def test_a_reset_changes_the_password_and_ends_what_rested_on_it(
    client: Client, ada: Person, postern: Postern, postbox: Postbox, log: CapturedLog
) -> None:
    token = await forgotten(client, postbox, ada)
    log.remember(token, NEW, OLD)
    answer = await reset(client, token)
    assert (answer.status, set(answer.json())) == (200, {"message"})
    assert await password_is(postern, NEW)
    assert await living_sessions(postern) == []
    assert await trusted_devices(postern) == 0
    (mail,) = await postbox.empty()
    assert (mail.to, mail.subject) == ("ada@example.org", "Your password was changed")
    assert "192.0.2.1" in mail.text
    (event,) = await rows(postern, "select name, actor_id, details from events")
    assert event == {"name": "security.password.changed", "actor_id": ada.user, "details": {"how": "reset"}}
    assert len(await rows(postern, "select from audit_log where action = 'security.password.changed' and success")) == 1


async def test_a_reset_link_works_once(client: Client, postern: Postern, postbox: Postbox, ada: Person) -> None:
    token = await forgotten(client, postbox, ada)
    assert (await reset(client, token)).status == 200
    again = await reset(client, token, "yet another good password")
    assert (again.status, again.error_code) == (400, "BAD_REQUEST")
    assert await password_is(postern, NEW)


async def test_a_reset_link_lasts_an_hour(client: Client, postern: Postern, people: People, postbox: Postbox, ada: Person) -> None:
    token = await forgotten(client, postbox, ada)
    (stored,) = await rows(postern, "select extract(epoch from expires_at - created_at) as seconds from mailed_tokens")
    assert stored["seconds"] == 3600
    people.change("update mailed_tokens set expires_at = now()")
    answer = await reset(client, token)
    assert (answer.status, answer.json()["error"]) == (400, "This link has expired")
    assert await password_is(postern, OLD)


async def test_a_weak_password_leaves_the_link_usable(client: Client, postern: Postern, postbox: Postbox, ada: Person) -> None:
    token = await forgotten(client, postbox, ada)
    for weak in ("short", "x" * 129, "password1", "ADA@example.org"):
        assert (await reset(client, token, weak)).status == 400
    assert await password_is(postern, OLD)
    assert (await reset(client, token)).status == 200


async def test_bad_input_names_its_field(client: Client, ada: Person, postern: Postern, people: People, postbox: Postbox) -> None:
    token = await forgotten(client, postbox, ada)
    bearer = await people.token(ada)
    tries: list[tuple[str, str, Any]] = [
        (RESET, "token", {"new_password": NEW}),
        (RESET, "new_password", {"token": token}),
        (SET, "new_password", {}),
        (CHANGE, "new_password", {"current_password": OLD}),
        (CHANGE, "current_password", {"new_password": NEW}),
        (RESET, "new_password", f'{{"token": "{token}", "new_password": "nul \\u0000 in the middle"}}'.encode()),
        (RESET, "new_password", f'{{"token": "{token}", "new_password": "half \\ud800 of a pair"}}'.encode()),
        (RESET, "UTF-8", b'{"token": "x", "new_password": "\xff\xff\xff\xff\xff\xff\xff\xff"}'),
    ]
    for value in BAD_VALUES:
        tries += [(RESET, "token", {"token": value, "new_password": NEW}), (RESET, "new_password", {"token": token, "new_password": value})]
        tries += [(SET, "new_password", {"new_password": value})]
        tries += [(CHANGE, "new_password", {"current_password": OLD, "new_password": value})]
    for number, (path, field, body) in enumerate(tries):
        answer = await Client(client.application, f"198.51.100.{number}").post(path, body, token=bearer)
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST"), (path, body)
        assert field in answer.json()["error"], (path, body, answer.body)
    assert await password_is(postern, OLD)
    assert (await reset(client, token)).status == 200


@pytest.mark.parametrize("token", ["", "x", "0198c2a0-0000-7000-8000-000000000001", "é" * 100, "x" * 60_000, "' or ''='"])
async def test_any_other_token_is_refused(token: str, client: Client, postern: Postern, ada: Person) -> None:
    answer = await reset(client, token)
    assert (answer.status, answer.json()["error"]) == (400, "This link is not valid")
    assert await living_sessions(postern) != []
    assert await password_is(postern, OLD), ada


async def test_a_newer_link_replaces_the_older(client: Client, postbox: Postbox, ada: Person) -> None:
    old, new = await forgotten(client, postbox, ada), await forgotten(client, postbox, ada)
    assert (await reset(client, old)).status == 400
    assert (await reset(client, new)).status == 200


async def test_a_changed_password_ends_the_links(client: Client, ada: Person, people: People, postbox: Postbox) -> None:
    token = await forgotten(client, postbox, ada)
    bearer = await people.token(ada)
    assert (await client.post(CHANGE, {"current_password": OLD, "new_password": NEW}, token=bearer)).status == 200
    assert (await reset(client, token)).status == 400


async def test_a_reset_ends_a_pending_change_of_address(client: Client, ada: Person, people: People, postbox: Postbox) -> None:
    answer = await client.request("PATCH", "/api/user", body={"email": "eve@example.org"}, token=await people.token(ada))
    assert answer.json()["pending_email"] == "eve@example.org"
    theirs = {mail.to: mail for mail in await postbox.empty()}["eve@example.org"]
    assert (await reset(client, await forgotten(client, postbox, ada))).status == 200
    assert (await client.get(proof_by(link_in(theirs)))).status == 400


async def test_a_reset_proves_the_address(client: Client, people: People, postern: Postern, postbox: Postbox, ada: Person) -> None:
    people.change("update users set email_verified_at = null")
    assert (await reset(client, await forgotten(client, postbox, ada))).status == 200
    assert (await rows(postern, "select email_verified_at is not null as verified from users")) == [{"verified": True}]


async def test_a_deactivated_account_gets_no_link_and_an_earlier_one_does_nothing(
    client: Client, people: People, postern: Postern, postbox: Postbox, ada: Person
) -> None:
    token = await forgotten(client, postbox, ada)
    people.change("update users set deactivated_at = now()")
    assert (await reset(client, token)).status == 400
    assert (await client.post(FORGOT, {"email": "ada@example.org"})).status == 200
    assert await postbox.empty() == []
    assert await password_is(postern, OLD)


async def test_of_fifty_resets_with_one_link_one_wins(client: Client, postern: Postern, postbox: Postbox, ada: Person) -> None:
    token = await forgotten(client, postbox, ada)
    won: list[str] = []
    lost: list[int] = []

    async def try_it(number: int) -> None:
        password = f"{NEW} {number}"
        status = (await reset(Client(client.application, f"198.51.100.{number}"), token, password)).status
        if status == 200:
            won.append(password)
        else:
            lost.append(status)

    async with trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(try_it, number)
    assert (len(won), lost) == (1, [400] * 49)
    assert await password_is(postern, won[0])
    assert len(await postbox.empty()) == 1


async def test_a_set_password_link_gives_an_invited_account_its_first_password(
    client: Client, people: People, postern: Postern, postbox: Postbox
) -> None:
    people.add("ada@example.org")
    async with postern.foundation.unit_of_work() as uow:
        await uow.jobs.add(AskedMail(AccountMail.SET_PASSWORD, Email("ada@example.org")).as_job())
        await uow.commit()
    link = await postbox.link()
    assert link.startswith(f"{BASE_URL}/ui/set-password?token=")
    assert (await reset(client, token_in(link))).status == 200
    assert await password_is(postern, NEW)


class TestChange:
    async def change(self, client: Client, token: str, current: str = OLD, new: str = NEW) -> Received:
        return await client.post(CHANGE, {"current_password": current, "new_password": new}, token=token)

    async def test_it_ends_all_other_sessions_and_the_trust_in_devices(
        self, client: Client, ada: Person, people: People, postern: Postern, postbox: Postbox, log: CapturedLog
    ) -> None:
        log.remember(OLD, NEW)
        token = await people.token(ada)
        answer = await self.change(client, token)
        assert (answer.status, set(answer.json())) == (200, {"message"})
        assert await password_is(postern, NEW)
        assert await living_sessions(postern) == [ada.session]
        assert (await client.get("/api/user", token=token)).status == 200
        assert await trusted_devices(postern) == 0
        assert [mail.subject for mail in await postbox.empty()] == ["Your password was changed"]
        (event,) = await rows(postern, "select name, details from events")
        assert event == {"name": "security.password.changed", "details": {"how": "changed"}}

    async def test_a_wrong_current_password_changes_nothing_and_is_remembered(
        self, client: Client, ada: Person, people: People, postern: Postern, postbox: Postbox
    ) -> None:
        answer = await self.change(client, await people.token(ada), current="not the one")
        assert (answer.status, answer.error_code) == (401, "UNAUTHORIZED")
        assert await password_is(postern, OLD)
        assert len(await living_sessions(postern)) == 2
        assert await trusted_devices(postern) == 1
        assert await postbox.empty() == []
        (entry,) = await rows(postern, "select action, success, actor_id from audit_log")
        assert entry == {"action": "security.password.changed", "success": False, "actor_id": ada.user}
        assert await rows(postern, "select from events") == []

    async def test_guesses_are_few_from_wherever_they_come(self, client: Client, ada: Person, people: People, postern: Postern) -> None:
        token = await people.token(ada)
        statuses = []
        for number in range(7):
            answer = await self.change(Client(client.application, f"198.51.100.{number}"), token, current=f"guess {number}")
            statuses.append(answer.status)
        assert statuses == [401] * 5 + [429] * 2
        # Not even the right password works. An owner who is locked out can reset it by mail.
        assert (await self.change(client, token)).status == 429
        assert not [row for row in await rows(postern, "select key from rate_limit_buckets") if "guess" in row["key"]]

    @pytest.mark.parametrize("weak", ["short", "x" * 129, "password1", "Ada@example.org"])
    async def test_a_weak_one_is_refused(self, weak: str, client: Client, ada: Person, people: People, postern: Postern) -> None:
        assert (await self.change(client, await people.token(ada), new=weak)).status == 400
        assert await password_is(postern, OLD)

    async def test_without_a_password_there_is_nothing_to_change(self, client: Client, people: People) -> None:
        answer = await self.change(client, await people.token(people.add()))
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")

    async def test_of_many_changes_at_once_one_wins(self, client: Client, ada: Person, people: People) -> None:
        token = await people.token(ada)
        statuses: list[int] = []

        async def try_it(number: int) -> None:
            statuses.append((await self.change(client, token, new=f"{NEW} {number}")).status)

        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(try_it, number)
        assert sorted(statuses) == [200] + [401] * 4


class TestFirstPassword:
    async def test_it_is_set_where_there_is_none(self, client: Client, people: People, postern: Postern, postbox: Postbox) -> None:
        person = people.add("ada@example.org")
        token = await people.token(person)
        answer = await client.post(SET, {"new_password": NEW}, token=token)
        assert (answer.status, set(answer.json())) == (200, {"message"})
        assert await password_is(postern, NEW)
        assert await living_sessions(postern) == [person.session]
        assert [mail.subject for mail in await postbox.empty()] == ["A password was added to your account"]
        again = await client.post(SET, {"new_password": OLD}, token=token)
        assert (again.status, again.error_code) == (400, "BAD_REQUEST")
        assert await password_is(postern, NEW)

    async def test_a_weak_one_is_refused(self, client: Client, people: People) -> None:
        token = await people.token(people.add("ada@example.org"))
        for weak in ("short", "x" * 129, "password1", "ada@example.org"):
            assert (await client.post(SET, {"new_password": weak}, token=token)).status == 400

    async def test_of_fifty_at_once_one_wins(self, client: Client, people: People) -> None:
        token = await people.token(people.add("ada@example.org"))
        statuses: list[int] = []

        async def try_it(number: int) -> None:
            statuses.append((await client.post(SET, {"new_password": f"{NEW} {number}"}, token=token)).status)

        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(try_it, number)
        assert sorted(statuses) == [200] + [400] * 49


@pytest.mark.parametrize(
    ("path", "body", "before", "status", "error"),
    [
        (SET, {"new_password": NEW}, None, 400, "The account already has a password: change it instead"),
        (CHANGE, {"current_password": OLD, "new_password": NEW}, OLD, 401, "The current password is wrong"),
    ],
    ids=["set", "changed"],
)
async def test_who_chooses_more_slowly_than_another_chooses_nothing(
    path: str,
    body: Any,
    before: str | None,
    status: int,
    error: str,
    client: Client,
    ada: Person,
    people: People,
    postern: Postern,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if before is None:
        people.change("update users set password_hash = null")
    token, sessions = await people.token(ada), await living_sessions(postern)
    quicker = await postern.identity.passwords.hash(Password("the password of a quicker request"))
    overtake = "update users set password_hash = %s"
    meanwhile(monkeypatch, postern.identity.passwords, "hash", lambda: people.change(overtake, quicker))
    answer = await client.post(path, body, token=token)
    assert (answer.status, answer.json()["error"]) == (status, error)
    assert await password_is(postern, "the password of a quicker request")
    assert await living_sessions(postern) == sessions


async def test_a_first_password_is_none_for_a_session_that_ends_while_it_is_hashed(
    client: Client, postern: Postern, people: People, ada: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When an operator ends all access at this moment, the new password must not stay behind."""
    people.change("update users set password_hash = null where id = %s", ada.user)
    token = await people.token(ada)
    administration = postern.platform.account_administration
    meanwhile(
        monkeypatch,
        postern.identity.passwords,
        "hash",
        lambda: administration.reset_password(Email(ada.email), "test", by_mail=True),
    )
    assert (await client.post(SET, {"new_password": NEW}, token=token)).status == 401
    assert people.rows("select password_hash from users where id = %s", ada.user) == [{"password_hash": None}]


@pytest.mark.parametrize(("path", "body"), [(SET, {"new_password": NEW}), (CHANGE, {"current_password": OLD, "new_password": NEW})])
async def test_nobody_chooses_a_password_in_anothers_name(
    path: str, body: Any, client: Client, ada: Person, people: People, postern: Postern
) -> None:
    answer = await client.post(path, body, token=await impersonating(people, ada, postern))
    assert (answer.status, answer.error_code) == (403, "FORBIDDEN")
    assert await password_is(postern, OLD)


@pytest.mark.parametrize("path", [SET, CHANGE])
async def test_whoever_is_not_signed_in_changes_no_password(path: str, client: Client) -> None:
    assert (await client.post(path, {"current_password": OLD, "new_password": NEW})).status == 401
