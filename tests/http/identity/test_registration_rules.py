"""Who may register: whom the pages of the installation, and of an organization, give an account."""

from collections.abc import AsyncIterator
from functools import cached_property
from pathlib import Path
from typing import Final

import pytest

from entrypoints.bootstrap import Postern
from entrypoints.settings import SettingsError
from tests.conftest import CapturedLog
from tests.http.browsing import Tab, Tabs
from tests.http.cast import Neighbours
from tests.http.client import Received
from tests.http.conftest import postern_on, with_keys
from tests.http.people import People, Person
from tests.http.signing_in import PASSWORD, unlimited

REGISTER: Final = "/api/auth/register"
RULES: Final = "/api/organizations/acme/sign-in-rules"
NOBODY_REGISTERS: Final = "You cannot register here"


class RegistrationScene(Neighbours):
    async def rule(self, policy: str, *domains: str) -> None:
        """An owner of Acme sets the rule."""
        body = {"registration_policy": policy, "registration_domains": list(domains)}
        (await self.request("PATCH", RULES, body, by=self.owner)).ok()

    @cached_property
    def owner(self) -> Person:
        return self.resident(self.acme, "owner")

    async def register(self, email: str, org_slug: str = "") -> Received:
        return await self.client.post(REGISTER, {"email": email, "password": PASSWORD, **({"org_slug": org_slug} if org_slug else {})})

    async def page(self, query: str = "") -> Tab:
        return await Tabs(self.client).tab().open(f"/ui/register{query}")

    def accounts(self, email: str) -> int:
        return len(self.people.rows("select id from users where email_key = %s", email))


@pytest.fixture
def more(request: pytest.FixtureRequest) -> dict[str, str]:
    return getattr(request, "param", {})


@pytest.fixture
async def postern(database_url: str, tmp_path: Path, more: dict[str, str]) -> AsyncIterator[Postern]:
    async with postern_on(database_url, tmp_path, more) as opened:
        await with_keys(opened)
        yield opened


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> RegistrationScene:
    return RegistrationScene(postern, people, unlimited(postern), log)


def told(answer: Received) -> tuple[int, str | None, bool]:
    return answer.status, answer.error_code, answer.json()["error"].startswith("Registration is closed")


CLOSED: Final = (403, "FORBIDDEN", True)


def of_installation(**settings: str) -> pytest.MarkDecorator:
    named = {f"POSTERN_{name.upper()}": value for name, value in settings.items()}
    return pytest.mark.parametrize("more", [named], indirect=True)


@pytest.mark.parametrize("more", [{"POSTERN_REGISTRATION": one} for one in ("closed", "invitation")], indirect=True)
async def test_a_closed_installation_gives_nobody_an_account_by_its_pages(scene: RegistrationScene) -> None:
    assert told(await scene.register("bob@acme.example")) == CLOSED
    assert told(await scene.register("bob@acme.example", "acme")) == CLOSED
    tab = await scene.page()
    assert (tab.status, NOBODY_REGISTERS in tab.page.text, tab.page.forms) == (200, True, [])
    entry = await Tabs(scene.client).tab().open("/ui/sign-in")
    assert not [link for link in entry.page.links if "register" in link]
    assert scene.accounts("bob@acme.example") == 0


@of_installation(registration="domains", registration_domains="acme.example, Bücher.example")
async def test_an_installation_lets_in_its_domains_and_none_below_them(scene: RegistrationScene) -> None:
    for email in ("bob@acme.example", "eve@ACME.example", "kim@xn--bcher-kva.example"):
        assert (await scene.register(email)).status == 200
    for email in ("bob@sub.acme.example", "bob@globex.example", "bob@acme.example.globex.example"):
        answer = await scene.register(email)
        assert (answer.status, "email: addresses of this email domain" in answer.json()["error"]) == (400, True)


@of_installation(registration="except_domains", registration_domains="globex.example")
async def test_an_installation_refuses_domains_and_throw_away_ones_with_those_below(scene: RegistrationScene) -> None:
    for email in ("a@globex.example", "a@mail.Globex.example", "a@mailinator.com", "a@of.mailinator.com"):
        assert (await scene.register(email)).status == 400, email
    assert (await scene.register("a@acme.example")).status == 200
    assert (await scene.register("a@notglobex.example")).status == 200


async def test_an_organization_rules_over_its_own_pages_alone(scene: RegistrationScene) -> None:
    await scene.rule("closed")
    assert told(await scene.register("bob@acme.example", "acme")) == CLOSED
    assert NOBODY_REGISTERS in (await scene.page("?org_slug=acme")).page.text
    assert [form.action for form in (await scene.page("?org_slug=globex")).page.forms] == ["/ui/register"]
    assert (await scene.register("bob@acme.example", "globex")).status == 200
    assert (await scene.register("eve@acme.example")).status == 200


@of_installation(registration="domains", registration_domains="acme.example,globex.example")
async def test_both_rules_must_let_somebody_in(scene: RegistrationScene) -> None:
    await scene.rule("domains", "acme.example")
    assert (await scene.register("bob@globex.example", "acme")).status == 400
    assert (await scene.register("bob@acme.example", "acme")).status == 200
    await scene.rule("anybody")
    assert (await scene.register("bob@street.example", "acme")).status == 400


async def test_the_page_says_it_at_the_address(scene: RegistrationScene) -> None:
    await scene.rule("except_domains")
    tab = await (await scene.page("?org_slug=acme")).send(email="bob@mailinator.com", password=PASSWORD)
    assert (tab.status, "Email addresses of this domain cannot be registered here" in tab.page.text) == (400, True)
    assert tab.page.forms[0].fields["email"] == "bob@mailinator.com"
    tab = await tab.send(email="bob@acme.example", password=PASSWORD)
    assert (tab.status, scene.accounts("bob@acme.example")) == (200, 1)


async def test_a_form_that_was_open_when_an_owner_closed_makes_nothing(scene: RegistrationScene) -> None:
    tab = await scene.page("?org_slug=acme")
    await scene.rule("invitation")
    tab = await tab.send(email="bob@acme.example", password=PASSWORD)
    assert (tab.status, "Only invited people" in tab.page.text) == (400, True)
    assert scene.accounts("bob@acme.example") == 0


async def test_the_rule_is_in_the_log_and_a_rule_that_nobody_fits_is_refused(scene: RegistrationScene) -> None:
    owner = scene.owner
    answer = await scene.request("PATCH", RULES, {"registration_policy": "domains"}, by=owner)
    assert (answer.status, "registration_domains: name at least one" in answer.json()["error"]) == (400, True)
    await scene.rule("domains", "Acme.example")
    answer = await scene.request("PATCH", RULES, {"registration_domains": []}, by=owner)
    assert answer.status == 400
    answer = await scene.request("PATCH", RULES, {"registration_domains": ["no domain"]}, by=owner)
    assert "registration_domains: each must be" in answer.json()["error"]
    (entry,) = scene.people.rows("select details from audit_log where action = 'organization.sign_in_rules.updated'")
    assert entry["details"]["new_registration_policy"] == "domains"
    assert entry["details"]["new_registration_domains"] == ["acme.example"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"POSTERN_REGISTRATION": "nobody"}, "anybody, except_domains, domains, invitation or closed"),
        ({"POSTERN_REGISTRATION": "domains"}, "POSTERN_REGISTRATION_DOMAINS must name a domain"),
        ({"POSTERN_REGISTRATION_DOMAINS": "acme.example,@"}, "mail domains like acme.example"),
        ({"POSTERN_THROWAWAY_DOMAINS": "/nowhere/list.txt"}, "cannot be read: No such file"),
    ],
)
async def test_settings_that_cannot_be_stop_the_start(database_url: str, tmp_path: Path, settings: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        async with postern_on(database_url, tmp_path, settings):
            pass


async def test_a_list_of_the_operators_own_counts_instead(database_url: str, tmp_path: Path, people: People) -> None:
    assert not people.rows("select id from users")
    listed = tmp_path / "listed.txt"
    listed.write_text("lent.example\n")
    more = {"POSTERN_REGISTRATION": "except_domains", "POSTERN_THROWAWAY_DOMAINS": str(listed)}
    async with postern_on(database_url, tmp_path, more) as opened:
        client = unlimited(opened)
        asked = [{"email": f"a@{one}", "password": PASSWORD} for one in ("lent.example", "mailinator.com")]
        statuses = [(await client.post(REGISTER, one)).status for one in asked]
    assert statuses == [400, 200]
