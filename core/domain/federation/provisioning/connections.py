"""Provisional: NOUN's file takes this place."""

from enum import StrEnum

from core.domain.formats import Json
from core.frozen import Frozen


class ProvisioningSource(StrEnum):
    ADDRESS = "address"
    USER_NAME = "user_name"
    NAME = "name"
    GIVEN_NAME = "given_name"
    FAMILY_NAME = "family_name"
    LANGUAGE = "language"
    ZONEINFO = "zoneinfo"
    ROLE = "role"
    TEAMS = "teams"
    ROLES = "roles"
    ORGANIZATION_FIELD = "organization_field"
    PERSON_FIELD = "person_field"
    CONSTANT = "constant"


class MappedAttribute(Frozen):
    attribute: str
    source: ProvisioningSource
    argument: Json = None


class ProvisioningDialect(Frozen):
    patches: bool = True
    lists: bool = True
    filters: bool = True
    deletes: bool = True
    needs_password: bool = False


def dialect_of(preset: str) -> ProvisioningDialect:
    return ProvisioningDialect()


def token_context(connection: object) -> str:
    return f"provisioning_connections.token:{connection}"
