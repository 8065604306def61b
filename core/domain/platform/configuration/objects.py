"""Objects of configuration files: their paths, and the marks that show which file manages them."""

import json
from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import Final, NamedTuple

from core.domain.formats import Json
from core.frozen import Frozen

ORGANIZATION: Final = "organization"
"""The kind of an organization's own fields."""
LIMITS: Final = "limits"
SERVICE: Final = "services"
"""The kind of a service's own fields."""
PLATFORM_FIELDS: Final = "platform_fields"
SERVICE_ROLES: Final = "service_roles"
RISK_POLICIES: Final = "risk_policies"
PLATFORM_RISK: Final = "platform_risk_policies"
HOOK: Final = "hook"
PLATFORM_HOOK: Final = "platform_hook"
TEXTS: Final = "texts"
PLATFORM_TEXTS: Final = "platform_texts"
_IN_DOCUMENTS: Final = {
    PLATFORM_FIELDS: "profile_fields",
    SERVICE_ROLES: "roles",
    PLATFORM_RISK: RISK_POLICIES,
    PLATFORM_HOOK: HOOK,
    PLATFORM_TEXTS: TEXTS,
}
"""The names in documents of kinds that share a name with another kind, which stands elsewhere."""


class ObjectPlace(NamedTuple):
    """The path of one object in a configuration file, by slugs and names, never by an ID. Installation-wide objects have no organization;
    objects outside an application have no service. An object that is alone of its kind has no name.
    """

    organization: str
    service: str
    kind: str
    name: str

    @property
    def steps(self) -> tuple[str, ...]:
        """The steps to the object in a document."""
        steps: tuple[str, ...] = ("organizations", self.organization) if self.organization else ("platform",)
        if self.kind == ORGANIZATION:
            return steps
        if self.service:
            steps = (*steps, SERVICE, self.service)
        kind = _IN_DOCUMENTS.get(self.kind, self.kind)
        return (*steps, kind, self.name) if self.name else (*steps, kind)

    @property
    def holder(self) -> "ObjectPlace | None":
        """The organization or the service that the object belongs to. None for objects of the installation, and for organizations."""
        if not self.organization or self.kind == ORGANIZATION:
            return None
        return organization_place(self.organization) if not self.service else service_place(self.organization, self.service)

    @property
    def collection(self) -> "ObjectPlace":
        """The place of the collection that the object is in: the same place without a name."""
        return self._replace(name="")

    def __str__(self) -> str:
        return pointer(self.steps)


def organization_place(slug: str) -> ObjectPlace:
    return ObjectPlace(slug, "", ORGANIZATION, "")


def service_place(organization: str, slug: str) -> ObjectPlace:
    return ObjectPlace(organization, "", SERVICE, slug)


def pointer(steps: tuple[str, ...]) -> str:
    """The steps as a JSON Pointer (RFC 6901)."""
    return "".join(f"/{step.replace('~', '~0').replace('/', '~1')}" for step in steps)


class ManagedMark(Frozen, kw_only=True):
    """Marks an object that a configuration file manages: which file, since when, and by whom."""

    place: ObjectPlace
    id: str
    """The value by which endpoints name the object. Empty for an object that is alone of its kind."""
    document: str
    """The digest of the document."""
    fields: str
    """The digest of the fields that the document named, as they were after it was applied."""
    named: tuple[str, ...]
    """The names of these fields."""
    at: datetime
    by: str
    """A person's address, or the name of a management key. Empty for an operator, and for an account or key that is gone."""


def digest_of(value: Json) -> str:
    """A digest of a value that does not depend on the order of its keys."""
    return sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def has_drifted(mark: ManagedMark, fields: Mapping[str, Json] | None) -> bool:
    """Whether somebody has changed by hand what a document had set. None for an object that is gone."""
    return fields is None or digest_of({name: fields.get(name) for name in mark.named}) != mark.fields
