"""The presets of a role and of a management API key: a button that ticks capabilities, without a script, too."""

from core.domain.tenancy.roles import BuiltInRole, Capability
from tests.http.pages.console.conftest import ConsoleScene

ROLE = "select name, array(select relation from relations where role_id = roles.id) as permissions from roles"
VIEWS = {one.value for one in Capability if one.value.endswith(".view")}


def ticked(console: ConsoleScene, action: str, field: str) -> set[str]:
    given = console.fields(action).fields.get(field, ())
    return {given} if isinstance(given, str) else set(given)


async def test_a_preset_ticks_what_it_names_and_keeps_what_was_typed(console: ConsoleScene) -> None:
    for at, field in (("/people/roles/~new", "permissions"), ("/keys/~new", "capabilities")):
        await console.at(at)
        assert ticked(console, at, field) == set()
        for preset, values in (("read", VIEWS), ("everything", {one.value for one in Capability})):
            tab = await console.submit(at, name="Auditor", pressed=f"{field} {preset}")
            assert tab.status == 200
            assert ticked(console, at, field) == values
            assert console.fields(at).fields["name"] == "Auditor"
    assert console.people.rows("select from roles") == [], "a preset makes nothing"


async def test_a_preset_that_does_not_exist_ticks_nothing(console: ConsoleScene) -> None:
    at = "/people/roles/~new"
    await console.at(at)
    tab = await console.submit(at, name="Auditor", permissions=["org.members.view"], pressed="permissions nothing")
    assert (tab.status, ticked(console, at, "permissions")) == (200, set())


async def test_a_role_has_what_was_ticked_and_no_more(console: ConsoleScene) -> None:
    at = "/people/roles/~new"
    await console.at(at)
    await console.submit(at, name="Auditor", pressed="permissions read")
    await console.submit(at)
    (role,) = console.people.rows(ROLE)
    assert (role["name"], set(role["permissions"])) == ("Auditor", VIEWS)


async def test_a_preset_has_only_what_its_maker_has(console: ConsoleScene) -> None:
    """An admin may not give what only an owner gives."""
    at = "/ui/o/acme/people/roles/~new"
    tab = await console.colleague("admin").open(at)
    number = next(number for number, one in enumerate(tab.page.forms) if one.action == at)
    tab = await tab.send(number, name="Helper", pressed="permissions everything")
    form = next(one for one in tab.page.forms if one.action == at)
    assert set(form.fields["permissions"]) == {one.value for one in BuiltInRole.ADMIN.capabilities}
