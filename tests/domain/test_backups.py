"""A restored database is compared with the manifest of its backup, and each difference is one sentence."""

from core.domain.backups import Damage, DamageKind, DatabaseState, TableState, differences
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
    more = replace(STATE, tables={**STATE.tables, "mine": USERS, "users": replace(USERS, parts=(*USERS.parts, "index mine"))})
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
