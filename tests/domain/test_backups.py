"""A restored database is compared with the manifest of its backup, and each difference is one sentence."""

from core.domain.backup_differences import differences
from core.domain.backups import ColumnGroup, Damage, DamageKind, DatabaseState, Ownership, RoutineState, TableState
from core.frozen import replace

USERS = TableState(("column a", "column b", "column c", "column d", "column e", "index users_pkey"), 3)
STATE = DatabaseState(
    server="18.1",
    size=1,
    migrations=("0001_a x", "0002_b y"),
    functions=("function f",),
    tables={"users": USERS, "log": TableState((), None)},
    heads={},
    signing_keys=("k1", "k2"),
)


def sentences(found: DatabaseState) -> list[str]:
    return [damage.sentence for damage in differences(STATE, found)]


def test_what_is_equal_is_undamaged() -> None:
    assert sentences(STATE) == []
    # What a table has beyond the manifest harms nobody: an index that an operator has made.
    more = replace(STATE, tables={**STATE.tables, "users": replace(USERS, parts=(*USERS.parts, "index mine"))})
    assert sentences(more) == []
    # Rows of views, and of tables that a dump leaves out, are not counted.
    assert sentences(replace(STATE, tables={**STATE.tables, "users": replace(USERS, rows=None), "log": TableState((), 7)})) == []


def test_each_difference_is_named() -> None:
    assert sentences(replace(STATE, migrations=("0001_a x",))) == ["the schema is older: it lacks 0002_b y"]
    assert sentences(replace(STATE, migrations=(*STATE.migrations, "0003_c z"))) == [
        "the schema is newer: the manifest does not know 0003_c z"
    ]
    assert sentences(replace(STATE, migrations=("0001_a z", "0002_b y"))) == [
        "the schema is another: the database has 0001_a z, the manifest 0001_a x"
    ]
    assert sentences(replace(STATE, functions=())) == ["the schema lacks function f"]
    assert sentences(replace(STATE, tables={"log": STATE.tables["log"]})) == ["the table users is missing"]
    assert sentences(replace(STATE, tables={**STATE.tables, "users": TableState((), 3)})) == [
        "the table users lacks column a, column b, column c, column d and 2 more"
    ]
    assert list(differences(STATE, replace(STATE, tables={**STATE.tables, "users": replace(USERS, rows=1)}))) == [
        Damage(DamageKind.ROWS, "the table users has 1 rows, the manifest says 3: 2 missing")
    ]
    assert sentences(replace(STATE, tables={**STATE.tables, "users": replace(USERS, rows=4)})) == [
        "the table users has 4 rows, the manifest says 3: 1 too many"
    ]
    assert sentences(replace(STATE, signing_keys=("k2",))) == ["the signing key k1 is missing"]


def test_contents_of_as_many_rows_are_compared_by_their_digests() -> None:
    digests: dict[str, str] = {ColumnGroup.CONTENTS: "1", ColumnGroup.HOLDABLE: "2"}
    jobs = replace(USERS, digests=digests)
    sweeps = TableState((), 0, {ColumnGroup.HOLDABLE: "3"})
    expected = replace(STATE, tables={"jobs": jobs, "sweeps": sweeps})
    changed = replace(jobs, digests={**digests, ColumnGroup.CONTENTS: "4"})
    held = {"jobs": replace(jobs, digests={**digests, ColumnGroup.HOLDABLE: "4"}), "sweeps": replace(sweeps, rows=1)}
    other = "the table jobs has as many rows as the manifest says, and other contents"

    def said(tables: dict[str, TableState], *names: str) -> list[str]:
        return [damage.sentence for damage in differences(expected, replace(STATE, tables=tables), held=names)]

    assert (expected.has_digests, STATE.has_digests) == (True, False)
    assert said({"jobs": jobs, "sweeps": sweeps}) == []
    assert said({"jobs": changed, "sweeps": sweeps}) == [other]
    # A hold changes the times of work, and adds the row of a table in which all columns are such times.
    assert said(held) == [other, "the table sweeps has 1 rows, the manifest says 0: 1 too many"]
    assert said(held, "jobs", "sweeps") == []
    assert said({**held, "jobs": changed}, "jobs", "sweeps") == [other]
    # A manifest without digests says nothing of contents.
    assert sentences(replace(STATE, tables={**STATE.tables, "users": replace(USERS, digests=digests)})) == []


def test_definitions_are_compared_where_both_servers_print_them_in_the_same_way() -> None:
    users = replace(USERS, definitions={"index users_pkey": "1", "default of a": "2", "constraint old": "3"})
    expected = replace(STATE, tables={"users": users}, routines={"f()": RoutineState("1", Ownership("ada", {}))})

    def said(server: str, body: str = "1", **definitions: str) -> list[str]:
        tables = {"users": replace(users, definitions={name.replace("_of_", " of "): text for name, text in definitions.items()})}
        found = replace(expected, server=server, tables=tables, routines={"f()": RoutineState(body, Ownership("ada", {}))})
        return [damage.sentence for damage in differences(expected, found)]

    # A constraint that is lacking is named as a part, and one too many harms nobody.
    assert said("18.4", **{"index users_pkey": "1", "default_of_a": "2", "constraint mine": "9"}) == []
    assert said("18.4", **{"index users_pkey": "2", "default_of_a": "2"}) == [
        "the table users has another index users_pkey than the manifest says"
    ]
    assert said("18.4", **{"index users_pkey": "1", "default_of_b": "2"}) == [
        "the table users has another default of a, default of b than the manifest says"
    ]
    assert said("17.4", **{"index users_pkey": "2"}) == []
    assert said("17.4", "2") == ["the function f() has another body, or other properties"]


def test_triggers_that_the_manifest_does_not_know_are_named() -> None:
    users = replace(USERS, parts=(*USERS.parts, "trigger spy", "trigger idle (disabled)"))
    assert sentences(replace(STATE, tables={**STATE.tables, "users": users})) == [
        "the table users has trigger spy, of which the manifest says nothing"
    ]


def test_owners_and_grants_are_compared_where_the_copy_has_any() -> None:
    def state(owner: str, of_users: Ownership, of_log: Ownership, of_f: Ownership) -> DatabaseState:
        tables = {"users": replace(USERS, ownership=of_users), "log": replace(STATE.tables["log"], ownership=of_log)}
        return replace(STATE, tables=tables, routines={"f()": RoutineState("1", of_f)}, owner=owner)

    mine, granted = Ownership("ada", {}), Ownership("ada", {"app": ["insert", "select"]})
    expected = state("ada", granted, granted, mine)

    def said(found: DatabaseState) -> list[str]:
        return [damage.sentence for damage in differences(expected, found)]

    # Another owner who owns all, and no grants yet: a dump has neither.
    other = Ownership("bob", {})
    assert said(state("bob", other, other, other)) == []
    assert said(state("ada", granted, granted, mine)) == []
    assert said(state("bob", other, other, mine)) == ["the function f() belongs to ada, and the schema to bob"]
    assert said(state("ada", granted, mine, mine)) == ["the table log does not let app insert, select"]
    assert said(state("ada", mine, Ownership("ada", {"eve": ["select"]}), mine)) == [
        "the table log lets eve select, of which the manifest says nothing"
    ]
    # An object that belonged to somebody else may still do so, or belong to the owner of all.
    expected = state("ada", granted, granted, other)
    assert said(state("ada", granted, granted, other)) == said(state("ada", granted, granted, mine)) == []
    # The schema belongs to whoever owns the database; a role that is granted anything has its rights there, too.
    granted_there = replace(state("ada", granted, granted, mine), schema=Ownership("", {"app": ["use"], "ada": ["create", "use"]}))
    for schema, told in (
        (Ownership("", {}), "the schema public does not let app use"),
        (Ownership("eve", {"app": ["use"]}), "the schema public belongs to eve, and its tables to ada"),
        (
            Ownership("ada", {"app": ["use"], "public": ["create"]}),
            "the schema public lets public create, of which the manifest says nothing",
        ),
    ):
        (damage,) = differences(granted_there, replace(granted_there, schema=schema))
        assert damage.sentence == told
    for right in (granted_there.schema, Ownership("ada", {"app": ["use"]}), None):
        assert list(differences(granted_there, replace(granted_there, schema=right))) == []
    assert list(differences(granted_there, replace(state("bob", other, other, other), schema=Ownership("", {"bob": ["create"]})))) == []
    # An earlier manifest says nothing of owners.
    assert sentences(state("bob", other, granted, mine)) == []
    assert list(differences(expected, replace(expected, routines={}, tables=STATE.tables))) == []


def test_what_was_added_is_named() -> None:
    routine = RoutineState("1", Ownership("", {}))
    expected = replace(STATE, routines={"f()": routine}, objects=("schema partitions",))
    query = TableState((), definitions={"query": "1"})
    found = replace(
        expected,
        tables={**STATE.tables, "mine": USERS, "shown": query},
        routines={"f()": routine, "f(text)": routine},
        objects=("schema partitions", "sequence mine"),
    )
    named = [f"the database has {thing}, of which the manifest says nothing" for thing in ("function f(text)", "sequence mine")]
    named += [f"the database has {thing}, of which the manifest says nothing" for thing in ("table mine", "view shown")]
    assert [damage.sentence for damage in differences(expected, found)] == named
    # A new database that a backup was restored into has things of its provider.
    assert list(differences(expected, found, additions=False)) == []
    # A manifest of an earlier version knows functions by their names alone, and nothing of other things.
    earlier = replace(expected, routines={}, objects=None)
    of_earlier = [damage.sentence for damage in differences(earlier, replace(found, functions=("function f", "function g")))]
    assert of_earlier == ["the database has function g, of which the manifest says nothing", *named[2:]]


def test_a_column_of_another_type_was_not_added() -> None:
    users = replace(USERS, parts=("column a bigint", *USERS.parts[1:], "column mine text"))
    expected = replace(STATE, tables={"users": replace(USERS, parts=("column a integer", *USERS.parts[1:]))})
    assert [damage.sentence for damage in differences(expected, replace(STATE, tables={"users": users}))] == [
        "the table users lacks column a integer",
        "the table users has column mine text, of which the manifest says nothing",
    ]


def test_right_after_a_restore_the_rights_that_grants_gives_and_takes_are_no_damage() -> None:
    """Default privileges have given some. What nobody takes away later is damage still."""
    before, now = Ownership("ada", {"app": ["insert", "select"]}), Ownership("ada", {"app": ["delete", "insert", "update"]})

    def state(of_log: Ownership) -> DatabaseState:
        return replace(STATE, tables={"log": replace(STATE.tables["log"], ownership=of_log)}, owner="ada")

    def found(append_only: list[str] | None, now: Ownership = now) -> list[str]:
        return [one.sentence for one in differences(state(before), state(now), append_only=append_only)]

    assert len(found(None)) == 2
    assert found(["log"]) == []
    assert found([]) == ["the table log lets app delete, update, of which the manifest says nothing"]
    assert found(["log"], Ownership("ada", {"eve": ["delete"]})) == ["the table log lets eve delete, of which the manifest says nothing"]
    assert found(["log"], Ownership("ada", {"app": ["insert", "references"]})) == [
        "the table log lets app references, of which the manifest says nothing"
    ]
