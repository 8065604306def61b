"""Accounts over HTTP: registered, verified, moved to another address; and the answers to strangers and to bad input."""

from datetime import timedelta
from typing import Any

import pytest
import trio
from psycopg.rows import dict_row

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.cast import served
from tests.http.client import Client, Received
from tests.http.people import BASE_URL, People, Person
from tests.http.postbox import Postbox, link_in, proof_by, token_in

GOOD = "a long and quiet afternoon"
REGISTER, RESEND = "/api/auth/register", "/api/auth/resend-verification"


@pytest.fixture
def postbox(postern: Postern) -> Postbox:
    return Postbox(postern)


async def rows(postern: Postern, query: str, *values: Any) -> list[dict[str, Any]]:
    async with postern.foundation.database._pool.connection() as connection:
        return await (await connection.cursor(row_factory=dict_row).execute(query.encode(), values)).fetchall()


async def register(client: Client, email: str = "ada@example.org", **more: Any) -> Received:
    return await client.post(REGISTER, {"email": email, "password": GOOD, **more})


async def impersonating(people: People, person: Person, postern: Postern) -> str:
    """A token of an impersonator of the person."""
    owner, impersonation = people.add("owner@example.org", platform_owner=True), postern.foundation.ids.new()
    people.change(
        "update sessions set impersonator_id = %s, impersonation_id = %s where id = %s", owner.user, impersonation, person.session
    )
    return await people.token(
        person,
        token_use="impersonation",
        impersonator=str(owner.user),
        impersonation_session=str(impersonation),
        act={"sub": str(owner.user)},
    )


async def test_the_profile_is_the_callers(client: Client, people: People) -> None:
    person = people.add("Ada@example.org")
    answer = await client.get("/api/user", token=await people.token(person))
    assert answer.status == 200
    unset = ("name", "given_name", "family_name", "username", "zoneinfo", "language", "picture_url", "updated_at")
    assert answer.json() == {"id": str(person.user), "email": "Ada@example.org", "org": "", "service": "", **dict.fromkeys(unset)}
    assert answer.header("cache-control") == "no-store"


async def test_whoever_registers_gets_a_mail_and_an_account_that_waits_for_its_link(
    client: Client, postern: Postern, postbox: Postbox, log: CapturedLog
) -> None:
    log.remember(GOOD)
    answer = await register(client, "Ada@Example.org")
    assert answer.status == 200
    assert set(answer.json()) == {"message"}
    (mail,) = await postbox.empty()
    assert mail.to == "Ada@Example.org"
    assert link_in(mail).startswith(f"{BASE_URL}/ui/verify-email?token=")
    (user,) = await rows(postern, "select * from users")
    assert (user["email"], user["email_key"], user["email_verified_at"]) == ("Ada@Example.org", "ada@example.org", None)
    assert user["password_hash"].startswith("$argon2id$")
    (event,) = await rows(postern, "select * from events")
    assert (event["name"], event["actor_id"], event["target_id"]) == ("user.signup.success", user["id"], str(user["id"]))
    (entry,) = await rows(postern, "select action, host(address) as address from audit_log")
    assert entry == {"action": "user.signup.success", "address": "192.0.2.1"}


async def test_the_database_keeps_no_usable_link_and_no_address_in_a_job(client: Client, postern: Postern, postbox: Postbox) -> None:
    await register(client)
    (job,) = await rows(postern, "select payload, sealed_payload from jobs")
    assert job["payload"] is None
    assert b"ada@example.org" not in bytes(job["sealed_payload"])
    token = await postbox.token()
    (stored,) = await rows(postern, "select * from mailed_tokens")
    assert token not in repr(stored)
    assert stored["expires_at"] - stored["created_at"] == timedelta(hours=24)


@pytest.mark.parametrize("taken", ["ada@example.org", "ADA@EXAMPLE.ORG", "\uff41da@example.org"])
async def test_a_known_address_is_a_conflict_however_it_is_written(taken: str, client: Client, people: People, postern: Postern) -> None:
    people.add("ada@example.org")
    answer = await register(client, taken)
    assert answer.status in {400, 409}, answer.body  # the library may refuse a spelling; nobody gets a second account
    assert (answer.status, answer.error_code) == (409, "CONFLICT") or not taken.isascii()
    assert len(await rows(postern, "select from users")) == 1
    assert await rows(postern, "select from jobs") == []


@pytest.mark.parametrize(
    ("password", "says"),
    [
        ("short77", "at least 8"),
        ("", "at least 8"),
        ("x" * 129, "at most 128"),
        ("x" * 20_000, "at most 128"),
        ("password123", "most common"),
        ("Ada@Example.ORG", "must not be the email"),
    ],
)
async def test_a_weak_password_is_refused(password: str, says: str, client: Client, postern: Postern) -> None:
    answer = await register(client, password=password)
    assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
    assert says in answer.json()["error"]
    assert await rows(postern, "select from users") == []


async def test_any_hundred_and_twenty_eight_characters_are_a_password(client: Client) -> None:
    assert (await register(client, password="ä" * 120 + "日本語 🦉!")).status == 200


BAD_VALUES: list[Any] = [None, 5, True, [], {}, ["a@example.org"], 1.5]
BAD_ADDRESSES = [
    *("", " ", "ada", "ada@", "@example.org", "a b@example.org", "ada@exa mple.org", "ada@[127.0.0.1]", "ada@example..org"),
    *(f"{'a' * 300}@example.org", "x" * 60_000, "<b>@example.org>", "ada@example.org\r\nBcc: eve@example.org", "'; drop table users --"),
    *("=?x@example.org", "\u2800\u2800@example.org", "a\u034fda@example.org", "\u0905" * 22 + "@example.org"),
]


@pytest.mark.parametrize("path", [REGISTER, RESEND, "/api/auth/forgot-password"])
async def test_bad_input_names_its_field_and_changes_nothing(path: str, client: Client, postern: Postern) -> None:
    good: dict[str, Any] = {"email": "ada@example.org", "password": GOOD}
    bodies: list[tuple[str, Any]] = [("email", {"password": GOOD}), ("org_slug", {**good, "org_slug": "x" * 51})]
    bodies += [("email", {**good, "email": value}) for value in (*BAD_VALUES, *BAD_ADDRESSES)]
    bodies += [("org_slug", {**good, "org_slug": value}) for value in BAD_VALUES if value is not None]
    if path == REGISTER:
        bodies += [("password", {"email": "ada@example.org"})]
        bodies += [("password", {**good, "password": value}) for value in BAD_VALUES]
        bodies += [("password", rb'{"email": "ada@example.org", "password": "nul \u0000 in it all"}')]
        bodies += [("password", rb'{"email": "ada@example.org", "password": "half \ud800 a pair"}')]
    bodies += [("email", rb'{"email": "a\u0000da@example.org", "password": "a long and quiet afternoon"}')]
    bodies += [("email", rb'{"email": "a\udc00da@example.org", "password": "a long and quiet afternoon"}')]
    bodies += [("UTF-8", b'{"email": "a\xffda@example.org", "password": "a long and quiet afternoon"}')]
    bodies += [("JSON", b"{"), ("object", b"[]"), ("object", b'"ada"'), ("object", b"null")]
    application = client.application
    for number, (field, body) in enumerate(bodies):
        answer = await Client(application, f"192.0.{number // 250}.{number % 250}").post(path, body)
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST"), (body, answer.body)
        assert field in answer.json()["error"], (body, answer.body)
    for table in ("users", "jobs", "events", "audit_entries", "mailed_tokens"):
        assert await rows(postern, f"select from {table}") == [], table


async def test_fields_that_nobody_declared_are_ignored(client: Client, postern: Postern) -> None:
    answer = await register(client, is_platform_owner=True, email_verified_at="2020-01-01T00:00:00Z", id=1)
    assert answer.status == 200
    (user,) = await rows(postern, "select is_platform_owner, email_verified_at from users")
    assert user == {"is_platform_owner": False, "email_verified_at": None}


async def test_an_active_organization_lends_the_mail_its_looks(client: Client, people: People, postern: Postern, postbox: Postbox) -> None:
    add = """
        insert into organizations (id, slug, name, status, logo_digest, primary_color, created_at, updated_at)
        values (%s, %s, %s, %s, %s, %s, now(), now())
    """
    people.change(add, postern.foundation.ids.new(), "acme", 'Acme <b> & "Sons"', "active", "0f" * 32, "#A01040")
    people.change(add, postern.foundation.ids.new(), "eve", "Your Bank", "pending", "e1" * 32, "#ff0000")
    await register(client, "one@example.org", org_slug="acme")
    await register(client, "two@example.org", org_slug="eve")
    await register(client, "three@example.org", org_slug="nobody")
    branded, pending, unknown = await postbox.empty()
    assert branded.subject == 'Verify your email address for Acme <b> & "Sons"'
    assert "Acme &lt;b&gt; &amp; &#34;Sons&#34;" in branded.html
    assert "<b>" not in branded.html
    assert f'src="{BASE_URL}/logos/{"0f" * 32}"' in branded.html
    assert "#a01040" in branded.html
    assert "Bank" not in pending.html
    assert "/logos/" not in pending.html
    assert pending.subject == unknown.subject == "Verify your email address"


async def test_the_link_verifies_once(client: Client, postern: Postern, postbox: Postbox) -> None:
    await register(client)
    link = await postbox.proof()
    first = await client.get(link)
    assert (first.status, first.header("content-type")) == (200, "text/html; charset=utf-8")
    assert "is verified" in first.body.decode()
    (user,) = await rows(postern, "select email_verified_at from users")
    assert user["email_verified_at"] is not None
    assert [mail.subject for mail in await postbox.empty()] == ["Welcome to Postern"]
    second = await client.get(link)
    assert (second.status, second.header("content-type")) == (400, "text/html; charset=utf-8")
    assert "replaced by a newer one" in second.body.decode()
    assert await postbox.empty() == []
    assert len(await rows(postern, "select from audit_log where action = 'user.email.verified'")) == 1


async def test_a_look_at_the_link_leaves_it_usable(client: Client, postern: Postern, postbox: Postbox) -> None:
    await register(client)
    link = await postbox.proof()
    for _ in range(2):
        answer = await client.request("HEAD", link)
        assert (answer.status, answer.body) == (200, b"")
    assert (await rows(postern, "select email_verified_at from users"))[0]["email_verified_at"] is None
    assert (await client.get(link)).status == 200
    assert (await client.request("HEAD", link)).status == 400


@pytest.mark.parametrize(
    "token", ["", "x", "0198c2a0-0000-7000-8000-000000000001", "%00", "%ff", "'%20or%201=1", "a" * 5000, "<script>alert(1)</script>"]
)
async def test_any_other_link_is_refused(token: str, client: Client) -> None:
    answer = await client.get(f"/auth/verify-email?token={token}")
    assert answer.status == 400
    assert b"<script" not in answer.body


@pytest.mark.parametrize("query", ["", "?token", "?tok", "?t=x&token=", "?" + "a&" * 100 + "token=x", "?token=\u00e4"])
async def test_a_link_that_was_cut_off_is_refused_by_a_page(query: str, client: Client) -> None:
    answer = await client.get(f"/auth/verify-email{query}")
    assert (answer.status, answer.header("content-type")) == (400, "text/html; charset=utf-8")
    assert b"is not valid" in answer.body or b"is incomplete" in answer.body


async def test_a_link_lasts_a_day(client: Client, people: People, postbox: Postbox, postern: Postern) -> None:
    await register(client)
    link = await postbox.proof()
    people.change("update mailed_tokens set expires_at = now()")
    answer = await client.get(link)
    assert answer.status == 400
    assert "expired" in answer.body.decode()
    assert (await rows(postern, "select email_verified_at from users"))[0]["email_verified_at"] is None


async def test_the_page_loads_nothing_from_elsewhere_and_runs_nothing(client: Client, postbox: Postbox) -> None:
    await register(client)
    for answer in [await client.get(await postbox.proof()), await client.get("/auth/verify-email?token=x")]:
        policy = answer.header("content-security-policy") or ""
        assert "default-src 'none'" in policy
        assert "script-src" not in policy
        assert "frame-ancestors 'none'" in policy
        assert (answer.header("referrer-policy"), answer.header("cache-control")) == ("no-referrer", "no-store")
        text = answer.body.decode()
        assert "<script" not in text
        assert "style=" not in text


async def test_a_wrong_purpose_opens_nothing(client: Client, people: People, postbox: Postbox) -> None:
    people.add("ada@example.org")
    await client.post("/api/auth/forgot-password", {"email": "ada@example.org"})
    reset = await postbox.token()
    assert (await client.get(f"/auth/verify-email?token={reset}")).status == 400
    await register(client, "new@example.org")
    verification = await postbox.token()
    answer = await client.post("/api/auth/reset-password", {"token": verification, "new_password": GOOD})
    assert answer.status == 400


async def test_a_deactivated_account_is_not_verified(client: Client, people: People, postern: Postern, postbox: Postbox) -> None:
    await register(client)
    link = await postbox.proof()
    people.change("update users set deactivated_at = now()")
    assert (await client.get(link)).status == 400
    assert (await rows(postern, "select email_verified_at, used_at from users, mailed_tokens"))[0] == {
        "email_verified_at": None,
        "used_at": None,
    }


async def test_of_fifty_who_open_the_link_at_once_one_verifies(client: Client, postbox: Postbox) -> None:
    await register(client)
    link = await postbox.proof()
    statuses: list[int] = []

    async def visit(number: int) -> None:
        visitor = Client(client.application, f"198.51.100.{number}")
        statuses.append((await served(lambda: visitor.get(link))).status)

    async with trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(visit, number)
    assert sorted(statuses) == [200] + [400] * 49
    assert len(await postbox.empty()) == 1


async def test_of_fifty_who_register_an_address_at_once_one_gets_it(client: Client, postbox: Postbox) -> None:
    statuses: list[int] = []

    async def try_it(number: int) -> None:
        statuses.append((await register(Client(client.application, f"198.51.{number}.7"), f"{'aA'[number % 2]}da@example.org")).status)

    async with trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(try_it, number)
    assert sorted(statuses) == [200] + [409] * 49
    assert len(await postbox.empty()) == 1


async def test_a_new_verification_mail_replaces_the_old_link(client: Client, postbox: Postbox) -> None:
    await register(client)
    old = await postbox.proof()
    assert (await client.post(RESEND, {"email": "ADA@example.org"})).status == 200
    new = await postbox.proof()
    assert new != old
    assert (await client.get(old)).status == 400
    assert (await client.get(new)).status == 200


async def test_a_verified_account_gets_no_verification_mail(client: Client, people: People, postbox: Postbox) -> None:
    people.add("ada@example.org")
    people.change("update users set email_verified_at = now()")
    assert (await client.post(RESEND, {"email": "ada@example.org"})).status == 200
    assert await postbox.empty() == []


async def test_a_mailbox_is_not_buried_in_links(client: Client, postbox: Postbox) -> None:
    await register(client)
    for number in range(9):
        answer = await Client(client.application, f"198.51.100.{number}").post(RESEND, {"email": "ada@example.org"})
        assert answer.status == 200
    assert len(await postbox.empty()) == 5


@pytest.mark.parametrize("path", [RESEND, "/api/auth/forgot-password"])
async def test_the_limits_per_address_hold(path: str, client: Client) -> None:
    statuses = [(await client.post(path, {"email": f"p{number}@example.org"})).status for number in range(6)]
    assert statuses == ([200] * 3 + [429] * 3 if path == RESEND else [200] * 5 + [429])


async def test_links_lead_to_the_configured_address_whatever_a_request_names(client: Client, people: People, postbox: Postbox) -> None:
    people.add("ada@example.org")
    poison = [
        ("host", "evil.example"),
        ("x-forwarded-host", "evil.example"),
        ("forwarded", "host=evil.example"),
        ("x-forwarded-proto", "http"),
        ("origin", "https://evil.example"),
    ]
    await client.post(REGISTER, {"email": "new@example.org", "password": GOOD}, headers=poison)
    await client.post("/api/auth/forgot-password", {"email": "ada@example.org"}, headers=poison)
    mails = await postbox.empty()
    assert len(mails) == 2
    for mail in mails:
        assert link_in(mail).startswith(f"{BASE_URL}/")
        assert "evil" not in mail.text + mail.html + mail.subject


class TestChangeOfAddress:
    @pytest.fixture
    async def token(self, people: People) -> str:
        person = people.add("old@example.org")
        people.change("update users set email_verified_at = now()")
        return await people.token(person)

    async def change(self, client: Client, token: str, email: Any) -> Received:
        return await client.request("PATCH", "/api/user", body={"email": email}, token=token)

    async def test_it_takes_effect_when_the_new_address_is_verified(
        self, client: Client, token: str, postern: Postern, postbox: Postbox
    ) -> None:
        answer = await self.change(client, token, "New@example.org")
        assert answer.status == 200
        assert (answer.json()["email"], answer.json()["pending_email"]) == ("old@example.org", "New@example.org")
        assert (await client.get("/api/user", token=token)).json()["email"] == "old@example.org"
        new, old = sorted(await postbox.empty(), key=lambda mail: mail.to)
        assert (new.to, old.to) == ("New@example.org", "old@example.org")
        assert "New@example.org" in old.text
        # It proves nothing. The only link with a token locks the account.
        for said in (old.text, old.html):
            assert said.count("token=") == said.count("/ui/lock-account?token=") > 0
        page = await client.get(proof_by(link_in(new)))
        assert page.status == 200
        # A joiner keeps the short word together.
        assert "new email address" in page.body.decode().replace("\u2060", "")
        profile = (await client.get("/api/user", token=token)).json()
        assert profile["email"] == "New@example.org"
        assert "pending_email" not in profile
        (told,) = await postbox.empty()
        assert (told.to, told.subject) == ("old@example.org", "Your email address was changed")
        (user,) = await rows(postern, "select * from users")
        assert (user["email_key"], user["pending_email"], user["pending_email_key"]) == ("new@example.org", None, None)
        audited = await rows(postern, "select action from audit_log order by id")
        assert [one["action"] for one in audited] == ["user.email.change_requested", "user.email.changed"]
        assert (await client.get(proof_by(link_in(new)))).status == 400

    async def test_the_last_wish_counts(self, client: Client, token: str, postbox: Postbox) -> None:
        await self.change(client, token, "first@example.org")
        first = {mail.to: mail for mail in await postbox.empty()}["first@example.org"]
        await self.change(client, token, "second@example.org")
        assert (await client.get(proof_by(link_in(first)))).status == 400
        assert (await client.get("/api/user", token=token)).json()["email"] == "old@example.org"

    async def test_the_address_in_force_withdraws_a_change(self, client: Client, token: str, postbox: Postbox, postern: Postern) -> None:
        await self.change(client, token, "new@example.org")
        mails = {mail.to: mail for mail in await postbox.empty()}
        answer = await self.change(client, token, "old@example.org")
        assert answer.status == 200
        assert "pending_email" not in answer.json()
        assert (await client.get(proof_by(link_in(mails["new@example.org"])))).status == 400
        assert (await rows(postern, "select pending_email from users")) == [{"pending_email": None}]

    async def test_a_taken_address_is_refused_and_nobody_is_mailed(
        self, client: Client, token: str, people: People, postbox: Postbox
    ) -> None:
        people.add("taken@example.org")
        answer = await self.change(client, token, "Taken@Example.org")
        assert (answer.status, answer.error_code) == (400, "BAD_REQUEST")
        assert "email" in answer.json()["error"]
        assert await postbox.empty() == []

    async def test_an_address_that_others_only_wait_for_is_free(self, client: Client, token: str, people: People, postbox: Postbox) -> None:
        other = await people.token(people.add("other@example.org"))
        await self.change(client, other, "wanted@example.org")
        assert (await self.change(client, token, "wanted@example.org")).status == 200
        links = [proof_by(link_in(mail)) for mail in await postbox.empty() if mail.to == "wanted@example.org"]
        assert [(await client.get(link)).status for link in links] == [200, 400]

    async def test_whoever_registers_first_keeps_the_address(self, client: Client, token: str, postbox: Postbox, postern: Postern) -> None:
        await self.change(client, token, "wanted@example.org")
        link = {mail.to: mail for mail in await postbox.empty()}["wanted@example.org"]
        await register(client, "wanted@example.org")
        answer = await client.get(proof_by(link_in(link)))
        assert answer.status == 400
        assert (await client.get("/api/user", token=token)).json()["email"] == "old@example.org"
        assert len(await rows(postern, "select from mailed_tokens where used_at is null")) == 1

    async def test_links_to_the_old_address_end_with_the_change(self, client: Client, token: str, postbox: Postbox) -> None:
        await client.post("/api/auth/forgot-password", {"email": "old@example.org"})
        reset = await postbox.token()
        await self.change(client, token, "new@example.org")
        mails = {mail.to: mail for mail in await postbox.empty()}
        assert (await client.get(proof_by(link_in(mails["new@example.org"])))).status == 200
        answer = await client.post("/api/auth/reset-password", {"token": reset, "new_password": GOOD})
        assert answer.status == 400

    async def test_nothing_asked_for_is_nothing_changed(self, client: Client, token: str, postbox: Postbox) -> None:
        answer = await client.request("PATCH", "/api/user", body={}, token=token)
        assert (answer.status, answer.json()["email"]) == (200, "old@example.org")
        assert (await client.request("PATCH", "/api/user", token=token)).status == 200
        assert await postbox.empty() == []

    async def test_bad_addresses_name_the_field(self, client: Client, token: str, postern: Postern) -> None:
        for value in (*BAD_VALUES, *BAD_ADDRESSES):
            answer = await self.change(client, token, value)
            assert (answer.status, answer.error_code) == (400, "BAD_REQUEST"), value
            assert "email" in answer.json()["error"]
        assert await rows(postern, "select pending_email from users") == [{"pending_email": None}]

    async def test_it_sends_mail_to_strangers_only_so_often(self, client: Client, token: str, postbox: Postbox) -> None:
        answers = [await self.change(client, token, f"victim{number}@example.org") for number in range(7)]
        assert [answer.status for answer in answers] == [200] * 5 + [429] * 2
        assert int(answers[-1].header("retry-after") or 0) > 60
        assert len(await postbox.empty()) == 10

    async def test_nobody_does_it_in_anothers_name(self, client: Client, people: People, postern: Postern, postbox: Postbox) -> None:
        token = await impersonating(people, people.add("old@example.org"), postern)
        assert (await self.change(client, token, "new@example.org")).status == 403
        assert await postbox.empty() == []

    async def test_of_fifty_who_confirm_at_once_one_does(self, client: Client, token: str, postbox: Postbox) -> None:
        await self.change(client, token, "new@example.org")
        mails = {mail.to: mail for mail in await postbox.empty()}
        link = proof_by(link_in(mails["new@example.org"]))
        statuses: list[int] = []

        async def visit(number: int) -> None:
            statuses.append((await Client(client.application, f"198.51.100.{number}").get(link)).status)

        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(visit, number)
        assert sorted(statuses) == [200] + [400] * 49


async def test_without_a_database_nothing_is_registered_and_the_answer_says_when_to_come_back(lonely_client: Client) -> None:
    answer = await register(lonely_client)
    assert (answer.status, answer.error_code) == (503, "SERVICE_UNAVAILABLE")
    assert answer.header("retry-after") is not None


async def test_a_database_that_goes_away_in_the_middle_leaves_no_half_made_account(
    client: Client, postbox: Postbox, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    from adapters.postgres.jobs import JobRows  # noqa: PLC0415 - only this test looks so deep

    real = JobRows.add

    async def add_and_lose(self: Any, job: Any) -> Any:
        added = await real(self, job)
        people.change(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
        )
        return added

    monkeypatch.setattr(JobRows, "add", add_and_lose)
    answer = await register(client)
    # The connection went before the commit was answered.
    assert (answer.status, answer.error_code) == (503, "OUTCOME_UNKNOWN")
    monkeypatch.setattr(JobRows, "add", real)
    for table in ("users", "jobs", "events", "audit_entries"):
        assert people.rows(f"select from {table}") == [], table
    assert (await register(client)).status == 200
    assert token_in(await postbox.link())
