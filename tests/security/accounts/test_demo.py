"""`postern demo` sets passwords without asking anybody. So it touches the accounts and the organizations alone that it has made itself."""

from typing import Any, Final

import pytest

from core.domain.identifiers import UserId
from core.domain.identity.privacy import PrivacyRequester
from core.domain.record.events import SYSTEM
from entrypoints.bootstrap import Postern
from entrypoints.demo.everything import MEMBER, OWNER, PARTNER, PARTNER_SLUG, SLUG, make_organizations
from entrypoints.failures import StartFailed
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.inviting import Inviting
from tests.http.people import People
from tests.http.postbox import link_in, token_in
from tests.http.signing_in import PASSWORD, unlimited

database_url, postern, people = http.database_url, http.postern, http.people

HOME: Final = "http://127.0.0.1:8001"


class Trial(Inviting):
    """A private installation in which somebody tries Postern out, and invites people before or between runs of the demo."""

    async def join(self, email: str) -> None:
        """Joins as invited people do, with a password of their own."""
        await self.invite(email)
        (await self.accept(await self.newest_token())).ok()
        (await self.client.post("/api/auth/forgot-password", {"email": email})).ok()
        (await self.client.post("/api/auth/reset-password", {"token": await self.newest_token(), "new_password": PASSWORD})).ok()
        await self.postbox.empty()

    async def newest_token(self) -> str:
        return token_in(link_in((await self.postbox.empty())[-1]))

    async def signs_in(self, email: str, password: str) -> bool:
        return (await self.client.post("/api/auth/login", {"email": email, "password": password})).status == 200

    async def forgotten(self, email: str) -> None:
        """As `postern privacy forget` does it."""
        privacy = self.postern.identity.privacy
        found = await privacy.find(self.postern.foundation.email_syntax.parse(email))
        await privacy.forget(found, PrivacyRequester(operator="operator"), SYSTEM)

    def accounts(self) -> list[dict[str, Any]]:
        return self.people.rows("select email, password_hash, email_verified_at, is_platform_owner from users order by email")

    def account(self, email: str) -> UserId:
        (row,) = self.people.rows("select id from users where email = %s", email)
        return UserId(row["id"])


@pytest.fixture
def trial(postern: Postern, people: People, log: CapturedLog) -> Trial:
    return Trial(postern, people, unlimited(postern), log)


@pytest.mark.parametrize("partner", [False, True])
async def test_people_with_addresses_as_in_every_guide_keep_their_passwords(trial: Trial, *, partner: bool) -> None:
    invited = [f"{name}@example.org" for name in ("ada", "bob", "carol")]
    for email in invited:
        await trial.join(email)
    made = await make_organizations(trial.postern, HOME, partner=partner)
    for email in invited:
        assert not await trial.signs_in(email, made.password.reveal())
        assert await trial.signs_in(email, PASSWORD)
    assert await trial.signs_in(OWNER, made.password.reveal())


@pytest.mark.parametrize(("partner", "taken"), [(False, OWNER), (False, MEMBER), (True, MEMBER), (True, PARTNER)])
async def test_an_account_at_its_addresses_that_it_did_not_make_stays_as_it_is(trial: Trial, taken: str, *, partner: bool) -> None:
    await trial.join(taken)
    before = trial.accounts()
    with pytest.raises(StartFailed, match=f"{taken} has an account already, and the demo did not make it"):
        await make_organizations(trial.postern, HOME, partner=partner)
    # Nothing at all was made or changed, not even for those who come before.
    assert trial.accounts() == before
    assert trial.people.rows("select slug from organizations where slug in (%s, %s)", SLUG, PARTNER_SLUG) == []
    assert await trial.signs_in(taken, PASSWORD)


async def test_who_takes_the_address_of_somebody_whom_it_made_and_who_is_gone_keeps_the_password(trial: Trial) -> None:
    await make_organizations(trial.postern, HOME)
    await trial.forgotten(MEMBER)
    await trial.join(MEMBER)
    with pytest.raises(StartFailed, match=f"{MEMBER} has an account already, and the demo did not make it"):
        await make_organizations(trial.postern, HOME)
    assert await trial.signs_in(MEMBER, PASSWORD)


async def test_an_organization_that_somebody_handed_to_its_people_is_not_its_own(trial: Trial) -> None:
    made = await make_organizations(trial.postern, HOME, partner=True)
    signed_in = {"email": PARTNER, "password": made.password.reveal()}
    carol = (await trial.client.post("/api/auth/login", signed_in)).json()["access_token"]
    assert (await trial.client.request("DELETE", f"/api/organizations/{PARTNER_SLUG}", token=carol)).status == 204
    theirs = trial.tenants.add(PARTNER_SLUG)
    owner = trial.resident(theirs, "owner")
    await trial.invite(PARTNER, by=owner, of=theirs)
    (await trial.client.post("/api/invitations/accept", {"token": await trial.newest_token()}, token=carol)).ok()
    body = {"new_owner_user_id": str(trial.account(PARTNER))}
    (await trial.request("POST", f"/api/organizations/{PARTNER_SLUG}/transfer-ownership", body, by=owner)).ok()
    before = trial.accounts()
    with pytest.raises(StartFailed, match=f"There is an organization `{PARTNER_SLUG}` already, and the demo did not make it"):
        await make_organizations(trial.postern, HOME, partner=True)
    assert trial.accounts() == before


async def test_its_people_keep_their_passwords_when_they_govern_the_installation(trial: Trial) -> None:
    made = await make_organizations(trial.postern, HOME)
    assert await trial.postern.platform.platform_owners.promote(trial.postern.foundation.email_syntax.parse(OWNER)) is not None
    before = trial.accounts()
    with pytest.raises(StartFailed, match=f"{OWNER} is a platform owner"):
        await make_organizations(trial.postern, HOME)
    assert trial.accounts() == before
    assert await trial.signs_in(OWNER, made.password.reveal())


async def test_each_new_password_is_in_the_audit_log(trial: Trial) -> None:
    await make_organizations(trial.postern, HOME, partner=True)
    assert trial.audited("security.password.changed") == []
    made = await make_organizations(trial.postern, HOME, partner=True)
    told = {
        (one["target_id"], one["organization_id"], one["actor_id"], one["details"]["how"])
        for one in trial.audited("security.password.changed")
    }
    (partner,) = trial.people.rows("select id from organizations where slug = %s", PARTNER_SLUG)
    belong = {OWNER: made.organization.id, MEMBER: made.organization.id, PARTNER: partner["id"]}
    assert told == {(str(trial.account(email)), log, None, "reset") for email, home in belong.items() for log in (None, home)}
    for email in belong:
        assert await trial.signs_in(email, made.password.reveal())


async def test_whom_somebody_has_forgotten_it_makes_again(trial: Trial) -> None:
    before = await make_organizations(trial.postern, HOME)
    await trial.forgotten(MEMBER)
    made = await make_organizations(trial.postern, HOME)
    assert made.organization.id == before.organization.id
    belong = "select role from memberships where user_id = %s and org_id = %s"
    assert trial.people.rows(belong, trial.account(MEMBER), made.organization.id) == [{"role": "member"}]
    assert await trial.signs_in(MEMBER, made.password.reveal())


def test_its_addresses_are_of_a_domain_that_nobody_else_can_have() -> None:
    assert {one.partition("@")[2] for one in (OWNER, MEMBER, PARTNER)} == {"demo.postern.example"}


async def test_no_account_of_anybody_else_has_an_id_as_the_demos_have(trial: Trial) -> None:
    """Ids of version 8 are the demo's mark."""
    await trial.join("bob@example.org")
    before = {row["id"] for row in trial.people.rows("select id from users union all select id from organizations")}
    assert 8 not in {one.version for one in before}
    await make_organizations(trial.postern, HOME, partner=True)
    made = {row["id"] for row in trial.people.rows("select id from users union all select id from organizations")} - before
    assert [one.version for one in made] == [8] * 5
