"""Addresses that people have proved and given up. When the person is forgotten, data sent to such an address before that
moment are, too.
"""

from collections.abc import Awaitable, Callable
from typing import Final
from uuid import UUID

import pytest
import trio

from adapters.postgres.identity.privacy.forgetting import NOBODY
from core.domain.mail import Email, Mail
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.federation.scim.directories import USERS, Directory
from tests.http.identity.test_privacy import LEASE, PrivacyScene, dump
from tests.http.people import People, Person
from tests.http.postbox import link_in, token_in
from tests.http.service_interface import USERS as SERVICE_USERS
from tests.http.signing_in import unlimited
from tests.http.tenants import Tenant
from tests.patience import PATIENCE

OLD, NEW, THIRD = "rita.old@forget-me.example", "rita.new@forget-me.example", "rita.third@forget-me.example"


class FormerAddressScene(PrivacyScene):
    """Rita has an account at the old address, which she has proved, and another address later."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.shop = self.tenants.service(self.acme, "shop")

    async def by_herself(self) -> tuple[Person, Callable[[str], Awaitable[None]]]:
        rita = self.verified(OLD)

        async def move(email: str) -> None:
            await self.postbox.empty()
            (await self.request("PATCH", "/api/user", {"email": email}, by=rita)).ok()
            (mail,) = [one for one in await self.postbox.empty() if one.to == email and "?token=" in one.text]
            assert (await self.client.get(f"/auth/verify-email?token={token_in(link_in(mail))}")).status == 200

        return rita, move

    async def by_a_service(self) -> tuple[Person, Callable[[str], Awaitable[None]]]:
        key = await self.key()
        made = (await self.client.request("POST", SERVICE_USERS, body={"email": OLD}, headers=key)).ok()

        async def move(email: str) -> None:
            self.unproved(made["id"])
            answer = await self.client.request("PATCH", f"{SERVICE_USERS}/{made['id']}", body={"email": email}, headers=key)
            assert answer.status == 200, answer.body

        return self.proved(made["id"]), move

    async def by_a_directory(self) -> tuple[Person, Callable[[str], Awaitable[None]]]:
        self.directory = await Directory(self.postern, self.client, self.people, "initech").connect()
        self.log.remember(self.directory.token)
        made = await self.directory.create(OLD)

        async def move(email: str) -> None:
            self.unproved(made["id"])
            answer = await self.directory.patch(made["id"], {"op": "replace", "path": "userName", "value": email})
            assert answer.status == 200, answer.body

        return self.proved(made["id"]), move

    async def key(self) -> list[tuple[str, str]]:
        asked = {"name": "key", "permissions": ["read:users", "write:users", "delete:users"]}
        key: str = (await self.request("POST", "/api/organizations/acme/services/shop/api-keys", asked, by=self.ada)).ok(201)["key"]
        self.log.remember(key)
        return [("x-api-key", key)]

    def proved(self, user: str) -> Person:
        self.people.change("update users set email_verified_at = now() where id = %s", user)
        return Person(UUID(user), UUID(int=0), OLD)

    def unproved(self, user: str) -> None:
        """Takes away the proof of the address. A proved address holds the account for its owner, but earlier releases moved
        such accounts.
        """
        self.people.change("update users set email_verified_at = null where id = %s", user)

    async def invites(self, tenant: Tenant, email: str = OLD) -> UUID:
        by = self.rival if tenant is self.globex else self.ada
        return UUID((await self.invite(email, by=by, of=tenant))["invitation"]["id"])

    async def goes(self, rita: Person) -> None:
        (await self.forget(rita, by=self.governor)).ok()
        await self.finish()

    def invitation(self, invitation: UUID) -> tuple[str, str]:
        (row,) = self.people.rows("select status, email from invitations where id = %s", invitation)
        return row["status"], row["email"]

    def said_of(self, invitation: UUID) -> list[str]:
        """The addresses in the records about it."""
        rows = self.people.rows(
            "select details ->> 'invited_email' as said from audit_log where target_id = %s"
            " union all select personal ->> 'invited_email' from events where target_id = %s",
            str(invitation),
            str(invitation),
        )
        return [row["said"] for row in rows if row["said"] is not None]

    def former(self) -> list[str]:
        return [row["email_key"] for row in self.people.rows("select email_key from former_addresses order by email_key")]


Beginning = Callable[[FormerAddressScene], Awaitable[tuple[Person, Callable[[str], Awaitable[None]]]]]
HOWS: Final = [FormerAddressScene.by_herself, FormerAddressScene.by_a_service, FormerAddressScene.by_a_directory]


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> FormerAddressScene:
    return FormerAddressScene(postern, people, unlimited(postern), log)


@pytest.mark.parametrize("begin", HOWS)
async def test_what_was_sent_to_an_address_that_somebody_gave_up_goes_with_them(
    scene: FormerAddressScene, begin: Beginning, database_url: str
) -> None:
    rita, move = await begin(scene)
    sent = await scene.invites(scene.globex)
    await scene.postbox.empty()
    await move(NEW)
    assert scene.former() == [OLD]
    assert OLD in dump(scene.people, database_url)
    assert scene.said_of(sent) == [OLD, OLD]
    await scene.goes(rita)
    assert scene.invitation(sent) == ("cancelled", NOBODY)
    assert scene.said_of(sent) == []
    after = dump(scene.people, database_url)
    assert [value for value in (OLD, NEW) if value in after] == []


@pytest.mark.parametrize("moves", [False, True])
async def test_an_address_in_the_letters_of_a_language_goes_from_texts_too(
    scene: FormerAddressScene, database_url: str, *, moves: bool
) -> None:
    """The address's key differs from the text of the address. Here the text is in a receiver's answer about an invitation."""
    written = "Rita@forget-me-b\u00fccher.example"
    rita = scene.verified(written)
    scene.people.change("update users set email_key = %s where id = %s", Email(written).key, rita.user)
    hook = {"name": "hook", "url": "http://127.0.0.1:1/", "events": ["user.invited"]}
    made = (await scene.request("POST", "/api/organizations/globex/webhooks", hook, by=scene.rival)).ok()
    scene.log.remember(made["secret"])
    await scene.invites(scene.globex, written)
    await scene.postbox.empty()
    scene.people.change("update webhook_deliveries set response_body = %s", f"invited: {written}")
    if moves:
        scene.people.change("update users set email = %s, email_key = %s, updated_at = now() where id = %s", NEW, NEW, rita.user)
    await scene.goes(rita)
    assert scene.people.rows("select response_body from webhook_deliveries") == [{"response_body": None}]
    after = dump(scene.people, database_url).casefold()
    assert [value for value in (written, Email(written).key, NEW) if value.casefold() in after] == []


@pytest.mark.parametrize("begin", HOWS)
async def test_whoever_has_the_address_next_loses_nothing(scene: FormerAddressScene, begin: Beginning) -> None:
    rita, move = await begin(scene)
    theirs = await scene.invites(scene.globex)
    await scene.postbox.asked_for()
    await move(NEW)
    # Also while nobody has the address.
    since = await scene.invites(scene.acme)
    next_holder = scene.verified(OLD)
    initrode = scene.tenants.add("initrode")
    chief = scene.resident(initrode, "owner", "chief")
    last = UUID((await scene.invite(OLD, by=chief, of=initrode))["invitation"]["id"])
    async with scene.postern.foundation.unit_of_work() as uow:
        await uow.jobs.add(Mail(OLD, "Yours", "Hello", "Hello").as_job())
        await uow.commit()
    await scene.goes(rita)
    assert scene.invitation(theirs) == ("cancelled", NOBODY)
    assert scene.invitation(since) == scene.invitation(last) == ("pending", OLD)
    assert scene.said_of(since) == scene.said_of(last) == [OLD, OLD]
    assert (scene.row(next_holder)["email"], scene.row(next_holder)["deactivated_at"]) == (OLD, None)
    assert len(await scene.own(next_holder)) == 2
    # Her mails are removed, also the mail that told the old address about the new one. Later mails still wait.
    mails = [Mail.of_job(job.payload) for job in await scene.postern.foundation.jobs.claim(["mail", "organization.mail"], 20, LEASE)]
    assert {mail.to for mail in mails} == {OLD}
    assert sorted("Yours" in mail.subject for mail in mails) == [False, False, True]
    assert [mail for mail in mails if NEW in mail.text or "globex" in mail.text.lower()] == []


@pytest.mark.parametrize("begin", [FormerAddressScene.by_a_service, FormerAddressScene.by_a_directory])
async def test_so_it_is_when_a_service_or_a_directory_deletes_the_account(
    scene: FormerAddressScene, begin: Beginning, database_url: str
) -> None:
    rita, move = await begin(scene)
    sent = await scene.invites(scene.globex)
    await scene.postbox.empty()
    await move(NEW)
    if begin is FormerAddressScene.by_a_service:
        answer = await scene.client.request("DELETE", f"{SERVICE_USERS}/{rita.user}", headers=await scene.key())
    else:
        answer = await scene.directory.ask("DELETE", f"{USERS}/{rita.user}")
    assert answer.status == 204
    assert scene.people.rows("select from users where id = %s", rita.user) == []
    await scene.finish()
    assert scene.invitation(sent) == ("cancelled", NOBODY)
    after = dump(scene.people, database_url)
    assert [value for value in (OLD, NEW) if value in after] == []
    # A later invitation to the address is for another person.
    since = await scene.invites(scene.acme)
    await scene.finish()
    assert scene.invitation(since) == ("pending", OLD)


async def test_several_addresses_each_count_until_they_were_given_up(scene: FormerAddressScene, database_url: str) -> None:
    rita, move = await scene.by_herself()
    await move(NEW)
    stays = await scene.invites(scene.globex)
    goes = await scene.invites(scene.globex, NEW)
    await move(THIRD)
    assert scene.former() == [NEW, OLD]
    await scene.goes(rita)
    assert (scene.invitation(stays), scene.invitation(goes)) == (("pending", OLD), ("cancelled", NOBODY))
    after = dump(scene.people, database_url)
    assert [value for value in (NEW, THIRD) if value in after] == []


async def test_an_address_that_somebody_came_back_to_is_theirs_up_to_the_end(scene: FormerAddressScene, database_url: str) -> None:
    rita, move = await scene.by_herself()
    await move(NEW)
    await move(OLD)
    sent = await scene.invites(scene.globex)
    await scene.goes(rita)
    assert scene.invitation(sent) == ("cancelled", NOBODY)
    assert [value for value in (OLD, NEW) if value in dump(scene.people, database_url)] == []
    # An address that was given up twice counts up to the second time.
    ruth, move = await scene.by_herself()
    await move(NEW)
    await move(OLD)
    sent = await scene.invites(scene.globex)
    await move(NEW)
    await scene.goes(ruth)
    assert scene.invitation(sent) == ("cancelled", NOBODY)


async def test_an_accepted_invitation_makes_a_former_address_nobodys_for_longer(scene: FormerAddressScene) -> None:
    rita, move = await scene.by_herself()
    await scene.invites(scene.acme)
    (mail,) = await scene.postbox.empty()
    assert (await scene.accept(token_in(link_in(mail)))).status == 200
    await move(NEW)
    scene.verified(OLD)
    since = await scene.invites(scene.globex)
    await scene.goes(rita)
    assert scene.invitation(since) == ("pending", OLD)


async def test_what_nobody_has_proved_does_not_count_afterwards_either(scene: FormerAddressScene) -> None:
    sent = await scene.invites(scene.globex)
    rita, move = await scene.by_a_directory()
    scene.people.change("update users set email_verified_at = null where id = %s", rita.user)
    scene.people.change("delete from former_addresses")
    await move(NEW)
    assert scene.former() == []
    await scene.goes(rita)
    assert scene.invitation(sent) == ("pending", OLD)


async def test_an_address_that_has_to_be_proved_again_was_proved_all_the_same(scene: FormerAddressScene) -> None:
    """The service has chosen another spelling, so the address must be proved again."""
    rita, move = await scene.by_a_service()
    sent = await scene.invites(scene.globex)
    await move(OLD.upper())
    assert scene.row(rita)["email_verified_at"] is None
    since = await scene.invites(scene.acme)
    await scene.goes(rita)
    assert (scene.invitation(sent), scene.invitation(since)) == (("cancelled", NOBODY), ("pending", OLD))


async def test_forgetting_gives_up_no_address(scene: FormerAddressScene) -> None:
    """The request to be forgotten keeps the address itself."""
    rita = scene.verified(OLD)
    (await scene.forget(rita, by=scene.governor)).ok()
    assert scene.former() == []


async def test_what_stands_in_place_of_addresses_is_not_looked_for_either(scene: FormerAddressScene) -> None:
    rita, move = await scene.by_herself()
    sent = await scene.invites(scene.globex)
    await move(NEW)
    scene.people.change("update former_addresses set email_key = %s, held_until = now() + interval '1 day'", NOBODY)
    scene.people.change("update invitations set email = %s, email_key = %s, status = 'cancelled', closed_at = now()", NOBODY, NOBODY)
    with trio.fail_after(PATIENCE):
        await scene.goes(rita)
    assert scene.invitation(sent) == ("cancelled", NOBODY)
