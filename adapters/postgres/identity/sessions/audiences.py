"""The SQL of audiences: the APIs among the granted ones that an application may have tokens for at this moment, and the scopes that the
person still holds there. An API that has ended, or that no longer admits the application, and a permission that was taken away count from
the next request on.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from core.domain.identifiers import ResourceServerId
from core.domain.tokens import TokenAlgorithm, TokenAudience, TokenAudiences

# The rules stand in the schema, in the functions of these names.

# A condition on `resource_servers`: tokens are made for the API. The rule of the domain is `ResourceServer.state`; a test compares the two.
IS_OPEN: Final = "resource_is_open(resource_servers)"


def admits_service(service: LiteralString) -> LiteralString:
    """A condition on `resource_servers`: the service, an expression of an id, may ask for tokens."""
    return f"resource_admits(resource_servers, {service})"


def is_held(scope: LiteralString, person: LiteralString) -> LiteralString:
    """A condition on `resource_servers`: the person holds the permission that the scope, an expression of one of its objects, asks for."""
    return f"resource_scope_is_held(resource_servers, {scope}, {person})"


def is_reached(scope: LiteralString, methods: LiteralString) -> LiteralString:
    """A condition: a sign-in by these methods reaches what the scope, an expression of one of its objects, asks for."""
    return f"resource_scope_is_reached({scope}, {methods})"


# A condition on `sessions`: an identity assertion opened the session. Such a session hangs on its directory's word alone.
IS_BY_ASSERTION: Final = "(sessions.opened_through is not null and sessions.audiences is not null)"


def asks_nothing(scope: LiteralString) -> LiteralString:
    """A condition: the scope, an expression of one of its objects, asks nothing of the sign-in. The rule of the domain is
    `SignInDemand.asks`.
    """
    return f"coalesce({scope} -> 'acr_values', '[]') = '[]' and {scope} ->> 'max_age' is null"


def open_audiences(row: LiteralString, *, spared: LiteralString = "false") -> LiteralString:
    """The open APIs of a code or session, a row with `audiences`, `user_id`, `service_id` and `authenticated_by`. Null without APIs. Scopes
    that the person has refused since are missing, unless the condition `spared` holds.
    """
    columns: LiteralString = f"{row}.audiences, {row}.user_id, {row}.service_id, {row}.authenticated_by, {spared}"
    return f"case when {row}.audiences is not null then open_audiences({columns}) end"


def allows_audiences(granted: LiteralString, person: LiteralString, service: LiteralString) -> LiteralString:
    """A condition: the person allows the service everything that is granted, an expression of the document that a code keeps."""
    return f"({granted} is null or audiences_are_allowed({granted}, {person}, {service}))"


def audiences(granted: int | None, found: Sequence[Mapping[str, Any]] | None) -> TokenAudiences:
    return TokenAudiences(granted or 0, tuple(map(_audience, found or ())))


def kept_audiences(granted: Sequence[TokenAudience]) -> Jsonb | None:
    """The document that a code keeps, for `open_audiences`."""
    if not granted:
        return None
    return Jsonb([{"resource_id": str(one.id), "identifier": one.identifier, "scopes": list(one.scopes)} for one in granted])


def granted_audiences(kept: Sequence[Mapping[str, Any]] | None) -> Sequence[TokenAudience]:
    """Reads the document that `kept_audiences` made."""
    return [TokenAudience(ResourceServerId(UUID(one["resource_id"])), one["identifier"], tuple(one["scopes"])) for one in kept or ()]


def _audience(row: Mapping[str, Any]) -> TokenAudience:
    return TokenAudience(
        id=ResourceServerId(UUID(row["id"])),
        identifier=row["identifier"],
        scopes=tuple(row["scopes"]),
        lifetime=lifetime(row["lifetime"]),
        algorithm=TokenAlgorithm(row["algorithm"]),
    )


def lifetime(seconds: int | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)
