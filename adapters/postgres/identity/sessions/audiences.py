"""The SQL of audiences: the APIs among the granted ones that an application may have tokens for at this moment, and the scopes that the
person still holds there. An API that has ended, or that no longer admits the application, and a permission that was taken away count from
the next request on.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from adapters.postgres.identity.proofs.sign_in_policy import roles_held
from core.domain.audiences import TokenAudience, TokenAudiences
from core.domain.identifiers import ResourceServerId
from core.domain.signing_keys import TokenAlgorithm

# A condition on `resource_servers`: tokens are made for the API. The rule of the domain is `ResourceServer.state`; a test compares the two.
IS_OPEN: Final = """(resource_servers.identifier like 'http:%%'
                  or (resource_servers.verified_at is not null or resource_servers.approved_at is not null)
                 and (resource_servers.settles_at is null or resource_servers.settles_at <= now()))"""


def admits_service(service: LiteralString) -> LiteralString:
    """A condition on `resource_servers`: the service, an expression of an id, may ask for tokens."""
    return f"""(resource_servers.org_id = (select asking.org_id from services as asking where asking.id = {service})
                and (resource_servers.admits = 'all' or exists (
                        select from resource_admissions
                         where resource_admissions.resource_id = resource_servers.id and resource_admissions.service_id = {service}
                    )))"""


def is_held(scope: LiteralString, person: LiteralString) -> LiteralString:
    """A condition on `resource_servers`: the person holds the permission that the scope, an expression of one of its objects, asks for."""
    held = roles_held(person, "resource_servers.org_id", "resource_servers.service_id")
    return f"""({scope} ->> 'permission' is null
                or exists (
                       select
                         from permissions
                         join services on services.id = permissions.service_id
                        where permissions.service_id = resource_servers.service_id and permissions.key = {scope} ->> 'permission'
                   )
               and exists (select from ({held}) as held where {scope} ->> 'permission' = any (held.permissions)))"""


def held_scopes(granted: LiteralString, person: LiteralString) -> LiteralString:
    """An array: the scopes of the API among the granted ones, an expression of an array, that the person holds."""
    return f"""array(
                 select scope.own ->> 'name'
                   from jsonb_array_elements(resource_servers.scopes) with ordinality as scope (own, place)
                  where scope.own ->> 'name' = any ({granted}) and {is_held("scope.own", person)}
                  order by scope.place
             )"""


def open_audiences(granted: LiteralString, person: LiteralString, service: LiteralString) -> LiteralString:
    """A statement: the open APIs among the granted ones. `granted` is a source of rows with `resource_id` and `scopes`; the others are
    expressions of ids.
    """
    return f"""
             select resource_servers.id, resource_servers.identifier, {held_scopes("granted.scopes", person)} as scopes,
                    resource_servers.token_lifetime as lifetime, resource_servers.access_token_alg as algorithm
               from {granted} as granted
               join resource_servers on resource_servers.id = granted.resource_id
              where {IS_OPEN} and {admits_service(service)}
"""


# The column `audiences` of a statement that has `open_audiences` under the name `audience`.
AS_AUDIENCES: Final = "(select jsonb_agg(to_jsonb(audience)) from audience)"


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
