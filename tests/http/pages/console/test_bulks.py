"""One act for several rows of a list."""

from tests.http.pages.console.conftest import ConsoleScene
from tests.http.people import Person

REMOVE = "/people/~remove"


def joined(console: ConsoleScene, count: int) -> list[Person]:
    people = [console.people.add() for _ in range(count)]
    for person in people:
        console.tenants.join(person, console.acme)
    return people


def members(console: ConsoleScene) -> int:
    (row,) = console.people.rows("select count(*) as members from memberships where org_id = %s", console.acme.id)
    return int(row["members"])


async def test_several_are_named_and_then_removed(console: ConsoleScene) -> None:
    people = joined(console, 3)
    await console.at("/people")
    tab = await console.submit(REMOVE, chosen=[str(one.user) for one in people[:2]])
    assert tab.status == 200
    assert "Remove 2 members?" in tab.page.text
    assert people[0].email in tab.page.text
    assert people[2].email not in tab.page.text
    assert members(console) == 4
    # The reader of pages keeps one value of several hidden fields with the same name.
    tab = await console.submit(REMOVE, chosen=[str(one.user) for one in people[:2]])
    assert tab.status == 200
    assert tab.page.text.count("Done") == 2
    assert members(console) == 2


async def test_each_row_is_decided_by_the_rule_of_the_endpoint(console: ConsoleScene) -> None:
    (person,) = joined(console, 1)
    await console.at("/people")
    await console.submit(REMOVE, chosen=[str(console.ada.user), str(person.user)])
    tab = await console.submit(REMOVE, chosen=[str(console.ada.user), str(person.user)])
    assert "Failed:" in tab.page.text
    assert members(console) == 1


async def test_sent_twice_and_chosen_nothing(console: ConsoleScene) -> None:
    (person,) = joined(console, 1)
    await console.at("/people")
    await console.submit(REMOVE, chosen=[str(person.user)])
    form = console.fields(REMOVE)
    await console.tab._go("POST", form.action, form.fields)
    tab = await console.tab._go("POST", form.action, form.fields)
    assert tab.status == 409
    assert "The selected entries are no longer in the list" in tab.page.text
    await console.at("/people")
    tab = await console.submit(REMOVE)
    assert tab.status == 400
    assert "No rows selected" in tab.page.text


async def test_others_remove_nobody(console: ConsoleScene) -> None:
    (person,) = joined(console, 1)
    await console.at("/people")
    await console.submit(REMOVE, chosen=[str(person.user)])
    form = console.fields(REMOVE)
    colleague = console.colleague()
    await colleague.open("/ui")
    # The token of a form binds it to its session, so take one of theirs.
    token = colleague.page.forms[0].fields["form_token"]
    assert (await colleague._go("POST", form.action, {**form.fields, "form_token": token})).status == 403
    stranger = console.stranger()[1]
    await stranger.open("/ui/o/globex/people")
    token = stranger.page.forms[-1].fields["form_token"]
    elsewhere = {**form.fields, "form_token": token}
    assert (await stranger._go("POST", form.action, elsewhere)).status == 403
    # Members of another organization are no rows of theirs.
    assert (await stranger._go("POST", form.action.replace("acme", "globex"), elsewhere)).status == 409
    assert members(console) == 3


async def test_pending_invitations_are_withdrawn(console: ConsoleScene) -> None:
    await console.at("/people/invitations/~new")
    await console.submit("/people/invitations/~new", emails="bob@example.org\neve@example.org", role="member")
    found = console.people.rows("select id from invitations")
    await console.at("/people/invitations")
    await console.submit("/people/invitations/~cancel", chosen=[str(one["id"]) for one in found])
    await console.submit("/people/invitations/~cancel", chosen=[str(one["id"]) for one in found])
    assert console.people.rows("select from invitations where status = 'pending'") == []
