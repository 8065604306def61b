"""Values of fields: what an organization, or the installation, keeps of one person."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from core.domain.identifiers import OrganizationId, UserId
from core.domain.tenancy.profile_fields import FieldKind, FieldShape, KeptValues, ProfileField, checked_value
from core.frozen import Frozen

MOST_KEEPERS: Final = 100
"""The limit of one answer about a person: so many organizations that keep something of them."""


class HeldPerson(Frozen):
    """What one keeper knows of a person, and the tie between the two."""

    user: UserId
    organization: OrganizationId | None
    kept: KeptValues
    is_member: bool = False
    """The person is a member of the organization, or known to its directory. Otherwise the person only uses one of its services."""


class KeptBy(Frozen):
    """A keeper as the person sees it. `organization` is None for the installation."""

    organization: OrganizationId | None
    slug: str
    name: str
    kept: KeptValues


class AskedFields(Frozen):
    """The fields of one keeper that a page asks the person for."""

    organization: OrganizationId | None
    slug: str
    name: str
    fields: Sequence[ProfileField]

    @property
    def insists(self) -> bool:
        """Whether the person cannot put the answer off."""
        return any(field.required for field in self.fields)


def require_keepable(values: Mapping[str, Any]) -> None:
    """Whether some field could have taken each value: its own field may have other bounds since then, and what was kept before these stays.
    Raises `BadRequest`.
    """
    for field, value in values.items():
        UUID(field)
        kind = FieldKind.BOOLEAN if isinstance(value, bool) else _KINDS.get(type(value), FieldKind.TEXT)
        checked_value(FieldShape(key="values", kind=kind), value)


_KINDS: Final[Mapping[type, FieldKind]] = {int: FieldKind.NUMBER, float: FieldKind.NUMBER, list: FieldKind.LIST}
