"""SAML in PostgreSQL: configurations, certificates, sign-ins, sign-outs, and the log of exchanged messages."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from adapters.postgres.federation.saml.rows import (
    CERTIFICATE,
    CONFIGURATION,
    EXCHANGE,
    SAML_CONFIGURATION,
    configuration,
    configuration_parameters,
)
from adapters.postgres.identity.privacy.holding import holding_by_use
from adapters.postgres.identity.proofs.login_events import log_login, login_parameters, queue_for_export
from adapters.postgres.identity.proofs.sign_in_policy import admits
from adapters.postgres.identity.sessions.revoking import ending_codes, revoking
from adapters.postgres.rows import IdRow
from adapters.postgres.statements import first
from adapters.postgres.storable import storable, storable_text
from adapters.postgres.tenancy.owners import owners
from adapters.postgres.ties import ENTERED_AGAIN, IS_OWN_MEMBERSHIP, counts_for
from adapters.postgres.transaction import Transaction
from core.domain.federation.saml.configurations import Certificate, Configuration
from core.domain.federation.saml.messages import MOST_EXCHANGES, RememberedRequest, SamlExchange
from core.domain.formats import Json
from core.domain.identifiers import FlowId, OrganizationId, SamlCertificateId, SamlSessionId, ServiceId, SessionId, UserId
from core.domain.mail import Email
from core.domain.saml import NameId, NameIdFormat
from core.frozen import Frozen
from ports.federation.saml import MOST_PARTICIPANTS, Entering, Participant, SamlEntry
from ports.tenancy.receivers import Owner


class _Kept(Frozen):
    configuration: str


class _Entry(Frozen):
    id: UUID
    is_repeated: bool


class _Participant(Frozen, kw_only=True):
    id: UUID
    session_id: UUID
    user_id: UUID
    email: str
    service_id: UUID
    organization_slug: str
    service_slug: str
    name_id: str
    name_id_format: str
    audience: str | None
    slo_url: str | None

    def participant(self) -> Participant:
        return Participant(
            session_index=SamlSessionId(self.id),
            session=SessionId(self.session_id),
            user=UserId(self.user_id),
            email=self.email,
            service=ServiceId(self.service_id),
            organization_slug=self.organization_slug,
            service_slug=self.service_slug,
            name_id=NameId(text=self.name_id, format=NameIdFormat(self.name_id_format)),
            audience=self.audience,
            slo_url=self.slo_url,
        )


class SamlRows:
    """Implements `ports.federation.saml.SamlStore` in one transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def configuration(self, service: ServiceId) -> Configuration | None:
        rows = await self._transaction.ask(_Kept, _CONFIGURATION, {"service": service})
        return configuration(rows[0].configuration) if rows else None

    async def save(self, configuration: Configuration) -> None:
        await self._transaction.tell(_SAVE, configuration_parameters(configuration))

    async def certificates(self, service: ServiceId) -> Sequence[Certificate]:
        return await self._transaction.ask(CERTIFICATE.row, _CERTIFICATES, {"service": service})

    async def hold_certificates(self, organization: OrganizationId, service_slug: str) -> None:
        await self._transaction.tell(_HOLD_CERTIFICATES, {"organization": organization, "slug": storable_text(service_slug)})

    async def add_certificate(self, certificate: Certificate, sealed_private_key: bytes) -> None:
        await self._transaction.tell(_DELETE_CERTIFICATE, {"service": certificate.service, "state": certificate.state.value})
        parameters = {**CERTIFICATE.values(certificate), "sealed_private_key": sealed_private_key}
        await self._transaction.tell(_ADD_CERTIFICATE, parameters)

    async def activate_next(self, service: ServiceId) -> Certificate | None:
        await self._transaction.tell(_DELETE_REPLACED, {"service": service})
        return first(await self._transaction.ask(CERTIFICATE.row, _ACTIVATE, {"service": service}))

    async def delete_certificates(self, service: ServiceId) -> None:
        await self._transaction.tell("delete from saml_certificates where service_id = %(service)s", {"service": service})

    async def take(self, service: ServiceId, request: RememberedRequest) -> bool:
        return bool(await self._transaction.ask(IdRow, _TAKE, {"service": service, **_remembered(request)}))

    async def enter(self, entering: Entering, request: RememberedRequest | None) -> SamlEntry | None:
        parameters = {
            "session_index": entering.session_index,
            "service": entering.service,
            "user": entering.user,
            "session": entering.session,
            "name_id": storable_text(entering.name_id.text),
            "name_id_format": entering.name_id.format.value,
            **login_parameters(entering.login),
            "logs": entering.logs,
            "certificate": entering.certificate,
            "audience": entering.audience,
            "acs_url": entering.acs_url,
            "encryption_certificate": entering.encryption_certificate,
            "at": entering.at,
        }
        taken = {"request": None, "digest": None, "expires_at": None} if request is None else _remembered(request)
        rows = await self._transaction.ask(_Entry, _ENTER, {**parameters, **taken})
        return SamlEntry(SamlSessionId(rows[0].id), is_repeated=rows[0].is_repeated) if rows else None

    async def exchanged(self, *exchanges: SamlExchange) -> None:
        for exchange in exchanges:
            await self._transaction.tell_along(_EXCHANGED, EXCHANGE.values(exchange))
        kept = MOST_EXCHANGES - len(exchanges)
        await self._transaction.tell_along(_DROP_PAST, {"service": exchanges[0].service, "kept": kept})

    async def participants(self, session: SessionId) -> Sequence[Participant]:
        parameters = {"session": session, "most": MOST_PARTICIPANTS}
        return [row.participant() for row in await self._transaction.ask(_Participant, _PARTICIPANTS, parameters)]

    async def participants_indexed(self, service: ServiceId, indexes: Sequence[SamlSessionId]) -> Sequence[Participant]:
        parameters = {"service": service, "indexes": list(indexes), "most": MOST_PARTICIPANTS}
        return [row.participant() for row in await self._transaction.ask(_Participant, _PARTICIPANTS_INDEXED, parameters)]

    async def participants_named(self, service: ServiceId, name_id: str, *, persistent: bool) -> Sequence[Participant]:
        parameters = {
            "service": service,
            "name_id": storable_text(name_id),
            "email_key": Email(storable_text(name_id)).key,
            "persistent": persistent,
            "persistent_format": NameIdFormat.PERSISTENT.value,
            "most": MOST_PARTICIPANTS,
        }
        return [row.participant() for row in await self._transaction.ask(_Participant, _PARTICIPANTS_NAMED, parameters)]

    async def end(self, participants: Sequence[SamlSessionId]) -> None:
        await self._transaction.tell("delete from saml_sessions where id = any (%(ids)s::uuid[])", {"ids": list(participants)})

    async def end_sessions_in(self, service: ServiceId, user: UserId) -> None:
        await self._transaction.tell(_END_CODES_IN, {"service": service, "user": user})
        await self._transaction.tell(_END_SESSIONS_IN, {"service": service, "user": user})

    async def keep_logout(self, flow: FlowId, request: Mapping[str, Json]) -> None:
        await self._transaction.tell(
            "update flows set request = %(request)s where id = %(id)s", {"id": flow, "request": Jsonb(storable(request))}
        )

    async def warned(self, certificate: SamlCertificateId, days: int) -> bool:
        return bool(await self._transaction.ask(IdRow, _WARNED, {"id": certificate, "days": days}))

    async def owners(self, organization: OrganizationId) -> Sequence[Owner]:
        return await owners(self._transaction, organization)


def _remembered(request: RememberedRequest) -> Mapping[str, Any]:
    return {"request": request.id, "digest": request.digest, "expires_at": request.expires_at}


_CONFIGURATION: Final[LiteralString] = f"select {CONFIGURATION} from saml_configurations as saml where saml.service_id = %(service)s"

_SAVE: Final[LiteralString] = f"""
    insert into saml_configurations ({SAML_CONFIGURATION.into("slo_binding", "slo_by_hand")})
    values ({SAML_CONFIGURATION.inserted("slo_binding", "slo_by_hand")})
        on conflict (service_id) do update
       set {SAML_CONFIGURATION.replaced("service", "created_at")}, slo_binding = excluded.slo_binding, slo_by_hand = excluded.slo_by_hand
"""

_CERTIFICATES: Final[LiteralString] = f"select {CERTIFICATE.names} from saml_certificates where service_id = %(service)s order by id"

_HOLD_CERTIFICATES: Final = """
    select
      from saml_certificates
     where service_id = (select id from services where org_id = %(organization)s and slug = %(slug)s)
     order by id
       for update
"""

_DELETE_CERTIFICATE: Final = "delete from saml_certificates where service_id = %(service)s and state = %(state)s"

_ADD_CERTIFICATE: Final[LiteralString] = f"""
    insert into saml_certificates ({CERTIFICATE.into("sealed_private_key")})
    values ({CERTIFICATE.inserted("sealed_private_key")})
"""

_DELETE_REPLACED: Final = """
    delete from saml_certificates
     where service_id = %(service)s and state = 'active'
       and exists (select from saml_certificates where service_id = %(service)s and state = 'next')
"""

_ACTIVATE: Final[LiteralString] = f"""
    update saml_certificates set state = 'active' where service_id = %(service)s and state = 'next' returning {CERTIFICATE.names}
"""


def _taking(source: LiteralString = "") -> LiteralString:
    return f"""
    insert into saml_requests (id, service_id, digest, expires_at)
    select %(request)s::uuid, %(service)s, %(digest)s, %(expires_at)s {source}
        on conflict (service_id, digest) do nothing
 returning id
"""


_TAKE: Final[LiteralString] = _taking()

_LET_HOLD: Final[LiteralString] = holding_by_use(
    "account.id",
    "%(at)s",
    "parent.authenticated_by",
    "from account cross join parent cross join place where account.origin_org_id <> place.org_id",
)

# Rows that may have changed since the person was looked up are locked, because a lock reads the newest row. The account is locked first, as
# in every transaction that opens or ends sessions or takes a consent back. The membership, the consent and the session follow. A session
# that acts in another person's name (`impersonator_id`) cannot sign in here, because the service's session would outlive the impersonation.
# The last condition of `place` repeats `has_allowed` of the domain: whether the service may learn about the person.
#
# The account is locked before the request. So if the same request comes twice at once, the second waits for the account without any lock.
_ENTER: Final[LiteralString] = f"""
    with account as materialized (
             select id, origin_org_id, address_vouched_by from users where id = %(user)s and deactivated_at is null for no key update
         ),
         membership as materialized (
             select {IS_OWN_MEMBERSHIP} as is_own
               from memberships
               join services on services.org_id = memberships.org_id
               join account on account.id = memberships.user_id
              where services.id = %(service)s and {counts_for("account")}
                for key share of memberships
         ),
         consent as materialized (
             select id
               from consents
              where service_id = %(service)s and user_id = (select id from account) and saml_entity_id = %(audience)s
                for share
         ),
         parent as materialized (
             select sessions.id, sessions.device_id, sessions.authenticated_by
               from sessions
              where sessions.id = %(session)s
                and sessions.user_id = (select id from account)
                and sessions.revoked_at is null and sessions.expires_at > now() and sessions.ends_at > now()
                and sessions.impersonator_id is null
                for share
         ),
         place as materialized (
             select services.id, services.org_id, consent.id is not null as has_consent
               from services
               join organizations on organizations.id = services.org_id and organizations.status = 'active'
               join saml_configurations as saml on saml.service_id = services.id and saml.enabled
               left join membership on true
               left join consent on true
              where services.id = %(service)s
                and saml.entity_id = %(audience)s
                and (saml.acs_url = %(acs_url)s or saml.acs_endpoints @> jsonb_build_array(jsonb_build_object('url', %(acs_url)s::text)))
                and saml.encryption_certificate is not distinct from %(encryption_certificate)s::text
                and exists (
                        select
                          from saml_certificates
                         where saml_certificates.id = %(certificate)s and saml_certificates.service_id = services.id
                    )
                and {admits("exists (select from membership)", "(select id from account)")}
                and (consent.id is not null or membership.is_own)
         ),
         kept as (
             insert into saml_sessions (id, session_id, service_id, name_id, name_id_format, audience, created_at)
             select %(session_index)s, parent.id, place.id, %(name_id)s, %(name_id_format)s, %(audience)s, %(at)s from parent, place
                 on conflict (session_id, service_id) do update
                set name_id = excluded.name_id, name_id_format = excluded.name_id_format, audience = excluded.audience
          returning id
         ),
         -- Where the log has the sign-in already, the assertion adds nothing to it.
         unlogged as (select from parent cross join place where %(logs)s::boolean),
         logged as (
             {log_login("unlogged cross join parent cross join place", device="parent.device_id")}
         ),
         exported as (
             {queue_for_export("unlogged cross join place", "%(login_id)s::uuid", "place.org_id")}
         ),
         let_hold as ({_LET_HOLD}
         ),
         entered as (
             insert into service_users (service_id, user_id, org_id, first_login_at, last_login_at, created_at, own_since)
             select place.id, %(user)s, place.org_id, %(at)s, %(at)s, %(at)s, case when place.has_consent then %(at)s::timestamptz end
               from parent, place
                 on conflict (service_id, user_id) do update
                set {ENTERED_AGAIN}
         ),
         signed as (
             update saml_certificates
                set last_signed_at = %(at)s
              where id = %(certificate)s and service_id = (select id from place)
                and (last_signed_at is null or last_signed_at < %(at)s::timestamptz - interval '1 minute')
         ),
         taken as ({_taking("from kept where %(request)s::uuid is not null")})
  select kept.id, %(request)s::uuid is not null and taken.id is null as is_repeated
    from kept
    left join taken on true
"""

_EXCHANGED: Final[LiteralString] = f"""
    insert into saml_exchanges ({EXCHANGE.into()})
    select {EXCHANGE.inserted()} from services where services.id = %(service)s
"""

# The statement finds the surplus rows before it locks any, because `offset` and `limit` would not count the rows that `skip locked` skips.
_DROP_PAST: Final = """
    with past as (
             select id from saml_exchanges where service_id = %(service)s order by id desc offset %(kept)s limit 20
         )
    delete from saml_exchanges
     where id = any (array(
               select saml_exchanges.id from saml_exchanges join past using (id) for update of saml_exchanges skip locked
           ))
"""

_PARTICIPANT: Final = """
           saml_sessions.id, saml_sessions.session_id, sessions.user_id, users.email, saml_sessions.service_id,
           organizations.slug as organization_slug, services.slug as service_slug, saml_sessions.name_id, saml_sessions.name_id_format,
           saml_sessions.audience,
           case when saml.enabled and organizations.status = 'active' and coalesce(saml_sessions.audience = saml.entity_id, true)
                then saml.slo_url
           end as slo_url
      from saml_sessions
      join sessions on sessions.id = saml_sessions.session_id
      join users on users.id = sessions.user_id
      join services on services.id = saml_sessions.service_id
      join organizations on organizations.id = services.org_id
      left join saml_configurations as saml on saml.service_id = services.id"""

_PARTICIPANTS: Final[LiteralString] = f"""
    with recursive line as (
             select id from sessions where id = %(session)s
          union
             select sessions.id from sessions join line on sessions.parent_id = line.id
         )
    select {_PARTICIPANT}
     where saml_sessions.session_id = any (array(select id from line))
     order by saml_sessions.id
     limit %(most)s
"""

_PARTICIPANTS_INDEXED: Final[LiteralString] = f"""
    select {_PARTICIPANT}
     where saml_sessions.service_id = %(service)s and saml_sessions.id = any (%(indexes)s::uuid[])
       and sessions.revoked_at is null and sessions.expires_at > now()
     order by saml_sessions.id
     limit %(most)s
"""

# Each of the three ways to find participants has an index of its own. Participants with a persistent name are candidates only, because the
# caller has to compute the name of each. So the statement takes the newest 300 of these.
_PARTICIPANTS_NAMED: Final[LiteralString] = f"""
    with living as not materialized (
             select saml_sessions.id, saml_sessions.name_id, saml_sessions.name_id_format, sessions.user_id
               from saml_sessions
               join sessions on sessions.id = saml_sessions.session_id
              where saml_sessions.service_id = %(service)s and sessions.revoked_at is null and sessions.expires_at > now()
         ),
         meant as (
             (select id from living where name_id = %(name_id)s order by id limit %(most)s)
              union
             (select id from living where user_id = (select id from users where email_key = %(email_key)s) order by id limit %(most)s)
              union
             (select id from living where %(persistent)s and name_id_format <> %(persistent_format)s order by id desc limit 300)
         )
    select {_PARTICIPANT}
     where saml_sessions.id = any (array(select id from meant))
     order by saml_sessions.id
"""

_END_CODES_IN: Final[LiteralString] = ending_codes("user_id = %(user)s and service_id = %(service)s")

_END_SESSIONS_IN: Final[LiteralString] = revoking("user_id = %(user)s and service_id = %(service)s")

_WARNED: Final = """
    update saml_certificates
       set warned_days = %(days)s
     where id = %(id)s and state = 'active' and (warned_days is null or warned_days > %(days)s)
 returning id
"""
