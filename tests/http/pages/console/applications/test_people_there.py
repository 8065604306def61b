"""People there, on pages: a connection is drafted, made active, planned and let go on; and each list has its words."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from core.domain.languages import CONSOLE_LANGUAGES, Language
from entrypoints.http.console.organization.applications.people_there import fault_words
from entrypoints.http.pages.kit import shipped_pages
from ops.stand_ins.fake_far_side import FakeFarSide
from ports.federation.provisioning_runs import INTERRUPTED, FarFault
from ports.outbound import Failure
from tests.http.pages.console.conftest import ConsoleScene


@pytest.fixture
def far() -> Iterator[FakeFarSide]:
    with FakeFarSide() as made:
        yield made


async def drafted(console: ConsoleScene, billing: str, far: FakeFarSide) -> str:
    console.log.remember(far.token)
    at = f"{billing}/people-there"
    await console.at(at)
    await console.submit(f"{at}/change", preset="generic", base_url=far.url, token=far.token)
    return at


async def test_what_is_sent_is_chosen_row_by_row(console: ConsoleScene, billing: str, far: FakeFarSide) -> None:
    at = await drafted(console, billing, far)
    assert "name.familyName" in console.tab.page.text
    rows = ["userName", "address", "", "title", "constant", "Friend"]
    tab = await console.submit(f"{at}/change", preset="generic", base_url=far.url, mapping=rows)
    assert "title fixed value Friend" in tab.page.text
    assert "name.familyName" not in tab.page.text
    rows = ["userName", "address", "x", "password", "constant", "Friend", "title", "", ""]
    tab = await console.submit(f"{at}/change", preset="generic", base_url=far.url, mapping=rows)
    assert tab.status == 400
    assert 'id="mapping-3-source-error"' in tab.shown.body.decode()
    rows[-2] = "name"
    for place, right in (("mapping-1-argument", (2, "")), ("mapping-2-attribute", (3, "nickName"))):
        tab = await console.submit(f"{at}/change", preset="generic", base_url=far.url, mapping=rows)
        assert tab.status == 400
        assert f'id="{place}-error"' in tab.shown.body.decode()
        rows[right[0]] = right[1]
    (kept,) = console.people.rows("select mapping from provisioning_connections")
    assert [one["attribute"] for one in kept["mapping"]] == ["userName", "title"]
    await console.submit(f"{at}/change", preset="generic", base_url=far.url, mapping=rows)
    (kept,) = console.people.rows("select mapping from provisioning_connections")
    assert [one["attribute"] for one in kept["mapping"]] == ["userName", "nickName", "title"]


async def test_a_person_s_page_says_where_they_were_sent(console: ConsoleScene, billing: str, far: FakeFarSide) -> None:
    person = f"/people/{console.ada.user}"
    assert "Accounts in other systems" not in (await console.at(person)).page.text
    at = await drafted(console, billing, far)
    far.refuses = {console.ada.email: (400, "invalidValue", "no such thing")}
    await console.at(f"{at}/activate")
    await console.submit(f"{at}/activate")
    await step(console)
    (run,) = console.people.rows("select id from provisioning_runs")
    await console.at(f"{at}/runs/{run['id']}/go-on")
    await console.submit(f"{at}/runs/{run['id']}/go-on")
    await step(console)
    tab = await console.at(person)
    assert "Accounts in other systems" in tab.page.text
    assert "Rejected" in tab.page.text
    assert f"/ui/o/acme{billing}/people-there" in tab.page.links


async def step(console: ConsoleScene) -> None:
    """What is due now."""
    keeping = console.postern.federation.provisioning_keeping
    console.people.change("update provisioning_connections set leased_until = null")
    for work in await keeping.claim_due(10):
        await keeping.run(work)


async def test_an_owner_connects_and_people_arrive(console: ConsoleScene, billing: str, far: FakeFarSide) -> None:
    assert f"/ui/o/acme{billing}/people-there" in (await console.at(f"{billing}/access")).page.links
    tab = await console.at(f"{billing}/people-there")
    assert "Provisioning is not set up" in tab.page.text
    at = await drafted(console, billing, far)
    assert "Draft" in console.tab.page.text
    assert far.token not in console.tab.page.text
    await console.at(f"{at}/activate")
    assert far.url in console.tab.page.text
    tab = await console.submit(f"{at}/activate")
    assert "Active" in tab.page.text
    await step(console)
    (run,) = console.people.rows("select id from provisioning_runs")
    tab = await console.at(f"{at}/runs/{run['id']}")
    assert "This run is a preview: nothing has changed yet" in tab.page.text
    assert console.ada.email in tab.page.text
    assert far.writes() == []
    await console.at(f"{at}/runs/{run['id']}/go-on")
    await console.submit(f"{at}/runs/{run['id']}/go-on")
    await step(console)
    assert far.active() == {console.ada.email}
    assert console.ada.email in (await console.at(f"{at}/people")).page.text
    assert "POST /Users" in (await console.at(f"{at}/requests")).page.text


async def test_an_owner_ticks_a_box_of_its_own_to_take_accounts_over(console: ConsoleScene, billing: str, far: FakeFarSide) -> None:
    at = await drafted(console, billing, far)
    theirs = far.add(console.ada.email, externalId="00u1a2b3c4", displayName="Ada of the other provider")
    await console.at(f"{at}/activate")
    await console.submit(f"{at}/activate")
    await step(console)
    (run,) = console.people.rows("select id from provisioning_runs")
    said = (await console.at(f"{at}/runs/{run['id']}")).page.text
    assert "The account in the target system has a different externalId" in said
    assert "externalId before this run: 00u1a2b3c4" in said
    assert 'emails[type eq "work"].value' in said, "what would be changed"
    box = (await console.at(f"{at}/runs/{run['id']}/go-on")).page.text
    assert "Take over 1 account that has a different externalId" in box
    # Without the tick, they are skipped as before.
    assert 'name=adopt type=checkbox value="yes"' in console.tab.shown.body.decode()
    assert "checked" not in console.tab.shown.body.decode().split("name=adopt")[1].split(">")[0]
    tab = await console.submit(f"{at}/runs/{run['id']}/go-on", adopt=["yes"])
    assert tab.status == 200
    assert console.people.rows("select adopts from provisioning_runs where id = %s", run["id"]) == [{"adopts": True}]
    await step(console)
    there = far.named(console.ada.email)
    assert there is not None
    assert (there["id"], there["externalId"]) == (theirs["id"], str(console.ada.user))


async def test_a_plan_without_such_accounts_has_no_box(console: ConsoleScene, billing: str, far: FakeFarSide) -> None:
    at = await drafted(console, billing, far)
    await console.at(f"{at}/activate")
    await console.submit(f"{at}/activate")
    await step(console)
    (run,) = console.people.rows("select id from provisioning_runs")
    await console.at(f"{at}/runs/{run['id']}/go-on")
    assert "name=adopt" not in console.tab.shown.body.decode()
    await console.submit(f"{at}/runs/{run['id']}/go-on")
    assert console.people.rows("select state, adopts from provisioning_runs") == [{"state": "agreed", "adopts": False}]


async def test_an_address_inside_is_refused_at_the_form(console: ConsoleScene, billing: str, far: FakeFarSide) -> None:
    at = f"{billing}/people-there"
    console.log.remember(far.token)
    await console.at(at)
    tab = await console.submit(f"{at}/change", preset="generic", base_url="https://169.254.169.254/scim/v2", token=far.token)
    assert tab.status == 400
    assert "This URL or host is not public" in tab.page.text
    assert console.people.rows("select id from provisioning_connections") == []


@pytest.mark.parametrize("language", CONSOLE_LANGUAGES)
@pytest.mark.parametrize("code", sorted({*FarFault, *Failure, INTERRUPTED}))
def test_each_reason_why_a_run_failed_has_words(code: str, language: Language) -> None:
    words = fault_words(SimpleNamespace(why=code), shipped_pages().text(language))
    assert words.endswith((".", ":"))
    assert words != code


@pytest.mark.parametrize("status", ["400", "404", "405", "410"])
def test_a_list_that_is_not_there_says_to_look_at_the_url(status: str) -> None:
    text = shipped_pages().text(Language.ENGLISH)
    assert fault_words(SimpleNamespace(why=f"status_{status}"), text) == (
        f"The target system returned {status} when Postern listed its users. Check the base URL: a typo is the usual cause."
    )
    assert fault_words(SimpleNamespace(why="status_422"), text) == "The target system returned 422 when Postern listed its users."
    assert fault_words(SimpleNamespace(why=None), text) == ""
