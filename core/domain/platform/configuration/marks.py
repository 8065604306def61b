"""Marks: an object that a configuration document manages has one. It says which document, since when, and by whom."""

import json
from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256

from core.domain.json import Json
from core.domain.platform.configuration.object_places import ObjectPlace
from core.frozen import Frozen


class ManagedMark(Frozen, kw_only=True):
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
