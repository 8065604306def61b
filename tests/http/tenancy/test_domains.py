"""The domain of an organization: set over HTTP, proved by a record or a file, and looked at again every week."""

from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from ipaddress import ip_address
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest
import trio

from actors.sweepers import domain_checker
from core.domain.tenancy.domains import MOST_MISSES
from core.usecases.tenancy.domains import DomainProofs, Domains
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.hostile_addresses import HOSTILE_ADDRESSES
from tests.http.cast import all_at_once
from tests.http.client import Received
from tests.http.people import People, Person
from tests.http.postbox import Postbox
from tests.http.tenancy.proving import PUBLIC, Provers, proving
from tests.meanwhile import meanwhile
from tests.receiver import Call, answering, receiving

NAME: Final = "login.acme.example"
UNSET: Final = {
    **dict.fromkeys(("domain", "verified_at", "checked_at", "verification_token", "txt_name", "txt_value", "file_url", "file_content")),
    "verified": False,
}


class DomainScene(Provers):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.owner = self.resident(self.acme, "owner")
        self.speaker = self.resident(self.acme, "admin")
        self.member = self.resident(self.acme, "member")
        self.stranger = self.resident(self.globex, "owner")

    @property
    def domains(self) -> Domains:
        return self.postern.tenancy.domains

    async def ask(self, method: str, path: str = "", body: Any = None, *, of: str = "acme", by: Person | None = None) -> Received:
        if by is None and of == "globex":
            by = self.stranger
        return await self.request(method, f"/api/organizations/{of}/domain{path}", body, by=by)

    async def set(self, name: str = NAME, *, of: str = "acme") -> dict[str, Any]:
        answer: dict[str, Any] = (await self.ask("POST", "", {"domain": name}, of=of)).ok(200)
        return answer

    async def verify(self, *, of: str = "acme") -> dict[str, Any]:
        answer: dict[str, Any] = (await self.ask("POST", "/verify", of=of)).ok(200)
        return answer

    async def verified(self) -> dict[str, Any]:
        told = await self.set()
        self.publish(told)
        assert (await self.verify())["verified"]
        return told

    async def check(self) -> int:
        """Runs the check, as if it were due."""
        self.people.change("update domains set next_check_at = now() - interval '1 s' where next_check_at is not null")
        return await domain_checker("domain_checker", self.domains, metrics=self.postern.foundation.metrics, spread=lambda: 0.0).sweep()

    def row(self) -> dict[str, Any]:
        (row,) = self.people.rows("select * from domains where domain = %s", NAME)
        return row


@pytest.fixture
async def scene(postern: Postern, people: People, log: CapturedLog, tmp_path: Path) -> AsyncIterator[DomainScene]:
    async with proving(DomainScene, postern, people, log, tmp_path, NAME) as made:
        yield made


async def test_a_domain_is_set_shown_replaced_and_removed(scene: DomainScene) -> None:
    assert (await scene.ask("GET")).ok(200) == UNSET
    told = await scene.set(" Login.Acme.example. ")
    token = told["verification_token"]
    assert told == {
        **UNSET,
        "domain": NAME,
        "verification_token": token,
        "txt_name": f"_postern-verification.{NAME}",
        "txt_value": token,
        "file_url": f"https://{NAME}/.well-known/postern-verification.txt",
        "file_content": token,
    }
    assert (await scene.ask("GET")).ok(200) == told
    assert await scene.set() == told
    other = await scene.set("id.acme.example")
    assert other["verification_token"] != token
    for _ in range(2):
        assert (await scene.ask("DELETE")).status == 204
    assert (await scene.ask("GET")).ok(200) == UNSET
    assert (await scene.ask("POST", "/verify")).status == 404
    assert [(one["action"], one["details"]) for one in scene.audited("domain.%")] == [
        ("domain.set", {"domain": NAME}),
        ("domain.set", {"domain": "id.acme.example"}),
        ("domain.deleted", {"domain": "id.acme.example"}),
    ]


@pytest.mark.parametrize("name", ["", "localhost", "127.0.0.1", "*.acme.example", "http://acme.example", "ключ.example", None, 1])
async def test_what_is_no_domain_is_refused(scene: DomainScene, name: Any) -> None:
    answer = await scene.ask("POST", "", {"domain": name})
    assert (answer.status, "domain" in answer.json()["error"]) == (400, True)


async def test_a_record_proves_it(scene: DomainScene) -> None:
    told = await scene.set()
    scene.records[told["txt_name"], "TXT"] = ['"v=spf1 -all"', f'"{told["txt_value"]}"']
    assert (await scene.verify())["verified"]
    shown = (await scene.ask("GET")).ok(200)
    assert shown["verified"]
    assert shown["verified_at"] == shown["checked_at"] is not None
    assert (await scene.verify())["verified"]
    assert len(scene.audited("domain.verified")) == 1
    assert scene.network.connects == []


async def test_a_file_proves_it(scene: DomainScene) -> None:
    told = await scene.set()
    async with receiving(answering(200, f"{told['file_content']}\n".encode())) as receiver:
        scene.network.port = receiver.port
        assert (await scene.verify())["verified"]
    (call,) = receiver.calls
    assert (call.target, call.headers["host"]) == ("/.well-known/postern-verification.txt", NAME)
    assert scene.network.connects == [(PUBLIC, 443), (PUBLIC, 80)]


@pytest.mark.parametrize(
    ("status", "content", "line"),
    [
        (200, "another", ""),
        (200, "", ""),
        (404, "{token}", ""),
        (302, "{token}", "Location: http://169.254.169.254/"),
        (200, "{token}" + "x" * 5000, ""),
        (200, "\xff{token}", ""),
    ],
)
async def test_nothing_else_does(scene: DomainScene, status: int, content: str, line: str) -> None:
    told = await scene.set()
    scene.records[told["txt_name"], "TXT"] = [f'"x{told["txt_value"]}"']
    body = content.replace("{token}", told["file_content"]).encode("latin-1")
    async with receiving(answering(status, body, *([line] if line else []))) as receiver:
        scene.network.port = receiver.port
        outcome = await scene.verify()
    assert outcome["verified"] is False
    assert told["txt_name"] in outcome["message"]
    assert not (await scene.ask("GET")).ok(200)["verified"]
    assert scene.audited("domain.verified") == []


@pytest.mark.parametrize("address", HOSTILE_ADDRESSES)
async def test_no_domain_leads_inside(scene: DomainScene, address: str) -> None:
    await scene.set()
    kind = "AAAA" if ":" in address else "A"
    scene.records[NAME, kind] = [address] if kind == "AAAA" else [PUBLIC, address]
    assert not (await scene.verify())["verified"]
    assert scene.network.connects == []
    assert scene.log.events("outbound_refused")[-1]["address"] == str(ip_address(address))


async def test_of_two_who_prove_it_one_has_it(scene: DomainScene) -> None:
    scene.publish(await scene.set(), await scene.set(of="globex"))
    outcomes = await all_at_once(scene.verify, partial(scene.verify, of="globex"))
    assert sorted(one["verified"] for one in outcomes) == [False, True]
    (message,) = [one["message"] for one in outcomes if not one["verified"]]
    assert "Another organization" in message
    assert len(scene.people.rows("select from domains where verified_at is not null")) == 1
    assert len(scene.audited("domain.verified")) == 1
    assert not (await scene.verify(of="globex" if (await scene.ask("GET")).ok(200)["verified"] else "acme"))["verified"]
    # Once the other organization gives the domain up, it is free.
    keeper, waiting = ("acme", "globex") if (await scene.ask("GET")).ok(200)["verified"] else ("globex", "acme")
    assert (await scene.ask("DELETE", of=keeper)).status == 204
    assert (await scene.verify(of=waiting))["verified"]


async def test_a_proof_for_another_organization_is_none(scene: DomainScene) -> None:
    theirs = await scene.set(of="globex")
    await scene.set()
    scene.publish(theirs)
    assert not (await scene.verify())["verified"]


async def test_another_domain_has_to_be_proved_anew(scene: DomainScene) -> None:
    await scene.verified()
    changed = await scene.set("id.acme.example")
    assert changed["verified"] is False
    assert [one["action"] for one in scene.audited("domain.%")] == ["domain.set", "domain.verified", "domain.deleted", "domain.set"]


async def test_it_is_looked_at_again_when_its_time_has_come(scene: DomainScene) -> None:
    await scene.verified()
    checker = domain_checker("domain_checker", scene.domains, metrics=scene.postern.foundation.metrics, spread=lambda: 0.0)
    assert await checker.sweep() == 0
    first = scene.row()
    assert first["next_check_at"] - first["checked_at"] == timedelta(days=7)
    assert await scene.check() == 1
    assert scene.row()["checked_at"] > first["checked_at"]
    assert scene.log.events("domains_checked")[-1]["domains"] == 1


async def test_of_two_who_look_one_checks(scene: DomainScene) -> None:
    await scene.verified()
    scene.people.change("update domains set next_check_at = now() - interval '1 s'")
    claimed = await all_at_once(partial(scene.domains.claim_due, 10), partial(scene.domains.claim_due, 10))
    assert sorted(map(len, claimed)) == [0, 1]


async def test_a_missing_proof_is_told_once_and_lost_after_three_days(scene: DomainScene, postern: Postern) -> None:
    told = await scene.verified()
    del scene.records[told["txt_name"], "TXT"]
    await scene.check()
    (notice,) = await Postbox(postern).empty()
    assert (notice.to, NAME in notice.text, told["txt_name"] in notice.text) == (scene.owner.email, True, True)
    assert (await scene.ask("GET")).ok(200)["verified"]
    assert "was not found just now" in (await scene.verify())["message"]
    row = scene.row()
    assert row["next_check_at"] - row["checked_at"] == timedelta(days=1)
    for _ in range(MOST_MISSES - 1):
        await scene.check()
    assert not (await scene.ask("GET")).ok(200)["verified"]
    assert await Postbox(postern).empty() == []
    (entry,) = scene.audited("domain.lost")
    assert entry["actor_id"] is None
    assert await scene.check() == 0
    scene.publish(told)
    assert (await scene.verify())["verified"]


async def test_a_name_server_that_fails_for_days_costs_no_proof(scene: DomainScene, postern: Postern, log: CapturedLog) -> None:
    """Our own name server may be the failing one, and then all organizations would lose their proofs."""
    told = await scene.verified()
    scene.failing.add(told["txt_name"])
    for _ in range(MOST_MISSES):
        assert await scene.check() == 1
    assert (await scene.ask("GET")).ok(200)["verified"]
    row = scene.row()
    assert (row["misses"], row["next_check_at"] > row["checked_at"]) == (0, True)
    assert await Postbox(postern).empty() == []
    assert [entry["domain"] for entry in log.events("domain_proof_unknown")] == [NAME] * MOST_MISSES
    scene.failing.clear()
    await scene.check()
    assert scene.row()["next_check_at"] - scene.row()["checked_at"] == timedelta(days=7)


async def test_it_is_told_that_no_name_server_answers(scene: DomainScene) -> None:
    told = await scene.set()
    scene.failing.add(told["txt_name"])
    assert (await scene.verify())["message"].startswith(f"No name server answered for {told['txt_name']}")


async def test_a_proof_that_comes_back_in_time_is_as_before(scene: DomainScene) -> None:
    told = await scene.verified()
    del scene.records[told["txt_name"], "TXT"]
    for _ in range(MOST_MISSES - 1):
        await scene.check()
    scene.publish(told)
    await scene.check()
    assert scene.row()["misses"] == 0
    assert (await scene.ask("GET")).ok(200)["verified"]
    assert scene.audited("domain.lost") == []


async def test_a_domain_that_was_changed_during_its_check_is_left_alone(scene: DomainScene) -> None:
    told = await scene.verified()
    del scene.records[told["txt_name"], "TXT"]
    scene.people.change("update domains set next_check_at = now() - interval '1 s'")
    (claimed,) = await scene.domains.claim_due(10)
    await scene.ask("DELETE")
    await scene.verified()
    await scene.domains.recheck(claimed)
    assert scene.row()["misses"] == 0


async def test_a_check_that_missed_what_was_published_meanwhile_says_nothing(scene: DomainScene, monkeypatch: pytest.MonkeyPatch) -> None:
    told = await scene.verified()
    del scene.records[told["txt_name"], "TXT"]
    mails = scene.people.rows("select from jobs")

    async def publish() -> None:
        monkeypatch.undo()
        scene.publish(told)
        assert (await scene.verify())["verified"]

    meanwhile(monkeypatch, DomainProofs, "_look", publish)
    assert await scene.check() == 1
    assert (scene.row()["misses"], scene.row()["verified_at"] is not None) == (0, True)
    assert scene.people.rows("select from jobs") == mails


async def test_of_several_who_verify_it_at_once_one_has_verified_it(scene: DomainScene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.publish(await scene.set())
    looks, all_have_looked = count(1), trio.Event()

    async def wait() -> None:
        if next(looks) == 3:
            all_have_looked.set()
        await all_have_looked.wait()

    meanwhile(monkeypatch, DomainProofs, "_look", wait)
    assert [answer["verified"] for answer in await all_at_once(*[scene.verify] * 3)] == [True] * 3
    assert len(scene.audited("domain.verified")) == len([event for event in scene.told() if event["name"] == "domain.verified"]) == 1


async def test_a_verification_that_was_lost_while_it_was_looked_for_is_told_again(
    scene: DomainScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.verified()
    lose = "update domains set verified_at = null, next_check_at = null, misses = 4"
    meanwhile(monkeypatch, DomainProofs, "_look", lambda: scene.people.change(lose))
    assert (await scene.verify())["verified"]
    assert len(scene.audited("domain.verified")) == 2


async def test_a_sweep_takes_them_a_few_at_a_time(scene: DomainScene) -> None:
    scene.people.change(
        """
        insert into organizations (id, slug, name, status, created_at, updated_at)
        select gen_random_uuid(), 'o' || n, 'O', 'active', now(), now() from generate_series(1, 7) as n
        """
    )
    scene.people.change(
        """
        insert into domains (id, org_id, domain, token, verified_at, next_check_at, created_at, updated_at)
        select gen_random_uuid(), id, slug || '.example', 't', now(), now(), now(), now() from organizations where slug like 'o_'
        """
    )
    metrics = scene.postern.foundation.metrics
    assert await domain_checker("domain_checker", scene.domains, metrics=metrics, spread=lambda: 0.0, batch=3).sweep() == 7
    assert {row["misses"] for row in scene.people.rows("select misses from domains")} == {1}


async def test_others_neither_see_nor_change_it(scene: DomainScene) -> None:
    await scene.set()
    assert (await scene.ask("GET", of="globex")).ok(200) == UNSET
    for method, path, body in (("GET", "", None), ("POST", "", {"domain": NAME}), ("POST", "/verify", None), ("DELETE", "", None)):
        for person in (scene.member, scene.stranger):
            assert (await scene.ask(method, path, body, by=person)).status == 403


async def test_round_trips(scene: DomainScene) -> None:
    scene.publish(await scene.set())
    for method, path, body, most in (
        ("POST", "", {"domain": NAME}, 5),
        ("POST", "/verify", None, 6),
        ("GET", "", None, 2),
        ("DELETE", "", None, 5),
    ):
        await scene.ask(method, path, body)
        assert scene.log.events("request")[-1]["db_round_trips"] <= most, (method, path)


async def test_a_right_that_is_gone_by_the_end_of_the_check_verifies_nothing(scene: DomainScene) -> None:
    told = await scene.set()
    found = answering(200, told["file_content"].encode())

    async def answer(stream: trio.abc.Stream, call: Call) -> bool:
        scene.people.change("delete from memberships where user_id = %s", scene.speaker.user)
        return await found(stream, call)

    async with receiving(answer) as receiver:
        scene.network.port = receiver.port
        assert (await scene.ask("POST", "/verify")).status == 403
    assert scene.row()["verified_at"] is None
