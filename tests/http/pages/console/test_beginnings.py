"""The first minutes of an organization: whoever may approve it lands in its console, and the overview says what comes next."""

from tests.http.pages.console.conftest import ConsoleScene

NEW = "/ui/organizations/~new"


async def founded(console: ConsoleScene, name: str = "Board Games") -> None:
    await console.tab.open(NEW)
    form = next(number for number, one in enumerate(console.tab.page.forms) if one.action == NEW)
    await console.tab.send(form, name=name)


async def test_whoever_may_approve_an_organization_founds_it_active(console: ConsoleScene) -> None:
    console.people.change("update users set is_platform_owner = true where id = %s", console.ada.user)
    await console.tab.open(NEW)
    assert "New organizations must be approved by a platform owner" not in console.tab.page.text
    await founded(console)
    assert console.tab.place == "/ui/o/board-games"
    rows = console.people.rows(
        "select status, approved_by, approved_at is not null as approved from organizations where slug = 'board-games'"
    )
    assert rows == [{"status": "active", "approved_by": console.ada.user, "approved": True}]
    assert {"/ui/o/board-games/applications/~new", "/ui/o/board-games/people/invitations/~new", "/ui/o/board-games/settings/looks"} <= set(
        console.tab.page.links
    )
    assert "Get started" in console.tab.page.text
    # A chart of nothing says nothing.
    assert "Sign-ins per day, last 30 days" not in console.tab.page.text


async def test_everybody_elses_waits(console: ConsoleScene) -> None:
    console.people.change("update users set is_platform_owner = false where id = %s", console.ada.user)
    await console.tab.open(NEW)
    assert "New organizations must be approved by a platform owner" in console.tab.page.text
    await founded(console)
    assert console.people.rows("select status, approved_by from organizations where slug = 'board-games'") == [
        {"status": "pending", "approved_by": None}
    ]


async def test_the_beginning_is_over_with_the_first_application(console: ConsoleScene) -> None:
    assert "Get started" in (await console.at()).page.text
    console.tenants.service(console.acme, "board")
    assert "Get started" not in (await console.at()).page.text


async def test_a_member_who_may_do_none_of_it_is_told_of_none(console: ConsoleScene) -> None:
    tab = console.colleague()
    await tab.open("/ui/o/acme")
    assert "Get started" not in tab.page.text


async def test_the_start_page_lists_the_one_that_waits_and_says_what_comes_next(console: ConsoleScene) -> None:
    await founded(console)
    await console.tab.open("/ui")
    assert "Pending approval" in console.tab.page.text
    assert "/ui/organizations/board-games" in console.tab.page.links
    assert "/ui/o/board-games" not in console.tab.page.links
    # A member who did not found it has nothing to do there yet.
    other = console.people.add()
    console.people.change(
        "insert into memberships (id, org_id, user_id, role, created_at, own_since, came_by)"
        " select gen_random_uuid(), id, %s, 'admin', now(), now(), 'added' from organizations where slug = 'board-games'",
        other.user,
    )
    tab = await console.browser(other).tab().open("/ui")
    assert "Pending approval" not in tab.page.text
