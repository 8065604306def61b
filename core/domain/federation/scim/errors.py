"""Refusals in the words of SCIM (RFC 7644 section 3.12). Each names the fault of the request by its `scimType`."""

from typing import ClassVar

from core.domain.errors import BadRequest, Conflict


class ScimRefusal(BadRequest):
    scim_type: ClassVar[str]


class InvalidFilter(ScimRefusal):
    scim_type = "invalidFilter"
    text = "The filter cannot be read, or compares an attribute that cannot be compared here"


class InvalidPath(ScimRefusal):
    scim_type = "invalidPath"
    text = "The path names no attribute that is kept here"


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
