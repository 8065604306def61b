"""A directory has switched off an account whose address nobody has proved. Whoever reads the mailbox opens the account by a link that they
ask for, and the directory's own tie stays switched off. An account that the platform has deactivated stays deactivated.
"""

from typing import Any, Final
from uuid import UUID

import pytest
import trio

from adapters.postgres.upkeep.purging import PostgresDeletedOrganizations
from core.domain.identifiers import UserId
from core.domain.mail import Email
from core.domain.tenancy.organizations import purge_job
from core.usecases.jobs import Purge
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.client import Received, refused
from tests.http.federation.scim.directories import Directory, refusal
from tests.http.inviting import Inviting
from tests.http.people import People, Person
from tests.http.postbox import Postbox, link_in, token_in
from tests.http.routing import route
from tests.http.signing_in import PASSWORD, Browser, unlimited

database_url, postern, people = http.database_url, http.postern, http.people

VICTIM: Final = "ada@example.org"
ACTIVATE: Final = {"op": "replace", "path": "active", "value": True}


class SwitchedOff:
    """Evil's directory has added, as inactive, the address of a person who has never used this installation."""

    def __init__(self, postern: Postern, people: People, log: CapturedLog) -> None:
        self.postern, self.people = postern, people
        self.client = unlimited(postern)
        self.evil = Directory(postern, self.client, people, "evil")
        self.postbox = Postbox(postern)
        self.log = log
        self.user = ""

    async def prepare(self) -> "SwitchedOff":
        await self.evil.connect()
        self.user = (await self.evil.create(VICTIM, active=False))["id"]
        assert self.row()["deactivated_at"] is not None
        assert await self.postbox.empty() == []
        return self

    def row(self, user: str = "") -> dict[str, Any]:
        (row,) = self.people.rows("select * from users where id = %s", user or self.user)
        return row

    async def register(self, email: str = VICTIM, password: str = PASSWORD) -> Received:
        return await self.client.post("/api/auth/register", {"email": email, "password": password})

    async def asks_for_reset(self) -> None:
        (await self.client.post("/api/auth/forgot-password", {"email": VICTIM})).ok()

    async def resets(self, token: str) -> Received:
        return await self.client.post("/api/auth/reset-password", {"token": token, "new_password": PASSWORD})

    async def login(self, password: str = PASSWORD) -> Received:
        return await Browser(self.client).login(Person(UUID(self.user), UUID(self.user), VICTIM), password)

    async def require_tie_off(self) -> None:
        """Checks that the person is still inactive for evil's directory, in its answers and in its log."""
        assert (await self.evil.shown(self.user))["active"] is False
        assert self.people.rows("select from memberships where user_id = %s and org_id = %s", self.user, self.evil.tenant.id) == []
        assert [entry["action"] for entry in self.evil.logged() if entry["action"] == "user.joined"] == []

    async def deactivate_by_platform(self) -> None:
        async with self.postern.foundation.unit_of_work() as uow:
            assert await uow.accounts.deactivate(UserId(UUID(self.user)), self.postern.foundation.clock.now())
            await uow.commit()

    async def delete_evil(self) -> None:
        token = await self.people.token(self.evil.owner)
        assert (await self.client.request("DELETE", "/api/organizations/evil", token=token)).status == 204

    async def purge_evil(self) -> None:
        foundation = self.postern.foundation
        purge = Purge(foundation.unit_of_work, PostgresDeletedOrganizations(foundation.pool), purge_job)
        assert await purge.run(self.evil.tenant.id, trio.lowlevel.checkpoint)

    def activated(self) -> list[str]:
        rows = self.people.rows("select details ->> 'how' as how from audit_log where action = 'user.activated' order by id")
        return [row["how"] for row in rows]


@pytest.fixture
async def off(postern: Postern, people: People, log: CapturedLog) -> SwitchedOff:
    return await SwitchedOff(postern, people, log).prepare()


async def test_the_owner_of_the_address_registers(off: SwitchedOff) -> None:
    registered = (await off.register()).ok()
    # The answer does not differ from that for an address that no directory has added.
    other = (await off.register("bob@example.org")).ok()
    assert registered.keys() == other.keys()
    # Registering does not prove the address, and chooses no password for an account that is there.
    assert (await off.login()).status == 401
    assert off.row()["deactivated_at"] is not None
    mails = {mail.to: mail for mail in await off.postbox.empty()}
    assert (await off.resets(token_in(link_in(mails[VICTIM])))).status == 200
    assert (await off.login()).status == 200
    row = off.row()
    assert (row["email"], row["deactivated_at"], row["deactivated_by"], row["origin_org_id"]) == (VICTIM, None, None, None)
    assert off.activated() == ["address_proved"]
    await off.require_tie_off()


async def test_however_many_register_nobody_gets_it_but_the_reader_of_the_mailbox(off: SwitchedOff) -> None:
    before = off.row()
    answers: list[Received] = []

    async def register() -> None:
        answers.append(await off.register())

    async with trio.open_nursery() as nursery:
        for _ in range(6):
            nursery.start_soon(register)
    assert [answer.status for answer in answers] == [200] * 6
    assert off.row() == before
    # Five mails of a kind go to an address at once, and only the last link works.
    *_, mail = await off.postbox.empty()
    assert (await off.resets(token_in(link_in(mail)))).status == 200
    assert off.activated() == ["address_proved"]


async def test_the_directory_has_no_say_of_an_account_that_somebody_has_opened(off: SwitchedOff) -> None:
    (await off.register()).ok()
    (await off.resets(await off.postbox.token())).ok()
    before = off.row()
    for change in (
        {"op": "replace", "path": "userName", "value": "mine@evil.example"},
        {"op": "replace", "path": "emails", "value": [{"value": "mine@evil.example"}]},
    ):
        assert refusal(await off.evil.patch(off.user, change)) == (400, "mutability")
    (await off.evil.patch(off.user, ACTIVATE)).ok()
    (await off.evil.patch(off.user, {**ACTIVATE, "value": False})).ok()
    assert off.row() == before
    assert (await off.evil.ask("DELETE", f"/scim/v2/Users/{off.user}")).status == 204
    assert off.row() == before


async def test_what_an_earlier_holder_left_there_goes_with_the_first_proof(off: SwitchedOff) -> None:
    ada = Person(UUID(off.user), UUID(off.user), VICTIM)
    off.people.give_passkey(ada)
    off.people.connect(ada)
    off.people.change(
        "insert into mfa_secrets (user_id, sealed_secret, enabled_at, created_at) values (%s, 'x', now(), now())",
        off.user,
    )
    (await off.register()).ok()
    (await off.resets(await off.postbox.token())).ok()
    for table in ("passkeys", "identities", "mfa_secrets"):
        assert off.people.rows(f"select from {table} where user_id = %s", off.user) == [], table


async def test_the_owner_of_the_address_resets_the_password(off: SwitchedOff) -> None:
    await off.asks_for_reset()
    assert (await off.resets(await off.postbox.token())).status == 200
    assert (await off.login()).status == 200
    assert off.activated() == ["address_proved"]
    assert off.row()["origin_org_id"] is None
    await off.require_tie_off()
    # The account is nobody's now, so no directory can switch it off.
    (await off.evil.patch(off.user, ACTIVATE)).ok()
    (await off.evil.patch(off.user, {**ACTIVATE, "value": False})).ok()
    assert (await off.login()).status == 200


async def test_a_link_to_verify_alone_is_not_sent(off: SwitchedOff) -> None:
    """Nobody has registered, so a verified address would open nothing: there is no password."""
    (await off.client.post("/api/auth/resend-verification", {"email": VICTIM})).ok()
    assert await off.postbox.empty() == []
    assert off.row()["deactivated_at"] is not None


async def test_the_owner_of_the_address_accepts_the_invitation_that_our_server_has_mailed(off: SwitchedOff, log: CapturedLog) -> None:
    scene = Inviting(off.postern, off.people, off.client, log)
    issued = await scene.invite(VICTIM)
    ((_, mailed),) = await scene.mailed()
    assert issued["token"] != mailed
    assert (await scene.accept(mailed)).status == 200
    assert scene.members()[VICTIM] == "member"
    assert off.activated() == ["address_proved"]
    assert (await off.resets(await off.postbox.token())).status == 200
    assert (await off.login()).status == 200
    await off.require_tie_off()


@pytest.mark.parametrize("by", ["the inviter's own token", "on behalf"])
async def test_the_inviter_lists_the_person_as_anybody_and_opens_nothing(off: SwitchedOff, log: CapturedLog, by: str) -> None:
    scene = Inviting(off.postern, off.people, off.client, log)
    issued = await scene.invite(VICTIM)
    before = off.row()
    if by == "on behalf":
        answer = await scene.ask("POST", f"/{issued['invitation']['id']}/accept")
    else:
        answer = await scene.accept(issued["token"])
    assert answer.status == 200
    assert off.row() == before
    assert scene.members()[VICTIM] == "member"
    assert off.people.rows("select from memberships where user_id = %s and own_since is not null", off.user) == []
    await off.require_tie_off()


async def test_an_invitation_by_the_organizations_own_mail_server_proves_nothing(off: SwitchedOff, log: CapturedLog) -> None:
    scene = Inviting(off.postern, off.people, off.client, log)
    issued = await scene.invite(VICTIM)
    # As when the organization's own server has sent the mail.
    off.people.change("update invitations set mailed_digest = null")
    before = off.row()
    assert (await scene.accept(issued["token"])).status == 200
    assert off.row() == before
    assert off.people.rows("select own_since from memberships where user_id = %s", off.user) == [{"own_since": None}]


async def test_the_domain_does_not_bring_in_whom_the_directory_has_switched_off(off: SwitchedOff) -> None:
    """The sign-in activates the account, and never the organization's own tie."""
    route(off.people, off.evil.tenant, "example.org", join="on", login="password_allowed")
    await off.asks_for_reset()
    (await off.resets(await off.postbox.token())).ok()
    (await off.login()).ok()
    await off.require_tie_off()
    await off.postern.identity.joining.join_at_sign_in(UserId(UUID(off.user)), Email(VICTIM))
    await off.require_tie_off()


async def test_what_the_platform_has_deactivated_no_proof_lifts(off: SwitchedOff, log: CapturedLog) -> None:
    scene = Inviting(off.postern, off.people, off.client, log)
    await scene.invite(VICTIM)
    ((_, mailed),) = await scene.mailed()
    await off.asks_for_reset()
    waiting = await off.postbox.token()
    await off.deactivate_by_platform()
    before = off.row()
    assert before["deactivated_by"] is None
    assert refused(await off.register()) == (409, "CONFLICT")
    assert (await off.resets(waiting)).status == 400
    await off.asks_for_reset()
    assert await off.postbox.empty() == []
    assert refused(await scene.accept(mailed)) == (400, "BAD_REQUEST")
    (await off.evil.patch(off.user, ACTIVATE)).ok()
    assert off.row() == before
    assert await off.postbox.empty() == []
    await off.delete_evil()
    await off.purge_evil()
    assert {**off.row(), "origin_org_id": None} == {**before, "origin_org_id": None}
    assert refused(await off.register()) == (409, "CONFLICT")


async def test_a_proved_owner_opens_it_by_a_link_alone(off: SwitchedOff, log: CapturedLog) -> None:
    """The person has proved the address, and their own directory has switched them off. An invitation that nobody asked for is no link."""
    off.people.change("update users set email_verified_at = now() where id = %s", off.user)
    scene = Inviting(off.postern, off.people, off.client, log)
    await scene.invite(VICTIM)
    ((_, mailed),) = await scene.mailed()
    assert refused(await scene.accept(mailed)) == (400, "BAD_REQUEST")
    assert off.row()["deactivated_at"] is not None
    await off.asks_for_reset()
    assert (await off.resets(await off.postbox.token())).status == 200
    assert (await off.login()).status == 200
    await off.require_tie_off()


async def test_an_invitation_from_before_the_deactivation_opens_nothing(off: SwitchedOff, log: CapturedLog) -> None:
    scene = Inviting(off.postern, off.people, off.client, log)
    await scene.invite(VICTIM)
    ((_, mailed),) = await scene.mailed()
    off.people.change("update users set deactivated_at = now() where id = %s", off.user)
    off.people.change("update invitations set created_at = now() - interval '1 hour'")
    assert refused(await scene.accept(mailed)) == (400, "BAD_REQUEST")


async def test_the_directory_brings_back_whom_it_has_switched_off(off: SwitchedOff) -> None:
    off.people.change("update users set email_verified_at = now() where id = %s", off.user)
    assert (await off.evil.patch(off.user, ACTIVATE)).ok()["active"] is True
    assert off.row()["deactivated_at"] is None


@pytest.mark.parametrize("proved", [False, True])
async def test_the_end_of_the_organization_frees_the_account(off: SwitchedOff, *, proved: bool) -> None:
    if proved:
        off.people.change("update users set email_verified_at = now() where id = %s", off.user)
    await off.delete_evil()
    await off.purge_evil()
    row = off.row()
    assert (row["deactivated_at"], row["deactivated_by"], row["deactivated_by_org_id"], row["origin_org_id"]) == (None,) * 4
    await off.asks_for_reset()
    assert (await off.resets(await off.postbox.token())).status == 200
    assert (await off.login()).status == 200


@pytest.mark.parametrize("proved", [False, True])
async def test_the_directory_frees_whom_it_forgets(off: SwitchedOff, *, proved: bool) -> None:
    """Otherwise nobody would be left who could activate an account that others hold by now."""
    off.people.change("insert into held_accounts (user_id, held_since) values (%s, now())", off.user)
    if proved:
        off.people.change("update users set email_verified_at = now() where id = %s", off.user)
    assert (await off.evil.ask("DELETE", f"/scim/v2/Users/{off.user}")).status == 204
    assert (off.row()["deactivated_at"], off.row()["deactivated_by"]) == (None, None)


async def test_another_directory_hears_what_is(off: SwitchedOff) -> None:
    """Another directory gets the true state, also when an earlier release removed the organization and kept its deactivation."""
    await off.delete_evil()
    off.people.change("update users set deactivated_by_org_id = null where id = %s", off.user)
    await off.purge_evil()
    assert (off.row()["deactivated_at"] is not None, off.row()["deactivated_by"]) == (True, off.evil.tenant.id)
    globex = await Directory(off.postern, off.client, off.people, "globex").connect()
    assert (await globex.create(VICTIM))["active"] is True
    assert off.row()["deactivated_at"] is None
    assert (await off.resets(await off.postbox.token())).status == 200
    assert (await off.login()).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "group"])
async def test_a_directory_reads_what_it_wrote_of_whom_the_platform_keeps_out_and_lets_nobody_in(off: SwitchedOff, method: str) -> None:
    await off.deactivate_by_platform()
    before = off.row()
    globex = await Directory(off.postern, off.client, off.people, "globex").connect()
    created = await globex.create(VICTIM)
    assert created["active"] is True
    body = {"schemas": created["schemas"], "userName": VICTIM, "active": True}
    if method != "POST":
        (await globex.patch(off.user, {**ACTIVATE, "value": False})).ok()
    match method:
        case "PUT":
            (await globex.ask("PUT", f"/scim/v2/Users/{off.user}", body)).ok()
        case "PATCH":
            (await globex.patch(off.user, ACTIVATE)).ok()
        case "group":
            # The directory takes the person out of the group, and adds them again.
            (await globex.patch(off.user, ACTIVATE)).ok()
            (await globex.patch(globex.group, {"op": "remove", "path": f'members[value eq "{off.user}"]'})).ok()
            (await globex.patch(globex.group, {"op": "add", "path": "members", "value": [{"value": off.user}]})).ok()
    assert (await globex.shown(off.user))["active"] is True
    assert off.people.rows("select own_since from memberships where user_id = %s", off.user) == [{"own_since": None}]
    assert off.row() == before
    assert await off.postbox.empty() == []
    assert (await off.login()).status == 401


# As an earlier release does, which does not know the column.
_BY_THE_PLATFORM: Final = "update users set deactivated_at = now(), deactivated_by_org_id = null where id = %s"
_BY_A_DIRECTORY: Final = "update users set deactivated_at = now(), deactivated_by_org_id = (select id from organizations) where id = %s"
_PURGED: Final = "update users set deactivated_by_org_id = null where id = %s"
_LIFTED: Final = "update users set deactivated_at = null, deactivated_by_org_id = null where id = %s"


@pytest.mark.parametrize(
    ("changes", "by_directory"),
    [
        ((_BY_THE_PLATFORM,), False),
        ((_BY_A_DIRECTORY,), True),
        ((_PURGED,), True),
        ((_PURGED, _BY_THE_PLATFORM), False),
        ((_LIFTED,), False),
        ((_LIFTED, _BY_THE_PLATFORM), False),
        ((_LIFTED, _BY_A_DIRECTORY), True),
    ],
)
async def test_who_has_deactivated_is_known_beside_a_release_before(
    off: SwitchedOff, changes: tuple[str, ...], *, by_directory: bool
) -> None:
    for change in changes:
        off.people.change(change, off.user)
    assert off.row()["deactivated_by"] == (off.evil.tenant.id if by_directory else None)
