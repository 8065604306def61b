"""A key of a user needs neither password nor session (SECURITY 6 and 39, decision 0162). Somebody makes one in an account of somebody else,
or has an application make one. Then the person comes: by a mailed reset, or with the first proof of the address. What the person does not
call theirs opens nothing afterwards, and consents that a stranger gave are gone. All is made by pages and endpoints.
"""

import re
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode
from uuid import uuid4

import pytest

from entrypoints.bootstrap import Postern
from ops.stand_ins.fake_providers import FakeProvider, FakeWebSuite, settings_of
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.browsing import Tab, Tabs
from tests.http.cast import all_at_once
from tests.http.client import Received
from tests.http.conftest import postern_on, with_keys
from tests.http.federation.arriving import CALLBACK, VERIFIER, left, told
from tests.http.federation.relying import FORM, TOKEN
from tests.http.people import BASE_URL, People, Person
from tests.http.postbox import Postbox, link_in, token_in
from tests.http.signing_in import PASSWORD
from tests.http.tenants import Tenant
from tests.http.upstream.scene import ADA, Fakes, UpstreamScene
from tests.http.upstream.test_vouched_addresses import asked_here, come, form_of

database_url, people, client = http.database_url, http.people, http.client

NEW: Final = "a fresh and lively password"
KEYS: Final = "/ui/keys/globex/desk"
RESET: Final = "/api/auth/reset-password"
APPLICATIONS: Final = "/ui/applications"
_KEY: Final = re.compile(r"desk_[a-z0-9]{6}_[0-9A-Za-z]{43}")
_SCOPE: Final = "openid email offline_access"


class Desk(UpstreamScene):
    """Acme runs a directory, and has proved the domain. Globex has an application whose users make keys."""

    async def prepare(self) -> None:
        self.box = Postbox(self.postern)
        self.globex = self.tenants.add("globex")
        self.boss = self.resident(self.globex, "owner", "boss")
        self.desk = self.application(self.globex, "desk", CALLBACK)
        self.key = await self.offers("desk", self.globex, self.boss)

    async def offers(self, slug: str, tenant: Tenant, boss: Person) -> str:
        """The application turns keys on. Returns its API key."""
        path = f"/api/organizations/{tenant.slug}/services/{slug}"
        (await self.request("PATCH", f"{path}/user-key-settings", {"enabled": True, "prefix": "desk"}, by=boss)).ok()
        wanted = {"name": "Server", "permissions": ["read:user_keys", "write:user_keys", "verify:user_keys", "read:users"]}
        key = str((await self.request("POST", f"{path}/api-keys", wanted, by=boss)).ok(201)["key"])
        self.log.remember(key)
        return key

    async def call(self, method: str, path: str = "", body: Any = None, key: str = "") -> Received:
        headers = [("x-api-key", key or self.key)]
        return await self.unlimited.request(method, f"/api/service/user-keys{path}", body=body, headers=headers)

    async def is_valid(self, key: str, api_key: str = "") -> bool:
        return bool((await self.call("POST", "/verify", {"key": key}, api_key)).ok()["valid"])

    async def ids(self) -> dict[str, str]:
        """The ids of the application's keys, by their names."""
        return {one["name"]: one["id"] for one in (await self.call("GET")).ok()["user_keys"]}

    async def registers(self, email: str = ADA) -> None:
        """The person registers, and proves the address."""
        (await self.unlimited.post("/api/auth/register", {"email": email, "password": PASSWORD})).ok()
        assert (await self.unlimited.get(await self.box.proof())).status < 400
        await self.box.empty()

    async def signs_in(self, email: str = ADA, password: str = PASSWORD) -> Tabs:
        """Somebody who knows the password signs in to the application."""
        tabs = self.browser()
        tab = await tabs.tab().open(self.asking(self.desk, scope=_SCOPE, prompt="consent"))
        await tab.send(email=email)
        await tab.send(password=password)
        await self.allows(tab)
        return tabs

    async def allows(self, tab: Tab) -> dict[str, Any]:
        """The tokens of the application, once the person, or whoever sits there, has said yes."""
        code = left(await tab.send(answer="allow"))["code"]
        asked = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": CALLBACK,
            "client_id": self.client_id(self.desk),
            "code_verifier": VERIFIER,
        }
        tokens: dict[str, Any] = (await self.token(asked)).ok()
        self.log.remember(*(str(tokens[name]) for name in ("access_token", "refresh_token", "id_token")))
        return tokens

    async def token(self, asked: dict[str, str]) -> Received:
        return await self.unlimited.request("POST", TOKEN, body=urlencode(asked).encode(), headers=[FORM])

    async def refreshes(self, tokens: dict[str, Any]) -> int:
        asked = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"], "client_id": self.client_id(self.desk)}
        return (await self.token(asked)).status

    async def makes(self, tabs: Tabs, name: str) -> str:
        """A key that somebody makes on the page."""
        tab = await tabs.tab().open(f"{KEYS}/new")
        await tab.send(form_of(tab, f"{KEYS}/new"), name=name)
        found = _KEY.search(tab.page.text)
        assert found is not None, tab.page.text
        self.log.remember(found[0])
        return found[0]

    async def is_given(self, name: str, user: str = "") -> str:
        """A key that the application makes."""
        if not user:
            (user,) = {one["user_id"] for one in (await self.call("GET")).ok()["user_keys"]}
        key = str((await self.call("POST", body={"user_id": user, "name": name})).ok(201)["key"])
        self.log.remember(key)
        return key

    async def link(self, email: str = ADA) -> str:
        """The path of the link that the person asks for."""
        await self.box.empty()
        (await self.unlimited.post("/api/auth/forgot-password", {"email": email})).ok()
        (mail,) = await self.box.empty()
        path = link_in(mail).removeprefix(BASE_URL)
        self.log.remember(token_in(path), NEW)
        return path

    async def resets(self, token: str, **more: Any) -> Received:
        return await self.unlimited.post(RESET, {"token": token, "new_password": NEW, **more})


@pytest.fixture
def fakes() -> Iterator[Fakes]:
    with (
        FakeWebSuite(client_id="websuite-client") as websuite,
        FakeProvider(client_id="own-client", client_secret="own-provider-secret-77") as own,
    ):
        yield {"websuite": websuite, "own": own}


@pytest.fixture
async def postern(database_url: str, tmp_path: Path, fakes: Fakes) -> AsyncIterator[Postern]:
    async with postern_on(database_url, tmp_path, settings_of("websuite", fakes["websuite"])) as opened:
        await with_keys(opened)
        yield opened


@pytest.fixture
async def desk(postern: Postern, people: People, client: object, log: CapturedLog, fakes: Fakes) -> Desk:
    made = Desk(postern, people, client, log, fakes)  # type: ignore[arg-type]
    await made.prepare()
    return made


class TestFirstProof:
    """Whoever runs the directory asserts the person's address, before the person comes by the same directory."""

    async def test_what_a_stranger_made_in_a_vouched_account_ends_with_the_first_proof(self, desk: Desk) -> None:
        provider = await desk.own_provider()
        stranger = await come(desk, provider)
        tokens = await desk.allows(await stranger.tab().open(desk.asking(desk.desk, scope=_SCOPE)))
        made = await desk.makes(stranger, "backup")
        given = await desk.is_given("nightly")
        assert (await desk.is_valid(made), await desk.is_valid(given)) == (True, True)
        person = await come(desk, provider)
        await desk.box.empty()
        tab = await asked_here(desk, person)
        assert "API key backup for Desk" in tab.page.text
        assert "API key nightly for Desk" in tab.page.text
        assert "Created in your account" in tab.page.text
        assert "Created by the application" in tab.page.text
        await tab.send(form_of(tab, "/ui/verify-email/here"))
        assert tab.place.startswith("/ui/verify-email/done?what=address_confirmed"), tab.page
        assert (await desk.is_valid(made), await desk.is_valid(given)) == (False, False)
        assert await desk.refreshes(tokens) == 400
        # In the person's own browser, the application asks as if it had never been allowed anything.
        silent = await person.request("GET", desk.asking(desk.desk, scope=_SCOPE, prompt="none"))
        assert told(silent)["error"] == "consent_required"
        assert len(desk.audited("user_key.revoked")) == 2

    async def test_a_consent_that_was_given_in_the_persons_own_browser_ends_with_its_tokens(self, desk: Desk) -> None:
        """Nothing tells who sat there, and the application asks again."""
        provider = await desk.own_provider()
        person = await come(desk, provider)
        tokens = await desk.allows(await person.tab().open(desk.asking(desk.desk, scope=_SCOPE)))
        tab = await asked_here(desk, person)
        await tab.send(form_of(tab, "/ui/verify-email/here"))
        assert await desk.refreshes(tokens) == 400
        assert (await person.tab().open("/ui")).place == "/ui"
        assert "Allow" in (await person.tab().open(desk.asking(desk.desk, scope=_SCOPE))).page.text

    async def test_a_ticked_key_stays_and_no_other(self, desk: Desk) -> None:
        provider = await desk.own_provider()
        person = await come(desk, provider)
        await desk.allows(await person.tab().open(desk.asking(desk.desk, scope=_SCOPE)))
        hers, theirs = await desk.makes(person, "hers"), await desk.makes(person, "theirs")
        ids = await desk.ids()
        await desk.box.empty()
        tab = await asked_here(desk, person)
        ticked = [f"user_key:{ids['hers']}", f"user_key:{uuid4()}"]
        form = form_of(tab, "/ui/verify-email/here")
        fields = {**tab.page.forms[form].fields, "stays": ticked}
        answers = await all_at_once(*[partial(person.request, "POST", "/ui/verify-email/here", fields)] * 2)
        assert {answer.header("location") for answer in answers} == {"/ui/verify-email/done?what=address_confirmed"}
        assert (await desk.is_valid(hers), await desk.is_valid(theirs)) == (True, False)
        assert len(desk.audited("user_key.revoked")) == 1

    @pytest.mark.parametrize("way", ["mailed reset", "link elsewhere"])
    async def test_outside_the_session_everything_ends(self, desk: Desk, way: str) -> None:
        provider = await desk.own_provider()
        stranger = await come(desk, provider)
        tokens = await desk.allows(await stranger.tab().open(desk.asking(desk.desk, scope=_SCOPE)))
        made = await desk.makes(stranger, "backup")
        given, ids = await desk.is_given("nightly"), await desk.ids()
        if way == "mailed reset":
            token = token_in(await desk.link())
            # Nobody has proved the address: there is no person yet who could call a key theirs.
            assert "backup" not in (await desk.browser().tab().open(f"/ui/reset-password?token={token}")).page.text
            (await desk.resets(token, keep_keys=list(ids.values()))).ok()
        else:
            await desk.box.empty()
            tab = await stranger.tab().open("/ui/confirm-address")
            await tab.send(form_of(tab, "/ui/confirm-address"))
            path = (await desk.box.link()).removeprefix(BASE_URL)
            desk.log.remember(token_in(path), NEW)
            tab = await desk.browser().tab().open(path)
            await tab.send(new_password=NEW, repeated=NEW)
            assert tab.place.startswith("/ui/verify-email/done"), tab.page.text
        assert (await desk.is_valid(made), await desk.is_valid(given)) == (False, False)
        assert await desk.refreshes(tokens) == 400
        assert desk.people.rows("select from consents") == []
        assert desk.people.rows("select from resource_consents") == []


class TestReset:
    """An intruder who knows the password makes a key. The person resets the password by mail."""

    async def test_the_intruders_key_ends_and_the_mails_told_of_it(self, desk: Desk) -> None:
        await desk.registers()
        intruder = await desk.signs_in()
        await desk.box.empty()
        made = await desk.makes(intruder, "backup")
        (mail,) = await desk.box.empty()
        assert (mail.to, mail.subject) == (ADA, "New API key for your account at Desk")
        assert "“backup”" in mail.text
        assert "Was this not you? Revoke it immediately" in mail.text
        given = await desk.is_given("nightly")
        (mail,) = await desk.box.empty()
        assert "Desk of Globex created the API key “nightly” for you" in " ".join(mail.text.split())
        assert "IP address:" not in mail.text
        listed = (await intruder.tab().open(APPLICATIONS)).page
        assert "backup" in listed.text
        assert KEYS in listed.links
        (await desk.resets(token_in(await desk.link()))).ok()
        assert (await desk.is_valid(made), await desk.is_valid(given)) == (False, True)
        (mail,) = await desk.box.empty()
        said = " ".join(mail.text.split())
        assert "These API keys were revoked: backup (Desk)." in said
        assert "These API keys still work: nightly (Desk)." in said
        (ended,) = desk.audited("user_key.revoked")
        assert ended["organization_id"] == desk.globex.id

    async def test_the_page_lists_the_keys_and_ends_what_is_not_ticked(self, desk: Desk) -> None:
        await desk.registers()
        intruder = await desk.signs_in()
        made = {name: await desk.makes(intruder, name) for name in ("backup", "laptop")} | {"nightly": await desk.is_given("nightly")}
        ids = await desk.ids()
        tab = await desk.browser().tab().open(await desk.link())
        for name in made:
            assert f"{name} for Desk" in tab.page.text
        assert "Created by the application" in tab.page.text
        assert "Not used yet" in tab.page.text
        # A form with errors comes back with its ticks, and ends nothing.
        await tab.send(new_password=NEW, repeated="something else", keep_keys=[ids["laptop"]])
        assert tab.status == 400
        assert re.findall(rb'value="([0-9a-f-]{36})" checked', tab.shown.body) == [ids["laptop"].encode()]
        assert await desk.is_valid(made["backup"])
        await tab.send(new_password=NEW, repeated=NEW, keep_keys=[ids["laptop"]])
        assert tab.place.startswith("/ui/password-chosen"), tab.page.text
        assert {name for name, key in made.items() if await desk.is_valid(key)} == {"laptop"}

    async def test_ids_of_others_do_nothing_and_tell_nothing(self, desk: Desk) -> None:
        await desk.registers()
        await desk.registers("bob@example.org")
        ada, bob = await desk.signs_in(), await desk.signs_in("bob@example.org")
        hers, his = await desk.makes(ada, "hers"), await desk.makes(bob, "his")
        ids = await desk.ids()
        usual = await desk.resets(token_in(await desk.link()), keep_keys=[])
        assert (await desk.is_valid(hers), await desk.is_valid(his)) == (False, True)
        ada = await desk.signs_in(password=NEW)
        again = await desk.makes(ada, "again")
        named = await desk.resets(token_in(await desk.link()), keep_keys=[ids["his"], ids["hers"], str(uuid4())])
        assert (named.status, named.json()) == (usual.status, usual.json())
        assert (await desk.is_valid(again), await desk.is_valid(his)) == (False, True)

    async def test_of_two_resets_at_once_one_decides(self, desk: Desk) -> None:
        await desk.registers()
        intruder = await desk.signs_in()
        made = {name: await desk.makes(intruder, name) for name in ("one", "two")}
        ids = await desk.ids()
        token = token_in(await desk.link())
        answers = await all_at_once(*(partial(desk.resets, token, keep_keys=[ids[name]]) for name in made))
        assert sorted(answer.status for answer in answers) == [200, 400]
        assert len([key for key in made.values() if await desk.is_valid(key)]) == 1
        assert len(desk.audited("user_key.revoked")) == 1

    async def test_no_key_is_made_past_a_reset(self, desk: Desk) -> None:
        """Whatever comes first: the intruder's key ends with the reset, or the intruder's session has ended before it is made."""
        await desk.registers()
        intruder = await desk.signs_in()
        tabs = [await intruder.tab().open(f"{KEYS}/new") for _ in range(5)]
        token = token_in(await desk.link())

        async def makes(tab: Tab) -> None:
            await tab.send(form_of(tab, f"{KEYS}/new"), name="late")

        async def resets() -> None:
            (await desk.resets(token)).ok()

        await all_at_once(*(partial(makes, tab) for tab in tabs[:3]), resets, *(partial(makes, tab) for tab in tabs[3:]))
        for tab in tabs:
            found = _KEY.search(tab.page.text)
            if found is not None:
                desk.log.remember(found[0])
                assert not await desk.is_valid(found[0])
        assert await desk.ids() == {}

    @pytest.mark.parametrize("wrong", ["x", ["x"], [1], {}, [str(uuid4())] * 1001])
    async def test_what_is_no_list_of_ids_is_refused_and_the_link_still_works(self, desk: Desk, wrong: Any) -> None:
        await desk.registers()
        token = token_in(await desk.link())
        assert (await desk.resets(token, keep_keys=wrong)).status in {400, 422}
        assert (await desk.resets(token, keep_keys=None)).status == 200


class TestApplications:
    async def test_a_person_ends_a_key_there_also_while_the_organization_is_suspended(self, desk: Desk) -> None:
        await desk.registers()
        ada = await desk.signs_in()
        key = await desk.makes(ada, "backup")
        operator = desk.people.add("operator@example.org", platform_owner=True)
        suspend = f"/api/platform/organizations/{desk.globex.id}/suspend"
        assert (await desk.request("POST", suspend, {"reason": "x"}, by=operator)).status == 200
        tab = await ada.tab().open(APPLICATIONS)
        assert "backup" in tab.page.text
        assert KEYS not in tab.page.links
        (end,) = [link for link in tab.page.links if link.endswith("/end")]
        assert "Revoke API key" in (await tab.open(end)).page.text
        form = tab.page.forms[form_of(tab, end)]
        await tab.send(form_of(tab, end))
        assert tab.place == f"{APPLICATIONS}?done=ended"
        assert "backup" not in tab.page.text
        assert (await ada.request("POST", form.action, form.fields)).header("location") == f"{APPLICATIONS}?done=ended"
        assert (await ada.tab().open(end)).status == 404
        assert len(desk.audited("user_key.revoked")) == 1
        restore = f"/api/platform/organizations/{desk.globex.id}/activate"
        assert (await desk.request("POST", restore, by=operator)).status == 200
        assert not await desk.is_valid(key)

    async def test_nobody_sees_or_ends_a_key_of_somebody_else(self, desk: Desk) -> None:
        await desk.registers()
        await desk.registers("bob@example.org")
        ada, bob = await desk.signs_in(), await desk.signs_in("bob@example.org")
        key = await desk.makes(ada, "backup")
        await desk.makes(bob, "his")
        end = f"{APPLICATIONS}/keys/{(await desk.ids())['backup']}/end"
        tab = await bob.tab().open(APPLICATIONS)
        assert "backup" not in tab.page.text
        assert (await bob.tab().open(end)).status == 404
        (own,) = [link for link in tab.page.links if link.endswith("/end")]
        await tab.open(own)
        form = tab.page.forms[form_of(tab, own)]
        await bob.request("POST", end, form.fields)
        assert await desk.is_valid(key)
        assert desk.audited("user_key.revoked") == []
