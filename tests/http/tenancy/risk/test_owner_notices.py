"""Notices to owners: a rule for risk mails them about a sign-in, once an hour for each rule and person, in the language of each."""

from datetime import timedelta
from typing import Any, Final
from uuid import uuid4

import pytest

from actors.job_worker import JobRefused, Workplace
from actors.mailers import owner_notifier
from core.domain.identifiers import JobId, LoginEventId, OrganizationId, UserId
from core.domain.identity.risk_policies.owner_mails import OWNER_NOTICE_JOB, OwnerNotice
from core.domain.jobs import Job
from core.domain.rate_limits import RateLimit
from core.frozen import replace
from core.usecases.tenancy import risk
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.people import People
from tests.http.postbox import Postbox
from tests.http.signing_in import Browser, unlimited
from tests.http.tenancy.risk.test_risk_policies import RiskScene, policy

LEASE: Final = timedelta(minutes=5)
NOTIFIED: Final = "organization.risk_policies.notified"


class NoticeScene(RiskScene):
    async def prepare(self) -> None:
        await super().prepare()
        self.postbox = Postbox(self.postern)
        foundation = self.postern.foundation
        workplace = Workplace(foundation.jobs, foundation.doorbell, foundation.clock, foundation.metrics, foundation.secrets.spread)
        self.worker = owner_notifier(self.postern.tenancy.owner_notices, workplace)
        await self.postbox.empty()

    async def work(self) -> None:
        foundation = self.postern.foundation
        for job in await foundation.jobs.claim([OWNER_NOTICE_JOB], 10, LEASE):
            await self.handle(job)
            await foundation.jobs.complete(job)

    async def handle(self, job: Job) -> None:
        await self.worker._tasks[OWNER_NOTICE_JOB].handle(job)

    async def notices(self) -> list[Any]:
        """The mails to the owner, after the jobs."""
        await self.work()
        return [mail for mail in await self.postbox.empty() if mail.to == self.owner.email]


@pytest.fixture
async def scene(postern: Postern, people: People, log: CapturedLog) -> NoticeScene:
    made = NoticeScene(postern, people, unlimited(postern), log)
    await made.prepare()
    return made


async def test_the_owner_hears_of_the_sign_in_in_their_language(scene: NoticeScene) -> None:
    one = policy("tell_owners", name="From this network")
    await scene.count(one)
    scene.people.change("update users set language = 'de' where id = %s", scene.owner.user)
    assert (await scene.enter()).status == 200
    (mail,) = await scene.notices()
    assert mail.subject == "Anmeldung entsprach der Risikorichtlinie „From this network“"
    assert "ada@home.example" in mail.text
    assert "192.0.2.1" in mail.text, mail.text
    (entry,) = scene.audited(NOTIFIED)
    assert (entry["actor_id"], entry["target_id"]) == (None, str(scene.ada.user))
    assert entry["details"] == {"policy_id": one["id"], "name": "From this network", "owners": 1}
    (event,) = (await scene.request("GET", "/api/organizations/acme/risk-events")).json()["risk_events"]
    assert (event["action"], event["success"]) == ("tell_owners", True)


async def test_once_an_hour_for_each_rule_and_person(scene: NoticeScene) -> None:
    await scene.count(policy("tell_owners"))
    for _ in range(3):
        assert (await scene.enter()).status == 200
    grace = await scene.people.with_password("correct horse battery", "grace@home.example")
    assert (await scene.enter(grace, password="correct horse battery")).status == 200
    assert len(await scene.notices()) == 2
    assert len(scene.audited(NOTIFIED)) == 2


async def test_a_crowd_does_not_fill_the_mailbox(scene: NoticeScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(risk, "OWNER_NOTICES_OF_RULE", RateLimit("risk_owner_notices_of_rule", burst=1, seconds_per_request=3600))
    await scene.count(policy("tell_owners"))
    grace = await scene.people.with_password("correct horse battery", "grace@home.example")
    assert (await scene.enter()).status == 200
    assert (await scene.enter(grace, password="correct horse battery")).status == 200
    assert len(await scene.notices()) == 1


async def test_another_organizations_rule_of_the_same_id_uses_no_notice_up(scene: NoticeScene) -> None:
    """Organizations choose the ids of their rules, and whoever sets up several from one document gives all the same."""
    await scene.count(policy("tell_owners"))
    assert (await scene.enter()).status == 200
    (job,) = await scene.postern.foundation.jobs.claim([OWNER_NOTICE_JOB], 10, LEASE)
    notice, send = OwnerNotice.of_job(job.payload), scene.postern.tenancy.owner_notices.send
    scene.resident(scene.globex, "owner", "of-globex")
    assert await send(replace(notice, organization=OrganizationId(scene.globex.id))) == 1
    assert await send(notice) == 1
    assert await send(notice) == 0


async def test_owners_do_not_hear_what_somebody_calls_their_device(scene: NoticeScene) -> None:
    await scene.count(policy("tell_owners"))
    browser, name = Browser(scene.client), "The phone of my second job"
    token = (await browser.login(scene.ada)).json()["access_token"]
    (device,) = (await scene.client.get("/api/user/devices", token=token)).json()["devices"]
    renamed = await scene.client.request("PATCH", f"/api/user/devices/{device['id']}", body={"name": name}, token=token)
    assert renamed.status == 200
    assert (await browser.login(scene.ada, org_slug="acme", service_slug="shop")).status == 200
    (mail,) = await scene.notices()
    assert name not in mail.text


async def test_nobody_hears_of_a_sign_in_elsewhere_or_of_a_rule_in_shadow(scene: NoticeScene) -> None:
    scene.tenants.join(scene.ada, scene.acme)
    one = policy("tell_owners")
    await scene.put(one)
    assert (await scene.enter()).status == 200
    await scene.put({**one, "counts": True})
    assert (await scene.base()).status == 200
    assert await scene.notices() == []
    assert scene.audited(NOTIFIED) == []


async def test_nobody_hears_of_whoever_has_been_forgotten_and_nothing_goes_to_nobody(scene: NoticeScene) -> None:
    await scene.count(policy("tell_owners"))
    assert (await scene.enter()).status == 200
    (job,) = await scene.postern.foundation.jobs.claim([OWNER_NOTICE_JOB], 10, LEASE)
    notice = OwnerNotice.of_job(job.payload)
    send = scene.postern.tenancy.owner_notices.send
    assert await send(replace(notice, login=LoginEventId(uuid4()))) == 0
    scene.people.change("update users set deactivated_at = now() where id = %s", scene.owner.user)
    assert await send(notice) == 0
    scene.people.change("update users set deactivated_at = null where id = %s", scene.owner.user)
    assert await send(replace(notice, user=UserId(uuid4()))) == 1
    scene.people.change(
        "update users set deactivated_at = now(), password_hash = null, anonymized_at = now() where id = %s", scene.ada.user
    )
    assert await send(notice) == 0


@pytest.mark.parametrize("payload", [{}, {"login": "x", "user": "", "organization": "", "policy": "", "name": ""}])
async def test_a_payload_that_names_no_sign_in_is_refused(scene: NoticeScene, payload: dict[str, Any]) -> None:
    now = scene.postern.foundation.clock.now()
    job = Job(JobId(uuid4()), OWNER_NOTICE_JOB, payload, 1, now, now, uuid4())
    with pytest.raises(JobRefused):
        await scene.handle(job)
