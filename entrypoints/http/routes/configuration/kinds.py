"""A kind of object in configuration files: the type of its entries, made of endpoints' bodies, its endpoints, and its fields."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, Protocol, Union, get_type_hints
from uuid import UUID

import msgspec

from core.domain.formats import Json
from core.domain.identity.risk_policies.policies import RiskPolicies
from core.domain.lines import LONGEST_TYPED, one_line
from core.domain.platform.configuration.objects import ObjectPlace
from core.domain.platform.configuration.planning import KindRules, SortRules
from core.domain.tenancy.hooks import Hook
from core.frozen import Frozen, field
from entrypoints.http.machinery.endpoints import Endpoint

ENTRY_SOURCES: Final[dict[str, tuple[type[msgspec.Struct], ...]]] = {}
"""The types that an entry is made of, by the name of the entry. The descriptions of fields stand there."""


def entry(
    name: str, *bodies: type[msgspec.Struct], without: Sequence[str] = (), more: Mapping[str, Any] | None = None
) -> type[msgspec.Struct]:
    """The type of an entry. `without` names fields that no document has; `more` has fields that no body has, with their types."""
    fields: dict[str, Any] = {}
    for body in bodies:
        hints = get_type_hints(body, include_extras=True)
        fields |= {one.name: hints[one.name] for one in msgspec.structs.fields(body) if one.name not in without}
    fields |= more or {}
    ENTRY_SOURCES[name] = bodies
    made: type[msgspec.Struct] = msgspec.defstruct(
        name,
        [(one, kind if kind is Any else Union[kind, msgspec.UnsetType], msgspec.UNSET) for one, kind in fields.items()],  # noqa: UP007
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )
    return made


def named_fields(kind: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(one.encode_name for one in msgspec.structs.fields(kind))


def needed_fields(kind: type[msgspec.Struct]) -> frozenset[str]:
    """The fields that a body cannot do without."""
    return frozenset(one.encode_name for one in msgspec.structs.fields(kind) if one.required)


Fields = Mapping[str, Any]


class Within(StrEnum):
    """Where objects of a kind stand."""

    PLATFORM = "platform"
    ORGANIZATION = "organization"
    SERVICE = "service"


class References(Protocol):
    """What a kind asks for the ids of other objects while a document is applied."""

    def id_of(self, place: ObjectPlace) -> str:
        """The id of an object. Raises `BadRequest` if there is no such object."""

    async def tier(self, name: str) -> str:
        """The id of a tier. Raises `NotFound`."""

    async def ids(self, kind: str, organization: str, slugs: Collection[str]) -> Mapping[str, UUID]:
        """The ids of those services or teams of the organization that have these slugs."""

    async def hook(self, organization: str) -> Hook | None:
        """The hook that stands now; of the installation for an empty slug."""

    async def risk_policies(self, organization: str) -> RiskPolicies:
        """The rules for risk that stand now; of the installation for an empty slug."""


Translate = Callable[[Fields, ObjectPlace, References], Awaitable[Fields]]


def before_any(body: type[msgspec.Struct], thing: type[Frozen]) -> Mapping[str, Json]:
    """What the fields of a body are before anybody sets them: the defaults of the thing's class in the domain."""
    defaults = {one.name: one.default for one in msgspec.structs.fields(thing)}
    return {name: defaults[name] for name in body.__struct_fields__}


class ObjectKind(Frozen, kw_only=True):
    name: str
    """The name in documents, and of the kind."""
    stored_as: str = ""
    """The name of the kind among what is stored, if `name` means another kind elsewhere in a document."""
    within: Within
    entry: type[msgspec.Struct]
    shown_by: Endpoint
    """The endpoint that shows objects of the kind. Whoever may not call it gets no such objects, and may not plan any."""
    make: Endpoint | None = None
    change: Endpoint | None = None
    end: Endpoint | None = None
    key: str = ""
    """The field of the body that an entry's name fills. Empty if objects are alone of their kind, or named in the path alone."""
    parameter: str = ""
    """The parameter of the path that names an object."""
    is_single: bool = False
    """Whether a holder has one such object at most, so that the document has no map of them."""
    is_holder: bool = False
    """Whether the fields stand beside collections of other kinds, in the entry of an organization or a service."""
    needed: frozenset[str] = frozenset()
    """The fields without which an object cannot be made, where the endpoint's type does not say it."""
    written: Callable[[Fields], bytes] | None = None
    """Writes the body of the change, where it is no JSON."""
    secrets: tuple[str, ...] = ()
    made_with: Mapping[str, Json] = field(default_factory=dict)
    """What a new object has where the document is silent, of which the plan has to tell."""
    fixed: frozenset[str] = frozenset()
    together: tuple[frozenset[str], ...] = ()
    always: frozenset[str] = frozenset()
    """The fields that every change sends."""
    sends_all: bool = False
    """Whether a change sends all fields, because the endpoint sets the object anew."""
    standing: Mapping[str, Json] | None = None
    brings: Mapping[tuple[str, str], Mapping[str, Json]] = field(default_factory=dict)
    unordered: frozenset[str] = frozenset()
    """The fields whose values are sets: their order means nothing."""
    stored: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    """How the values of fields are stored. Texts are one line in any case."""
    shown: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    """How documents show the values of fields, where `stored` says more than anybody wants to read."""
    translate: Translate | None = None
    """Puts the ids that the endpoint needs in place of names."""
    sort_field: str = ""
    sorts: Mapping[str, SortRules] = field(default_factory=dict)
    new_id: str = "id"
    """The field of the answer to `make` with the id by which the path names the object. Empty if the path has the object's name."""
    brought_id: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """For what comes with a new object: the place of its id in the answer, with dots."""
    is_founded: bool = False
    """Whether such an object is founded for an owner, and not made by an endpoint: organizations."""

    @property
    def id(self) -> str:
        """The kind's own name: no other kind has it."""
        return self.stored_as or self.name

    @property
    def rules(self) -> KindRules:
        made_by = self.make or (self.change if self.is_single and self.standing is None else None)
        needed = frozenset[str]()
        if made_by is not None and isinstance(made_by.body_type, type) and issubclass(made_by.body_type, msgspec.Struct):
            needed = needed_fields(made_by.body_type) - {self.key}
        return KindRules(
            name=self.id,
            needed=self.needed | (needed & frozenset(self.entry.__struct_fields__)),
            made_with=self.made_with,
            fixed=self.fixed,
            together=self.together,
            sent_along=needed & frozenset(self.secrets) if self.sends_all else frozenset(),
            can_make=made_by is not None or self.is_founded,
            can_end=self.end is not None,
            standing=self.standing,
            brings=self.brings,
            sort_field=self.sort_field,
            sorts=self.sorts,
        )

    def as_stored(self, fields: Fields) -> dict[str, Any]:
        """The fields in the form in which they are stored, so that equal settings compare equal."""
        return {name: self._as_stored(name, value) for name, value in fields.items()}

    def _as_stored(self, name: str, value: Any) -> Any:
        if isinstance(value, str) and len(value) <= LONGEST_TYPED:
            value = one_line(value)
        if name in self.unordered and value is not None:
            value = sorted(set(value))
        convert = self.stored.get(name)
        return value if convert is None or value is None else convert(value)

    def as_shown(self, fields: Fields) -> dict[str, Any]:
        return {name: self.shown[name](value) if name in self.shown else value for name, value in fields.items()}
