"""The SCIM protocol that users and groups share: errors, schema URIs, and PATCH."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, ClassVar, Final

from core.domain.errors import BadRequest, Conflict
from core.frozen import Frozen


class ScimRefusal(BadRequest):
    """A SCIM error (RFC 7644 section 3.12). Each names the fault of the request by its `scimType`."""

    scim_type: ClassVar[str]


class InvalidFilter(ScimRefusal):
    scim_type = "invalidFilter"
    text = "The filter cannot be read, or compares an attribute that cannot be compared"


class InvalidPath(ScimRefusal):
    scim_type = "invalidPath"
    text = "The path names an attribute that is not stored"


class NoTarget(ScimRefusal):
    scim_type = "noTarget"
    text = "The path selects nothing"


class InvalidValue(ScimRefusal):
    scim_type = "invalidValue"
    text = "The value does not suit its attribute"


class InvalidSyntax(ScimRefusal):
    scim_type = "invalidSyntax"
    text = "The request does not follow SCIM"


class Mutability(ScimRefusal):
    scim_type = "mutability"
    text = "This attribute cannot be changed here"


class ListedElsewhere(Conflict):
    """Another directory lists the person, and whoever lists a person ends them. No value is taken twice, so SCIM has no type for it."""

    scim_type: ClassVar[None] = None


# RFC 7643 section 4.
USER_SCHEMA: Final = "urn:ietf:params:scim:schemas:core:2.0:User"
ENTERPRISE_SCHEMA: Final = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"


MOST_OPERATIONS: Final = 1000
LONGEST_TEXT: Final = 256
# The limit of attributes in one operation without a path: the greatest request is still done in a moment.
_MOST_ATTRIBUTES: Final = 50
_LONGEST_PATH: Final = 500
# The Unicode categories Cc and Cs.
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_PATH: Final = re.compile(r"\s*(?P<attribute>[A-Za-z][\w-]*)\s*(?:\[(?P<filter>[^\[\]]*)\])?(?:\.(?P<part>[A-Za-z$][\w-]*))?\s*")


class Verb(StrEnum):
    ADD = "add"
    REPLACE = "replace"
    REMOVE = "remove"


class PatchOperation(Frozen):
    """An operation of a PATCH request (RFC 7644 section 3.5.2), in the dialects of large directories. `path` is None when the value names
    the attributes. Verbs may have capital letters.
    """

    op: str
    path: str | None
    value: Any = None

    @property
    def verb(self) -> Verb:
        """Raises `InvalidSyntax`."""
        try:
            return Verb(self.op.lower())
        except ValueError:
            raise InvalidSyntax("op: add, replace or remove") from None


class Path(Frozen):
    """A path in lower case. Only the filter is unchanged."""

    attribute: str
    filter: str | None
    part: str | None


def parse_path(text: str, schema: str) -> Path:
    """A path in a resource of this schema. The name of the schema may precede the path. Raises `InvalidPath`."""
    if text.lower().startswith(f"{schema.lower()}:"):
        text = text[len(schema) + 1 :]
    found = _PATH.fullmatch(text) if len(text) <= _LONGEST_PATH else None
    if found is None:
        raise InvalidPath(f"path: “{text[:80]}” is not stored")
    part = found["part"]
    return Path(found["attribute"].lower(), found["filter"], None if part is None else part.lower())


def require_operations(operations: Sequence[PatchOperation]) -> None:
    if not 1 <= len(operations) <= MOST_OPERATIONS:
        raise InvalidSyntax(f"Operations: 1 to {MOST_OPERATIONS}")


def truth(value: Any) -> bool:
    """A truth value. Some directories write it as a text, and capitalised. Raises `InvalidValue`."""
    if isinstance(value, bool):
        return value
    word = value.lower() if isinstance(value, str) else ""
    if word not in {"true", "false"}:
        raise InvalidValue("active: true or false")
    return word == "true"


def text_of(name: str, value: Any) -> str | None:
    """A text. None when there is none, or when it is empty. Raises `InvalidValue`."""
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise InvalidValue(f"{name}: expected a text")
    if len(value) > LONGEST_TEXT:
        raise InvalidValue(f"{name}: at most {LONGEST_TEXT} characters")
    if _CONTROLS.search(value):
        raise InvalidValue(f"{name}: control characters are not allowed")
    return value


def fields_of(value: Any) -> Mapping[str, Any]:
    """The attributes that an operation without a path sets. Raises `InvalidValue`."""
    if not isinstance(value, Mapping) or not value:
        raise InvalidValue("value: without a path, the value must contain the attributes to set")
    if len(value) > _MOST_ATTRIBUTES:
        raise InvalidValue(f"value: at most {_MOST_ATTRIBUTES} attributes")
    return value
