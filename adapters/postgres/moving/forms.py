"""The values of a file's rows, read as the types of their columns. PostgreSQL would refuse them as well, without the row and the column."""

from collections.abc import Mapping
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec

from adapters.postgres.moving.catalogue import MovedTable
from core.domain.identity.upstream.connections import SamlSettings
from core.domain.identity.upstream.ldap.settings import LdapSettings
from core.domain.platform.moving import UnfitFile
from core.domain.tenancy.profile_fields import FieldRule

Row = dict[str, msgspec.Raw]
Decoders = Mapping[str, "msgspec.json.Decoder[Any]"]


def _whole(bits: int) -> Any:
    return Annotated[int, msgspec.Meta(ge=-(2 ** (bits - 1)), le=2 ** (bits - 1) - 1)]


# Times that nobody can represent are found among all rows.
TIME = Annotated[str, msgspec.Meta(pattern=r"\A(-?infinity|[0-9]{4,6}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,15}[+-][0-9:]{2,8})\Z")]
_TYPES: Final[Mapping[str, Any]] = {
    "text": str,
    "_text": list[str],
    "bool": bool,
    "int2": _whole(16),
    "int4": _whole(32),
    "int8": _whole(64),
    "uuid": UUID,
    "_uuid": list[UUID],
    "timestamptz": TIME,
    "bytea": Annotated[str, msgspec.Meta(pattern=r"\A\\x([0-9a-f]{2})*\Z")],
    "jsonb": dict[str, Any] | list[Any] | str | int | float | bool,
    "inet": str,
}


class _WholeRule(FieldRule, forbid_unknown_fields=True):
    """A bound that nobody knows would end every list of fields."""


# Documents that statements about all organizations look into: one of another form would end them for everybody.
_DOCUMENTS: Final[Mapping[tuple[str, str], Any]] = {
    ("upstream_providers", "saml"): SamlSettings,
    ("upstream_providers", "ldap"): LdapSettings,
    ("all_profile_fields", "rule"): _WholeRule,
}


def decoders_of(table: MovedTable) -> Decoders:
    found: dict[str, msgspec.json.Decoder[Any]] = {}
    for column in table.columns:
        kind = _DOCUMENTS.get((table.name, column), _TYPES[table.types[column]])
        found[column] = msgspec.json.Decoder(kind | None if column in table.optional else kind)
    return found


def read(decoders: Decoders, row: Row) -> dict[str, Any]:
    """Raises `UnfitFile`, with the name of the column."""
    values: dict[str, Any] = {}
    for column, value in row.items():
        try:
            values[column] = decoders[column].decode(value)
        except (msgspec.DecodeError, RecursionError):
            raise UnfitFile(f"{column}: is not of the form that it must have") from None
    return values
