"""A person comes into a team by address or name, however many members there are."""

from tests.http.pages.console.conftest import ConsoleScene

TEAM = "/people/teams/support"
MEMBERS = f"{TEAM}/members"


async def with_team(console: ConsoleScene, *, members: int = 0) -> None:
    await console.at("/people/teams/~new")
    await console.submit("/people/teams/~new", name="Support", slug="support")
    for number in range(members):
        console.tenants.member(console.acme, email=f"a{number:03}@example.org")


def in_team(console: ConsoleScene) -> list[str]:
    rows = console.people.rows(
        "select email from team_members join users on users.id = user_id join teams on teams.id = team_id where slug = 'support' order by 1"
    )
    return [row["email"] for row in rows]


async def test_anybody_of_a_hundred_and_one_is_added_by_address(console: ConsoleScene) -> None:
    await with_team(console, members=101)
    console.tenants.member(console.acme, email="zoe@example.org")
    await console.at(MEMBERS)
    tab = await console.submit(MEMBERS, person=" ZOE@example.org ")
    assert tab.place.endswith("members?done=saved")
    assert in_team(console) == ["zoe@example.org"]


async def test_a_name_does_as_well_and_several_are_offered(console: ConsoleScene) -> None:
    await with_team(console)
    console.tenants.member(console.acme, email="kim@example.org")
    console.tenants.member(console.acme, email="kimberly@example.org")
    await console.at(MEMBERS)
    tab = await console.submit(MEMBERS, person="kim")
    assert tab.status == 409
    assert "Several members match this email address or name. Choose one." in tab.page.text
    assert in_team(console) == []
    offered = [one for one in tab.page.forms if one.action.endswith(MEMBERS)]
    assert len(offered) == 3
    await tab._go("POST", offered[2].action, offered[2].fields)
    assert in_team(console) == ["kimberly@example.org"]
    # A whole address means one, though it is a part of another.
    await console.at(MEMBERS)
    await tab._go("POST", f"/ui/o/acme{MEMBERS}", {**offered[0].fields, "person": "kim@example.org"})
    assert in_team(console) == ["kim@example.org", "kimberly@example.org"]


async def test_somebody_else_is_nobody_and_the_field_says_so(console: ConsoleScene) -> None:
    await with_team(console)
    stranger, _ = console.stranger()
    for person in ("nobody@example.org", str(stranger.email), str(stranger.user), ""):
        await console.at(MEMBERS)
        tab = await console.submit(MEMBERS, person=person)
        assert tab.status == 404
        assert 'aria-invalid="true"' in tab.shown.body.decode()
    assert in_team(console) == []
