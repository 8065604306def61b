"""Platform owners approve the own texts of organizations: exactly those that they have seen."""

import re
from uuid import uuid4

import pytest
import trio

from core.domain.texts.own_texts import ApprovalRules
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.cast import Neighbours
from tests.http.client import Received
from tests.http.people import People
from tests.http.postbox import Postbox
from tests.http.signing_in import unlimited
from tests.http.tenancy.texts.written_texts import Texts, write_texts

APPROVALS, RULES = "/api/platform/text-approvals", "/api/platform/text-rules"


class Approving(Neighbours):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.speaker = self.people.add(platform_owner=True)
        self.owner = self.resident(self.acme, "owner")
        self.postbox = Postbox(self.postern)

    async def approve(self, version: str, of: object = None) -> Received:
        return await self.request("POST", f"/api/platform/organizations/{of or self.acme.id}/texts/approval", {"version": version})

    async def withdraw(self, of: object = None) -> Received:
        return await self.request("DELETE", f"/api/platform/organizations/{of or self.acme.id}/texts/approval")

    async def subject(self) -> str:
        """Of a mail to a stranger."""
        await self.client.post("/api/auth/forgot-password", {"email": "stranger@example.org", "org_slug": "acme"})
        (mail,) = await self.postbox.empty()
        return mail.subject


@pytest.fixture
async def scene(postern: Postern, people: People, log: CapturedLog) -> Approving:
    made = Approving(postern, people, unlimited(postern), log)
    await people.with_password("correct horse battery", "stranger@example.org")
    return made


def texts(title: str) -> dict[str, dict[str, str]]:
    return {"en": {"mail_reset.subject_for": f"{title} {{organization}}"}, "xx": {"sign_in.title": "Of a later release"}}


async def test_texts_wait_beside_ours_until_somebody_approves_them(scene: Approving) -> None:
    assert (await scene.request("GET", APPROVALS)).json() == []
    version = write_texts(scene.people, "acme", texts("First"))
    (waiting,) = (await scene.request("GET", APPROVALS)).json()
    assert (waiting["org_slug"], waiting["version"], waiting["approved"]) == ("acme", version, False)
    assert waiting["texts"] == [
        {
            "language": "en",
            "key": "mail_reset.subject_for",
            "ours": "Choose a new password for {organization}",
            "own": "First {organization}",
        },
        {"language": "xx", "key": "sign_in.title", "ours": "Sign in", "own": "Of a later release"},
    ]
    assert "First" not in await scene.subject()
    assert (await scene.approve(version)).status == 204
    assert (await scene.request("GET", APPROVALS)).json()[0]["approved"]
    assert await scene.subject() == "First Acme"
    assert (await scene.withdraw()).status == 204
    assert (await scene.withdraw()).status == 204
    assert "First" not in await scene.subject()
    told = [(one["name"], one["organization_id"], one["details"]) for one in scene.told()]
    assert told == [(f"texts.{what}", scene.acme.id, {"version": version}) for what in ("approved", "approval_withdrawn")]
    assert [one["name"] for one in scene.told("audit_log")][-2:] == ["texts.approved", "texts.approval_withdrawn"]


@pytest.mark.parametrize("meanwhile", [texts("Second"), {}], ids=["other texts", "none"])
async def test_a_yes_is_taken_back_also_while_the_organization_has_other_texts(scene: Approving, meanwhile: Texts) -> None:
    """Otherwise it would have others while its yes is taken back, and the former ones again afterwards."""
    version = write_texts(scene.people, "acme", texts("First"))
    await scene.approve(version)
    write_texts(scene.people, "acme", meanwhile)
    if not meanwhile:
        scene.people.change("update all_organizations set texts_digest = null where slug = 'acme'")
        assert (await scene.approve("")).status == 404
    for status in (204, 204 if meanwhile else 404):
        assert (await scene.withdraw()).status == status
    assert [one["details"] for one in scene.told() if one["name"] == "texts.approval_withdrawn"] == [{"version": version}]
    assert write_texts(scene.people, "acme", texts("First")) == version
    assert "First" not in await scene.subject()


async def test_those_that_wait_come_first(scene: Approving) -> None:
    version = write_texts(scene.people, "acme", texts("First"))
    await scene.approve(version)
    write_texts(scene.people, "globex", texts("Second"))
    assert [one["org_slug"] for one in (await scene.request("GET", APPROVALS)).json()] == ["globex", "acme"]


async def test_other_texts_than_those_that_were_seen_are_not_approved(scene: Approving) -> None:
    seen = write_texts(scene.people, "acme", texts("First"))
    now = write_texts(scene.people, "acme", texts("Second"))
    answer = await scene.approve(seen)
    assert (answer.status, answer.error_code) == (409, "CONFLICT")
    assert (await scene.approve(now)).status == 204
    assert (await scene.approve(now)).status == 400
    assert scene.people.rows("select approved_texts from organizations where slug = 'acme'") == [{"approved_texts": now}]


async def test_metrics_count_the_answers(scene: Approving) -> None:
    def counted() -> list[float]:
        told = scene.postern.foundation.metrics.render().decode()
        found = dict(re.findall(r'sso_text_approvals_total{outcome="([a-z]+)"} ([\d.]+)', told))
        return [float(found[outcome]) for outcome in ("approved", "stale", "withdrawn")]

    before = counted()
    version = write_texts(scene.people, "acme", texts("First"))
    await scene.approve("0" * 64)
    await scene.approve(version)
    await scene.approve(version)
    await scene.withdraw()
    await scene.withdraw()
    assert [now - then for now, then in zip(counted(), before, strict=True)] == [1, 1, 1]


async def test_of_a_change_and_an_approval_at_once_the_approval_is_never_of_the_change(scene: Approving) -> None:
    seen = write_texts(scene.people, "acme", texts("First"))
    answers: list[Received] = []

    async def approve() -> None:
        answers.append(await scene.approve(seen))

    async def change() -> None:
        body = {"language": "en", "texts": {"mail_reset.subject_for": "Changed {organization}"}}
        answers.append(await scene.request("PATCH", "/api/organizations/acme/texts", body, by=scene.owner))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(approve)
        nursery.start_soon(change)
    assert {one.status for one in answers} <= {200, 204, 409}
    assert await scene.subject() == "Choose a new password for Acme"


async def test_organizations_without_texts_have_nothing_to_approve(scene: Approving) -> None:
    for of in (scene.acme.id, uuid4()):
        assert (await scene.approve("0" * 64, of)).status == 404
        assert (await scene.withdraw(of)).status == 404


async def test_only_platform_owners_approve(scene: Approving) -> None:
    version = write_texts(scene.people, "acme", texts("First"))
    scene.speaker = scene.owner
    assert (await scene.approve(version)).status == 403
    assert (await scene.withdraw()).status == 403
    for target in (APPROVALS, RULES):
        assert (await scene.request("GET", target)).status == 403
    assert (await scene.request("PUT", RULES, {})).status == 403


async def test_the_rules_are_changed_and_other_processes_hear_of_it(scene: Approving) -> None:
    words = scene.postern.foundation.installation_words
    assert (await scene.request("GET", RULES)).json() == {"mails": True, "pages": False}
    rung: list[str] = []
    scene.postern.foundation.doorbell.connect(lambda: rung.append("rung"), "installation.texts")
    wanted = {"mails": False, "pages": True}
    assert (await scene.request("PUT", RULES, wanted)).json() == wanted == (await scene.request("GET", RULES)).json()
    await scene.request("PUT", RULES, wanted)
    assert rung == ["rung"]
    await words.read()
    assert words.current.rules == ApprovalRules(mails=False, pages=True)
    (told,) = [one["details"] for one in scene.told("audit_log") if one["name"] == "platform.text_rules.updated"]
    assert told == {"before": {"mails": True, "pages": False}, "after": wanted}
