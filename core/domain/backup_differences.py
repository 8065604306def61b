"""Compares a restored database with the manifest of its backup, and names each difference in one sentence."""

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from core.domain.backups import COLUMN, ColumnGroup, Damage, DamageKind, DatabaseState, Ownership, TableState, column_of

# The number of parts of one table that a sentence lists.
_MOST_NAMED: Final = 4
# An operator may add indexes and constraints, which show and change nothing.
_ACTING: Final = "trigger "
_CHANGES: Final = frozenset({"update", "delete", "truncate"})
_DISABLED: Final = " (disabled)"
# They have definitions, and are no parts.
_ALSO_ACTING: Final = ("policy ", "rule ")
_QUERY: Final = "query"
# These are parts, too, so a lacking one is named there, and one too many harms nobody.
_ALSO_PARTS: Final = ("constraint ", "index ", "trigger ")


def differences(
    expected: DatabaseState,
    found: DatabaseState,
    *,
    held: Collection[str] = (),
    additions: bool = True,
    append_only: Collection[str] | None = None,
    granted_now: Collection[str] = (),
) -> Iterator[Damage]:
    """The audit chains are compared link by link elsewhere. A hold has changed columns of the group `HOLDABLE` in the tables `held`.
    Without `additions`, the database may have things of its own beside ours. With `append_only`, nobody has run `postern grants` since the
    restore: it gives the rights that a role lacks, and takes those to change the rows of these tables. For the roles `granted_now`, it has
    run. They have what serving needs, also where the manifest knows no role of their name.
    """
    yield from _of_migrations(expected.migrations, found.migrations)
    gone = sorted(set(expected.functions) - set(found.functions))
    if gone:
        yield Damage(DamageKind.SCHEMA, f"the schema lacks {_some(gone)}")
    for name in sorted(expected.tables.keys() - found.tables.keys()):
        yield Damage(DamageKind.SCHEMA, f"the table {name} is missing")
    for name in sorted(expected.tables.keys() & found.tables.keys()):
        before, now = expected.tables[name], found.tables[name]
        yield from _of_parts(name, before, now)
        if before.definitions and expected.prints_like(found):
            yield from _of_definitions(name, before, now)
        yield from _of_rows(name, before, now, is_held=name in held)
    for name in sorted(expected.routines.keys() & found.routines.keys()):
        if expected.routines[name].body != found.routines[name].body:
            yield Damage(DamageKind.SCHEMA, f"the function {name} has another body, or other properties")
    if additions:
        yield from _of_additions(expected, found)
    yield from _of_ownership(expected, found, append_only, granted_now)
    lost = sorted(set(expected.signing_keys) - set(found.signing_keys))
    if lost:
        yield Damage(DamageKind.ROWS, f"the signing key {_some(lost)} is missing")


def rows_lost(expected: DatabaseState, found: DatabaseState, named: Collection[str]) -> Iterator[Damage]:
    """What migrations have changed in rows that they do not name. `found` was read by the columns of before."""
    for name, before in sorted(expected.tables.items()):
        if before.rows is None or name in named or name == "schema_migrations":
            continue
        now = found.tables.get(name)
        if now is None:
            yield Damage(DamageKind.ROWS, f"the migrations drop the table {name} with {before.rows} rows, and none names it")
            continue
        gone = sorted(set(before.columns) - set(now.columns))
        if gone:
            yield Damage(DamageKind.ROWS, f"the migrations drop {_some(gone)} of the table {name}, and none names it")
            continue
        for damage in _of_rows(name, before, now, is_held=False, as_before="the backup has"):
            yield Damage(DamageKind.ROWS, f"{damage.sentence}, and no migration names the table")


def _of_migrations(expected: Sequence[str], found: Sequence[str]) -> Iterator[Damage]:
    for before, now in zip(expected, found, strict=False):
        if before != now:
            yield Damage(DamageKind.SCHEMA, f"the schema is another: the database has {now}, the manifest {before}")
            return
    if len(found) < len(expected):
        yield Damage(DamageKind.SCHEMA, f"the schema is older: it lacks {expected[len(found)]}")
    if len(found) > len(expected):
        yield Damage(DamageKind.SCHEMA, f"the schema is newer: the manifest does not know {found[len(expected)]}")


def _of_parts(name: str, expected: TableState, found: TableState) -> Iterator[Damage]:
    lacking = sorted(set(expected.parts) - set(found.parts))
    if lacking:
        yield Damage(DamageKind.SCHEMA, f"the table {name} lacks {_some(lacking)}")
    changed = {column_of(part) for part in lacking if part.startswith(COLUMN)}
    parts = set(found.parts) - set(expected.parts)
    added = [part for part in parts if part.startswith(COLUMN) and column_of(part) not in changed]
    added += [part for part in parts if part.startswith(_ACTING) and not part.endswith(_DISABLED)]
    if expected.definitions:
        added += [part for part in found.definitions if part.startswith(_ALSO_ACTING) and part not in expected.definitions]
    if added:
        yield Damage(DamageKind.SCHEMA, f"the table {name} has {_some(sorted(added))}, of which the manifest says nothing")


def _of_additions(expected: DatabaseState, found: DatabaseState) -> Iterator[Damage]:
    """A view shows, a function acts, a table may hide another. So whatever the manifest does not know is damage."""
    tables = [f"{'view' if _QUERY in found.tables[name].definitions else 'table'} {name}" for name in found.tables.keys() - expected.tables]
    if expected.routines:
        functions = [f"function {name}" for name in found.routines.keys() - expected.routines]
    else:
        functions = list(set(found.functions) - set(expected.functions))
    others = [] if expected.objects is None or found.objects is None else list(set(found.objects) - set(expected.objects))
    for one in sorted([*tables, *functions, *others]):
        yield Damage(DamageKind.SCHEMA, f"the database has {one}, of which the manifest says nothing")


def _of_definitions(name: str, expected: TableState, found: TableState) -> Iterator[Damage]:
    before = expected.definitions
    # The default of an added column goes with the column.
    now = {part: text for part, text in found.definitions.items() if part not in _defaults_of(found) - _defaults_of(expected)}
    others = sorted(
        part
        for part in before.keys() | now.keys()
        if before.get(part) != now.get(part)
        and not (part.startswith(_ALSO_PARTS) and (part not in before or part not in now))
        and not (part.startswith(_ALSO_ACTING) and part not in before)
    )
    if others:
        yield Damage(DamageKind.SCHEMA, f"the table {name} has another {_some(others)} than the manifest says")


def _defaults_of(table: TableState) -> set[str]:
    return {f"default of {column}" for column in table.columns}


def _of_rows(
    name: str, expected: TableState, found: TableState, *, is_held: bool, as_before: str = "the manifest says"
) -> Iterator[Damage]:
    """A hold adds rows to a table whose columns it writes all. `as_before` says in the sentences where the number of before is from."""
    if expected.rows is None or found.rows is None or (is_held and ColumnGroup.CONTENTS not in found.digests):
        return
    if expected.rows != found.rows:
        apart = expected.rows - found.rows
        more = f"{apart} missing" if apart > 0 else f"{-apart} too many"
        yield Damage(DamageKind.ROWS, f"the table {name} has {found.rows} rows, {as_before} {expected.rows}: {more}")
        return
    if is_held and ColumnGroup.HOLDABLE not in expected.digests:
        # The version that made the manifest did not hold work of this table, so its one digest has the columns that a hold changes.
        return
    compared = [group for group in ColumnGroup if group in expected.digests and not (is_held and group is ColumnGroup.HOLDABLE)]
    if any(expected.digests[group] != found.digests.get(group) for group in compared):
        yield Damage(DamageKind.ROWS, f"the table {name} has as many rows as {as_before}, and other contents")


def _of_ownership(
    expected: DatabaseState, found: DatabaseState, append_only: Collection[str] | None, granted_now: Collection[str]
) -> Iterator[Damage]:
    """A dump has neither owners nor grants. So a copy may have another owner, who owns all, and no grants; what it has must be right."""
    pairs = {
        **{
            f"the table {name}": (table.ownership, found.tables[name].ownership)
            for name, table in expected.tables.items()
            if name in found.tables
        },
        **{
            f"the function {name}": (routine.ownership, found.routines[name].ownership)
            for name, routine in expected.routines.items()
            if name in found.routines
        },
    }
    compared = [(named, before, now) for named, (before, now) in sorted(pairs.items()) if before is not None and now is not None]
    granted = {role for _, _, now in compared for role in now.grants}
    schema = found.schema if found.schema is not None and expected.schema is not None else Ownership("", {})
    granted |= schema.grants.keys()
    granted -= set(granted_now) - _known_roles(expected)
    for named, before, now in compared:
        owners = (found.owner,) if before.owner == expected.owner else (found.owner, before.owner)
        if now.owner not in owners:
            yield Damage(DamageKind.SCHEMA, f"{named} belongs to {now.owner}, and the schema to {found.owner}")
        taken = _CHANGES if append_only is not None and named.removeprefix("the table ") in append_only else frozenset[str]()
        yield from _of_grants(named, before, now, granted - set(granted_now), taken, are_given=append_only is not None)
        yield from _of_grants(named, before, now, granted & set(granted_now), are_given=append_only is not None)
    yield from _of_schema(expected, found, granted, are_given=append_only is not None)


def _known_roles(state: DatabaseState) -> set[str]:
    """The roles that have a right there."""
    tables = (table.ownership for table in state.tables.values())
    routines = (routine.ownership for routine in state.routines.values())
    return {role for one in (*tables, *routines, state.schema) if one is not None for role in one.grants}


def _of_schema(expected: DatabaseState, found: DatabaseState, granted: Collection[str], *, are_given: bool) -> Iterator[Damage]:
    """Whoever owns the tables may have been given rights to the schema, which is not theirs."""
    if expected.schema is None or found.schema is None:
        return
    if found.schema.owner not in {"", found.owner, expected.schema.owner}:
        yield Damage(DamageKind.SCHEMA, f"the schema public belongs to {found.schema.owner}, and its tables to {found.owner}")
    yield from _of_grants("the schema public", expected.schema, found.schema, set(granted) - {found.owner}, are_given=are_given)


def _of_grants(
    named: str,
    expected: Ownership,
    found: Ownership,
    granted: Collection[str],
    taken: Collection[str] = (),
    *,
    are_given: bool,
) -> Iterator[Damage]:
    """A role that the copy grants nothing gets its grants later, by `postern grants`. If they `are_given` later, so does any other role,
    and those that have rights there lose the ones that are `taken`.
    """
    for role in sorted(granted):
        before, now = set(expected.grants.get(role, ())), set(found.grants.get(role, ()))
        if before:
            now -= set(taken) - before
        if now - before:
            yield Damage(DamageKind.SCHEMA, f"{named} lets {role} {_some(sorted(now - before))}, of which the manifest says nothing")
        if before - now and not are_given:
            yield Damage(DamageKind.SCHEMA, f"{named} does not let {role} {_some(sorted(before - now))}")


def _some(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
