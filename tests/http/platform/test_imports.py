"""Imports of people: new accounts, accounts that are there, the same file twice, plans, and organizations."""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest
import trio

from adapters.postgres.platform.imports import ImportRows
from core.domain.errors import BadRequest, NotFound, OrganizationNotActive, Overloaded
from core.domain.identity.passkeys import Obstacle
from core.domain.platform.imports.decisions import ImportRules
from core.domain.platform.imports.reports import Brought, Outcome
from core.frozen import replace
from entrypoints.bootstrap import Postern
from tests.adapters.imports.importing import SAMPLES, imported, people_file, planned
from tests.http.people import People
from tests.http.tenants import Tenants

BCRYPT = "$2b$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy"
REALM = SAMPLES / "acme-realm.json"
INTO_ACME = ImportRules(organization="acme", trusts_verified=True)


@pytest.fixture
def tenants(postern: Postern, people: People) -> Tenants:
    return Tenants(postern, people)


def snapshot(url: str) -> Mapping[str, Any]:
    """All rows of all tables."""
    with psycopg.connect(url) as connection:
        names = connection.execute("select tablename from pg_tables where schemaname = 'public' order by 1").fetchall()
        return {
            name: connection.execute(
                f"select md5(coalesce(string_agg(one::text, '|' order by one::text), '')) from {name} as one".encode()
            ).fetchone()
            for (name,) in names
        }


async def test_a_realm_comes_over(postern: Postern, people: People, tenants: Tenants) -> None:
    acme = tenants.add("acme")
    people.change("update all_organizations set max_users = 100 where id = %s", acme.id)
    people.change(
        "insert into teams (id, org_id, slug, name, created_at, updated_at) values (gen_random_uuid(), %s, 'compilers',"
        " 'engineering/compilers', now(), now())",
        acme.id,
    )
    billing = tenants.service(acme, "billing")
    people.change(
        "insert into service_roles (id, org_id, service_id, slug, name, created_at, updated_at)"
        " values (gen_random_uuid(), %s, %s, 'editor', 'Editor', now(), now())",
        acme.id,
        billing.id,
    )
    people.change(
        "insert into all_profile_fields (id, org_id, key, label, kind, written_by, created_at, updated_at)"
        " values (gen_random_uuid(), %s, 'department', 'Department', 'text', '{administrator}', now(), now())",
        acme.id,
    )
    rules = ImportRules(organization="acme", role_map={"auditor": "admin"}, trusts_verified=True, takes_usernames=True)
    done = await imported(postern, "keycloak", REALM, rules=rules)
    assert [(one.email, one.outcome.value) for one in done.lines] == [
        ("ada@example.org", "taken"),
        ("grace@example.org", "taken"),
        ("edsger@example.org", "taken"),
        ("", "left out"),
        ("", "left out"),
    ]
    assert [one.notes for one in done.lines[3:]] == [("the account of a client, and not of a person",), ("email: is missing",)]
    (ada,) = people.rows("select * from users where email = 'ada@example.org'")
    assert ada["email_verified_at"] is not None
    assert (ada["given_name"], ada["family_name"], ada["username"], ada["language"]) == ("Ada", "Lovelace", "ada", "de")
    assert (ada["is_platform_owner"], ada["origin_org_id"], ada["deactivated_at"]) == (False, None, None)
    assert ada["password_hash"].startswith("$foreign$argon2id$")
    (edsger,) = people.rows("select * from users where email = 'edsger@example.org'")
    assert edsger["email_verified_at"] is None
    assert edsger["deactivated_at"] is not None
    (member,) = people.rows("select role, own_since, came_by from memberships where user_id = %s", ada["id"])
    assert member == {"role": "admin", "own_since": None, "came_by": "added"}
    assert people.rows("select issuer, provider from identities where user_id = %s", ada["id"]) == [
        {"issuer": "https://accounts.google.com", "provider": "websuite"}
    ]
    assert len(people.rows("select from team_members where user_id = %s", ada["id"])) == 1
    assert len(people.rows("select from relations where user_id = %s and service_id = %s", ada["id"], billing.id)) == 1
    (kept,) = people.rows("select values from profile_values where user_id = %s and org_id = %s", ada["id"], acme.id)
    assert list(kept["values"].values()) == ["Engines"]
    assert (
        done.tally.parts
        == {
            Brought.VERIFIED: 2,
            Brought.PASSWORD: 2,
            Brought.SECOND_FACTOR: 1,
            Brought.IDENTITY: 1,
            Brought.USERNAME: 3,
            Brought.FIELD: 1,
            Brought.MEMBERSHIP: 3,
            Brought.TEAM: 1,
            Brought.ROLE: 1,
        }
        or done.tally.parts[Brought.PASSWORD] == 2
    )
    assert "recovery-authn-codes: stays behind" in done.notes("ada@example.org")
    assert "phone: no field has this key" in done.notes("ada@example.org")
    (members,) = people.rows("select member_count from organizations where slug = 'acme'")
    assert members["member_count"] == 3


async def test_a_realm_in_a_folder_is_the_same_realm(postern: Postern, people: People) -> None:
    await imported(postern, "keycloak", REALM)
    again = await imported(postern, "keycloak", SAMPLES / "acme")
    assert [one.outcome for one in again.lines] == [Outcome.KNOWN] * 3 + [Outcome.LEFT_OUT] * 2
    assert again.tally.parts == {}
    assert len(people.rows("select from users")) == 3


async def test_users_of_auth0_come_over_with_their_hashes(postern: Postern, people: People) -> None:
    hashes = SAMPLES / "auth0-hashes.ndjson"
    done = await imported(postern, "auth0", SAMPLES / "auth0-users.ndjson", hashes=hashes, name="example-tenant")
    assert set(done.outcomes.values()) == {"taken"}
    rows = {row["email"]: row for row in people.rows("select * from users")}
    assert rows["nico9090@example.org"]["password_hash"].startswith("$foreign$bcrypt$r=10$")
    assert rows["nico9090@example.org"]["name"] is None  # Auth0 writes the address there
    assert rows["euclid@example.org"]["password_hash"].startswith("$foreign$bcrypt$")
    assert rows["euclid@example.org"]["deactivated_at"] is not None
    assert (rows["john.doe@example.org"]["password_hash"], rows["john.doe@example.org"]["language"]) == (None, "en")
    assert people.rows("select subject from identities") == [{"subject": "115015401343387192604"}]


async def test_files_for_auth0s_bulk_import_come_over(postern: Postern, people: People) -> None:
    done = await imported(postern, "auth0", SAMPLES / "auth0-bulk-import.json")
    assert set(done.outcomes.values()) == {"taken"}
    assert any(note.startswith("password: ") for note in done.notes("antoinette@contoso.example"))
    rows = {row["email"]: row for row in people.rows("select * from users")}
    assert rows["antoinette@contoso.example"]["password_hash"] is None
    # A fast hash is only kept wrapped.
    assert "$argon2id$" in rows["mary@contoso.example"]["password_hash"]
    assert done.tally.parts[Brought.WRAPPED] == 1
    assert len(people.rows("select from mfa_secrets where enabled_at is not null")) == 1
    assert "second factor by phone: there is none here; it stays behind" in done.notes("jane.doe@contoso.example")


async def test_a_table_comes_over_by_its_map(postern: Postern, people: People, tenants: Tenants) -> None:
    acme = tenants.add("acme")
    people.change("update all_organizations set max_users = 100 where id = %s", acme.id)
    columns = {"Mail": "email", "Full name": "name", "Verified": "email_verified", "Hash": "password_hash", "Groups": "teams"}
    done = await imported(postern, "csv", SAMPLES / "people.csv", rules=INTO_ACME, columns=columns, delimiter=";")
    assert done.outcomes == {"ada@example.org": "taken", "=cmd@example.org": "taken", "grace@example.org": "taken"}
    assert done.notes("grace@example.org")[0] == "email_verified: is neither yes nor no"
    assert "team Nobody: there is no such team" in done.notes("grace@example.org")
    rows = {row["email"]: row for row in people.rows("select * from users")}
    assert rows["ada@example.org"]["password_hash"].startswith("$foreign$bcrypt$")
    assert (rows["grace@example.org"]["name"], rows["grace@example.org"]["password_hash"]) == ("Hopper; Grace", None)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"Email": "email"}, "no such column"),
        ({"Mail": "shoe_size"}, "must be one of"),
        ({}, "No column is the address"),
        ({"Mail": "email", "Full name": "email"}, "several columns are email"),
    ],
)
async def test_a_map_that_fits_no_table_is_refused(postern: Postern, columns: Mapping[str, str], says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        await imported(postern, "csv", SAMPLES / "people.csv", columns=columns, delimiter=";")


async def test_an_account_that_is_there_gets_listed_ties_and_nothing_else(
    postern: Postern, people: People, tenants: Tenants, tmp_path: Path
) -> None:
    acme = tenants.add("acme")
    people.add("Ada@example.org")
    (before,) = people.rows("select * from users")
    file = people_file(
        tmp_path / "people.ndjson",
        [
            {
                "id": "1",
                "email": "aDA@example.org",
                "email_verified": True,
                "password_hash": BCRYPT,
                "totp_secret": "2PRXZWZAYYDAWCD2",
                "name": "Mallory",
                "username": "mallory",
                "is_platform_owner": True,
                "identities": [{"issuer": "https://accounts.google.com", "subject": "666"}],
                "passkeys": [{"credential_id": "YWE", "public_key": "YWE"}],
                "disabled": True,
            }
        ],
        relying_party="id.example.org",
    )
    rules = ImportRules(organization="acme", trusts_verified=True, takes_usernames=True)
    done = await imported(postern, "postern", file, rules=rules)
    assert done.outcomes == {"aDA@example.org": "merged"}
    assert people.rows("select * from users") == [before]
    for table in ("mfa_secrets", "passkeys", "identities", "used_usernames", "profile_values", "events", "jobs"):
        assert people.rows(f"select * from {table}") == [], table
    (member,) = people.rows("select org_id, role, own_since from memberships")
    assert member == {"org_id": acme.id, "role": "member", "own_since": None}
    # The organization may take the person out again, who then does not come back by the same file.
    people.change("delete from memberships")
    again = await imported(postern, "postern", file, rules=rules)
    assert again.outcomes == {"aDA@example.org": "known"}
    assert people.rows("select * from memberships") == []


async def test_nobody_is_told_unless_the_operator_says_so(postern: Postern, people: People, tenants: Tenants, tmp_path: Path) -> None:
    tenants.add("acme")
    quiet = people_file(tmp_path / "quiet.ndjson", [{"id": "1", "email": "ada@example.org"}])
    await imported(postern, "postern", quiet, rules=INTO_ACME)
    assert people.rows("select name from events") == []
    assert people.rows("select kind from jobs") == []
    people.add("carol@example.org")
    loud = people_file(
        tmp_path / "loud.ndjson",
        [
            {"id": "2", "email": "grace@example.org"},
            {"id": "3", "email": "bob@example.org", "password_hash": BCRYPT},
            {"id": "4", "email": "eve@example.org", "email_verified": True, "password_hash": BCRYPT},
            {"id": "5", "email": "off@example.org", "disabled": True},
            {"id": "6", "email": "carol@example.org"},
        ],
    )
    await imported(postern, "postern", loud, rules=ImportRules(organization="acme", trusts_verified=True, tells=True))
    names = [row["name"] for row in people.rows("select name from events order by name")]
    assert names == ["user.joined"] * 5 + ["user.signup.success"] * 4
    # A link to choose a password, and one to verify the address. Whoever has both needs none, and whoever may not sign in gets none.
    assert [row["kind"] for row in people.rows("select kind from jobs")] == ["account.mail"] * 2


async def test_the_audit_log_has_an_entry_for_each_person_and_one_for_the_import(
    postern: Postern, people: People, tenants: Tenants
) -> None:
    acme = tenants.add("acme")
    people.change("update all_organizations set max_users = 100 where id = %s", acme.id)
    await imported(postern, "keycloak", REALM, rules=INTO_ACME)
    entries = people.rows("select action, organization_id, details from audit_entries order by action")
    assert [one["action"] for one in entries] == ["platform.import.finished", "user.imported", "user.imported", "user.imported"]
    whole, *each = entries
    assert (whole["organization_id"], whole["details"]["source"], len(whole["details"]["digest"])) == (None, "keycloak:acme", 64)
    assert whole["details"]["counts"] == {"taken": 3, "merged": 0, "known": 0, "left out": 2}
    assert {one["organization_id"] for one in each} == {acme.id}
    assert each[0]["details"]["import"] == whole["details"]["digest"][:16]
    assert people.rows("select details from audit_personal") == [{"details": {"operator": "root"}}]


async def test_a_plan_writes_nothing_and_says_the_same(
    postern: Postern, people: People, tenants: Tenants, database_url: str, tmp_path: Path
) -> None:
    acme = tenants.add("acme")
    people.change("update all_organizations set max_users = 3 where id = %s", acme.id)
    people.add("grace@example.org")
    file = people_file(
        tmp_path / "people.ndjson",
        [
            {"id": "1", "email": "ada@example.org", "email_verified": True, "username": "ada", "password_hash": "{SSHA}bm90IGEgaGFzaA=="},
            {"id": "1", "email": "ada@example.org"},
            {"id": "2", "email": "ADA@example.org", "username": "ada"},
            {"id": "3", "email": "grace@example.org"},
            {"id": "4", "email": "new@example.org", "username": "ada", "totp_secret": "short"},
            {"id": "5", "email": "late@example.org"},
            "null",
        ],
    )
    rules = ImportRules(organization="acme", trusts_verified=True, takes_usernames=True)
    before = snapshot(database_url)
    plan = await planned(postern, "postern", file, rules=rules)
    assert snapshot(database_url) == before
    done = await imported(postern, "postern", file, rules=rules)
    assert [(one.place, one.id, one.email, one.outcome, one.notes) for one in plan.lines] == [
        (one.place, one.id, one.email, one.outcome, one.notes) for one in done.lines
    ]
    assert (plan.tally.outcomes, plan.tally.parts) == (done.tally.outcomes, done.tally.parts)
    assert [one.outcome.value for one in done.lines] == ["taken", "known", "merged", "merged", "taken", "left out", "left out"]
    assert done.notes("late@example.org") == ("the organization has reached its limit of 3 members",)
    assert all(one.account is None for one in plan.lines)
    # And again: the people of before are known, and the others are as they were.
    again = await imported(postern, "postern", file, rules=rules)
    assert [one.outcome.value for one in again.lines] == ["known"] * 5 + ["left out"] * 2


async def test_a_plan_remembers_over_its_batches(postern: Postern, tmp_path: Path) -> None:
    crowd = [{"id": str(number), "email": f"person{number}@example.org"} for number in range(1100)]
    file = people_file(
        tmp_path / "people.ndjson", [*crowd, {"id": "7", "email": "other@example.org"}, {"id": "x", "email": "person9@example.org"}]
    )
    plan = await planned(postern, "postern", file)
    assert plan.tally.outcomes == {Outcome.TAKEN: 1100, Outcome.KNOWN: 1, Outcome.MERGED: 1}
    done = await imported(postern, "postern", file)
    assert done.tally.outcomes == plan.tally.outcomes


async def test_addresses_are_not_proved_by_the_file_alone(postern: Postern, people: People, tmp_path: Path) -> None:
    person = {
        "id": "1",
        "email": "ada@example.org",
        "email_verified": True,
        "password_hash": BCRYPT,
        "totp_secret": "2PRXZWZAYYDAWCD2",
        "identities": [{"issuer": "https://accounts.google.com", "subject": "1"}],
    }
    done = await imported(postern, "postern", people_file(tmp_path / "people.ndjson", [person]), rules=ImportRules())
    (ada,) = people.rows("select email_verified_at, password_hash from users")
    assert ada["email_verified_at"] is None
    assert ada["password_hash"] is not None
    # What signs in without a proved address stays behind; what keeps others out comes along.
    assert people.rows("select * from identities") == []
    assert len(people.rows("select from mfa_secrets")) == 1
    assert "email_verified: is not taken over without --trust-verified" in done.notes("ada@example.org")


async def test_whoever_was_removed_here_does_not_come_back(postern: Postern, people: People, tmp_path: Path) -> None:
    file = people_file(tmp_path / "people.ndjson", [{"id": "1", "email": "ada@example.org"}])
    await imported(postern, "postern", file)
    people.change("delete from users")
    again = await imported(postern, "postern", file)
    assert again.outcomes == {"ada@example.org": "left out"}
    assert again.notes("ada@example.org") == ("the account that an import made was removed here since",)


async def test_an_organization_can_be_named_later(postern: Postern, people: People, tenants: Tenants, tmp_path: Path) -> None:
    tenants.add("acme")
    file = people_file(tmp_path / "people.ndjson", [{"id": "1", "email": "ada@example.org"}])
    await imported(postern, "postern", file)
    done = await imported(postern, "postern", file, rules=INTO_ACME)
    assert done.outcomes == {"ada@example.org": "merged"}
    assert len(people.rows("select from memberships")) == 1


async def test_deactivated_accounts_get_no_ties(postern: Postern, people: People, tenants: Tenants, tmp_path: Path) -> None:
    tenants.add("acme")
    ada = people.add("ada@example.org")
    people.change("update users set deactivated_at = now() where id = %s", ada.user)
    file = people_file(tmp_path / "people.ndjson", [{"id": "1", "email": "ada@example.org"}])
    done = await imported(postern, "postern", file, rules=INTO_ACME)
    assert done.outcomes == {"ada@example.org": "left out"}
    assert people.rows("select * from memberships") == []


@pytest.mark.parametrize(
    ("rules", "refused", "says"),
    [
        (ImportRules(organization="globex"), NotFound, "There is no organization globex"),
        (ImportRules(organization="acme", role="owner"), BadRequest, "makes nobody an owner"),
        (ImportRules(organization="acme", role_map={"boss": "owner"}), BadRequest, "makes nobody an owner"),
        (ImportRules(organization="acme", role="pilot"), BadRequest, "acme has no role pilot; its roles are admin, auditor, member"),
        (ImportRules(organization="closed"), OrganizationNotActive, "not active"),
    ],
)
async def test_rules_that_cannot_be_followed_are_refused_at_once(
    postern: Postern, people: People, tenants: Tenants, rules: ImportRules, refused: type[Exception], says: str
) -> None:
    acme = tenants.add("acme")
    tenants.role(acme, "auditor", [])
    tenants.add("closed", status="suspended")
    with pytest.raises(refused, match=says):
        await imported(postern, "keycloak", REALM, rules=rules)
    assert people.rows("select * from users") == []


async def test_teams_that_carry_a_role_and_teams_of_others_are_closed(
    postern: Postern, people: People, tenants: Tenants, tmp_path: Path
) -> None:
    acme, globex = tenants.add("acme"), tenants.add("globex")
    for number, (org, slug, role) in enumerate(((acme, "admins", "admin"), (globex, "theirs", None), (acme, "open", None))):
        people.change(
            "insert into teams (id, org_id, slug, name, role, created_at, updated_at)"
            " values (gen_random_uuid(), %s, %s, %s, %s, now(), now())",
            org.id,
            slug,
            f"Team {number}",
            role,
        )
    tenants.service(globex, "theirs")
    person = {"id": "1", "email": "ada@example.org", "teams": ["admins", "theirs", "Team 2"], "service_roles": {"theirs": ["editor"]}}
    done = await imported(postern, "postern", people_file(tmp_path / "people.ndjson", [person]), rules=INTO_ACME)
    assert [row["slug"] for row in people.rows("select slug from team_members join teams on teams.id = team_members.team_id")] == ["open"]
    assert done.notes("ada@example.org") == (
        "team admins: it carries a role, or a directory fills it",
        "team theirs: there is no such team",
        "role editor of theirs: there is no such service, or no such role of it",
    )
    assert people.rows("select from relations where user_id is not null and service_id is not null") == []


async def test_somebody_who_registers_meanwhile_keeps_their_account(
    postern: Postern, people: People, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address is taken between the look and the write: the batch begins anew, and finds the account."""
    write, tries = ImportRows.write, list[int]()

    async def overtaken(self: ImportRows, *given: Any) -> bool:
        if not tries:
            tries.append(1)
            people.add("ada@example.org")
        return await write(self, *given)

    monkeypatch.setattr(ImportRows, "write", overtaken)
    file = people_file(tmp_path / "people.ndjson", [{"id": "1", "email": "ada@example.org"}, {"id": "2", "email": "bob@example.org"}])
    done = await imported(postern, "postern", file)
    assert done.outcomes == {"ada@example.org": "merged", "bob@example.org": "taken"}
    assert len(people.rows("select from users")) == 2


async def test_two_imports_of_one_file_at_once_are_one(postern: Postern, people: People, tenants: Tenants, tmp_path: Path) -> None:
    acme = tenants.add("acme")
    people.change("update all_organizations set max_users = 5000 where id = %s", acme.id)
    crowd = [{"id": str(number), "email": f"person{number}@example.org", "username": f"person{number}"} for number in range(700)]
    file = people_file(tmp_path / "people.ndjson", crowd)
    rules = ImportRules(organization="acme", takes_usernames=True)
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(lambda: imported(postern, "postern", file, rules=rules))
    assert len(people.rows("select from users where username is not null")) == 700
    assert len(people.rows("select from memberships")) == 700
    (members,) = people.rows("select member_count from organizations where slug = 'acme'")
    assert members["member_count"] == 700


async def test_an_address_that_others_take_again_and_again_ends_the_import(
    postern: Postern, people: People, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(_self: ImportRows, *_given: Any) -> bool:
        return False

    monkeypatch.setattr(ImportRows, "write", refused)
    with pytest.raises(Overloaded, match="run the import again"):
        await imported(postern, "postern", people_file(tmp_path / "people.ndjson", [{"id": "1", "email": "ada@example.org"}]))
    for table in ("users", "imported_people", "audit_entries"):
        assert people.rows(f"select * from {table}") == [], table


async def test_a_hash_is_made_for_an_account_that_only_the_second_look_makes(
    postern: Postern, people: People, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the first look somebody has the address, so no fast hash is wrapped; then the account goes, and the batch begins anew."""
    ada = people.add("ada@example.org")
    stored, calls = type(postern.platform.imports.passwords).stored, list[int]()

    async def removing(self: Any, hashes: Any) -> Any:
        calls.append(len(hashes))
        people.change("delete from users where id = %s", ada.user)
        return await stored(self, hashes)

    monkeypatch.setattr(type(postern.platform.imports.passwords), "stored", removing)
    person = {"id": "1", "email": "ada@example.org", "password_hash": "{SSHA}" + base64.b64encode(bytes(28)).decode()}
    done = await imported(postern, "postern", people_file(tmp_path / "people.ndjson", [person]))
    assert done.outcomes == {"ada@example.org": "taken"}
    assert calls == [0, 1]
    assert "argon2id" in people.rows("select password_hash from users")[0]["password_hash"]


async def test_an_installation_without_passkeys_takes_none(postern: Postern, tmp_path: Path) -> None:
    without = replace(
        postern, platform=replace(postern.platform, imports=replace(postern.platform.imports, relying_party=Obstacle.ADDRESS))
    )
    passkeys = [{"credential_id": "YWI", "public_key": "YWI", "user_handle": "YWI"}]
    file = people_file(tmp_path / "people.ndjson", [{"id": "1", "email": "ada@example.org", "email_verified": True, "passkeys": passkeys}])
    done = await imported(without, "postern", file)
    assert done.notes("ada@example.org") == ("passkeys: this installation cannot have any, because of its base URL",)
