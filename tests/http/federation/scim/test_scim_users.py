"""People in SCIM: created, found, changed and deleted; and changes that a directory cannot make to them."""

from typing import Any, Final
from urllib.parse import quote
from uuid import UUID, uuid4

import pytest
import trio

from adapters.postgres.identity.accounts import AccountRows
from core.domain.errors import NotFound
from core.domain.federation.scim.groups import GroupChange
from core.domain.federation.scim.tokens import ScimHolder
from core.domain.federation.scim.users import Stated
from core.domain.identifiers import OrganizationId, ScimTokenId, UserId
from core.domain.jobs import CAN_WAIT
from core.domain.rate_limits import RateLimit
from core.domain.record.events import SYSTEM
from core.domain.secrets import Password
from core.domain.tenancy.roles import BuiltInRole, Capability
from core.usecases.federation.scim import users as scim_users
from core.usecases.federation.scim.users import Search
from entrypoints.bootstrap import Postern
from ports.federation.scim import Order
from tests.conftest import CapturedLog
from tests.http.client import Client, Received
from tests.http.federation.scim.directories import BASE, GROUPS, PATCH_OP, USER, USERS, Directory, refusal
from tests.http.forgetting import finish_forgetting
from tests.http.identity.test_passkeys import Owner
from tests.http.people import People, Person
from tests.http.postbox import Postbox
from tests.http.signing_in import PASSWORD, Browser

ADA: Final = "ada@example.org"
MEMBERS: Final = BuiltInRole.MEMBER.capabilities


@pytest.fixture
async def directory(postern: Postern, client: Client, people: People) -> Directory:
    return await Directory(postern, client, people).connect()


@pytest.fixture
async def globex(postern: Postern, client: Client, people: People) -> Directory:
    return await Directory(postern, client, people, "globex").connect("Theirs")


def account(directory: Directory, user: Any) -> dict[str, Any]:
    (row,) = directory.people.rows("select * from users where id = %s", user)
    return row


def priorities(directory: Directory) -> set[int]:
    return {row["priority"] for row in directory.people.rows("select priority from jobs where kind in ('mail', 'account.mail')")}


def mails(directory: Directory) -> list[str]:
    rows = directory.people.rows("select kind from jobs where kind in ('mail.send', 'account.mail') or kind like '%%mail%%' order by id")
    return [row["kind"] for row in rows]


@pytest.mark.parametrize("made", [False, True])
async def test_the_mail_to_choose_a_password_goes_with_the_account(directory: Directory, globex: Directory, *, made: bool) -> None:
    """Nobody has proved the address, so another organization's mails to it do not belong to the account, and stay. The mail server is away.
    When the directory deletes the account, its own mail is already rendered, or only requested.
    """
    created = await directory.create(ADA)
    postbox = Postbox(directory.postern)
    if made:
        await postbox.asked_for()
    owner = await globex.people.token(globex.owner)
    (await globex.client.post("/api/organizations/globex/invitations", {"email": ADA, "role": "member"}, token=owner)).ok()
    assert sorted(mails(directory)) == (["mail", "mail"] if made else ["account.mail", "mail"])
    assert (await directory.ask("DELETE", f"{USERS}/{created['id']}")).status == 204
    assert await finish_forgetting(directory.postern, directory.people) == 1
    assert mails(directory) == ["mail"]
    assert [(mail.to, "globex" in mail.text.lower()) for mail in await postbox.empty()] == [(ADA, True)]


async def test_a_user_is_created_with_an_account_a_membership_and_a_mail(directory: Directory) -> None:
    attributes = {
        "externalId": "00u1",
        "name": {"formatted": "Ada Lovelace", "givenName": "Ada", "familyName": "Lovelace"},
        "displayName": "Ada",
        "emails": [{"value": ADA, "type": "work", "primary": True}],
        "active": True,
    }
    answer = await directory.ask("POST", USERS, {"schemas": [USER], "userName": ADA, **attributes})
    created = answer.ok(201)
    assert {name: created[name] for name in attributes} == attributes
    assert (created["schemas"], created["userName"], created["meta"]["resourceType"]) == ([USER], ADA, "User")
    assert answer.header("location") == created["meta"]["location"] == f"https://id.example.org{USERS}/{created['id']}"
    assert answer.header("etag") == created["meta"]["version"]
    assert await directory.shown(created["id"]) == created
    made = account(directory, created["id"])
    assert (made["password_hash"], made["email_verified_at"], made["origin_org_id"]) == (None, None, directory.tenant.id)
    (member,) = directory.people.rows("select role from memberships where user_id = %s", created["id"])
    assert member["role"] == "member"
    (relation,) = directory.people.rows("select relation, object_type from relations where user_id = %s", created["id"])
    assert relation == {"relation": "member", "object_type": "organization"}
    assert mails(directory) == ["account.mail"]
    # A person who asks for a sign-in link does not wait for a hundred thousand such mails.
    assert priorities(directory) == {CAN_WAIT}
    told = [(entry["action"], entry["details"]["acting_key"]["name"]) for entry in directory.logged()[1:]]
    assert told == [("user.signup.success", "Directory"), ("user.joined", "Directory")]


async def test_whatever_is_sent_for_what_is_read_only_is_ignored(directory: Directory) -> None:
    """RFC 7644 sections 3.3 and 3.5.1. One address is kept, and it is the primary one: the schema says that nobody sets it."""
    schema = (await directory.ask("GET", f"/scim/v2/Schemas/{USER}")).ok()
    (emails,) = [one for one in schema["attributes"] if one["name"] == "emails"]
    (primary,) = [one for one in emails["subAttributes"] if one["name"] == "primary"]
    assert primary["mutability"] == "readOnly"
    sent = {"schemas": [USER], "userName": ADA, "emails": [{"value": ADA, "type": "work", "primary": False}]}
    kept = [{"value": ADA, "type": "work", "primary": True}]
    created = (await directory.ask("POST", USERS, sent)).ok(201)
    assert created["emails"] == kept
    assert (await directory.ask("PUT", f"{USERS}/{created['id']}", sent)).ok()["emails"] == kept
    # A PATCH that names it is refused (section 3.5.2).
    change = {"op": "replace", "path": 'emails[type eq "work"].primary', "value": False}
    assert refusal(await directory.patch(created["id"], change)) == (400, "mutability")


async def test_an_account_elsewhere_becomes_a_member_and_is_not_changed(directory: Directory, globex: Directory) -> None:
    ada = directory.tenants.member(globex.tenant, "owner", "Ada@Example.org")
    directory.people.change(
        "update users set email_verified_at = now(), password_hash = 'x', name = 'Her own', profile_updated_at = now() where id = %s",
        ada.user,
    )
    before = account(directory, ada.user)
    created = await directory.create(ADA, displayName="Theirs", name={"givenName": "A"})
    assert created["name"] == {"givenName": "A"}, "no directory reads or writes a profile"
    assert (created["id"], created["userName"]) == (str(ada.user), "Ada@Example.org")
    assert account(directory, ada.user) == before
    assert mails(directory) == ["mail"]
    assert refusal(await globex.patch(str(ada.user), {"op": "replace", "path": "active", "value": False})) == (403, None)
    for body in (
        {"schemas": [USER], "userName": "other@example.org"},
        {"schemas": [USER], "userName": ADA, "emails": [{"value": "other@example.org"}], "active": True},
    ):
        answer = await directory.ask("PUT", f"{USERS}/{ada.user}", body)
        if body["userName"] == ADA:
            # A separate work address is only data.
            assert answer.ok()["emails"][0]["value"] == "other@example.org"
        else:
            assert refusal(answer) == (400, "mutability")
    assert account(directory, ada.user)["email"] == "Ada@Example.org"
    assert not {"displayName", "name"} & set(await globex.shown(ada.user)), "not even of a member by the person's own act"
    # The person leaves this organization only.
    assert (await directory.ask("DELETE", f"{USERS}/{ada.user}")).status == 204
    assert account(directory, ada.user) == before
    assert (await directory.get(ada.user)).status == 404
    assert (await globex.shown(ada.user))["active"] is True


async def test_an_account_that_nobody_has_proved_loses_what_was_left_there(directory: Directory) -> None:
    squatter = await directory.people.with_password("correct horse", ADA, verified=False)
    await directory.create(ADA)
    assert account(directory, squatter.user)["password_hash"] is None


@pytest.mark.parametrize("status", [True, False])
async def test_somebody_known_is_a_conflict(directory: Directory, *, status: bool) -> None:
    created = await directory.create(ADA, active=status)
    assert created["active"] is status
    for email in (ADA, "ADA@example.org", directory.owner.email):
        answer = await directory.ask("POST", USERS, {"userName": email})
        assert refusal(answer) == (409, "uniqueness")


async def test_one_who_has_an_account_and_is_created_inactive_is_in_the_log(directory: Directory) -> None:
    ada = directory.people.add(ADA)
    before = len(directory.logged())
    assert (await directory.create(ADA, active=False))["active"] is False
    (entry,) = directory.logged()[before:]
    assert (entry["action"], entry["target_id"], entry["details"]["through"]) == ("user.profile.updated", str(ada.user), "scim")
    assert entry["details"]["changed"] == ["active"]


async def test_one_who_is_created_inactive_is_no_member_and_cannot_sign_in_until_activated(directory: Directory) -> None:
    created = await directory.create(ADA, active=False)
    assert directory.people.rows("select from memberships where user_id = %s", created["id"]) == []
    assert account(directory, created["id"])["deactivated_by_org_id"] == directory.tenant.id
    assert mails(directory) == []
    activate = {"op": "replace", "path": "active", "value": True}
    assert (await directory.patch(created["id"], activate)).ok()["active"] is True
    assert account(directory, created["id"])["deactivated_at"] is None
    # Only now the account needs a password.
    assert mails(directory) == ["account.mail"]
    directory.people.change("update users set email_verified_at = now() where id = %s", created["id"])
    (await directory.patch(created["id"], {**activate, "value": False})).ok()
    (await directory.patch(created["id"], activate)).ok()
    assert mails(directory) == ["account.mail"]


@pytest.mark.parametrize(
    ("body", "scim_type"),
    [
        ({"schemas": [USER]}, "invalidSyntax"),
        ({"schemas": ["x"], "userName": ADA}, "invalidSyntax"),
        ({"userName": "ada"}, "invalidValue"),
        ({"userName": ""}, "invalidValue"),
        ({"userName": ADA, "displayName": "x" * 300}, "invalidValue"),
        ({"userName": ADA, "active": "perhaps"}, "invalidSyntax"),
        ({"userName": ADA, "USERNAME": ADA}, "invalidSyntax"),
        ([], "invalidSyntax"),
        (b"{", "invalidSyntax"),
    ],
)
async def test_a_user_that_is_not_one_is_refused(directory: Directory, body: Any, scim_type: str) -> None:
    assert refusal(await directory.ask("POST", USERS, body)) == (400, scim_type)
    assert directory.people.rows("select from users where email = %s", ADA) == []


async def test_the_member_limit_holds(directory: Directory) -> None:
    directory.people.change("update all_organizations set max_users = 2 where id = %s", directory.tenant.id)
    ada = await directory.create(ADA)
    assert refusal(await directory.ask("POST", USERS, {"userName": "b@example.org"})) == (400, None)
    late = await directory.create("late@example.org", active=False)
    assert refusal(await directory.patch(late["id"], {"op": "replace", "path": "active", "value": True})) == (400, None)
    assert (await directory.patch(ada["id"], {"op": "replace", "path": "active", "value": False})).status == 200
    assert (await directory.patch(late["id"], {"op": "replace", "path": "active", "value": True})).status == 200


async def test_lists_are_paged_and_everybody_is_counted(directory: Directory) -> None:
    users = [str(directory.owner.user), *[(await directory.create(f"u{number}@example.org"))["id"] for number in range(5)]]
    await directory.patch(users[3], {"op": "replace", "path": "active", "value": False})

    async def page(query: str) -> tuple[int, int, int, list[str]]:
        body = (await directory.ask("GET", f"{USERS}?{query}")).ok()
        return body["totalResults"], body["startIndex"], body["itemsPerPage"], [one["id"] for one in body["Resources"]]

    assert await page("") == (6, 1, 6, users)
    assert await page("startIndex=2&count=3") == (6, 2, 3, users[1:4])
    assert await page("startIndex=-5&count=-1") == (6, 1, 0, [])
    assert await page("startIndex=7&count=2000") == (6, 7, 0, [])
    assert await page("startIndex=99999999999&count=5") == (6, 99999999999, 0, [])
    assert await page("sortBy=userName&sortOrder=descending&count=2") == (6, 1, 2, [users[5], users[4]])
    for by in ("id", "externalId", "displayName", "meta.created", "meta.lastModified"):
        assert set((await page(f"sortBy={by}"))[3]) == set(users)
    assert refusal(await directory.ask("GET", f"{USERS}?sortBy=title")) == (400, "invalidPath")
    assert refusal(await directory.ask("GET", f"{USERS}?sortOrder=up")) == (400, "invalidValue")
    assert refusal(await directory.ask("GET", f"{USERS}?count=x")) == (400, "invalidSyntax")
    searched = await directory.ask(
        "POST", f"{USERS}/.search", {"filter": 'userName sw "u"', "startIndex": 2, "count": 2, "sortBy": "userName"}
    )
    assert [one["id"] for one in searched.ok()["Resources"]] == users[2:4]


async def test_filters_find_what_they_say(directory: Directory, globex: Directory) -> None:
    ada = await directory.create("Ada@example.org", externalId="x", emails=[{"value": "work@example.org", "type": "work"}])
    bob = await directory.create("bob@example.com", externalId="X", displayName="Robert")
    await globex.create("ada2@example.org", externalId="x")
    await directory.patch(bob["id"], {"op": "replace", "path": "active", "value": False})

    async def names(wanted: str) -> set[str]:
        return {one["userName"] for one in await directory.find(wanted)}

    owner = "owner@acme.example"
    for wanted, expected in {
        'userName eq "ADA@EXAMPLE.ORG"': {"Ada@example.org"},
        'userName co "example"': {"Ada@example.org", "bob@example.com", owner},
        'userName co "%"': set(),
        'userName sw "ada@"': {"Ada@example.org"},
        'userName ew ".com"': {"bob@example.com"},
        'externalId eq "x"': {"Ada@example.org"},
        f'id eq "{bob["id"]}"': {"bob@example.com"},
        'id eq "nobody"': set(),
        "active eq false": {"bob@example.com"},
        'active eq "True" and userName co "@example.org"': {"Ada@example.org"},
        f'externalId eq "X" or id eq "{ada["id"]}" or userName eq "nobody"': {"Ada@example.org", "bob@example.com"},
        'not (externalId eq "x")': {"bob@example.com", owner},
        'emails.value eq "work@example.org"': {"Ada@example.org"},
        'emails[type eq "work" and value eq "Work@Example.org"]': {"Ada@example.org"},
        'emails[type eq "home" and value eq "work@example.org"]': set(),
        "emails[primary eq true] and externalId pr": {"Ada@example.org", "bob@example.com"},
        "emails[primary eq false]": set(),
        "displayName pr": {"bob@example.com"},
        "userName pr and not (name.givenName pr)": {"Ada@example.org", "bob@example.com", owner},
        'displayName co "OBER"': {"bob@example.com"},
        'not (displayName eq "Robert")': {"Ada@example.org", owner},
        'meta.lastModified gt "2020-01-01T00:00:00Z"': {"Ada@example.org", "bob@example.com", owner},
        'meta.lastModified lt "2020-01-01T00:00:00Z" or meta.lastModified pr and externalId eq "X"': {"bob@example.com"},
        f'meta.lastModified gt "{bob["meta"]["lastModified"]}" and externalId eq "x"': set(),
        'userName eq "ada2@example.org"': set(),
        f'id eq "{globex.owner.user}"': set(),
        f'externalId eq "x" and not (userName eq "ada@example.org") or userName eq "{owner}"': {owner},
    }.items():
        assert await names(wanted) == expected, wanted
    for wanted in ('title eq "x"', "userName eq ada", 'userName gt "a"'):
        assert refusal(await directory.ask("GET", f"{USERS}?filter={quote(wanted)}")) == (400, "invalidFilter")


async def test_filters_find_addresses_in_the_letters_of_a_language(directory: Directory) -> None:
    written, ascii_domain = "ada@b\u00fccher.example", "ada@xn--bcher-kva.example"
    ada = await directory.create(written)
    bob = await directory.create("bob@example.com", emails=[{"value": "Bob@m\u00fcller.example", "type": "work"}])
    for wanted, expected in {
        f'userName eq "{written}"': [ada],
        f'userName eq "{ascii_domain}"': [ada],
        'userName ew "b\u00fccher.example"': [ada],
        'userName ew "@xn--bcher-kva.example"': [ada],
        'userName co "b\u00fcch"': [ada],
        'userName sw "ada@b\u00fc"': [ada],
        f'emails.value eq "{written}"': [ada],
        'emails.value eq "bob@m\u00fcller.example"': [bob],
        'emails.value co "m\u00fcll"': [bob],
        'not (userName co "\u00fc") and userName sw "bob"': [bob],
    }.items():
        assert [one["id"] for one in await directory.find(wanted)] == [one["id"] for one in expected], wanted


async def test_attributes_are_chosen(directory: Directory) -> None:
    ada = await directory.create(ADA, displayName="Ada", name={"givenName": "A", "familyName": "L"})
    path = f"{USERS}/{ada['id']}"
    some = (await directory.ask("GET", f"{path}?attributes=userName,name.givenName,meta.version,{USER}:active")).ok()
    assert some == {
        **{name: ada[name] for name in ("schemas", "id", "userName", "active")},
        "name": {"givenName": "A"},
        "meta": {"version": ada["meta"]["version"]},
    }
    fewer = (await directory.ask("GET", f"{path}?excludedAttributes=emails.type,name,meta,id")).ok()
    assert set(fewer) == set(ada) - {"name", "meta"}
    assert fewer["emails"] == [{"value": ADA, "primary": True}]
    assert refusal(await directory.ask("GET", f"{path}?attributes=id&excludedAttributes=id")) == (400, "invalidValue")
    assert refusal(await directory.ask("GET", f"{path}?attributes={'a,' * 200}")) == (400, "invalidValue")
    listed = (await directory.ask("GET", f"{USERS}?attributes=userName")).ok()["Resources"]
    assert all(set(one) == {"schemas", "id", "userName"} for one in listed)
    assert set((await directory.ask("POST", f"{USERS}?attributes=id", {"userName": "b@example.org"})).ok(201)) == {"schemas", "id"}


async def test_versions_guard_against_lost_changes(directory: Directory) -> None:
    ada = await directory.create(ADA)
    path, version = f"{USERS}/{ada['id']}", ada["meta"]["version"]
    operation = {"op": "replace", "path": "displayName", "value": "A"}
    assert (await directory.ask("GET", path, headers=[("if-none-match", version)])).status == 304
    assert (await directory.ask("GET", path, headers=[("if-none-match", 'W/"x"')])).status == 200
    changed = await directory.patch(ada["id"], operation, headers=[("if-match", f'"x", {version}')])
    assert changed.ok()["meta"]["version"] == changed.header("etag") != version
    body = {"schemas": [USER], "userName": ADA}
    for answer in (
        await directory.patch(ada["id"], operation, headers=[("if-match", version)]),
        await directory.ask("PUT", path, body, headers=[("if-match", version)]),
        await directory.ask("DELETE", path, headers=[("if-match", version)]),
    ):
        assert refusal(answer) == (412, None)
    assert (await directory.patch(ada["id"], operation, headers=[("if-match", "*")])).ok() == changed.ok()
    assert (await directory.ask("DELETE", path, headers=[("if-match", str(changed.header("etag")))])).status == 204


async def test_an_account_of_its_own_can_be_moved_and_its_holder_is_told(directory: Directory) -> None:
    ada = await directory.create(ADA)
    await directory.create("taken@example.org")
    directory.people.add("elsewhere@example.org")
    for address, refused in (
        ("taken@example.org", (409, "uniqueness")),
        ("elsewhere@example.org", (400, "invalidValue")),
        ("x@", (400, "invalidValue")),
    ):
        assert refusal(await directory.patch(ada["id"], {"op": "replace", "path": "userName", "value": address})) == refused
    session = directory.tenants.session(Person(ada["id"], uuid4(), ADA), directory.tenant)
    moved = (await directory.patch(ada["id"], {"op": "replace", "path": "emails", "value": [{"value": "lovelace@example.org"}]})).ok()
    assert (moved["userName"], moved["emails"][0]["value"]) == ("lovelace@example.org", "lovelace@example.org")
    assert account(directory, ada["id"])["email_verified_at"] is None
    assert directory.people.rows("select from sessions where id = %s and revoked_at is null", session.session) == []
    assert sorted(mails(directory)[2:]) == ["account.mail", "mail"]


async def test_another_spelling_of_its_address_takes_nothing_from_anybody(directory: Directory) -> None:
    ada = await directory.create(ADA)
    directory.people.change("update users set email_verified_at = now(), password_hash = 'hash' where id = %s", ada["id"])
    session = directory.tenants.session(Person(ada["id"], uuid4(), ADA), directory.tenant)
    mailed = mails(directory)
    spelled = (await directory.patch(ada["id"], {"op": "replace", "path": "userName", "value": "Ada@example.org"})).ok()
    assert spelled["userName"] == "Ada@example.org"
    kept = account(directory, ada["id"])
    assert (kept["email"], kept["password_hash"]) == ("Ada@example.org", "hash")
    assert kept["email_verified_at"] is not None
    (row,) = directory.people.rows("select revoked_at from sessions where id = %s", session.session)
    assert row["revoked_at"] is None
    assert mails(directory) == mailed


async def test_an_account_that_is_laid_out_for_somebody_lets_nobody_else_in(directory: Directory) -> None:
    """An accomplice opens the account. Then it is moved to the address of a person who has not come yet, and the person follows a link,
    which anybody may have requested for the address.
    """
    trap = await directory.create(ADA)
    hashed = await directory.postern.identity.passwords.hash(Password(PASSWORD))
    directory.people.change("update users set email_verified_at = now(), password_hash = %s where id = %s", hashed, trap["id"])
    accomplice = Browser(directory.client)
    token = (await accomplice.login(Person(trap["id"], uuid4(), ADA))).ok()["access_token"]
    owner = Owner(directory.client, directory.people, directory.postern, Person(trap["id"], uuid4(), ADA), token)
    passkey, _ = await owner.add()
    assert (await owner.sign_in(passkey)).status == 200
    directory.people.connect(Person(trap["id"], uuid4(), ADA))
    moving = {"op": "replace", "path": "userName", "value": "victim@example.org"}
    # A person who could sign in has proved the address, and keeps the account. This statement takes the proof away.
    assert refusal(await directory.patch(trap["id"], moving)) == (400, "mutability")
    directory.people.change("update users set email_verified_at = null where id = %s", trap["id"])
    (await directory.patch(trap["id"], moving)).ok()
    directory.people.change(
        "insert into mailed_tokens (digest, purpose, user_id, email, created_at, expires_at)"
        " select sha256('link'), 'verify_email', id, email, now(), now() + interval '1 hour' from users where id = %s",
        trap["id"],
    )
    assert (await directory.client.get("/auth/verify-email?token=link")).status == 200
    assert account(directory, trap["id"])["email_verified_at"] is not None
    assert (await accomplice.login(Person(trap["id"], uuid4(), "victim@example.org"))).status == 401
    assert (await owner.sign_in(passkey)).status == 401
    assert directory.people.rows("select from identities") == []


@pytest.mark.parametrize("holder", ["membership", "platform"])
async def test_once_somebody_else_holds_the_account_it_is_the_persons(directory: Directory, globex: Directory, holder: str) -> None:
    created = await directory.create(ADA)
    ada = Person(created["id"], uuid4(), ADA)
    match holder:
        case "membership":
            directory.tenants.join(ada, globex.tenant)
        case "platform":
            directory.people.change("update users set is_platform_owner = true where id = %s", ada.user)
    assert refusal(await directory.patch(created["id"], {"op": "replace", "path": "userName", "value": "b@example.org"})) == (
        400,
        "mutability",
    )
    assert (await directory.patch(created["id"], {"op": "replace", "path": "active", "value": False})).ok()["active"] is False
    assert account(directory, ada.user)["deactivated_at"] is None
    assert (await directory.ask("DELETE", f"{USERS}/{ada.user}")).status == 204
    assert account(directory, ada.user)["email"] == ADA


async def test_an_account_that_nothing_else_holds_is_deleted_for_good(directory: Directory) -> None:
    created = await directory.create(ADA)
    directory.tenants.uses(Person(created["id"], uuid4(), ADA), directory.tenants.service(directory.tenant, "shop"))
    assert (await directory.ask("DELETE", f"{USERS}/{created['id']}")).status == 204
    assert directory.people.rows("select from users where id = %s", created["id"]) == []
    assert refusal(await directory.ask("DELETE", f"{USERS}/{created['id']}")) == (404, None)
    again = await directory.create(ADA)
    assert again["id"] != created["id"]


async def test_deleting_an_account_whose_address_nobody_has_proved_takes_nothing_away_from_others(
    directory: Directory, globex: Directory, postern: Postern
) -> None:
    """A directory chooses any address. Otherwise it could end other organizations' invitations and mails to the address by two requests."""
    people, token = directory.people, await directory.people.token(globex.owner)
    (await directory.client.post("/api/organizations/globex/invitations", {"email": ADA, "role": "member"}, token=token)).ok()
    kept = (
        "select * from invitations",
        "select * from audit_personal join audit_entries on id = entry_id where organization_id is not null order by entry_id",
        "select * from events where organization_id is not null order by id",
        "select id, kind from jobs where kind = 'mail' or kind like 'organization%%' order by id",
    )
    before = [people.rows(rows) for rows in kept]
    assert all(before)
    created = await directory.create(ADA)
    # A requested proof does not count either.
    people.change("update users set pending_email = %s, pending_email_key = %s where id = %s", ADA, ADA, created["id"])
    assert (await directory.ask("DELETE", f"{USERS}/{created['id']}")).status == 204
    assert await finish_forgetting(postern, people) == 1
    assert people.rows("select from users where id = %s", created["id"]) == []
    for rows, was in zip(kept, before, strict=True):
        assert [one for one in was if one not in people.rows(rows)] == [], rows


@pytest.mark.parametrize("role", ["owner", "admin", list(Capability), *([one] for one in Capability if one not in MEMBERS)])
async def test_whoever_may_do_more_than_a_member_is_not_touched(directory: Directory, role: str | list[Capability]) -> None:
    """Not even by the directory that made the account: a person who may make a token could take over this account by it."""
    if role == "owner":
        chief = directory.owner
    else:
        made = await directory.create("Chief@example.org")
        chief = Person(UUID(made["id"]), uuid4(), "Chief@example.org")
        slug = role if isinstance(role, str) else directory.tenants.role(directory.tenant, "chief", role).slug
        owner = await directory.people.token(directory.owner)
        (await directory.client.request("PATCH", f"/api/organizations/acme/members/{chief.user}", body={"role": slug}, token=owner)).ok()
    before = directory.people.rows("select * from memberships"), directory.people.rows("select * from users")
    path = f"{USERS}/{chief.user}"
    for answer in (
        await directory.patch(path, {"op": "replace", "path": "active", "value": False}),
        await directory.patch(path, {"op": "replace", "path": "userName", "value": "mine@example.org"}),
        await directory.ask("PUT", path, {"userName": chief.email, "active": False}),
        await directory.ask("DELETE", path),
        await directory.patch(directory.group, {"op": "remove", "path": f'members[value eq "{chief.user}"]'}),
    ):
        assert refusal(answer) == (403, None)
    left_out = await directory.ask("PUT", directory.group, {"displayName": "Acme", "members": []})
    assert str(chief.user) in {one["value"] for one in left_out.ok()["members"]}
    assert (directory.people.rows("select * from memberships"), directory.people.rows("select * from users")) == before
    # The directory may still change its own name for the person.
    assert (await directory.patch(path, {"op": "add", "path": "externalId", "value": "e"})).ok()["externalId"] == "e"
    assert [one["id"] for one in await directory.find('externalId eq "e"')] == [str(chief.user)]


async def test_a_role_that_permits_no_more_than_members_may_is_the_directorys_to_end(directory: Directory) -> None:
    made = await directory.create(ADA)
    role = directory.tenants.role(directory.tenant, "viewer", list(MEMBERS)[:1])
    owner = await directory.people.token(directory.owner)
    path = f"/api/organizations/acme/members/{made['id']}"
    (await directory.client.request("PATCH", path, body={"role": role.slug}, token=owner)).ok()
    assert (await directory.patch(made["id"], {"op": "replace", "path": "userName", "value": "moved@example.org"})).status == 200
    assert (await directory.patch(made["id"], {"op": "replace", "path": "active", "value": False})).status == 200
    assert directory.people.rows("select from memberships where user_id = %s", made["id"]) == []


async def test_a_role_that_permits_more_by_now_counts_at_once(directory: Directory) -> None:
    made = await directory.create(ADA)
    owner = await directory.people.token(directory.owner)
    roles, path = "/api/organizations/acme/roles", f"/api/organizations/acme/members/{made['id']}"
    role = (await directory.client.post(roles, {"slug": "clerk", "name": "Clerk", "permissions": []}, token=owner)).ok(201)
    (await directory.client.request("PATCH", path, body={"role": "clerk"}, token=owner)).ok()
    for permissions, status in ((["audit_logs.view"], 403), (["services.view"], 200)):
        body = {"permissions": permissions}
        (await directory.client.request("PATCH", f"{roles}/{role['id']}", body=body, token=owner)).ok()
        assert (await directory.patch(made["id"], {"op": "replace", "path": "active", "value": False})).status == status


async def test_people_of_another_organization_do_not_exist_here(directory: Directory, globex: Directory) -> None:
    theirs = await globex.create(ADA)
    before = account(directory, theirs["id"])
    for method, body in (
        ("GET", None),
        ("DELETE", None),
        ("PUT", {"userName": ADA}),
        ("PATCH", {"schemas": [PATCH_OP], "Operations": [{"op": "replace", "path": "active", "value": False}]}),
    ):
        assert refusal(await directory.ask(method, f"{USERS}/{theirs['id']}", body)) == (404, None)
    assert refusal(await directory.ask("GET", globex.group)) == (404, None)
    added = await directory.patch(directory.group, {"op": "add", "path": "members", "value": [{"value": theirs["id"]}]})
    assert refusal(added) == (400, "invalidValue")
    assert refusal(await directory.ask("GET", f"{USERS}/no-id")) == (404, None)
    assert account(directory, theirs["id"]) == before
    assert await globex.members() == {theirs["id"], str(globex.owner.user)}


async def test_the_platforms_deactivation_is_not_lifted_and_a_directorys_is_where_another_brings_the_person(
    directory: Directory, globex: Directory, postern: Postern
) -> None:
    ada = await directory.create(ADA)
    await directory.patch(ada["id"], {"op": "replace", "path": "active", "value": False})
    await globex.create(ADA)
    assert account(directory, ada["id"])["deactivated_at"] is None
    assert (await directory.shown(ada["id"]))["active"] is False
    bob = await directory.create("bob@example.org")
    await directory.patch(bob["id"], {"op": "replace", "path": "active", "value": False})
    async with postern.foundation.unit_of_work() as uow:
        assert await uow.accounts.deactivate(bob["id"], postern.foundation.clock.now())
        await uow.commit()
    activate = {"op": "replace", "path": "active", "value": True}
    # Each directory reads what it wrote. The account stays shut, and no answer says so.
    (await directory.patch(bob["id"], activate)).ok()
    assert (await directory.shown(bob["id"]))["active"] is True
    assert account(directory, bob["id"])["deactivated_at"] is not None
    assert (await globex.create("bob@example.org"))["active"] is True
    assert (await globex.shown(bob["id"]))["active"] is True
    assert account(directory, bob["id"])["deactivated_at"] is not None
    # The directory may not delete an account that the platform has deactivated.
    assert (await directory.ask("DELETE", f"{USERS}/{bob['id']}")).status == 204
    assert account(directory, bob["id"])["deactivated_at"] is not None


async def at_once(number: int, ask: Any) -> list[Received]:
    answers: list[Received] = []

    async def one() -> None:
        answers.append(await ask())

    async with trio.open_nursery() as nursery:
        for _ in range(number):
            nursery.start_soon(one)
    return answers


async def test_active_and_inactive_together_are_at_most_twice_as_many_as_members_may_be(directory: Directory, globex: Directory) -> None:
    directory.people.change("update all_organizations set max_users = 2 where id = %s", directory.tenant.id)
    # The owner counts as a member.
    first, *_ = [await directory.create(f"u{number}@example.org", active=False) for number in range(3)]
    for active in (False, True):
        full = await directory.ask("POST", USERS, {"userName": ADA, "active": active})
        assert refusal(full) == (400, None)
        assert "limit of 4 users, active and inactive together" in full.json()["detail"]
    # A person who already has an account counts as well.
    assert refusal(await directory.ask("POST", USERS, {"userName": directory.people.add().email, "active": False})) == (400, None)
    assert directory.people.rows("select from users where email = %s", ADA) == []
    # People whom the directory has added already can still be activated and deactivated.
    for active in (True, False, True):
        changed = await directory.patch(first["id"], {"op": "replace", "path": "active", "value": active})
        assert changed.ok()["active"] is active
        assert refusal(await directory.ask("POST", USERS, {"userName": ADA, "active": False})) == (400, None)
    # Another organization has its own limit, and a deletion makes room.
    await globex.create("elsewhere@example.org", active=False)
    assert (await directory.ask("DELETE", f"{USERS}/{first['id']}")).status == 204
    await directory.create(ADA, active=False)


async def test_of_many_that_are_created_inactive_at_once_no_more_come_in_than_there_is_room_for(directory: Directory) -> None:
    directory.people.change("update all_organizations set max_users = 3 where id = %s", directory.tenant.id)
    names = iter(f"u{number}@example.org" for number in range(20))
    answers = await at_once(20, lambda: directory.ask("POST", USERS, {"userName": next(names), "active": False}))
    assert sorted(answer.status for answer in answers) == [201] * 5 + [400] * 15
    assert len(directory.people.rows("select from provisioned_users where not is_member")) == 5
    assert len(directory.people.rows("select from users where origin_org_id is not null")) == 5


async def test_of_fifty_that_create_the_same_user_one_wins(directory: Directory) -> None:
    answers = await at_once(50, lambda: directory.ask("POST", USERS, {"userName": ADA}))
    assert sorted(answer.status for answer in answers) == [201] + [409] * 49
    assert len(directory.people.rows("select from users where email = %s", ADA)) == 1
    (counted,) = directory.people.rows("select member_count from organizations where id = %s", directory.tenant.id)
    assert counted["member_count"] == 2


async def test_two_directories_and_a_registration_at_once_make_one_account(directory: Directory, globex: Directory, client: Client) -> None:
    statuses: list[int] = []

    async def create(one: Directory) -> None:
        statuses.append((await one.ask("POST", USERS, {"userName": ADA})).status)

    async def register() -> None:
        await client.post("/api/auth/register", {"email": ADA, "password": "correct horse battery"})

    async with trio.open_nursery() as nursery:
        nursery.start_soon(create, directory)
        nursery.start_soon(register)
        nursery.start_soon(create, globex)
    assert statuses == [201, 201]
    assert len(directory.people.rows("select from users where email = %s", ADA)) == 1


async def test_fifty_changes_and_deletions_at_once_end_in_one_state(directory: Directory) -> None:
    ada = await directory.create(ADA)
    asked = iter(range(50))

    async def change() -> Received:
        number = next(asked)
        operation = {"op": "replace", "path": "active", "value": number % 2 == 0}
        return await directory.patch(ada["id"], operation)

    assert {answer.status for answer in await at_once(50, change)} == {200}
    shown = await directory.shown(ada["id"])
    assert bool(directory.people.rows("select from memberships where user_id = %s", ada["id"])) is shown["active"]
    answers = await at_once(20, lambda: directory.ask("DELETE", f"{USERS}/{ada['id']}"))
    assert sorted(answer.status for answer in answers) == [204] + [404] * 19


async def test_what_an_administrator_removes_the_directory_sees_as_inactive_and_may_bring_back(directory: Directory) -> None:
    ada = await directory.create(ADA)
    removed = await directory.client.request(
        "POST", f"/api/organizations/acme/members/{ada['id']}", token=await directory.people.token(directory.owner)
    )
    assert removed.status in {200, 204}
    assert (await directory.shown(ada["id"]))["active"] is False
    assert ada["id"] not in await directory.members()
    assert (await directory.patch(ada["id"], {"op": "replace", "path": "active", "value": True})).ok()["active"] is True
    assert ada["id"] in await directory.members()


async def test_what_is_refused_for_how_it_is_to_be_answered_has_not_happened(directory: Directory) -> None:
    ada = await directory.create(ADA)
    for query in ("attributes=id&excludedAttributes=name", f"attributes={','.join(['x'] * 101)}"):
        for method, path in (("POST", USERS), ("PUT", f"{USERS}/{ada['id']}")):
            answer = await directory.ask(method, f"{path}?{query}", {"userName": "b@example.org", "displayName": "B"})
            assert refusal(answer) == (400, "invalidValue")
        body = {"schemas": [PATCH_OP], "Operations": [{"op": "replace", "path": "active", "value": False}]}
        assert refusal(await directory.ask("PATCH", f"{USERS}/{ada['id']}?{query}", body)) == (400, "invalidValue")
        assert refusal(await directory.ask("PUT", f"{directory.group}?{query}", {"members": []})) == (400, "invalidValue")
    assert await directory.shown(ada["id"]) == ada
    assert await directory.find('userName eq "b@example.org"') == []


async def test_no_request_goes_to_the_database_more_often_than_it_must(directory: Directory, log: CapturedLog) -> None:
    ada = await directory.create(ADA)

    async def trips(method: str, path: str, body: Any = None) -> int:
        assert (await directory.ask(method, path, body)).status < 300
        counted: int = log.events("request")[-1]["db_round_trips"]
        return counted

    def patch(*operations: dict[str, Any]) -> dict[str, Any]:
        return {"schemas": [PATCH_OP], "Operations": operations}

    user = f"{USERS}/{ada['id']}"
    for path in (USERS, f"{USERS}?filter=userName%20co%20%22a%22&sortBy=userName", user, directory.group):
        assert await trips("GET", path) <= 2, path
    # The teams of the directory are one more.
    assert await trips("GET", GROUPS) <= 3
    assert await trips("POST", USERS, {"userName": "b@example.org"}) <= 5
    assert await trips("PATCH", user, patch({"op": "replace", "path": "displayName", "value": "A"})) <= 3
    assert await trips("PATCH", user, patch({"op": "replace", "path": "active", "value": False})) <= 5
    assert await trips("PATCH", user, patch({"op": "replace", "path": "active", "value": True})) <= 5
    assert await trips("PATCH", directory.group, patch({"op": "remove", "path": f'members[value eq "{ada["id"]}"]'})) <= 5
    assert await trips("PUT", directory.group, {"members": [{"value": ada["id"]}]}) <= 5
    assert await trips("DELETE", user) <= 6


async def test_an_organization_brings_so_many_people_at_once(directory: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scim_users, "ADDITIONS", RateLimit("scim_additions", burst=1, seconds_per_request=1000))
    await directory.create(ADA)
    answer = await directory.ask("POST", USERS, {"userName": "b@example.org"})
    assert refusal(answer) == (429, None)
    assert answer.header("retry-after") is not None


@pytest.mark.parametrize("place", ["", "/", "/Nothing", "/Users/x/y", "/Users/", "/%ff"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize("accept", ["*/*", "application/scim+json", "text/html"])
async def test_what_is_not_there_is_told_in_the_shape_of_scim(directory: Directory, place: str, method: str, accept: str) -> None:
    # `ask` looks at the media type.
    assert refusal(await directory.ask(method, f"{BASE}{place}", headers=[("accept", accept)])) == (404, None)
    assert refusal(await directory.ask(method, f"{BASE}{place}", headers=[("accept", accept)], token="none")) == (404, None)


async def test_a_place_that_only_begins_alike_is_none_of_scim(directory: Directory) -> None:
    answer = await directory.client.get(f"{BASE}x")
    assert (answer.status, answer.header("content-type")) == (404, "application/json")


async def test_an_organization_that_is_gone_has_nobody(postern: Postern) -> None:
    nobody = ScimHolder(ScimTokenId(uuid4()), "Late", "scim_live_x", OrganizationId(uuid4()), "gone")
    scim, groups = postern.federation.scim_users, postern.federation.scim_groups
    for refused in (
        scim.create(nobody, Stated(user_name=ADA), SYSTEM),
        scim.delete(nobody, UserId(uuid4()), None, SYSTEM),
        groups.get(nobody, with_members=True),
        groups.change(nobody, GroupChange(), None, SYSTEM, with_members=False),
    ):
        with pytest.raises(NotFound):
            await refused
    assert (await scim.list(nobody, Search(None, Order(), 1, 10))).total == 0


async def test_somebody_who_registers_at_this_moment_is_brought_in(directory: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The registration comes after the directory has found the address free, and before it makes the account."""
    add = AccountRows.add
    registered: list[Person] = []

    async def after_another(rows: AccountRows, *given: Any, **named: Any) -> bool:
        if not registered:
            registered.append(await trio.to_thread.run_sync(directory.people.add, ADA))
        return await add(rows, *given, **named)

    monkeypatch.setattr(AccountRows, "add", after_another)
    created = await directory.create(ADA)
    assert created["id"] == str(registered[0].user)
    assert len(directory.people.rows("select from users where email_key = %s", ADA)) == 1


@pytest.mark.parametrize(
    "shown", ["attributes=userName", "attributes=meta.version,emails.type", "excludedAttributes=meta,emails,active,userName"]
)
async def test_any_part_of_a_user_or_the_group_is_as_it_is_told(directory: Directory, shown: str) -> None:
    """`Client` compares each answer with the document."""
    user = (await directory.create(ADA, name={"givenName": "Ada"}, displayName="Ada"))["id"]
    of_group = shown.replace("userName", "displayName").replace("emails", "members")
    for target in (f"{USERS}/{user}?{shown}", f"{USERS}?{shown}", f"{directory.group}?{of_group}", f"{GROUPS}?{of_group}"):
        body = (await directory.ask("GET", target)).ok()
        (found,) = body.get("Resources", [body])[-1:]
        assert {"schemas", "id"} <= set(found)
        assert not {"active", "groups"} & set(found)
