"""The mail server of an organization: set over HTTP, and its mails, while the server works and while it fails."""

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
import trio

from actors.job_worker import JobPace, Workplace
from actors.mailers import organization_mailer
from adapters.mail.transports import GuardedPost
from core.domain.jobs import NewJob
from core.domain.mail import MAIL_JOB, Mail
from core.domain.tenancy.mail_servers import ORGANIZATION_MAIL_JOB, OrganizationMail
from core.domain.tenancy.roles import Capability
from core.usecases.tenancy.mail_servers import AT_ONCE_OF_ONE, MailServers
from entrypoints.bootstrap import Postern
from ops.stand_ins.mail_server import MailServer, mail_server, scripted_server
from ports.mail import MailDelayed, MailRefused
from tests.conftest import CapturedLog
from tests.hostile_addresses import HOSTILE_ADDRESSES
from tests.http.cast import Neighbours
from tests.http.client import Received
from tests.http.people import People, Person
from tests.http.postbox import Postbox
from tests.http.signing_in import unlimited
from tests.meanwhile import meanwhile
from tests.patience import PATIENCE

PASSWORD: Final = "hunter2-of-acme-smtp"
_LEASE: Final = timedelta(minutes=1)
UNSET: Final = {"configured": False}


@dataclass
class MailServerScene(Neighbours):
    directory: Path

    def __post_init__(self) -> None:
        super().__post_init__()
        self.owner = self.resident(self.acme, "owner")
        self.speaker = self.resident(self.acme, "admin")
        self.member = self.resident(self.acme, "member")
        self.stranger = self.resident(self.globex, "owner")
        self.servers: MailServers = self.postern.tenancy.mail_servers
        self.log.remember(PASSWORD)

    async def ask(self, method: str, path: str = "", body: Any = None, *, of: str = "acme", by: Person | None = None) -> Received:
        return await self.request(method, f"/api/organizations/{of}/smtp{path}", body, by=by)

    async def set(self, port: int = 2525, **others: Any) -> dict[str, Any]:
        answer: dict[str, Any] = (await self.ask("POST", "", body(port, **others))).ok(200)
        return answer

    async def invite(self, email: str = "new@acme.example") -> None:
        (await self.request("POST", "/api/organizations/acme/invitations", {"email": email, "role": "member"})).ok(200)

    async def deliver(self) -> None:
        """One attempt at the mail that waits, without its retries."""
        (job,) = await self.postern.foundation.jobs.claim([ORGANIZATION_MAIL_JOB], 1, _LEASE)
        try:
            await self.servers.deliver(OrganizationMail.of_job(job.payload), job.id)
        except MailDelayed:
            await self.postern.foundation.jobs.retry(job, job.created_at, "again")
            raise
        await self.postern.foundation.jobs.complete(job)

    def files(self) -> list[str]:
        """The mails that went through the installation's server, which writes files here."""
        return [one.read_text() for one in sorted(self.directory.glob("*.eml"))]

    def row(self) -> dict[str, Any]:
        (row,) = self.people.rows("select * from mail_servers")
        return row


def body(port: int = 2525, **others: Any) -> dict[str, Any]:
    return {
        "host": "127.0.0.1",
        "port": port,
        "username": "acme",
        "password": PASSWORD,
        "from_email": "it@acme.example",
        "from_name": "Acme IT",
        **others,
    }


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog, tmp_path: Path) -> MailServerScene:
    return MailServerScene(postern, people, unlimited(postern), log, tmp_path / "mail")


@pytest.fixture
def server() -> Iterator[MailServer]:
    with mail_server(users={"acme": PASSWORD}) as opened:
        yield opened


async def test_a_mail_server_is_set_shown_replaced_and_removed(scene: MailServerScene) -> None:
    assert (await scene.ask("GET")).ok(200) == UNSET
    told = {
        "configured": True,
        "host": "127.0.0.1",
        "port": 2525,
        "username": "acme",
        "from_email": "it@acme.example",
        "from_name": "Acme IT",
        "failing_since": None,
        "fallback_since": None,
    }
    assert await scene.set() == told
    assert (await scene.ask("GET")).ok(200) == told
    assert await scene.set(host=" SMTP.Acme.example ", from_name=None) == {**told, "host": "smtp.acme.example", "from_name": None}
    for _ in range(2):
        assert (await scene.ask("DELETE")).status == 204
    assert (await scene.ask("GET")).ok(200) == UNSET
    assert [(one["action"], one["details"]) for one in scene.audited("organization.smtp%")] == [
        ("organization.smtp.configured", {"host": "127.0.0.1", "port": 2525}),
        ("organization.smtp.configured", {"host": "smtp.acme.example", "port": 2525}),
        ("organization.smtp.removed", {"host": "smtp.acme.example"}),
    ]


async def test_the_password_is_kept_sealed_for_its_row_alone(scene: MailServerScene) -> None:
    await scene.set()
    row = scene.row()
    assert PASSWORD.encode() not in row["sealed_password"]
    opened = scene.postern.foundation.keyring.open(row["sealed_password"], f"mail_servers.sealed_password:{row['id']}")
    assert opened == PASSWORD.encode()
    assert PASSWORD.encode() not in (await scene.ask("GET")).body


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("host", one) for one in ("", "a b", "smtp.acme.example:25", "user@smtp.example", "127.1", "http://smtp.example", "x" * 254)),
        *(("host", one) for one in ("smtp\r\nRCPT", "ключ.example", "[::1", None)),
        *(("port", one) for one in (0, 65536, -1, "25", None)),
        *(("username", one) for one in ("", "x" * 321, "a\r\nb", "a\0b", None)),
        *(("password", one) for one in ("", "x" * 1001, "a\r\nb", None)),
        *(("from_email", one) for one in ("", "acme", "it@acme.example\r\nBcc: x@y.example", "ключ@acme.example", None)),
        *(("from_name", one) for one in ("x" * 101, "=?utf-8?q?=0D=0ABcc:x?=", "Globex", "Acmebank", "The Acme")),
    ],
)
async def test_what_is_wrong_is_refused(scene: MailServerScene, field: str, value: Any) -> None:
    answer = await scene.ask("POST", "", body(**{field: value}) if field != "port" else {**body(), "port": value})
    assert (answer.status, field in answer.json()["error"]) == (400, True), answer.body
    assert scene.people.rows("select from mail_servers") == []


@pytest.mark.parametrize("sender", ["Acme", " ACME  it ", "acme: Support", "Acme\u682a\u5f0f", "Acme \u2013 Caf\u0065\u0301"])
async def test_a_sender_is_named_after_its_organization(scene: MailServerScene, sender: str) -> None:
    assert (await scene.set(from_name=sender))["from_name"] == " ".join(sender.split())


@pytest.mark.parametrize("sender", ["Globex", "Your bank", "The Acme", "Acm", "Acmeville", "Acme\u0301", "A c m e", "\u0410cme"])
async def test_a_sender_in_the_name_of_another_is_refused(scene: MailServerScene, sender: str) -> None:
    answer = await scene.ask("POST", "", body(from_name=sender))
    assert (answer.status, answer.json()["error"]) == (400, "from_name: must be the organization's name, or begin with it: Acme")
    assert scene.people.rows("select from mail_servers") == []
    assert scene.audited("organization.smtp%") == []


async def test_names_are_compared_as_they_read(scene: MailServerScene) -> None:
    """Letters composed or not, and small or not, are the same name."""
    scene.people.change("update organizations set name = %s where slug = 'acme'", "Caf\u00e9  Stra\u00dfe")
    assert (await scene.set(from_name="CAFE\u0301 STRASSE Post"))["from_name"] == "CAFE\u0301 STRASSE Post"
    assert (await scene.ask("POST", "", body(from_name="Cafe Strasse"))).status == 400


async def test_a_renamed_organization_keeps_its_sender_until_the_next_change(scene: MailServerScene) -> None:
    await scene.set(from_name="Acme IT")
    (await scene.request("PATCH", "/api/organizations/acme", {"name": "Roadrunner"})).ok(200)
    assert (await scene.ask("GET")).ok(200)["from_name"] == "Acme IT"
    assert (await scene.ask("POST", "", body(from_name="Acme IT"))).status == 400
    assert (await scene.set(from_name="Roadrunner IT"))["from_name"] == "Roadrunner IT"


async def test_a_management_key_names_the_sender_after_its_own_organization(scene: MailServerScene) -> None:
    key = scene.tenants.management_key(scene.acme, scene.owner, [Capability.SETTINGS_MANAGE])
    assert (await scene.client.post("/api/organizations/acme/smtp", body(from_name="Globex"), token=key)).status == 400
    assert (await scene.client.post("/api/organizations/acme/smtp", body(from_name="Acme"), token=key)).ok(200)["from_name"] == "Acme"


@pytest.mark.parametrize("address", HOSTILE_ADDRESSES)
async def test_addresses_that_are_never_called_are_refused_at_once(scene: MailServerScene, address: str) -> None:
    if address not in {"127.0.0.1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"}:
        answer = await scene.ask("POST", "", body(host=address))
        assert (answer.status, "host: this address is not public" in answer.json()["error"]) == (400, True), address


async def test_others_neither_see_nor_change_it(scene: MailServerScene) -> None:
    await scene.set()
    assert (await scene.ask("GET", of="globex", by=scene.stranger)).ok(200) == UNSET
    assert (await scene.ask("POST", "/test", of="globex", by=scene.stranger)).status == 404
    for method, path, sent in (("GET", "", None), ("POST", "", body()), ("DELETE", "", None), ("POST", "/test", None)):
        for person in (scene.member, scene.stranger):
            assert (await scene.ask(method, path, sent, by=person)).status == 403


async def test_round_trips(scene: MailServerScene) -> None:
    for method, sent, most in (("POST", body(), 5), ("GET", None, 2), ("DELETE", None, 5)):
        await scene.ask(method, "", sent)
        assert scene.log.events("request")[-1]["db_round_trips"] <= most


async def test_a_test_sends_its_caller_a_mail(scene: MailServerScene, server: MailServer) -> None:
    assert (await scene.ask("POST", "/test")).status == 404
    await scene.set(server.port)
    answer = (await scene.ask("POST", "/test")).ok(200)
    assert answer["success"]
    assert "admin@acme.example" in answer["message"]
    (received,) = server.received
    assert (received.recipients, received.user, received.sender) == (["admin@acme.example"], "acme", "it@acme.example")
    assert "127.0.0.1" in received.message["subject"]


async def test_a_test_that_fails_says_why_in_words(scene: MailServerScene, server: MailServer) -> None:
    scene.log.remember("not-the-password")
    await scene.set(server.port, password="not-the-password")
    answer = (await scene.ask("POST", "/test")).ok(200)
    assert answer == {"success": False, "message": "The mail server did not let us sign in: 535 5.7.8"}
    await scene.set(1)
    assert not (await scene.ask("POST", "/test")).ok(200)["success"]
    await scene.set(server.port)
    server.answer("RCPT", "550 5.1.1 quotes somebody@example.org", times=1)
    answer = (await scene.ask("POST", "/test")).ok(200)
    assert answer == {"success": False, "message": "The mail server answered 550 5.1.1 to RCPT"}


async def test_invitations_go_through_it_and_account_mails_do_not(scene: MailServerScene, server: MailServer, postern: Postern) -> None:
    """The operator of a mail server can read its mails, and the link in a mail about an account opens the account."""
    await scene.set(server.port)
    await scene.invite()
    await scene.deliver()
    (received,) = server.received
    assert received.recipients == ["new@acme.example"]
    assert "token=" in received.part("plain")
    await scene.client.post("/api/auth/register", {"email": "ada@example.org", "password": "the moon over it", "org_slug": "acme"})
    await scene.client.post("/api/auth/forgot-password", {"email": scene.owner.email, "org_slug": "acme"})
    await Postbox(postern).asked_for()
    kinds = {row["kind"] for row in scene.people.rows("select kind from jobs")}
    assert ORGANIZATION_MAIL_JOB not in kinds


async def test_without_one_the_installations_does_the_work(scene: MailServerScene, server: MailServer, postern: Postern) -> None:
    """Holds even if a server is set up before the mail leaves, since the link in the mail proves the person."""
    await scene.invite()
    await scene.set(server.port)
    assert {row["kind"] for row in scene.people.rows("select kind from jobs where kind in ('mail', 'mail.organization')")} == {MAIL_JOB}
    (mail,) = await Postbox(postern).empty()
    assert mail.to == "new@acme.example"


async def test_a_mail_that_its_recipient_cannot_get_is_refused_for_good(scene: MailServerScene, server: MailServer) -> None:
    await scene.set(server.port)
    await scene.invite()
    server.answer("RCPT", "550 5.1.1 no", times=1)
    with pytest.raises(MailRefused):
        await scene.deliver()
    assert scene.row()["failing_since"] is None


async def test_while_it_fails_mails_wait_and_nothing_is_tried_for_a_moment(scene: MailServerScene, server: MailServer) -> None:
    await scene.set(server.port)
    await scene.invite()
    server.answer("MAIL", "451 4.3.0 later")
    with pytest.raises(MailDelayed, match="451"):
        await scene.deliver()
    tried = len(server.commands)
    with pytest.raises(MailDelayed, match="a moment ago") as delayed:
        await scene.deliver()
    assert delayed.value.after is not None
    assert timedelta(0) < delayed.value.after <= timedelta(seconds=30)
    assert len(server.commands) == tried
    assert (await scene.ask("GET")).ok(200)["failing_since"] is not None
    assert scene.files() == []


async def dead_for_an_hour(scene: MailServerScene, server: MailServer) -> None:
    """Lets the server be dead for an hour, up to the attempt that detects it."""
    await scene.set(server.port)
    server.answer("MAIL", "451 4.3.0 later", times=2)
    await scene.invite()
    with pytest.raises(MailDelayed):
        await scene.deliver()
    scene.people.change("update mail_servers set failing_since = failing_since - interval '1 hour', rests_until = now() - interval '1 s'")
    await scene.deliver()


async def test_after_an_hour_the_installations_server_does_its_work_and_the_owners_are_told_once(
    scene: MailServerScene, server: MailServer, postern: Postern
) -> None:
    await dead_for_an_hour(scene, server)
    (mail,) = scene.files()
    assert "new@acme.example" in mail
    assert (await scene.ask("GET")).ok(200)["fallback_since"] is not None
    (entry,) = scene.audited("organization.smtp.failed")
    assert (entry["actor_id"], entry["details"]["host"]) == (None, "127.0.0.1")
    (notice,) = await Postbox(postern).empty()
    assert notice.to == scene.owner.email
    assert "127.0.0.1" in notice.text
    # For a while, the next mails go by our server at once, without a try at the organization's.
    tried = len(server.commands)
    await scene.invite("second@acme.example")
    await scene.deliver()
    assert (len(server.commands), len(scene.files())) == (tried, 2)
    # The server is tried again now and then. Another failure sends no second notice.
    server.answer("MAIL", "451 4.3.0 later", times=1)
    scene.people.change("update mail_servers set rests_until = now() - interval '1 s'")
    await scene.invite("third@acme.example")
    await scene.deliver()
    assert (len(server.commands) > tried, len(scene.files())) == (True, 3)
    assert len(scene.audited("organization.smtp.failed")) == 1
    assert await Postbox(postern).empty() == []


async def test_once_it_works_again_it_does_its_work_again(scene: MailServerScene, server: MailServer) -> None:
    await dead_for_an_hour(scene, server)
    scene.people.change("update mail_servers set rests_until = now() - interval '1 s'")
    await scene.invite("second@acme.example")
    await scene.deliver()
    assert server.received[0].recipients == ["second@acme.example"]
    assert {scene.row()[one] for one in ("failing_since", "rests_until", "fallen_back_at")} == {None}
    assert len(scene.audited("organization.smtp.recovered")) == 1


async def test_a_test_that_goes_well_ends_the_wait(scene: MailServerScene, server: MailServer) -> None:
    await dead_for_an_hour(scene, server)
    assert (await scene.ask("POST", "/test")).ok(200)["success"]
    assert scene.row()["failing_since"] is None
    assert len(scene.audited("organization.smtp.recovered")) == 1


async def test_a_short_failure_ends_without_a_word(scene: MailServerScene, server: MailServer) -> None:
    await scene.set(server.port)
    await scene.invite()
    server.answer("MAIL", "451 4.3.0 later", times=1)
    with pytest.raises(MailDelayed):
        await scene.deliver()
    scene.people.change("update mail_servers set rests_until = null")
    await scene.deliver()
    assert scene.row()["failing_since"] is None
    assert scene.audited("organization.smtp.recovered") == []


async def test_a_failure_of_the_one_before_is_not_told_of_the_one_that_replaced_it(scene: MailServerScene, server: MailServer) -> None:
    await scene.set(server.port)
    await scene.invite()
    server.answer("MAIL", "451 4.3.0 later", times=1)
    server.delay("EHLO", 0.5, times=1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(raises_delayed, scene)
        with trio.fail_after(PATIENCE):
            while "EHLO" not in server.commands:
                await trio.sleep(0.01)
        await scene.set(server.port)
    assert scene.row()["failing_since"] is None


async def raises_delayed(scene: MailServerScene) -> None:
    with pytest.raises(MailDelayed):
        await scene.deliver()


async def test_of_those_who_find_an_hour_over_one_tells(scene: MailServerScene, server: MailServer, postern: Postern) -> None:
    await scene.set(server.port)
    server.answer("MAIL", "451 4.3.0 later")
    for name in ("one", "two"):
        await scene.invite(f"{name}@acme.example")
    scene.people.change("update mail_servers set failing_since = now() - interval '2 hours'")

    async def deliver() -> None:
        while True:
            try:
                return await scene.deliver()
            except MailDelayed:
                # The server has failed at the other mail, which has not told yet.
                await trio.sleep(0.01)

    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(deliver)
    assert len(scene.files()) == 2
    assert len(scene.audited("organization.smtp.failed")) == 1
    assert len(await Postbox(postern).empty()) == 1


async def test_a_password_that_cannot_be_opened_waits_for_its_key(scene: MailServerScene, server: MailServer) -> None:
    await scene.set(server.port)
    scene.people.change("update mail_servers set sealed_password = 'nothing'")
    scene.log.allow("mail_server_password_unreadable")
    await scene.invite()
    with pytest.raises(MailDelayed, match="key"):
        await scene.deliver()
    assert server.received == []


def hanging(connection: socket.socket) -> None:
    connection.recv(1)


async def test_one_organization_holds_a_few_hands_and_others_the_rest(scene: MailServerScene) -> None:
    """Two mails at once wait for a hanging server. The third waits without a worker, and mails of others are sent."""
    with scripted_server(hanging) as port:
        await scene.set(port)
        for number in range(AT_ONCE_OF_ONE):
            await scene.invite(f"n{number}@acme.example")
        async with trio.open_nursery() as nursery:
            for _ in range(AT_ONCE_OF_ONE):
                nursery.start_soon(scene.deliver)
            with trio.fail_after(PATIENCE):
                while scene.servers._busy.total() < AT_ONCE_OF_ONE:
                    await trio.sleep(0.01)
            await scene.invite("last@acme.example")
            with pytest.raises(MailDelayed, match="on their way") as delayed:
                await scene.deliver()
            assert delayed.value.after is not None
            assert not (await scene.ask("POST", "/test")).ok(200)["success"]
            # If our server stands in already, it sends this mail, too.
            scene.people.change("update mail_servers set failing_since = now(), fallen_back_at = now()")
            await scene.deliver()
            assert len(scene.files()) == 1
            scene.people.change("update mail_servers set failing_since = null, fallen_back_at = null")
            nursery.cancel_scope.cancel()
    assert scene.servers._busy.total() == 0
    assert scene.row()["failing_since"] is None


@pytest.mark.parametrize("stands_in", [False, True])
async def test_the_third_mail_at_once_waits_or_goes_by_our_server(
    scene: MailServerScene, server: MailServer, stands_in: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each mail that the server has taken, and that is not yet done with, lets the next one begin."""
    await scene.set(server.port)
    if stands_in:
        scene.people.change("update mail_servers set failing_since = now(), fallen_back_at = now()")
    for name in ("one", "two", "three"):
        await scene.invite(f"{name}@acme.example")
    delays: list[str] = []

    async def deliver_the_next() -> None:
        try:
            await scene.deliver()
        except MailDelayed as delayed:
            delays.append(str(delayed))

    meanwhile(monkeypatch, GuardedPost, "send", deliver_the_next)
    await scene.deliver()
    assert len(server.received) == AT_ONCE_OF_ONE
    assert (len(scene.files()), delays) == ((1, []) if stands_in else (0, ["Other mails are on their way there"]))
    assert scene.servers._busy.total() == 0


async def test_a_failure_is_not_told_of_the_server_that_was_set_meanwhile(
    scene: MailServerScene, server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.set(server.port)
    await scene.invite()
    server.answer("MAIL", "451 4.3.0 later", times=1)
    meanwhile(monkeypatch, scene.servers._lookup, "find", lambda: scene.set(server.port))
    with pytest.raises(MailDelayed, match="451"):
        await scene.deliver()
    assert scene.row()["failing_since"] is None
    assert scene.files() == []


def mailer(scene: MailServerScene) -> Any:
    foundation = scene.postern.foundation
    workplace = Workplace(foundation.jobs, foundation.doorbell, foundation.clock, foundation.metrics, lambda: 0.0)
    return organization_mailer(scene.servers, workplace, pace=JobPace(poll=timedelta(seconds=0.1)))


async def test_the_mailer_takes_them_from_the_queue(scene: MailServerScene, server: MailServer) -> None:
    await scene.set(server.port)
    await scene.invite()
    async with trio.open_nursery() as nursery:
        await nursery.start(mailer(scene).run)
        await server.wait_for(1, within=30)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("wrong", [{}, {"to": "x@y.example"}, {**Mail("a@b.example", "s", "t", "h").as_job().payload, "organization": "x"}])
async def test_what_is_no_mail_is_given_up(scene: MailServerScene, wrong: dict[str, Any]) -> None:
    worker = mailer(scene)
    async with scene.postern.foundation.unit_of_work() as uow:
        await uow.jobs.add(NewJob(ORGANIZATION_MAIL_JOB, wrong))
        await uow.commit()
    async with trio.open_nursery() as nursery:
        await nursery.start(worker.run)
        with trio.fail_after(PATIENCE):
            while not scene.people.rows("select from jobs where state = 'dead'"):
                await trio.sleep(0.02)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("answer", ["451 4.3.0 later", "550 5.1.1 no"])
async def test_the_mailer_waits_or_gives_up_as_the_server_says(scene: MailServerScene, server: MailServer, answer: str) -> None:
    await scene.set(server.port)
    await scene.invite()
    server.answer("RCPT", answer)
    async with trio.open_nursery() as nursery:
        await nursery.start(mailer(scene).run)
        with trio.fail_after(PATIENCE):
            while not scene.people.rows("select from jobs where last_error is not null and kind = %s", ORGANIZATION_MAIL_JOB):
                await trio.sleep(0.02)
        nursery.cancel_scope.cancel()
    (job,) = scene.people.rows("select state from jobs where kind = %s", ORGANIZATION_MAIL_JOB)
    assert job["state"] == ("dead" if answer.startswith("5") else "waiting")
