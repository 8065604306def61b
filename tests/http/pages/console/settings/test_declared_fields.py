"""The form of an organization's fields asks for the bounds of the chosen kind alone."""

from tests.http.pages.console.conftest import ConsoleScene

FIELDS = "/people/fields"


async def test_a_field_is_made_and_changed_with_the_bounds_of_its_kind(console: ConsoleScene) -> None:
    await console.at(f"{FIELDS}/~new")
    new = {"label": "Office", "key": "office", "kind": "choice", "written_by": "administrator", "rule__max_items": "3"}
    # The fault stands at the field of the chosen kind.
    tab = await console.submit(f"{FIELDS}/~new", **new)
    assert tab.status == 400
    assert tab.page.text.count("There is a problem") == 1
    assert 'href="#rule__choices__choice"' in str(tab.page.links) or "#rule__choices__choice" in tab.page.links
    await console.submit(f"{FIELDS}/~new", **new, rule__choices__choice="Bern\nBasel")
    assert console.people.rows("select key, kind from profile_fields") == [{"key": "office", "kind": "choice"}]
    await console.at(f"{FIELDS}/office")
    form = console.fields(f"{FIELDS}/office/rule")
    assert {name for name in form.fields if name.startswith("rule__")} == {"rule__choices__choice"}
    await console.submit(f"{FIELDS}/office/rule", rule__choices__choice="Bern")
    await console.at(f"{FIELDS}/office")
    assert console.fields(f"{FIELDS}/office/rule").fields["rule__choices__choice"] == "Bern"


async def test_a_change_of_one_bound_keeps_the_other(console: ConsoleScene) -> None:
    await console.at(f"{FIELDS}/~new")
    await console.submit(
        f"{FIELDS}/~new",
        label="Floor",
        key="floor",
        kind="number",
        written_by="administrator",
        rule__minimum="1",
        rule__maximum="9",
    )
    await console.at(f"{FIELDS}/floor")
    await console.submit(f"{FIELDS}/floor/rule", rule__maximum="7")
    await console.at(f"{FIELDS}/floor")
    fields = console.fields(f"{FIELDS}/floor/rule").fields
    assert (fields["rule__minimum"], fields["rule__maximum"]) == ("1", "7")


async def test_a_field_without_bounds_has_no_form_for_them(console: ConsoleScene) -> None:
    await console.at(f"{FIELDS}/~new")
    await console.submit(f"{FIELDS}/~new", label="Driver", key="driver", kind="boolean", written_by="administrator")
    tab = await console.at(f"{FIELDS}/driver")
    assert [one.action for one in tab.page.forms if one.action.endswith("/rule")] == []
