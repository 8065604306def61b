"""The way back of an owner whom the rules of their own organization keep out: by mail, with every factor, and never past a factor."""

from datetime import timedelta
from typing import Final
from urllib.parse import urlsplit

import pytest

from core.domain.errors import Forbidden
from core.domain.identifiers import OrganizationId, UserId
from core.domain.identity.risk_policies import owner_mails
from core.domain.identity.risk_policies.owner_mails import WAY_BACK_MAILS
from core.domain.secrets import Token
from core.frozen import replace
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.browsing import Tabs
from tests.http.people import People
from tests.http.postbox import Postbox
from tests.http.signing_in import PASSWORD, unlimited
from tests.http.tenancy.risk.test_risk_policies import RiskScene, policy

PAGE: Final = "/ui/organizations/acme/risk-rules"


class WayBackScene(RiskScene):
    """Acme's rules refuse its owner's sign-in, and ask for a passkey on new devices."""

    async def prepare(self) -> None:
        await super().prepare()
        self.postbox = Postbox(self.postern)
        await self.count(policy("refuse", name="Not from here"), policy("passkey", {"new_device": True}, name="New devices"))
        self.people.change(
            "update users set password_hash = (select password_hash from users where id = %s), email_verified_at = now() where id = %s",
            self.ada.user,
            self.owner.user,
        )
        self.tab = await Tabs(self.client).tab().open("/ui/sign-in")
        await self.tab.send(email=self.owner.email)
        await self.tab.send(password=PASSWORD)

    async def link(self) -> str:
        await self.postbox.empty()
        await self.tab.open(PAGE)
        await self.tab.send(-1)
        address = urlsplit(await self.postbox.link())
        return f"{address.path}?{address.query}"

    def counting(self) -> list[str]:
        (row,) = self.people.rows("select risk_policies from all_organizations where slug = 'acme'")
        return [one["name"] for one in row["risk_policies"] if one["counts"]]


@pytest.fixture
async def scene(postern: Postern, people: People, log: CapturedLog) -> WayBackScene:
    made = WayBackScene(postern, people, unlimited(postern), log)
    await made.prepare()
    return made


async def test_the_owner_lifts_what_refuses_and_no_factor(scene: WayBackScene) -> None:
    kept_out = await scene.tab.open("/ui/o/acme")
    assert "denies access in this session" in kept_out.page.text
    link = await scene.link()
    page = await scene.tab.open(link)
    assert "Not from here" in page.page.text
    assert "New devices" not in page.page.text
    await scene.tab.send(-1)
    assert scene.counting() == ["New devices"]
    assert scene.audited("organization.risk_policies.updated")[-1]["actor_id"] == scene.owner.user


async def test_an_owner_who_is_removed_meanwhile_lifts_nothing(scene: WayBackScene) -> None:
    await scene.tab.open(await scene.link())
    scene.people.change("update memberships set role = 'member' where user_id = %s", scene.owner.user)
    page = await scene.tab.send(-1)
    assert page.answer is not None
    assert page.answer.status == 403
    assert scene.counting() == ["Not from here", "New devices"]


async def test_a_damaged_link_and_one_of_another_organization_are_not_valid(scene: WayBackScene) -> None:
    link = await scene.link()
    damaged = await scene.tab.open(link[:-4] + "AAAA")
    assert "not valid" in damaged.page.text
    scene.tenants.join(scene.owner, scene.globex)
    elsewhere = await scene.tab.open(link.replace("/acme/", "/globex/"))
    assert "not valid" in elsewhere.page.text


async def test_a_member_is_told_that_the_owner_does_this(scene: WayBackScene) -> None:
    scene.people.change("update memberships set role = 'admin' where user_id = %s", scene.owner.user)
    page = await scene.tab.open(PAGE)
    assert "Only the owner" in page.page.text


async def test_a_link_that_is_old_and_one_of_another_person_are_refused(scene: WayBackScene, monkeypatch: pytest.MonkeyPatch) -> None:
    link = await scene.link()
    tab = await Tabs(scene.client).tab().open("/ui/sign-in")
    scene.tenants.join(scene.ada, scene.acme, "admin")
    await tab.send(email=scene.ada.email)
    await tab.send(password=PASSWORD)
    assert "not valid" in (await tab.open(link)).page.text
    monkeypatch.setattr(owner_mails, "WAY_BACK_LIFETIME", timedelta(0))
    assert "expired" in (await scene.tab.open(link)).page.text
    assert scene.counting() == ["Not from here", "New devices"]


async def test_a_link_lifts_once_and_then_says_that_it_was_used(scene: WayBackScene) -> None:
    link = await scene.link()
    second = scene.tab.tabs.tab()
    await second.open(link)
    await scene.tab.open(link)
    await scene.tab.send(-1)
    used = await second.send(-1)
    assert "This link was already used" in used.page.text
    assert "This link was already used" in (await second.open(link)).page.text
    assert scene.counting() == ["New devices"]
    assert len(scene.audited("organization.risk_policies.updated")) == 3


async def test_an_owner_who_asks_again_and_again_waits(scene: WayBackScene) -> None:
    for _ in range(WAY_BACK_MAILS.burst):
        await scene.link()
    await scene.tab.open(PAGE)
    page = await scene.tab.send(-1)
    assert page.answer is not None
    assert page.answer.status == 429


async def test_nobody_asks_while_impersonating(scene: WayBackScene) -> None:
    owner = UserId(scene.owner.user)
    found = await scene.postern.tenancy.callers.resolve_browser(Token(scene.tab.tabs.session or ""))
    assert found is not None
    caller = replace(found, impersonator=owner)
    with pytest.raises(Forbidden):
        await scene.postern.tenancy.risk_ways_back.ask(caller, OrganizationId(scene.acme.id), "acme")
