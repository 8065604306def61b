"""Where a person goes on: applications, consoles, founding an organization, and the first steps of an installation."""

import pytest

from entrypoints.bootstrap import Postern
from entrypoints.http.pages.account.overview_pages import steps_of_settings
from entrypoints.settings import read
from tests.conftest import CapturedLog
from tests.http.client import Client
from tests.http.pages.account.conftest import AccountPagesScene
from tests.http.pages.console.platform.conftest import PlatformScene
from tests.http.people import People

NEW = "/ui/organizations/~new"


@pytest.fixture
def home(postern: Postern, people: People, client: Client, log: CapturedLog) -> AccountPagesScene:
    return AccountPagesScene(postern, people, client, log)


async def test_the_applications_come_first_the_last_used_one_before_the_others(home: AccountPagesScene) -> None:
    acme = home.tenants.add("acme")
    for slug, days, uri in (("notes", 3, "https://notes.example.org/cb?x=1"), ("billing", 1, "org.example.billing:/cb")):
        service = home.tenants.service(acme, slug)
        home.people.change("update services set redirect_uris = array[%s] where id = %s", uri, service.id)
        home.people.change(
            "insert into service_users (service_id, user_id, org_id, first_login_at, last_login_at, created_at)"
            " values (%s, %s, %s, now(), now() - %s * interval '1 day', now())",
            service.id,
            home.ada.user,
            acme.id,
            days,
        )
    tab = await home.open("/ui")
    assert tab.page.text.index("Billing") < tab.page.text.index("Notes") < tab.page.text.rindex("Your account")
    # One goes on at the site of the application; an app on a device has none.
    assert "https://notes.example.org/" in tab.page.links
    assert not [link for link in tab.page.links if link.startswith("org.example")]
    home.people.change("update all_organizations set status = 'suspended'")
    assert "Notes" not in (await home.open("/ui")).page.text


async def test_consoles_are_those_where_one_has_something_to_do(home: AccountPagesScene) -> None:
    acme, globex = home.tenants.add("acme"), home.tenants.add("globex")
    home.tenants.join(home.ada, acme, "admin")
    home.tenants.join(home.ada, globex, "member")
    tab = await home.open("/ui")
    assert "/ui/o/acme" in tab.page.links
    assert "/ui/o/globex" not in tab.page.links
    assert "/ui/platform" not in tab.page.links
    assert {"/ui/o/acme", "/ui/o/globex"} <= set((await home.open("/ui/organizations")).page.links)


async def test_whoever_belongs_to_nothing_sees_how_to_found_or_join(home: AccountPagesScene) -> None:
    tab = await home.open("/ui")
    assert {NEW, "/ui/organizations/invitations"} <= set(tab.page.links)


async def test_a_person_founds_an_organization(home: AccountPagesScene) -> None:
    await home.open(NEW)
    await home.send(name="Acme & Söhne", slug="")
    (row,) = home.people.rows("select slug, name, owner_user_id from organizations")
    assert (row["slug"], row["name"], row["owner_user_id"]) == ("acme-s-hne", "Acme & Söhne", home.ada.user)
    (own,) = home.people.rows("select came_by, own_since is not null as own, role from memberships")
    assert (own["came_by"], own["own"], own["role"]) == ("founded", True, "owner")
    # No session besides the browser's own.
    assert len(home.people.rows("select from sessions where user_id = %s", home.ada.user)) == 1
    await home.open(NEW)
    tab = await home.send(name="Other", slug="acme-s-hne")
    assert tab.status == 409
    tab = await home.send(name="", slug="x")
    assert tab.status == 400
    assert len(home.people.rows("select from organizations")) == 1


async def test_the_first_sign_in_of_a_platform_owner_leads_to_the_first_steps(platform: PlatformScene) -> None:
    platform.people.change("delete from memberships")
    platform.people.change("delete from all_organizations")
    tab = await platform.tab.open("/ui")
    assert tab.place == "/ui/first-steps"
    assert NEW in tab.page.links
    # Nobody else sees them.
    assert (await platform.acmes.open("/ui/first-steps")).status == 404
    assert (await platform.acmes.open("/ui")).place == "/ui"


async def test_a_step_is_ticked_when_the_state_shows_it(platform: PlatformScene) -> None:
    tab = await platform.tab.open("/ui/first-steps")
    assert NEW not in tab.page.links
    assert "Invite a colleague Done" in tab.page.text
    # The command is ours, as on the page of the installation's health.
    assert "postern backup create" in tab.page.text
    assert "pg_dump" not in tab.page.text
    assert "Create an application Done" not in tab.page.text
    platform.tenants.service(platform.acme, "notes")
    assert "Create an application Done" in (await platform.tab.open("/ui/first-steps")).page.text


@pytest.mark.parametrize(
    ("name", "value", "step", "done"),
    [
        ("POSTERN_MAIL", "smtp://mail.example.org", "mail", True),
        ("POSTERN_MAIL", "console", "mail", False),
        ("POSTERN_BASE_URL", "https://id.example.org", "address", True),
        ("POSTERN_BASE_URL", "http://id.example.org", "address", False),
        # A computer's own address is public to nobody.
        ("POSTERN_BASE_URL", "http://127.0.0.1:8000", "address", False),
        ("POSTERN_BASE_URL", "https://localhost", "address", False),
        ("POSTERN_BASE_URL", "https://[::1]", "address", False),
    ],
)
def test_settings_are_steps(name: str, value: str, step: str, done: bool) -> None:
    (found,) = [one for one in steps_of_settings(read({name: value})) if one.name == step]
    assert found.done is done
