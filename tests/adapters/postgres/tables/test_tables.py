"""What is said of each table is compared with PostgreSQL's catalogue."""

from collections.abc import Iterator

import pytest

from adapters.postgres.moving.what_moves import ORGANIZATIONS
from adapters.postgres.tables.declaring import (
    A_PERSONS,
    BY_STATEMENT,
    HIDDEN,
    INSTALLATION,
    NO_CREDENTIAL,
    ORGANIZATION,
    OWN_ORGANIZATION,
    PERSON,
    THE_INSTALLATIONS,
    WORD,
    Age,
    Ends,
    ExportPart,
    Moved,
    Table,
    of_account,
    plain,
)
from adapters.postgres.tables.every import TABLES
from adapters.postgres.upkeep import purging
from core.domain.identity.endings import SEALED, CredentialKind
from tests.adapters.postgres.conftest import Store

_TABLES = "select relname as name from pg_class where relkind in ('r', 'p') and relnamespace = 'public'::regnamespace"
_COLUMNS = "select table_name || '.' || column_name as name from information_schema.columns where table_schema = 'public'"
_REFERENCES = """
    select child.relname::text as child, parent.relname::text as parent, confdeltype::text as on_delete
      from pg_constraint
      join pg_class as child on child.oid = conrelid
      join pg_class as parent on parent.oid = confrelid
     where contype = 'f' and child.relnamespace = 'public'::regnamespace and conrelid <> confrelid
"""
# The rows that go first, and leave nothing of theirs behind: what refers to them goes with them, or names them no longer.
_FIRST = frozenset({"sessions", "preauthentications", "memberships"})


# Kept by a digest, and letting nobody in: ids and names that must not be used twice; requests of clients and tests of administrators,
# which need a credential beside them; and contents.
_RECOGNISED = {
    *("client_assertions", "saml_requests", "identity_assertions", "used_usernames", "imported_people", "billing_checkouts"),
    *("pushed_requests", "used_key_proofs"),
    *("logos", "look_pictures", "service_logos", "audit_links", "installation_texts"),
    # Of what a directory says, and of what a run would do.
    *("directory_runs", "directory_people", "directory_groups", "provisioning_runs"),
}
# Rows of services have a part of their own, which comes before the services.
_IN_TWO_PARTS = "former_slugs"


async def names(store: Store, statement: str) -> set[str]:
    return {row["name"] for row in await store.query(statement)}


async def references(store: Store) -> list[tuple[str, str, str]]:
    return [(row["child"], row["parent"], row["on_delete"]) for row in await store.query(_REFERENCES)]


async def test_every_table_is_declared_once(store: Store) -> None:
    assert await names(store, _TABLES) == TABLES.keys(), "say in adapters/postgres/tables what it is"


async def test_a_table_that_nobody_declared_is_found(fresh_store: Store) -> None:
    await fresh_store.query("create table diaries (id uuid primary key, org_id uuid not null)")
    assert await names(fresh_store, _TABLES) - TABLES.keys() == {"diaries"}


async def test_the_columns_that_are_named_are_there(store: Store) -> None:
    there = await names(store, _COLUMNS)
    for name, table in TABLES.items():
        named = {*table.sealed, *(sealing.key for sealing in table.sealed.values()), *((table.whose.column,) if table.whose.column else ())}
        for age in table.ages:
            named |= {age.key} if age.condition else set()
            named |= {age.oldest_first} if age.oldest_first else set()
        assert {f"{name}.{column}" for column in named} - there == set(), name


async def test_whose_the_rows_are_can_be_asked(store: Store) -> None:
    for name, table in TABLES.items():
        if table.whose.organization:
            await store.query(f"select {table.whose.organization} as whose from {name} as one limit 1")


async def test_rows_of_an_organization_do_not_pass_for_a_persons(store: Store) -> None:
    """Whatever names an organization or a service by a reference that is never empty is theirs."""
    required = await names(
        store,
        """
        select child.relname::text as name
          from pg_constraint
          join pg_class as child on child.oid = conrelid
          join pg_class as parent on parent.oid = confrelid
          join pg_attribute on attrelid = conrelid and attnum = conkey[1]
         where contype = 'f' and attnotnull and parent.relname in ('all_organizations', 'all_services') and child.relname <> 'users'
        """,
    )
    assert {name for name in required if TABLES[name].whose in {PERSON, INSTALLATION}} == set()


async def test_what_goes_by_itself_hangs_on_what_goes(store: Store) -> None:
    parents: dict[str, set[str]] = {}
    for child, parent, on_delete in await references(store):
        if on_delete == "c":
            parents.setdefault(child, set()).add(parent)

    def goes(name: str) -> bool:
        return isinstance(TABLES[name].ends, Ends)

    for name, table in TABLES.items():
        if table.ends is Ends.CASCADES:
            assert any(goes(parent) for parent in parents.get(name, ())), name
        if not goes(name) and table.whose.organization:
            # A sentence that says that the rows stay would be wrong if a reference took them along.
            assert not parents.get(name, set()) & {"all_organizations", "all_services", "upstream_providers", "webhooks"}, name


@pytest.mark.parametrize("parts", [purging.ORGANIZATION_PARTS, purging.SERVICE_PARTS], ids=["organization", "service"])
async def test_rows_go_before_those_that_they_refer_to(store: Store, parts: dict[str, str]) -> None:
    order = list(parts)
    for child, parent, _ in await references(store):
        first, then = child.removeprefix("all_"), parent.removeprefix("all_")
        if first in order and then in order and then not in _FIRST and first != _IN_TWO_PARTS:
            assert order.index(first) < order.index(then), f"{child} refers to {parent}"


def test_each_table_that_ends_with_its_organization_has_a_part() -> None:
    swept = {name for name, table in TABLES.items() if isinstance(table.ends, Ends) and table.ends is not Ends.CASCADES}
    parts = {part.removeprefix("all_") for part in purging.ORGANIZATION_PARTS}
    assert {name for name in swept if name.removeprefix("all_") not in parts} == {ORGANIZATIONS, "users"}
    own = {*purging._OWN, "users", "relations", "subscriptions", ORGANIZATIONS}
    assert {name for name, table in TABLES.items() if table.ends is Ends.OWN} == own


def answers() -> Iterator[tuple[str, dict[str, object], str]]:
    yield "personal data without an export", {"holds": (of_account("name", "A name."),), "forgotten": BY_STATEMENT}, "exported"
    yield "personal data that nobody forgets", {"holds": (of_account("name", "A name."),), "exported": ExportPart("account")}, "forgotten"
    yield "an export of nothing personal", {"holds": (plain(WORD, "name"),), "exported": ExportPart("account")}, "exported"
    yield "an age without words", {"holds": (), "ages": (Age("Past"),)}, "how long"
    yield "no word about what its rows open", {"holds": (), "opens": None}, "diaries: say by `opens` .* owes a line for each cause"
    yield "a word that is no kind", {"holds": (), "opens": "key of a diary"}, "which kind of credential or grant"
    name, shows = of_account("name", "A name."), {"forgotten": BY_STATEMENT, "exported": ExportPart("devices", shows=("name",))}
    unshown = of_account("line", "What the person wrote.", unshown=HIDDEN)
    yield "a column in no part", {**shows, "holds": (name, of_account("line", "A line."))}, "diaries.line is personal, and in no part"
    shown = ExportPart("devices", shows=("name", "line"))
    yield "a reason for what is shown", {**shows, "holds": (name, unshown), "exported": shown}, "diaries.line: `unshown` is for"
    yield "a reason beside that of the table", {**shows, "holds": (unshown,), "exported": HIDDEN}, "diaries.line: `unshown` is for"
    yield "a column twice", {"holds": (plain(WORD, "name"), plain(WORD, "name"))}, "twice"


@pytest.mark.parametrize(("more", "told"), [pytest.param(more, told, id=name) for name, more, told in answers()])
def test_a_declaration_that_leaves_a_question_open_stops_the_import(more: dict[str, object], told: str) -> None:
    with pytest.raises(TypeError, match=told):
        Table("diaries", whose=ORGANIZATION, moves=Moved(), ends=Ends.ROWS, **{"opens": NO_CREDENTIAL, **more})  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        Table("diaries", whose=ORGANIZATION, holds=())  # type: ignore[call-arg]


def test_every_kind_has_a_table_or_is_a_sealed_text() -> None:
    """A kind that is neither would be walked nowhere."""
    of_tables = {kind for table in TABLES.values() for kind in table.kinds}
    sealed = {one.opens for one in SEALED if isinstance(one.opens, CredentialKind)}
    assert of_tables | sealed == set(CredentialKind)
    assert not of_tables & sealed


def test_a_table_with_a_digest_says_what_its_digest_opens() -> None:
    """A digest of something that was given out is a credential, unless the table is here: what is kept there lets nobody in by itself."""
    found = {name for name, table in TABLES.items() if table.opens == NO_CREDENTIAL and "digest" in table.plain}
    assert found == _RECOGNISED


def test_a_sentence_says_why_rows_stay() -> None:
    for name, table in TABLES.items():
        if table.whose == PERSON and not isinstance(table.ends, Ends):
            assert table.ends == A_PERSONS, name
        if table.whose == INSTALLATION:
            assert table.ends == THE_INSTALLATIONS, name
        if table.whose in {ORGANIZATION, OWN_ORGANIZATION}:
            assert table.ends not in {A_PERSONS, THE_INSTALLATIONS}, name
