"""Filters as conditions of SQL. The text consists of constants only, and the filter's values are parameters."""

from collections.abc import Callable, Mapping
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.columns import storable_text
from core.domain.federation.scim.filters import MOST_COMPARISONS, And, Filter, FilterComparison, FilterField, Not, Operator, Or, pins
from core.domain.federation.scim.users import WORK
from core.domain.mail import Email

CHANGED_AT: Final = "greatest(provisioned.updated_at, memberships.created_at)"
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


# The columns of attributes that a person may lack.
_MAY_LACK: Final[dict[FilterField, LiteralString]] = {
    FilterField.EXTERNAL_ID: "provisioned.external_id",
    FilterField.DISPLAY_NAME: "provisioned.display_name",
    FilterField.GIVEN_NAME: "provisioned.given_name",
    FilterField.FAMILY_NAME: "provisioned.family_name",
}
_TIMES: Final[dict[Operator, LiteralString]] = {
    Operator.AFTER: "({column} > %({name})s)",
    Operator.SINCE: "({column} >= %({name})s)",
    Operator.BEFORE: "({column} < %({name})s)",
    Operator.UNTIL: "({column} <= %({name})s)",
}


def _compared(one: FilterComparison, parameters: dict[str, Any]) -> LiteralString:
    constant = _constant(one)
    if constant is not None:
        return constant
    name = _NAMES[sum(known in parameters for known in _NAMES)]
    return _BY_FIELD.get(one.field, _text)(one, parameters, name)


def _constant(one: FilterComparison) -> LiteralString | None:
    """The condition of a comparison without a value of its own."""
    if one.operator is Operator.PRESENT:
        column = _MAY_LACK.get(one.field)
        return "true" if column is None else f"({column} is not null)"
    match one.field:
        case FilterField.ACTIVE:
            return "(memberships.id is not null)" if one.value else "(memberships.id is null)"
        # Everybody has one address, of the type work, and it is the primary one.
        case FilterField.EMAIL_IS_PRIMARY:
            return "true" if one.value else "false"
        case FilterField.EMAIL_TYPE:
            return "true" if str(one.value).lower() == WORK else "false"
        case _:
            return None


def _id(one: FilterComparison, parameters: dict[str, Any], name: LiteralString) -> LiteralString:
    identifier = _uuid(str(one.value))
    if identifier is None:
        return "false"
    parameters[name] = identifier
    return f"(users.id = %({name})s)"


def _external_id(one: FilterComparison, parameters: dict[str, Any], name: LiteralString) -> LiteralString:
    parameters[name] = storable_text(str(one.value))
    return f"(provisioned.external_id is not distinct from %({name})s)"


def _time(one: FilterComparison, parameters: dict[str, Any], name: LiteralString) -> LiteralString:
    parameters[name] = one.value
    return _TIMES[one.operator].format(column=CHANGED_AT, name=name)


def _text(one: FilterComparison, parameters: dict[str, Any], name: LiteralString) -> LiteralString:
    parameters[name] = storable_text(str(one.value).lower())
    return f"coalesce({_TEXTS[one.operator].format(column=f'lower({_MAY_LACK[one.field]})', name=name)}, false)"


def _address(one: FilterComparison, parameters: dict[str, Any], name: LiteralString) -> LiteralString:
    """The address's key may spell the domain in other letters (punycode). So a part of an address is compared with the written address as
    well, and a work address is compared only as it was written.
    """
    written: LiteralString = f"{name}_written"
    text = str(one.value)
    parameters[name], parameters[written] = storable_text(Email(text).key), storable_text(text.lower())
    own = _TEXTS[one.operator].format(column="users.email_key", name=name)
    if one.operator is not Operator.EQUALS:
        own = f"({own} or {_TEXTS[one.operator].format(column='lower(users.email)', name=written)})"
    if one.field is FilterField.EMAIL:
        return f"coalesce({_TEXTS[one.operator].format(column='lower(provisioned.work_email)', name=written)}, {own})"
    return f"({own})"


_BY_FIELD: Final[Mapping[FilterField, Callable[[FilterComparison, dict[str, Any], LiteralString], LiteralString]]] = {
    FilterField.ID: _id,
    FilterField.EXTERNAL_ID: _external_id,
    FilterField.LAST_MODIFIED: _time,
    FilterField.USER_NAME: _address,
    FilterField.EMAIL: _address,
}


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
