"""Short names are made from names, and get a number where another thing has them. Whoever wants another chooses it."""

import pytest

from entrypoints.http.console.kit.creation_pages import LONGEST_SHORT_NAME, slug_from
from tests.http.pages.console.applications.conftest import made
from tests.http.pages.console.conftest import ConsoleScene


@pytest.mark.parametrize(
    ("name", "separator", "slugs"),
    [
        ("Billing", "-", ["billing", "billing-2", "billing-3"]),
        ("Ärger & Söhne", "-", ["arger-sohne", "arger-sohne-2", "arger-sohne-3"]),
        ("日本", "-", ["thing", "thing-2", "thing-3"]),
        ("  A " * 40, "-", ["a-" * 24 + "a", "a-" * 23 + "a-2", "a-" * 23 + "a-3"]),
        ("Cost centre", "_", ["cost_centre", "cost_centre_2", "cost_centre_3"]),
        ("2nd address", "_", ["thing_2nd_address", "thing_2nd_address_2", "thing_2nd_address_3"]),
    ],
)
def test_a_short_name_says_the_name(name: str, separator: str, slugs: list[str]) -> None:
    assert [slug_from(name, "thing", separator, number) for number in (1, 2, 3)] == slugs


def test_a_short_name_is_never_too_long() -> None:
    assert {len(slug_from("x" * 200, "thing", number=number)) for number in (1, 2, 20)} == {LONGEST_SHORT_NAME}


@pytest.mark.parametrize(
    ("at", "name", "table", "column", "slugs"),
    [
        ("/people/teams", "name", "teams", "slug", ["support", "support-2"]),
        ("/people/roles", "name", "roles", "slug", ["support", "support-2"]),
        ("/people/fields", "label", "profile_fields", "key", ["support", "support_2"]),
        ("/applications/billing/roles", "name", "service_roles", "slug", ["support", "support-2"]),
    ],
)
async def test_two_of_one_name_get_two_short_names(
    console: ConsoleScene, at: str, name: str, table: str, column: str, slugs: list[str]
) -> None:
    await made(console)
    given = {"permissions": ["org.members.view"]} if table == "roles" else {"kind": "text"} if table == "profile_fields" else {}
    for chosen in ("", "help"):
        await console.at(f"{at}/~new")
        tab = await console.submit(f"{at}/~new", **{name: "Support", column: chosen}, **given)
        assert tab.status == 200, tab.page.text
        assert "~new" not in tab.place
    # Nothing is made of a form that was sent twice. It comes back with a short name that is free, and its button makes the second.
    await console.at(f"{at}/~new")
    tab = await console.submit(f"{at}/~new", **{name: "Support", column: ""}, **given)
    assert tab.status == 409
    assert console.fields(f"{at}/~new").fields[column] == slugs[1]
    assert (await console.submit(f"{at}/~new", **given)).status == 200
    found = console.people.rows(f"select {column} from {table} order by id")
    assert [row[column] for row in found] == [slugs[0], "help", slugs[1]]
    # A short name that somebody chose is refused where it is taken, at its field.
    await console.at(f"{at}/~new")
    tab = await console.submit(f"{at}/~new", **{name: "Another", column: "help"}, **given)
    assert tab.status == 409
    assert '<details class="curl chosen" open>' in tab.shown.body.decode()


async def test_a_short_name_stands_behind_a_choice(console: ConsoleScene) -> None:
    tab = await console.at("/people/teams/~new")
    assert "Short name (optional)" in tab.page.text
    assert '<details class="curl chosen">' in tab.shown.body.decode()
