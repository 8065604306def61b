"""An operator's acts on an account: the access that ends, the access that stays, and the audit entries."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
import trio
from psycopg.rows import dict_row

from adapters.postgres.identity.accounts import AccountRows
from core.domain.errors import BadRequest, Conflict, NotFound
from core.domain.mail import Email, Mail
from core.domain.record.events import SYSTEM
from core.domain.secrets import Password, Token
from core.usecases.platform.account_administration import AccessReset, AccountAdministration
from entrypoints.bootstrap import Postern
from tests.changed_fields import answer_by
from tests.conftest import CapturedLog
from tests.http.conftest import postern_on
from tests.meanwhile import meanwhile

ADA = Email("Ada@example.org")
OPERATOR = "grace"


class AdministrationScene:
    """The use cases, and direct access to the tables."""

    def __init__(self, postern: Postern, url: str) -> None:
        self.postern = postern
        self._url = url

    @property
    def administration(self) -> AccountAdministration:
        return self.postern.platform.account_administration

    def rows(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        with psycopg.connect(self._url, autocommit=True, row_factory=dict_row) as connection:
            cursor = connection.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description else []

    def value(self, statement: str, *values: Any) -> Any:
        (row,) = self.rows(statement, *values)
        (value,) = row.values()
        return value

    def add(self, email: str, *, owner: bool = False) -> Any:
        """Adds a person with a password, a session, a trusted device and an unused link."""
        user = self.postern.foundation.ids.new()
        now = self.postern.foundation.clock.now()
        self.rows(
            "insert into users"
            " (id, email, email_key, password_hash, is_platform_owner, email_verified_at, pending_email, pending_email_key)"
            " values (%s, %s, %s, 'hash', %s, now(), 'next@example.org', 'next@example.org')",
            user,
            email,
            email.lower(),
            owner,
        )
        device = self.postern.foundation.ids.new()
        self.rows(
            "insert into devices (id, user_id, name, device_type, last_used_at, trust_digest, trusted_until, created_at, updated_at)"
            " values (%s, %s, 'Telephone', 'mobile', now(), %s, now() + interval '1 day', now(), now())",
            device,
            user,
            device.bytes,
        )
        self.add_session(user, device=device)
        self.rows(
            "insert into mailed_tokens (digest, purpose, user_id, email, created_at, expires_at)"
            " values (%s, 'reset_password', %s, %s, now(), %s)",
            user.bytes,
            user,
            email,
            now + timedelta(hours=1),
        )
        return user

    def add_session(self, user: Any, *, device: Any = None, impersonator: Any = None) -> None:
        self.rows(
            "insert into sessions"
            " (id, user_id, device_id, created_at, last_seen_at, expires_at, ends_at, impersonator_id, impersonation_id)"
            " values (%s, %s, %s, now(), now(), now() + interval '1 hour', now() + interval '1 hour', %s, %s)",
            self.postern.foundation.ids.new(),
            user,
            device,
            impersonator,
            None if impersonator is None else self.postern.foundation.ids.new(),
        )

    def enable_mfa(self, user: Any) -> None:
        self.rows("insert into mfa_secrets (user_id, sealed_secret, created_at, enabled_at) values (%s, 'x', now(), now())", user)
        self.rows("insert into backup_codes (user_id, digest, used_at) values (%s, 'a', null), (%s, 'b', now())", user, user)

    def add_ways_in(self, user: Any, *, second_factor: bool = False) -> None:
        """Adds two passkeys, two connected identities, a sign-in that waits for its code, and an approved device."""
        for number in range(2):
            self.rows(
                "insert into passkeys (id, user_id, credential_id, public_key, sign_count, name, aaguid, transports, backup_eligible,"
                " backed_up, created_at, second_factor_since)"
                " values (%s, %s, %s, '', 0, %s, gen_random_uuid(), '{}', false, false, now(), %s)",
                self.postern.foundation.ids.new(),
                user,
                f"{user} {number}".encode(),
                f"Key {number}",
                self.postern.foundation.clock.now() if second_factor else None,
            )
        for provider in ("codehost", "websuite"):
            self.rows(
                "insert into identities (id, user_id, provider, issuer, subject, email, linked_at)"
                " values (%s, %s, %s, 'https://example.com', %s, 'ada@example.com', now())",
                self.postern.foundation.ids.new(),
                user,
                provider,
                str(user),
            )
        self.rows(
            "insert into preauthentications (id, user_id, created_at, expires_at) values (%s, %s, now(), now() + interval '10 minutes')",
            self.postern.foundation.ids.new(),
            user,
        )
        if second_factor:
            self.rows("insert into backup_codes (user_id, digest) values (%s, 'a')", user)

    def add_credentials(self, user: Any) -> None:
        """Adds one valid credential of each kind in acme, and an expired API key and SCIM token."""
        service = self.postern.foundation.ids.new()
        self.rows(
            "insert into services (id, org_id, slug, name, service_type, client_id, created_at, updated_at)"
            " select %s, id, 'shop', 'Shop', 'api', gen_random_uuid(), now(), now() from organizations where slug = 'acme'",
            service,
        )
        for number, ends in ((1, "now() + interval '1 hour'"), (2, "now()")):
            name = (f"key {number}", f"sk_{number}", f"key {number}".encode(), user)
            self.rows(
                "insert into api_keys (id, service_id, name, prefix, digest, permissions, expires_at, created_by, created_at)"
                f" values (gen_random_uuid(), %s, %s, %s, %s, '{{}}', {ends}, %s, now() - interval '1 hour')",
                service,
                *name,
            )
            self.rows(
                "insert into scim_tokens (id, org_id, name, prefix, digest, expires_at, created_by, created_at)"
                " select gen_random_uuid(), id, 'x', %s, %s, " + ends + ", %s, now() - interval '2 hours' from organizations"
                " where slug = 'acme'",
                f"scim_{number}",
                f"token {number}".encode(),
                user,
            )
        self.rows(
            "insert into client_secrets (id, service_id, prefix, digest, created_by, created_at)"
            " values (gen_random_uuid(), %s, 'cs_1', 'x', %s, now())",
            service,
            user,
        )

    def has_access(self, user: Any) -> dict[str, int]:
        """Whether something would still let somebody in."""
        row: dict[str, int]
        (row,) = self.rows(
            "select (select count(*) from sessions where user_id = %s and revoked_at is null) as sessions,"
            " (select count(*) from devices where user_id = %s and trusted_until is not null) as trusted,"
            " (select count(*) from mailed_tokens where user_id = %s and used_at is null) as links",
            user,
            user,
            user,
        )
        return row

    def ways_in(self, user: Any) -> dict[str, int]:
        """The other ways to sign in, without the password."""
        row: dict[str, int]
        (row,) = self.rows(
            "select (select count(*) from passkeys where user_id = %s) as passkeys,"
            " (select count(*) from identities where user_id = %s) as identities,"
            " (select count(*) from backup_codes where user_id = %s) as codes,"
            " (select count(*) from preauthentications where user_id = %s and consumed_at is null) as unfinished",
            user,
            user,
            user,
            user,
        )
        return row

    async def mails(self) -> list[Mail]:
        jobs = await self.postern.foundation.jobs.claim(["mail"], limit=10, lease=timedelta(minutes=1))
        return [Mail.of_job(job.payload) for job in jobs]

    def audited(self, action: str) -> list[dict[str, Any]]:
        return self.rows("select actor_id, target_id, details, success from audit_log where action = %s order by id", action)


@pytest.fixture
async def installation(emptied_database_url: str, tmp_path: Path) -> AsyncIterator[AdministrationScene]:
    async with postern_on(emptied_database_url, tmp_path) as postern:
        yield AdministrationScene(postern, emptied_database_url)


async def test_an_unknown_address_is_no_account(installation: AdministrationScene) -> None:
    administration = installation.administration
    with pytest.raises(NotFound, match="no account with this email address"):
        await administration.show(ADA, OPERATOR)
    with pytest.raises(NotFound):
        await administration.deactivate(ADA, OPERATOR)
    with pytest.raises(NotFound):
        await administration.activate(ADA, OPERATOR)
    with pytest.raises(NotFound):
        await administration.reset_password(ADA, OPERATOR, by_mail=True)
    with pytest.raises(NotFound):
        await administration.revoke_sessions(ADA, OPERATOR)
    with pytest.raises(NotFound):
        await administration.disable_mfa(ADA, OPERATOR)
    assert installation.value("select count(*) from audit_log") == 0


async def test_an_account_is_shown_as_it_is(installation: AdministrationScene) -> None:
    user, owner = installation.add("Ada@example.org"), installation.add("owner@example.org", owner=True)
    installation.enable_mfa(user)
    installation.add_ways_in(user)
    installation.add_session(user, impersonator=owner)
    for slug, status, role in (("acme", "active", "owner"), ("zeta", "suspended", "member")):
        organization = installation.postern.foundation.ids.new()
        installation.rows(
            "insert into organizations (id, slug, name, status, created_at, updated_at) values (%s, %s, 'X', %s, now(), now())",
            organization,
            slug,
            status,
        )
        installation.rows(
            "insert into memberships (id, org_id, user_id, role, created_at) values (%s, %s, %s, %s, now())",
            organization,
            organization,
            user,
            role,
        )
    installation.add_credentials(user)
    for number in range(7):
        installation.rows(
            "insert into login_events (id, user_id, provider, success, address, user_agent, created_at)"
            " values (%s, %s, 'password', %s, '192.0.2.7', 'curl', now())",
            installation.postern.foundation.ids.new(),
            user,
            number % 2 == 0,
        )
    seen = await installation.administration.show(ADA, OPERATOR)
    assert seen.account.id == user
    assert (seen.account.email.address, seen.account.is_platform_owner, seen.account.deactivated_at) == ("Ada@example.org", False, None)
    assert seen.pending_email == Email("next@example.org")
    assert seen.has_password
    assert seen.mfa_enabled_at is not None
    assert (seen.backup_codes, seen.sessions, seen.impersonations, seen.devices, seen.trusted_devices) == (1, 2, 1, 1, 1)
    assert [(one.name, one.last_used_at) for one in seen.passkeys] == [("Key 0", None), ("Key 1", None)]
    assert [(one.provider, one.email) for one in seen.identities] == [("codehost", "ada@example.com"), ("websuite", "ada@example.com")]
    assert [one.purpose for one in seen.links] == ["reset_password"]
    assert [(one.kind, one.prefix, one.place) for one in seen.credentials] == [
        ("client secret", "cs_1", "acme/shop"),
        ("API key", "sk_1", "acme/shop"),
        ("SCIM token", "scim_1", "acme"),
    ]
    assert [(one.organization, one.is_active, one.role) for one in seen.organizations] == [
        ("acme", True, "owner"),
        ("zeta", False, "member"),
    ]
    assert [one.success for one in seen.latest_attempts] == [True, False, True, False, True]
    assert seen.latest_attempts[0].address == "192.0.2.7"
    assert installation.audited("user.viewed") == [
        {"actor_id": None, "target_id": str(user), "details": {"operator": OPERATOR}, "success": True}
    ]


async def test_an_account_with_nothing_is_shown_too(installation: AdministrationScene) -> None:
    installation.rows("insert into users (id, email, email_key) values (gen_random_uuid(), 'ada@example.org', 'ada@example.org')")
    installation.rows(
        "insert into login_events (id, user_id, provider, success, created_at) select id, id, 'password', false, now() from users"
    )
    seen = await installation.administration.show(ADA, OPERATOR)
    assert (seen.pending_email, seen.has_password, seen.mfa_enabled_at, seen.organizations) == (None, False, None, ())
    assert (seen.latest_attempts[0].address, seen.latest_attempts[0].user_agent) == (None, None)


async def test_a_deactivated_account_has_no_way_in_left_and_comes_back_without_one(installation: AdministrationScene) -> None:
    user = installation.add("Ada@example.org")
    done = await installation.administration.deactivate(ADA, OPERATOR)
    assert (done.account.id, done.changed, done.sessions) == (user, True, 1)
    assert installation.has_access(user) == {"sessions": 0, "trusted": 0, "links": 0}
    assert installation.value("select deactivated_at is not null and pending_email is null from users where id = %s", user)
    again = await installation.administration.deactivate(ADA, OPERATOR)
    assert (again.changed, again.sessions) == (False, 0)

    back = await installation.administration.activate(ADA, OPERATOR)
    assert back.changed
    assert installation.value("select deactivated_at is null and password_hash = 'hash' from users where id = %s", user)
    assert installation.has_access(user) == {"sessions": 0, "trusted": 0, "links": 0}
    assert not (await installation.administration.activate(ADA, OPERATOR)).changed

    assert [entry["details"] for entry in installation.audited("user.deactivated")] == [{"operator": OPERATOR, "sessions": 1}]
    assert [entry["details"] for entry in installation.audited("user.activated")] == [{"operator": OPERATOR}]
    assert installation.value("select count(*) from events") == 0


async def test_whoever_is_activated_by_somebody_else_at_the_same_moment_is_active(
    installation: AdministrationScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = installation.add("Ada@example.org")
    await installation.administration.deactivate(ADA, OPERATOR)
    activate = "update users set deactivated_at = null where id = %s"
    meanwhile(monkeypatch, AccountRows, "find", lambda: installation.rows(activate, user))
    done = await installation.administration.activate(ADA, OPERATOR)
    assert (done.account.deactivated_at, done.changed) == (None, False)
    assert installation.audited("user.activated") == []


async def test_a_sign_in_that_waited_for_its_code_is_over_when_the_account_comes_back(installation: AdministrationScene) -> None:
    user, other = installation.add("Ada@example.org"), installation.add("bob@example.org")
    for number, person in enumerate((user, other)):
        installation.rows(
            "insert into preauthentications (id, user_id, created_at, expires_at) values (%s, %s, now(), now() + interval '10 minutes')",
            UUID(int=number),
            person,
        )
    await installation.administration.deactivate(ADA, OPERATOR)
    await installation.administration.activate(ADA, OPERATOR)
    left = installation.rows("select user_id from preauthentications where consumed_at is null")
    assert left == [{"user_id": other}]


async def test_what_somebody_does_in_others_names_ends_with_their_account(installation: AdministrationScene) -> None:
    owner, user = installation.add("Ada@example.org", owner=True), installation.add("user@example.org")
    installation.add("second@example.org", owner=True)
    installation.add_session(user, impersonator=owner)
    assert (await installation.administration.revoke_sessions(ADA, OPERATOR)).sessions == 2
    assert installation.has_access(user)["sessions"] == 1


async def test_the_last_platform_owner_stays(installation: AdministrationScene) -> None:
    owner = installation.add("Ada@example.org", owner=True)
    with pytest.raises(Conflict, match="last active platform owner"):
        await installation.administration.deactivate(ADA, OPERATOR)
    assert installation.has_access(owner) == {"sessions": 1, "trusted": 1, "links": 1}
    installation.add("second@example.org", owner=True)
    assert (await installation.administration.deactivate(ADA, OPERATOR)).changed
    # Out of office already: not the last one any more, and no reason to say so.
    installation.rows("update users set is_platform_owner = false where email = 'second@example.org'")
    assert not (await installation.administration.deactivate(ADA, OPERATOR)).changed


async def test_of_the_last_owners_that_go_at_once_one_stays(installation: AdministrationScene) -> None:
    addresses = [Email(f"owner{number}@example.org") for number in range(8)]
    for address in addresses:
        installation.add(address.address, owner=True)
    refused = []

    async def deactivate(address: Email) -> None:
        try:
            await installation.administration.deactivate(address, OPERATOR)
        except Conflict:
            refused.append(address)

    async with trio.open_nursery() as nursery:
        for address in addresses:
            nursery.start_soon(deactivate, address)
    assert len(refused) == 1
    assert installation.value("select email from users where is_platform_owner and deactivated_at is null") == refused[0].address


def link_of(reset: AccessReset, log: CapturedLog) -> str:
    assert reset.link is not None
    log.remember(reset.link)
    return reset.link.reveal()


async def test_a_reset_leaves_nobody_in_and_mails_a_link_that_sets_a_password(installation: AdministrationScene, log: CapturedLog) -> None:
    user, other = installation.add("Ada@example.org"), installation.add("bob@example.org")
    for person in (user, other):
        installation.enable_mfa(person)
        installation.add_ways_in(person)
    reset = await installation.administration.reset_password(Email("ADA@example.org"), OPERATOR, by_mail=True)
    link = link_of(reset, log)
    assert (reset.account.id, reset.sessions, reset.second_factor_ended) == (user, 1, False)
    assert (reset.ended.password, reset.ended.passkeys, reset.ended.identities) == (True, 2, 2)
    assert installation.value("select password_hash is null and pending_email is null from users where id = %s", user)
    assert installation.has_access(user) == {"sessions": 0, "trusted": 0, "links": 1}
    assert installation.ways_in(user) == {"passkeys": 0, "identities": 0, "codes": 2, "unfinished": 0}
    # A second factor alone lets nobody in, and the owner may need it.
    assert installation.value("select enabled_at is not null from mfa_secrets where user_id = %s", user)
    assert reset.second_factor_since is not None
    assert installation.has_access(other) == {"sessions": 1, "trusted": 1, "links": 1}
    assert installation.ways_in(other) == {"passkeys": 2, "identities": 2, "codes": 2, "unfinished": 1}
    (mail,) = await installation.mails()
    assert (mail.to, mail.subject) == ("Ada@example.org", "All access to your account was revoked")
    assert link in mail.text
    assert installation.audited("security.password.changed")[0]["details"] == {
        "how": "ended",
        "link": "mailed",
        "operator": OPERATOR,
        "sessions": 1,
        "passkeys": 2,
        "identities": 2,
    }
    await choose(installation, link, "three wet matches")
    assert installation.value("select password_hash is not null from users where id = %s", user)


async def test_a_link_can_be_shown_instead_and_then_the_mail_has_none(installation: AdministrationScene, log: CapturedLog) -> None:
    user = installation.add("Ada@example.org")
    first = await installation.administration.reset_password(ADA, OPERATOR, by_mail=False)
    second = await installation.administration.reset_password(ADA, OPERATOR, by_mail=False)
    links = [link_of(one, log) for one in (first, second)]
    assert (first.ended.count, second.ended.count) == (1, 0)
    mails = await installation.mails()
    assert len(mails) == 2
    assert not any(link in mail.text for link in links for mail in mails)
    assert "gives you a link" in mails[0].text
    assert installation.has_access(user)["links"] == 1
    with pytest.raises(BadRequest):
        await choose(installation, links[0], "three wet matches")
    await choose(installation, links[1], "three wet matches")


async def test_who_never_had_a_password_comes_in_by_the_same_link(installation: AdministrationScene, log: CapturedLog) -> None:
    user = installation.add("Ada@example.org")
    installation.add_ways_in(user)
    installation.rows("update users set password_hash = null, password_changed_at = null where id = %s", user)
    reset = await installation.administration.reset_password(ADA, OPERATOR, by_mail=False)
    assert (reset.ended.password, reset.ended.passkeys) == (False, 2)
    await choose(installation, link_of(reset, log), "three wet matches")
    assert installation.value("select password_hash is not null from users where id = %s", user)


async def test_passkeys_that_were_the_second_factor_end_it_with_them(installation: AdministrationScene, log: CapturedLog) -> None:
    user = installation.add("Ada@example.org")
    installation.add_ways_in(user, second_factor=True)
    reset = await installation.administration.reset_password(ADA, OPERATOR, by_mail=True)
    link_of(reset, log)
    assert (reset.second_factor_ended, reset.second_factor_since) == (True, None)
    assert installation.ways_in(user) == {"passkeys": 0, "identities": 0, "codes": 0, "unfinished": 0}
    assert OPERATOR in str(installation.audited("security.mfa.disabled"))
    assert [mail.subject for mail in await installation.mails()] == [
        "Two-step sign-in is turned off",
        "All access to your account was revoked",
    ]


async def test_people_who_sign_in_at_a_provider_get_no_link(
    installation: AdministrationScene, log: CapturedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    user, owner = installation.add("Ada@example.org"), installation.add("owner@example.org", owner=True)

    async def required(_email: Email) -> bool:
        return True

    answer_by(monkeypatch, installation.postern.identity.sign_in_domains, "requires_provider", required)
    installation.add_ways_in(user)
    reset = await installation.administration.reset_password(ADA, OPERATOR, by_mail=True)
    assert (reset.link, reset.ended.passkeys) == (None, 2)
    assert installation.has_access(user) == {"sessions": 0, "trusted": 0, "links": 0}
    (mail,) = await installation.mails()
    assert "sign in with your organization" in " ".join(mail.text.split())
    assert installation.audited("security.password.changed")[0]["details"]["link"] == "none"
    # No organization decides how the owners of the platform sign in.
    assert link_of(await installation.administration.reset_password(Email("owner@example.org"), OPERATOR, by_mail=True), log)
    assert installation.has_access(owner)["links"] == 1


async def test_a_deactivated_account_loses_the_same_and_gets_no_link(installation: AdministrationScene, log: CapturedLog) -> None:
    """An operator who has deactivated the account first need not activate it for the intruder."""
    user = installation.add("Ada@example.org")
    installation.add_ways_in(user)
    await installation.administration.deactivate(ADA, OPERATOR)
    reset = await installation.administration.reset_password(ADA, OPERATOR, by_mail=True)
    assert (reset.link, reset.ended.count) == (None, 5)
    assert installation.has_access(user) == {"sessions": 0, "trusted": 0, "links": 0}
    assert installation.ways_in(user) == {"passkeys": 0, "identities": 0, "codes": 0, "unfinished": 0}
    assert installation.value("select password_hash is null and deactivated_at is not null from users where id = %s", user)
    assert await installation.mails() == []
    await installation.administration.activate(ADA, OPERATOR)
    await choose(installation, link_of(await installation.administration.reset_password(ADA, OPERATOR, by_mail=False), log), "three wet")


async def test_signed_out_everywhere_leaves_the_trust_in_devices(installation: AdministrationScene) -> None:
    user = installation.add("Ada@example.org")
    done = await installation.administration.revoke_sessions(ADA, OPERATOR)
    assert (done.changed, done.sessions) == (True, 1)
    assert installation.has_access(user) == {"sessions": 0, "trusted": 1, "links": 1}
    again = await installation.administration.revoke_sessions(ADA, OPERATOR)
    assert (again.changed, again.sessions) == (False, 0)
    assert [entry["details"] for entry in installation.audited("security.sessions.revoked")] == [{"operator": OPERATOR, "sessions": 1}]


async def test_a_second_factor_that_was_lost_is_taken_away_with_the_trust_it_gave(installation: AdministrationScene) -> None:
    user = installation.add("Ada@example.org")
    assert not (await installation.administration.disable_mfa(ADA, OPERATOR)).changed
    installation.enable_mfa(user)
    assert (await installation.administration.disable_mfa(ADA, OPERATOR)).changed
    assert installation.value("select count(*) from mfa_secrets") + installation.value("select count(*) from backup_codes") == 0
    assert installation.has_access(user)["trusted"] == 0
    assert OPERATOR in str(installation.audited("security.mfa.disabled"))
    assert installation.value("select name from mfa_events") == "mfa_force_disabled_by_admin"
    assert installation.value("select count(*) from jobs where kind = 'mail'") == 1


async def test_the_operators_name_stands_where_it_can_be_forgotten(installation: AdministrationScene) -> None:
    administration = installation.administration
    installation.enable_mfa(installation.add("Ada@example.org"))
    await administration.show(ADA, OPERATOR)
    await administration.revoke_sessions(ADA, OPERATOR)
    await administration.disable_mfa(ADA, OPERATOR)
    await administration.reset_password(ADA, OPERATOR, by_mail=True)
    await administration.deactivate(ADA, OPERATOR)
    await administration.activate(ADA, OPERATOR)
    entries = installation.rows("select audit_log.details, kept.details as kept from audit_log join audit_entries as kept using (id)")
    assert [entry["details"]["operator"] for entry in entries] == [OPERATOR] * 6
    assert not any(entry["kept"].keys() & {"operator", "reason"} for entry in entries)
    assert OPERATOR not in str([entry["kept"] for entry in entries])
    assert OPERATOR not in str(installation.rows("select details from mfa_events"))


async def choose(installation: AdministrationScene, link: str, password: str) -> None:
    token = link.partition("token=")[2]
    await installation.postern.identity.account_passwords.reset(Token(token), Password(password), SYSTEM)
