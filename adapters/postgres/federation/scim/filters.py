"""Filters as conditions of SQL. The text consists of constants only, and the filter's values are parameters."""

from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.storable import storable_text
from core.domain.email import Email
from core.domain.federation.scim.filters import MOST_COMPARISONS, And, Filter, FilterComparison, FilterField, Not, Operator, Or, pins

_NAMES: Final[tuple[LiteralString, ...]] = tuple(f"compared_{number}" for number in range(MOST_COMPARISONS))

_TEXTS: Final[dict[Operator, LiteralString]] = {
    Operator.EQUALS: "{column} = %({name})s",
    Operator.CONTAINS: "position(%({name})s in {column}) > 0",
    Operator.STARTS: "starts_with({column}, %({name})s)",
    Operator.ENDS: "right({column}, length(%({name})s)) = %({name})s",
}


def condition_of(one: Filter, parameters: dict[str, Any]) -> LiteralString:
    """A condition for a statement that reads `users`, `memberships` and `provisioned`. The condition is true or false, never null."""
    match one:
        case And():
            return f"({' and '.join(condition_of(part, parameters) for part in one.parts)})"
        case Or():
            return f"({' or '.join(condition_of(part, parameters) for part in one.parts)})"
        case Not():
            return f"(not {condition_of(one.part, parameters)})"
        case FilterComparison():
            return _compared(one, parameters)


def source_of(one: Filter, parameters: dict[str, Any]) -> LiteralString | None:
    """A statement that selects the candidates by an index. None when no index can find them."""
    pinned = pins(one)
    if pinned is None:
        return None
    by_field: dict[FilterField, list[str]] = {FilterField.ID: [], FilterField.EXTERNAL_ID: [], FilterField.USER_NAME: []}
    for pin in pinned:
        by_field[pin.field].append(str(pin.value))
    parameters["ids"] = [identifier for text in by_field[FilterField.ID] if (identifier := _uuid(text)) is not None]
    parameters["externals"] = [storable_text(text) for text in by_field[FilterField.EXTERNAL_ID]]
    parameters["names"] = [storable_text(Email(text).key) for text in by_field[FilterField.USER_NAME]]
    return _PINNED


_PINNED: Final = """
                          select id as user_id from users where email_key = any(%(names)s::text[])
                       union
                          select user_id
                            from provisioned_users
                           where org_id = %(organization)s and external_id = any(%(externals)s::text[])
                       union
                          select unnest(%(ids)s::uuid[])
"""


def _compared(one: FilterComparison, parameters: dict[str, Any]) -> LiteralString:
    if one.field is FilterField.ACTIVE:
        return "(memberships.id is not null)" if one.value else "(memberships.id is null)"
    text = str(one.value)
    name = _NAMES[sum(known in parameters for known in _NAMES)]
    if one.field is FilterField.ID:
        identifier = _uuid(text)
        if identifier is None:
            return "false"
        parameters[name] = identifier
        return f"(users.id = %({name})s)"
    if one.field is FilterField.EXTERNAL_ID:
        parameters[name] = storable_text(text)
        return f"(provisioned.external_id is not distinct from %({name})s)"
    # The address's key may spell the domain in other letters (punycode). So a part of an address is compared with the written address as
    # well, and a work address is compared only as it was written.
    written: LiteralString = f"{name}_written"
    parameters[name], parameters[written] = storable_text(Email(text).key), storable_text(text.lower())
    own = _TEXTS[one.operator].format(column="users.email_key", name=name)
    if one.operator is not Operator.EQUALS:
        own = f"({own} or {_TEXTS[one.operator].format(column='lower(users.email)', name=written)})"
    if one.field is FilterField.EMAIL:
        return f"coalesce({_TEXTS[one.operator].format(column='lower(provisioned.work_email)', name=written)}, {own})"
    return f"({own})"


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
