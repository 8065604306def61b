"""Lists of the console as files."""

import csv
import io

from tests.http.pages.console.conftest import ConsoleScene


def lines(body: bytes) -> list[list[str]]:
    assert body.startswith("\ufeff".encode())
    return list(csv.reader(io.StringIO(body.decode("utf-8-sig"), newline="")))


async def test_a_list_becomes_a_file_with_all_its_pages(console: ConsoleScene) -> None:
    for _ in range(120):
        console.tenants.join(console.people.add(), console.acme)
    tab = await console.at("/people")
    assert "/ui/o/acme/people/~export" in tab.page.links
    tab = await console.at("/people/~export")
    assert tab.status == 200
    assert tab.shown.header("content-type") == "text/csv; charset=utf-8"
    assert tab.shown.header("content-disposition") == 'attachment; filename="acme-members.csv"'
    head, *rows = lines(tab.shown.body)
    assert head == ["Person", "Person, second line", "Role", "Since"]
    assert len(rows) == 121
    assert len({row[0] for row in rows}) == 121


async def test_the_file_has_what_the_filter_shows(console: ConsoleScene) -> None:
    console.tenants.join(console.people.add(), console.acme, "admin")
    tab = await console.at("/people?role=admin")
    assert "/ui/o/acme/people/~export?role=admin" in tab.page.links
    _, *rows = lines((await console.at("/people/~export?role=admin")).shown.body)
    assert [row[2] for row in rows] == ["Administrator"]


async def test_a_cell_is_never_a_formula(console: ConsoleScene) -> None:
    for name in ("=1+2", "+1", "-1", "@SUM(A1)", "\t=1", "Ada;=1+1;x", "\uff1d1"):
        person = console.people.add()
        console.people.change("update users set name = %s where id = %s", name, person.user)
        console.tenants.join(person, console.acme)
        console.people.change("update memberships set own_since = now()")
    _, *rows = lines((await console.at("/people/~export")).shown.body)
    assert [row[0] for row in rows[1:]] == ["'=1+2", "'+1", "'-1", "'@SUM(A1)", " '=1", "Ada;'=1+1;x", "'\uff1d1"]


async def test_others_get_no_file(console: ConsoleScene) -> None:
    target = "/ui/o/acme/people/invitations/~export"
    assert (await console.colleague().open(target)).status == 403
    _, stranger = console.stranger()
    assert (await stranger.open(target)).status == 403


async def test_the_file_of_invitations_says_more_than_the_list(console: ConsoleScene) -> None:
    await console.at("/people/invitations/~new")
    await console.submit("/people/invitations/~new", emails="bob@people.example", role="admin")
    head, bob = (await console.at("/people/invitations/~export")).shown.body.decode().splitlines()
    assert "Role,Status,Invited by" in head
    assert bob.startswith(f"bob@people.example,Administrator,Pending,{console.ada.email}")


async def test_a_refused_filter_is_a_page_and_no_broken_file(console: ConsoleScene) -> None:
    tab = await console.at("/people/invitations/~export?status=wrong")
    assert tab.status == 400
    assert (tab.shown.header("content-type") or "").startswith("text/html")
