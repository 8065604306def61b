"""The parts of a person's export in PostgreSQL, which one statement reads. `adapters/postgres/tables` says which columns of a table a part
shows, and what stands here is where the part's rows come from, and their order. A part that only one of the two names stops the import,
and so does a part that does not show what the table says.
"""

import re
from collections.abc import Collection, Mapping
from typing import Final, LiteralString

from adapters.postgres.identity.accounts import ACCOUNT, AS_JSON
from adapters.postgres.identity.proofs.sign_in_policy import assignments_of
from adapters.postgres.record.audit import IS_BEING_FORGOTTEN
from adapters.postgres.tables.declaring import ExportPart, Table
from adapters.postgres.tables.every import TABLES
from core.domain.identity.privacy import (
    ExportedBlockedClient,
    ExportedConsent,
    ExportedDevice,
    ExportedFactorEvent,
    ExportedFields,
    ExportedIdentity,
    ExportedLogin,
    ExportedManagementKey,
    ExportedPasskey,
    ExportedPersonThere,
    ExportedProfile,
    ExportedServiceRole,
    ExportedTerms,
    ExportedUserKey,
)
from core.domain.record.audit import FORGOTTEN_ADDRESS, FORGOTTEN_USER_AGENT
from core.frozen import Frozen, field, names_of


class PartAsItStands(Frozen, kw_only=True):
    """A `value` that the statement selects as it stands: it has a name for its column, and names the table's columns by the table."""

    part: str
    value: LiteralString
    table: str = ""

    def selected(self, declared: ExportPart | None) -> LiteralString:
        for column in declared.values.values() if declared else ():
            if not re.search(rf"\b{self.table}\.{column}\b", self.value):
                raise TypeError(f"The part `{self.part}` of a person's export does not show {self.table}.{column}")
        return self.value


class PartOfRows(Frozen, kw_only=True):
    """A list of objects in JSON, or one object, if there is no `order`. `rows` is what follows a `from`, and calls a row of the table
    `row`, or by the table's name. An object has the values that the table's declaration names, and those in `more`. `turned` has the
    expressions for columns that are not shown as they are. `thing` is the class that is made of an object. `column` is the name of the
    answer's column, if it is not the part's.
    """

    part: str
    rows: LiteralString
    order: LiteralString = ""
    table: str = ""
    row: LiteralString = ""
    more: Mapping[LiteralString, LiteralString] = field(default_factory=dict)
    turned: Mapping[str, LiteralString] = field(default_factory=dict)
    thing: type[Frozen] | None = None
    column: LiteralString = ""

    def shown(self, declared: ExportPart | None) -> LiteralString:
        """One object. Raises `TypeError` for a value that is turned and not shown: under another name it would be shown as it is."""
        values = dict(self.more)
        for name, column in declared.values.items() if declared else ():
            values[name] = self.turned.get(column, "{}").format(f"{self.row or self.table}.{column}")
        if self.thing is not None and (odd := values.keys() ^ set(names_of(self.thing))):
            both = f"the part `{self.part}` of a person's export and {self.thing.__name__}"
            raise TypeError(f"{', '.join(sorted(odd))}: {both} must both name it")
        if unshown := self.turned.keys() - set(declared.values.values() if declared else ()):
            raise TypeError(f"{', '.join(sorted(unshown))}: the part `{self.part}` of a person's export turns what it does not show")
        pairs: LiteralString = ", ".join(f"'{name}', {value}" for name, value in values.items())
        return f"jsonb_build_object({pairs})"

    def selected(self, declared: ExportPart | None) -> LiteralString:
        shown = self.shown(declared)
        value: LiteralString = f"coalesce(jsonb_agg({shown} order by {self.order}), '[]')" if self.order else shown
        return f"""
           (
               select {value}
                 from {self.rows}
           ) as {self.column or self.part}"""


def joined(parts: Collection[PartAsItStands | PartOfRows], tables: Mapping[str, Table]) -> LiteralString:
    """What the statement selects. Raises `TypeError`, with a sentence, when the tables name other parts than these, or other values."""
    named = {(table.name, part.part): part for table in tables.values() for part in table.parts}
    read = {(part.table, part.part) for part in parts if part.table}
    for table, name in sorted(named.keys() ^ read):
        raise TypeError(f"{table}: `adapters/postgres/tables` and `privacy/parts.py` must both name the part `{name}` of a person's export")
    return ",".join(part.selected(named.get((part.table, part.part))) for part in parts)


def _in_scope(organization: LiteralString) -> LiteralString:
    return f"(scope.whole or {organization} = any (scope.organizations))"


# For data that belong to no organization.
_WHOLE: Final = "(select whole from scope)"
_SERVICE: Final[Mapping[LiteralString, LiteralString]] = {"organization": "all_services.org_id", "service_slug": "all_services.slug"}
GOING: Final[LiteralString] = f"(select {IS_BEING_FORGOTTEN.format(user='%(user)s')} as are) as going"

# While the job anonymizes the person's rows, the export shows a row that the job has not reached yet as the job will leave that row.
_LOGINS: Final = PartOfRows(
    part="login_events",
    table="login_events",
    row="page",
    rows=f"page, {GOING}",
    order="page.id desc",
    turned={
        "address": f"case when going.are then '{FORGOTTEN_ADDRESS}' else host({{}}) end",
        "user_agent": f"case when going.are then '{FORGOTTEN_USER_AGENT}' else {{}} end",
        "country": "case when not going.are then {} end",
        "city": "case when not going.are then {} end",
        "spot": "case when not going.are then {} end",
    },
    thing=ExportedLogin,
    column="logins",
)

PARTS: Final[tuple[PartAsItStands | PartOfRows, ...]] = (
    PartAsItStands(part="account", table="users", value=ACCOUNT.names),
    PartAsItStands(part="own_profile", table="users", value=f"case when {_WHOLE} then {AS_JSON} end as told"),
    PartOfRows(
        part="own_profile",
        table="pictures",
        rows=f"pictures where user_id = %(user)s and {_WHOLE}",
        turned={"content": "encode({}, 'base64')"},
        column="picture",
    ),
    PartAsItStands(
        part="login_events",
        value=f"""
           (
               select count(*)
                 from login_events, scope
                where login_events.user_id = %(user)s and {_in_scope("login_events.organization_id")}
           ) as login_events""",
    ),
    PartOfRows(
        part="mfa_events",
        table="mfa_events",
        rows=f"""
                      (
                          select * from mfa_events where user_id = %(user)s and {_WHOLE} order by id desc limit %(most_listed)s
                      ) as mfa_events""",
        order="id desc",
        thing=ExportedFactorEvent,
    ),
    PartOfRows(
        part="management_keys",
        rows=f"""
                      (
                          select management_keys.*
                            from management_keys, scope
                           where (created_by = %(user)s or adopted_by = %(user)s) and {_in_scope("org_id")}
                           order by created_at, id
                           limit %(most_listed)s
                      ) as management_keys""",
        order="created_at, id",
        more={
            "organization": "org_id",
            "name": "name",
            "prefix": "prefix",
            "created_at": "created_at",
            "expires_at": "expires_at",
        },
        thing=ExportedManagementKey,
    ),
    PartOfRows(
        part="user_keys",
        table="user_keys",
        rows=f"""
                      scope
                cross join user_keys
                 join all_services on all_services.id = user_keys.service_id
                where user_keys.user_id = %(user)s and {_in_scope("all_services.org_id")}""",
        order="user_keys.id",
        more=_SERVICE,
        thing=ExportedUserKey,
    ),
    PartOfRows(
        part="passkeys",
        table="passkeys",
        rows=f"passkeys where user_id = %(user)s and {_WHOLE}",
        order="id",
        turned={"aaguid": "nullif({}, '00000000-0000-0000-0000-000000000000')"},
        thing=ExportedPasskey,
    ),
    PartOfRows(
        part="consents",
        rows=f"""
                      scope
                cross join lateral (
                          select service_id, null as identifier, coalesce(scopes, '{{}}') || coalesce(saml_scopes, '{{}}') as scopes,
                                 granted_at, null::timestamptz as expires_at
                            from consents
                           where user_id = %(user)s
                           union all
                          select service_id, identifier, scopes, granted_at, expires_at
                            from resource_consents
                           where user_id = %(user)s
                      ) as allowed
                 join all_services on all_services.id = allowed.service_id
                where {_in_scope("all_services.org_id")}""",
        order="allowed.granted_at, all_services.id, allowed.identifier",
        more={
            **_SERVICE,
            "resource": "allowed.identifier",
            "scopes": "allowed.scopes",
            "granted_at": "allowed.granted_at",
            "expires_at": "allowed.expires_at",
        },
        thing=ExportedConsent,
    ),
    PartOfRows(
        part="terms",
        table="terms_acceptances",
        row="accepted",
        rows=f"""
                      scope
                cross join terms_acceptances as accepted
                 join terms on terms.id = accepted.terms_id
                where accepted.user_id = %(user)s and {_in_scope("terms.organization_id")}""",
        order="accepted.accepted_at, accepted.id",
        more={"organization": "terms.organization_id", "version": "terms.version", "address": "terms.address"},
        thing=ExportedTerms,
    ),
    PartOfRows(
        part="blocked_clients",
        table="afar_blocks",
        rows=f"""
                      afar_blocks
                 join all_services on all_services.id = afar_blocks.service_id
                where afar_blocks.user_id = %(user)s and {_WHOLE}""",
        order="afar_blocks.blocked_at, all_services.id",
        more=_SERVICE,
        thing=ExportedBlockedClient,
    ),
    PartOfRows(
        part="devices",
        table="devices",
        rows=f"""
                      (
                          select * from devices
                           where user_id = %(user)s and revoked_at is null and {_WHOLE}
                           order by id
                           limit %(most_listed)s
                      ) as devices""",
        order="id",
        turned={"last_address": "host({})"},
        thing=ExportedDevice,
    ),
    PartOfRows(
        part="profiles",
        table="provisioned_users",
        rows=f"provisioned_users, scope where user_id = %(user)s and {_in_scope('org_id')}",
        order="org_id",
        thing=ExportedProfile,
    ),
    PartOfRows(
        part="people_there",
        table="provisioned_people",
        rows=f"""
                      scope
                cross join provisioned_people
                 join provisioning_connections as connections on connections.id = provisioned_people.connection_id
                 join all_services on all_services.id = connections.service_id
                where provisioned_people.user_id = %(user)s and {_in_scope("connections.org_id")}""",
        order="connections.org_id, all_services.slug",
        more={"organization": "connections.org_id", "service_slug": "all_services.slug"},
        thing=ExportedPersonThere,
    ),
    PartOfRows(
        part="service_roles",
        rows=f"""
                      scope
                cross join (
                          select org_id from memberships where user_id = %(user)s
                           union
                          select org_id from service_users where user_id = %(user)s
                      ) as house
                 join services on services.org_id = house.org_id
                 join service_roles on service_roles.service_id = services.id
                where {_in_scope("house.org_id")}
                  and service_roles.id in (
                          select assignments.object_id
                            from {assignments_of("%(user)s", "services.org_id", "services.id")} as assignments
                      )""",
        order="services.org_id, services.slug, service_roles.slug",
        more={"organization": "services.org_id", "service_slug": "services.slug", "role": "service_roles.slug"},
        thing=ExportedServiceRole,
    ),
    PartOfRows(
        part="fields",
        table="profile_values",
        row="kept",
        rows=f"""
                      (
                          select profile_values.org_id, jsonb_object_agg(fields.key, profile_values.values -> fields.id::text) as values
                            from profile_values
                           cross join lateral (
                                     select id, key from profile_fields where org_id = profile_values.org_id
                                      union all
                                     select id, key from profile_fields where org_id is null and profile_values.org_id is null
                                 ) as fields
                           cross join scope
                           where profile_values.user_id = %(user)s and profile_values.values ? fields.id::text
                             and {_in_scope("profile_values.org_id")}
                           group by profile_values.org_id
                      ) as kept""",
        order="kept.org_id nulls first",
        thing=ExportedFields,
    ),
    PartOfRows(
        part="metadata",
        table="service_users",
        rows=f"service_users, scope where user_id = %(user)s and metadata <> '{{}}' and {_in_scope('org_id')}",
        order="service_id",
    ),
    PartOfRows(
        part="identities",
        table="identities",
        rows="""
                      identities, scope
                where user_id = %(user)s
                  and (
                          scope.whole
                       or exists (
                              select
                                from identity_grants
                                join all_services on all_services.id = identity_grants.service_id
                               where identity_grants.identity_id = identities.id and all_services.org_id = any (scope.organizations)
                          )
                       or exists (
                              select from upstream_providers
                               where upstream_providers.id = identities.upstream_provider_id
                                 and upstream_providers.org_id = any (scope.organizations)
                          )
                      )""",
        order="linked_at, id",
        thing=ExportedIdentity,
    ),
    _LOGINS,
)

SELECTED: Final[LiteralString] = joined(PARTS, TABLES)
# One sign-in, for the statement of the pages that follow.
LOGIN: Final[LiteralString] = _LOGINS.shown(TABLES["login_events"].parts[0])
