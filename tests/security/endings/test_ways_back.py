"""The links that lift rules for risk, in "what ends when" (SECURITY 46 and 56). Grace is a platform owner and the owner of acme here, and
has one of each by mail. Rules that refuse are about a network where she is not, so that each cause comes about as it does for everybody.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from uuid import UUID, uuid4

import pyotp
import pytest

from core.domain.identity.endings import ENDINGS, ENDS, Cause, CredentialKind, Ending, Stays
from entrypoints.bootstrap import Postern
from ops.stand_ins.fake_providers import FakeProvider
from tests.conftest import CapturedLog
from tests.http.browsing import Tab, Tabs
from tests.http.client import Client
from tests.http.people import BASE_URL, People
from tests.http.postbox import Postbox
from tests.http.signing_in import PASSWORD, Browser, unlimited
from tests.security.endings.causes import ACTS, NEW, done
from tests.security.endings.test_endings import WAYS_BACK
from tests.security.endings.world import ACME, GRACE, FullAccount

_FROM_THERE: Final = "203.0.113.7"
_OWNERS: Final = CredentialKind.RULES_LINK
_PLATFORMS: Final = CredentialKind.INSTALLATION_RULES_LINK
# Of a directory's people and of unproved addresses. None of these is a platform owner or an owner: the table says so.
_NEVER: Final = {
    *(Cause.FIRST_PROOF_INSIDE, Cause.FIRST_PROOF_OUTSIDE, Cause.ANOTHER_PROVIDERS_WORD),
    *(Cause.HAND_OVER, Cause.DEACTIVATED_BY_DIRECTORY),
}
# Nobody in the organization does this to its owner.
_NOT_TO_OWNERS: Final = {Cause.LOCKED_OUT_BY_ORGANIZATION, Cause.SHUT_OUT_BY_ORGANIZATION, Cause.LET_GO}


class OwnersAccount(FullAccount):
    """Grace has a password, and works in two browsers."""

    async def begin(self, *, proved: bool = True) -> "OwnersAccount":
        assert proved
        self.box = Postbox(self.postern)
        self.boss = self.speaker = self.resident(self.acme, "admin", "boss")
        self.governor = self.people.proved("governor@example.org", platform_owner=True)
        for application in (self.shop, self.helper):
            self.people.change("update all_services set sign_in_policy = 'members' where id = %s", application.service.id)
        self.grace = await self.people.with_password(PASSWORD, GRACE)
        self.tenants.join(self.grace, self.acme, "owner")
        self.user = UUID(str(self.grace.user))
        done(await self.request("POST", "/api/platform/owners", {"user_id": str(self.user)}, by=self.governor))
        await self._connect()
        self.inside, self.elsewhere = await self.signs_in(PASSWORD), await self.signs_in(PASSWORD)
        # The office has ended the session that she had before.
        self.grace = await self.person(self.inside)
        await self._lets_the_shop_in()
        await self._lets_the_helper_in()
        key = {"name": "House", "permissions": ["delete:users"]}
        self.given["house_key"] = (await self.request("POST", f"{ACME}/services/shop/api-keys", key)).ok(201)["key"]
        await self._asks_for_ways_back()
        return self

    async def signs_in(self, *passwords: str) -> Tabs:
        tabs = Tabs(self.client)
        for password in passwords:
            tab = await tabs.tab().open("/ui/sign-in")
            await tab.send(email=GRACE)
            await tab.send(password=password)
            if tabs.session:
                break
        return tabs

    async def _asks_for_ways_back(self) -> None:
        rule = {"id": str(uuid4()), "name": "Not there", "when": {"networks": [f"{_FROM_THERE}/32"]}, "action": "refuse"}
        for path, by in ((f"{ACME}/risk-policies", self.grace), ("/api/platform/risk-policies", self.governor)):
            for counts in (False, True):
                done(await self.request("PUT", path, {"policies": [{**rule, "counts": counts}]}, by=by))
        tab = await self.inside.tab().open("/ui/organizations/acme/risk-rules")
        await tab.send(-1)
        refused = await Browser(Client(self.client.application, _FROM_THERE)).login(self.grace)
        assert refused.status == 403, refused.body
        words = [word for mail in await self.box.empty() if mail.to == GRACE for word in mail.text.split()]
        for kind, path in ((_OWNERS, "/ui/organizations/acme/risk-rules"), (_PLATFORMS, "/ui/lift-rules")):
            (self.given[kind],) = {word.removeprefix(BASE_URL) for word in words if f"{path}?token=" in word}

    async def opens(self) -> Mapping[CredentialKind, bool]:
        """Whether the page shows its button. The owner's asks for a session, so Grace signs in again where hers has ended."""
        browsers: list[Callable[[], Awaitable[Tabs]]] = [self._inside, lambda: self.signs_in(PASSWORD, NEW)]
        return {
            _OWNERS: any([_shows(await (await browser()).tab().open(self.given[_OWNERS])) for browser in browsers]),
            _PLATFORMS: _shows(await self.browser_of_nobody().open(self.given[_PLATFORMS])),
        }

    async def _inside(self) -> Tabs:
        return self.inside

    async def hands_over(self) -> None:
        """Nobody removes the owner: the ownership goes first."""
        body = {"new_owner_user_id": str(self.boss.user)}
        done(await self.request("POST", f"{ACME}/transfer-ownership", body, by=self.grace))


def _shows(tab: Tab) -> bool:
    return tab.status == 200 and "Not there" in tab.page.text


async def _without_ownership(world: OwnersAccount, act: Callable[[FullAccount], Awaitable[None]]) -> None:
    await world.hands_over()
    await act(world)


async def _by_herself(world: OwnersAccount, act: Callable[[FullAccount], Awaitable[None]]) -> None:
    """What the owner alone may do."""
    world.speaker = world.grace
    await act(world)


async def _turns_factor_off(world: OwnersAccount) -> None:
    totp = pyotp.TOTP((await world.as_grace("POST", "/api/user/mfa/setup")).ok()["secret"])
    codes = (await world.as_grace("POST", "/api/user/mfa/verify", {"code": totp.now()})).ok()["backup_codes"]
    world.log.remember(*codes)
    done(await world.as_grace("POST", "/api/auth/reauthenticate", {"code": codes[0]}))
    done(await world.as_grace("DELETE", "/api/user/mfa"))


async def _deletes_account(world: OwnersAccount) -> None:
    """Neither a platform owner nor an owner is deleted: both offices go first."""
    await world.hands_over()
    done(await world.request("DELETE", f"/api/platform/owners/{world.user}", by=world.governor))
    await ACTS[Cause.ACCOUNT_DELETED](world)


async def _ends_with_office(world: OwnersAccount, act: Callable[[FullAccount], Awaitable[None]]) -> None:
    """A tenant does nothing to a platform owner's account, so the office goes first, and comes again."""
    done(await world.request("DELETE", f"/api/platform/owners/{world.user}", by=world.governor))
    await _without_ownership(world, act)
    done(await world.request("POST", "/api/platform/owners", {"user_id": str(world.user)}, by=world.governor))


def act_of(cause: Cause) -> Callable[[OwnersAccount], Awaitable[None]]:
    special: dict[Cause, Any] = {
        Cause.SECOND_FACTOR_REMOVED: _turns_factor_off,
        Cause.ACCOUNT_DELETED: _deletes_account,
    }
    first: dict[Cause, Any] = {
        **dict.fromkeys((Cause.LEFT, Cause.REMOVED, Cause.ROLE_LOST), _without_ownership),
        **dict.fromkeys(_NOT_TO_OWNERS, _ends_with_office),
        **dict.fromkeys((Cause.APPLICATION_ENDED, Cause.ORGANIZATION_ENDED), _by_herself),
    }
    if cause in first:
        return lambda world: first[cause](world, ACTS[cause])
    found: Callable[[OwnersAccount], Awaitable[None]] = special.get(cause, ACTS[cause])
    return found


def wrong(said: Ending, gets_in: bool) -> bool:
    return gets_in != (isinstance(said, Stays) and said.opens)


@pytest.fixture
async def owners(postern: Postern, people: People, log: CapturedLog, fakes: dict[str, FakeProvider]) -> OwnersAccount:
    return await OwnersAccount(postern, people, unlimited(postern), log, fakes).begin()


@pytest.mark.parametrize("cause", [one for one in Cause if one not in _NEVER], ids=lambda cause: cause.name.lower())
async def test_what_ends_a_way_back(owners: OwnersAccount, cause: Cause) -> None:
    assert await owners.opens() == dict.fromkeys(WAYS_BACK, True)
    await act_of(cause)(owners)
    opened = await owners.opens()
    of_this = WAYS_BACK - ({_OWNERS} if cause in _NOT_TO_OWNERS else set())
    told = [f"{kind} by {cause.name} is said: {ENDINGS[cause][kind]}" for kind in of_this if wrong(ENDINGS[cause][kind], opened[kind])]
    assert told == []


async def test_what_is_shut_for_a_while_works_again(owners: OwnersAccount) -> None:
    """So it says: it stays, and opens nothing meanwhile."""
    kinds = {kind for kind in WAYS_BACK if ENDINGS[Cause.DEACTIVATED_BY_PLATFORM][kind] is not ENDS}
    assert kinds == WAYS_BACK
    await ACTS[Cause.DEACTIVATED_BY_PLATFORM](owners)
    assert not any((await owners.opens()).values())
    done(await owners.request("POST", f"/api/platform/users/{owners.user}/activate", by=owners.governor))
    assert all((await owners.opens()).values())
