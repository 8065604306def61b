"""Disabled things are refused on the next request, at every entry. A thing that is enabled again does not get its old sessions back.

None of the credentials appears in the log.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from core.domain.mail import Email
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import OWN_USER, PLATFORM_OWNER, USER
from entrypoints.http.machinery.endpoints import Endpoint, parameters
from entrypoints.http.routes import ROUTES
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.cast import Cast
from tests.http.people import People, Person
from tests.http.postbox import Postbox
from tests.http.signing_in import FIREFOX, LOGOUT, PASSWORD, SAFARI, Browser, enable_mfa, unlimited

database_url, postern, people = http.database_url, http.postern, http.people

ENTRIES = [one for one in ROUTES if one.caller in {USER, OWN_USER, PLATFORM_OWNER}]


@dataclass(frozen=True)
class SignedIn:
    """A person in a browser, with the tokens that the browser was given."""

    browser: Browser
    tokens: Mapping[str, Any]

    async def profile(self) -> int:
        return (await self.browser.client.get("/api/user", token=self.tokens["access_token"])).status

    async def is_refused(self, statuses: Sequence[int] = (401,), *, everywhere: Sequence[Endpoint] = ENTRIES) -> None:
        for one in everywhere:
            path = one.path
            for name in parameters(path):
                path = path.replace(f"{{{name}}}", "0199d3a0-0000-7000-8000-000000000001")
            body = None if one.body_type is None else b"{}"
            answer = await self.browser.client.request(one.method, path, body=body, token=self.tokens["access_token"])
            assert answer.status in statuses, one
        # Twice: the first request must not have revived the session.
        for _ in range(2):
            assert (await self.browser.refresh(self.tokens["refresh_token"])).status in statuses


class DisabledScene(Cast):
    async def sign_in(self, person: Person, agent: str = FIREFOX, **more: Any) -> SignedIn:
        browser = Browser(self.client, agent)
        tokens = await browser.tokens(person, **more)
        self.remember(tokens, browser)
        return SignedIn(browser, tokens)

    def remember(self, tokens: Mapping[str, Any], browser: Browser) -> None:
        kept = [*browser.cookies.values(), *(tokens.get(name) for name in ("access_token", "refresh_token", "device_trust_token"))]
        self.log.remember(PASSWORD, *(one for one in kept if one))

    def move_into(self, organization: str, person: Person) -> None:
        """Moves all of the person's sessions into this place."""
        self.people.change(
            "with made as (insert into organizations (id, slug, name, status, created_at, updated_at)"
            "              values (gen_random_uuid(), %s, 'X', 'active', now(), now()) returning id),"
            "     joined as (insert into memberships (id, org_id, user_id, role, created_at)"
            "                select gen_random_uuid(), id, %s, 'member', now() from made)"
            " update sessions set organization_id = made.id from made where user_id = %s",
            organization,
            person.user,
            person.user,
        )

    async def deactivate(self, person: Person) -> None:
        await self.postern.platform.account_administration.deactivate(Email(person.email), "test")

    async def activate(self, person: Person) -> None:
        await self.postern.platform.account_administration.activate(Email(person.email), "test")


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> DisabledScene:
    return DisabledScene(postern, people, unlimited(postern), log)


@pytest.fixture
async def ada(people: People) -> Person:
    return await people.with_password(PASSWORD, "ada@example.org")


async def test_a_deactivated_user_gets_in_by_no_entry_and_comes_back_without_the_old_keys(scene: DisabledScene, ada: Person) -> None:
    postbox = Postbox(scene.postern)
    first, second = await scene.sign_in(ada), await scene.sign_in(ada, SAFARI)
    await postbox.empty()
    await scene.client.post("/api/auth/forgot-password", {"email": ada.email})
    link = await postbox.token()
    scene.log.remember(link)
    await scene.deactivate(ada)

    async def refused() -> None:
        await first.is_refused()
        await second.is_refused()
        reset = await scene.client.post("/api/auth/reset-password", {"token": link, "new_password": "three wet matches"})
        assert reset.status == 400

    await refused()
    assert (await first.browser.login(ada)).status == 401
    await scene.client.post("/api/auth/forgot-password", {"email": ada.email})
    assert await postbox.empty() == []

    await scene.activate(ada)
    await refused()
    assert await (await scene.sign_in(ada)).profile() == 200


async def test_a_second_factor_that_was_awaited_does_not_let_a_deactivated_user_in(scene: DisabledScene, ada: Person) -> None:
    totp = await enable_mfa(scene.client, scene.people, ada)
    browser = Browser(scene.client)
    awaiting = (await browser.login(ada)).json()
    assert awaiting["mfa_required"]
    await scene.deactivate(ada)
    assert (await browser.verify(awaiting["access_token"], totp.now())).status == 401


async def test_a_session_that_was_left_is_dead_and_another_lives(scene: DisabledScene, ada: Person) -> None:
    left, other = await scene.sign_in(ada), await scene.sign_in(ada, SAFARI)
    assert (await left.browser.post(LOGOUT, token=left.tokens["access_token"])).status == 200
    await left.is_refused()
    assert await other.profile() == 200


async def test_a_revoked_device_takes_its_sessions_and_its_trust_with_it(scene: DisabledScene, ada: Person) -> None:
    totp = await enable_mfa(scene.client, scene.people, ada)

    async def sign_in(agent: str) -> SignedIn:
        browser = Browser(scene.client, agent)
        awaiting = (await browser.login(ada)).json()
        answer = await browser.verify(awaiting["access_token"], totp.now(), trust_device=True)
        assert answer.status == 200
        scene.remember(answer.json(), browser)
        scene.people.change("update mfa_secrets set last_step = last_step - 10")
        return SignedIn(browser, answer.json())

    lost, other = await sign_in(FIREFOX), await sign_in(SAFARI)
    trusted = (await lost.browser.login(ada)).json()
    scene.remember(trusted, lost.browser)
    assert "mfa_required" not in trusted
    devices = (await scene.client.get("/api/user/devices", token=other.tokens["access_token"])).json()["devices"]
    (device,) = [one["id"] for one in devices if not one["is_current"] and one["trusted"]]
    assert (await scene.client.request("DELETE", f"/api/user/devices/{device}", token=other.tokens["access_token"])).status == 200

    await lost.is_refused()
    await SignedIn(lost.browser, trusted).is_refused()
    assert (await lost.browser.login(ada)).json()["mfa_required"]
    assert await other.profile() == 200


@pytest.mark.parametrize(
    ("disabled", "enabled"),
    [
        ("update organizations set status = 'suspended'", "update organizations set status = 'active'"),
        ("update organizations set status = 'rejected'", "update organizations set status = 'active'"),
        ("delete from memberships", None),
        ("delete from organizations", None),
    ],
)
async def test_an_organization_that_is_closed_to_somebody_is_so_at_once(
    scene: DisabledScene, ada: Person, disabled: str, enabled: str | None
) -> None:
    inside = await scene.sign_in(ada)
    scene.move_into("acme", ada)
    refreshed = (await inside.browser.refresh(inside.tokens["refresh_token"])).json()
    inside = SignedIn(inside.browser, refreshed)
    scene.remember(refreshed, inside.browser)
    assert await inside.profile() == 200
    scene.people.change(disabled)
    await inside.is_refused((401, 403))
    if enabled is not None:
        # A session survives the time for which its organization is closed.
        scene.people.change(enabled)
        assert await inside.profile() == 200


@pytest.mark.parametrize(
    ("disabled", "enabled", "statuses"),
    [
        ("update all_services set deleted_at = now() where slug = 'shop'", None, (401,)),
        ("delete from all_services where slug = 'shop'", None, (401,)),
        ("update all_organizations set deleted_at = now() where slug = 'acme'", None, (401,)),
        ("update organizations set status = 'suspended'", "update organizations set status = 'active'", (401, 403)),
        ("update users set deactivated_at = now()", "update users set deactivated_at = null", (401,)),
    ],
)
async def test_a_service_that_is_closed_to_somebody_is_so_at_once(
    scene: DisabledScene, ada: Person, disabled: str, enabled: str | None, statuses: Sequence[int]
) -> None:
    acme = scene.tenants.add("acme")
    scene.tenants.service(acme, "shop")
    # Membership of the organization does not open a service that was ended.
    scene.tenants.join(ada, acme, "owner")
    inside = await scene.sign_in(ada, org_slug="acme", service_slug="shop")
    assert await inside.profile() == 200
    scene.people.change(disabled)
    await inside.is_refused(statuses)
    if enabled is None:
        assert (await inside.browser.login(ada, org_slug="acme", service_slug="shop")).status == 404
    else:
        assert (await inside.browser.login(ada, org_slug="acme", service_slug="shop")).status in statuses
        scene.people.change(enabled)
        assert await inside.profile() == 200


async def test_what_ends_a_persons_sessions_ends_those_in_services_too(scene: DisabledScene, ada: Person) -> None:
    scene.tenants.service(scene.tenants.add("acme"), "shop")
    inside = await scene.sign_in(ada, org_slug="acme", service_slug="shop")
    outside = await scene.sign_in(ada, SAFARI)
    body = {"current_password": PASSWORD, "new_password": "three wet matches"}
    answer = await outside.browser.post("/api/user/change-password", body, token=outside.tokens["access_token"])
    assert answer.status == 200, answer.body
    await inside.is_refused()
    assert (await inside.browser.login(ada, org_slug="acme", service_slug="shop")).status == 401


async def test_an_impersonator_out_of_office_is_out_of_every_name(scene: DisabledScene, ada: Person, people: People) -> None:
    owner = people.add("owner@example.org", platform_owner=True)
    people.add("second@example.org", platform_owner=True)

    async def impersonate() -> SignedIn:
        answer = await scene.client.post(f"/api/platform/impersonate/{ada.user}", {"reason": "A test"}, token=await people.token(owner))
        assert answer.status == 200, answer.body
        browser = Browser(scene.client)
        scene.remember(answer.json(), browser)
        return SignedIn(browser, answer.json())

    acting = await impersonate()
    assert await acting.profile() == 200
    people.change("update users set is_platform_owner = false where id = %s", owner.user)
    await acting.is_refused()
    people.change("update users set is_platform_owner = true where id = %s", owner.user)
    acting = await impersonate()
    await scene.deactivate(owner)
    await acting.is_refused()
    # The deactivation ended the session for good, also after the account is activated again.
    await scene.activate(owner)
    await acting.is_refused()
