"""SAML: its look-ups in one round trip, configurations, certificates, sign-ins, sign-outs, and the log of messages."""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from adapters.postgres.branding import bring
from adapters.postgres.columns import Columns, IdRow, storable, storable_text
from adapters.postgres.driver.pool import Pool
from adapters.postgres.federation.authorizations import AUTHORIZATION_CONTEXT, AuthorizationContextRow
from adapters.postgres.identity.privacy.forgetting import holding_by_use
from adapters.postgres.identity.proofs.flows import FIND_FLOW, FlowRow
from adapters.postgres.identity.proofs.login_events import log_login, login_parameters, queue_for_export
from adapters.postgres.identity.proofs.sign_in_policy import admits
from adapters.postgres.identity.sessions.parts import PROFILE, SESSION_LIVES, ending_codes, profile, revoking, tells_more
from adapters.postgres.statements import Transaction, ask, ask_in_order, first
from adapters.postgres.tenancy.callers import BROWSER, BROWSER_COLUMNS, browser_caller, digests
from adapters.postgres.tenancy.members import owners
from adapters.postgres.ties import ENTERED_AGAIN, IS_OWN_MEMBERSHIP, counts_for
from core.domain.federation.saml.configurations import AcsEndpoint, Certificate, Configuration, Signer
from core.domain.federation.saml.messages import MOST_EXCHANGES, RememberedRequest, SamlExchange
from core.domain.federation.saml.sign_in import Meeting, SamlSubject
from core.domain.formats import Json
from core.domain.identifiers import FlowId, OrganizationId, SamlCertificateId, SamlSessionId, ServiceId, SessionId, UserId, first_id
from core.domain.identity.callers import Caller
from core.domain.identity.flows import Flow, unclaimed_digest
from core.domain.identity.login_events import SIGN_IN_TOPIC
from core.domain.identity.sign_in import ServiceName
from core.domain.mail import Email
from core.domain.saml import NameId, NameIdFormat, SamlBinding
from core.frozen import Frozen, names_of
from ports.federation.saml import MOST_PARTICIPANTS, Configured, Entering, Expiring, Participant, SamlEntry
from ports.tenancy.receivers import Owner

# The number of services with a sign-in in a busy minute. The cache keeps as many rows.
_READ: Final = 256

CERTIFICATE: Final = Columns(Certificate, "saml_certificates", named={"service": "service_id", "pem": "certificate"})


def _mapping(mapping: Mapping[str, str]) -> Jsonb:
    return Jsonb({source: storable_text(name) for source, name in mapping.items()})


def _endpoints(endpoints: Sequence[AcsEndpoint]) -> Jsonb:
    return Jsonb([{"index": one.index, "url": one.url, "is_default": one.is_default is True} for one in endpoints])


SAML_CONFIGURATION: Final = Columns(
    Configuration,
    "saml_configurations",
    named={"service": "service_id"},
    # A column of its own says that nobody has stated the binding, and only the fetch writes its time.
    apart=("slo_binding", "metadata_fetched_at"),
    turned={"attribute_mapping": (dict, _mapping), "acs_endpoints": (tuple, _endpoints)},
)


EXCHANGE: Final = Columns(
    SamlExchange,
    "saml_exchanges",
    named={"service": "service_id", "message": "message_id", "certificate": "certificate_id"},
    texts=("reason", "advice", "message", "in_response_to"),
)

# A configuration is JSON, because the text is the same for each sign-in to a service. A cache parses each text once, and again after a
# change.
CONFIGURATION: Final = """
           to_json(saml)::text as configuration"""

SIGNERS: Final[LiteralString] = """
           (
               select to_json(one)::text from saml_certificates as one where one.service_id = services.id and one.state = 'active'
           ) as active,
           (
               select to_json(one)::text from saml_certificates as one where one.service_id = services.id and one.state = 'next'
           ) as upcoming"""


@lru_cache(maxsize=_READ)
def configuration(row: str | None) -> Configuration | None:
    """Reads the column `CONFIGURATION`, which is null for a service without SAML."""
    if row is None:
        return None
    kept = json.loads(row)
    is_stated = kept["metadata_uploaded_at"] is not None and not kept["slo_by_hand"]
    binding = kept["slo_binding"] if is_stated else None
    return SAML_CONFIGURATION.of_json(kept, slo_binding=binding, metadata_fetched_at=kept["metadata_fetched_at"])


@lru_cache(maxsize=_READ)
def signer(row: str | None) -> Signer | None:
    """Reads one column of `SIGNERS`, which is null when there is no such certificate."""
    if row is None:
        return None
    kept = json.loads(row)
    certificate = CERTIFICATE.of_json(kept)
    return Signer(certificate, bytes.fromhex(kept["sealed_private_key"].removeprefix("\\x")))


def configuration_parameters(configuration: Configuration) -> Mapping[str, Any]:
    return {
        **SAML_CONFIGURATION.values(configuration),
        # Never null, because processes of the previous release read this column.
        "slo_binding": (configuration.slo_binding or SamlBinding.POST).value,
        "slo_by_hand": configuration.metadata_uploaded_at is not None and configuration.slo_binding is None,
    }


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

    async def lock_certificates(self, organization: OrganizationId, service_slug: str) -> None:
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
        self._transaction.ring_here(SIGN_IN_TOPIC)
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


class _Configured(Frozen, kw_only=True):
    service_id: UUID
    organization_slug: str
    service_slug: str
    service_name: str
    organization_is_active: bool
    configuration: str | None
    active: str | None
    upcoming: str | None

    def configured(self) -> Configured:
        return Configured(
            service=ServiceId(self.service_id),
            organization_slug=self.organization_slug,
            service_slug=self.service_slug,
            service_name=self.service_name,
            organization_is_active=self.organization_is_active,
            configuration=configuration(self.configuration),
            active=signer(self.active),
            next=signer(self.upcoming),
        )


def _meeting(*columns: Any) -> Meeting | None:
    """Makes a meeting of the columns of `_MEETING`."""
    email, ends_at, role, allowed, allowed_scopes, profiled, more, active, upcoming, kept, *rest = columns
    configured = configuration(kept)
    if configured is None:
        return None
    row = AuthorizationContextRow(*rest)
    known = row.user_id is not None and email is not None
    return Meeting(
        application=row.application(),
        configuration=configured,
        signer=signer(active),
        next_signer=signer(upcoming),
        signed_in=row.signed_in(email) if known else None,
        subject=SamlSubject(
            user=UserId(row.user_id),
            email=email,
            role=role or "",
            allowed=allowed,
            allowed_scopes=allowed_scopes or (),
            profile=profile(profiled),
            tells_more=more,
        )
        if row.user_id and known
        else None,
        session_ends_at=ends_at,
    )


def _columns(*columns: Any) -> Sequence[Any]:
    return columns


# Those of `_meeting` before the columns of an authorization context.
_BEFORE: Final = 10
_DRESS: Final = _BEFORE + names_of(AuthorizationContextRow).index("dress")


class _Waiting(Frozen):
    organization: str
    service: str


def _expiring(**columns: Any) -> Expiring:
    return Expiring(certificate=CERTIFICATE.taken(columns), **columns)


class PostgresSaml:
    """Implements `ports.federation.saml.SamlLookup`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def of_service(self, organization: OrganizationId, service_slug: str) -> Configured | None:
        rows = await ask(self._pool, _Configured, _OF_SERVICE, {"organization": organization, "slug": storable_text(service_slug)})
        return rows[0].configured() if rows else None

    async def public(self, organization_slug: str, service_slug: str, *, fetched: datetime | None) -> Configured | None:
        parameters = {"organization": storable_text(organization_slug), "slug": storable_text(service_slug)}
        if fetched is None:
            rows = await ask(self._pool, _Configured, _PUBLIC, parameters)
        else:
            rows = await ask(self._pool, _Configured, _FETCHED, {**parameters, "at": fetched})
        return rows[0].configured() if rows else None

    async def meet(
        self, organization_slug: str, service_slug: str, caller: Caller | None, session: SessionId | None = None
    ) -> Meeting | None:
        parameters = {
            "organization": storable_text(organization_slug),
            "slug": storable_text(service_slug),
            "session": session if caller is None else caller.session,
        }
        row = first(await ask_in_order(self._pool, _columns, _MEET, parameters))
        return None if row is None else await self._met(row)

    async def meet_in_browser(
        self, organization_slug: str, service_slug: str, browser_session: bytes | None
    ) -> tuple[Meeting | None, Caller | None]:
        parameters = {
            "organization": storable_text(organization_slug),
            "slug": storable_text(service_slug),
            "digests": digests([] if browser_session is None else [browser_session]),
        }
        (row,) = await ask_in_order(self._pool, _columns, _MEET_IN_BROWSER, parameters)
        return await self._met(row[BROWSER_COLUMNS:]), browser_caller(row[:BROWSER_COLUMNS])

    async def _met(self, columns: Sequence[Any]) -> Meeting | None:
        await bring(self._pool, columns[_DRESS])
        return _meeting(*columns)

    async def exchanges(self, organization: OrganizationId, service_slug: str) -> Sequence[SamlExchange] | None:
        parameters = {"organization": organization, "slug": storable_text(service_slug), "most": MOST_EXCHANGES}
        rows = await ask(self._pool, EXCHANGE.found, _EXCHANGES, parameters)
        return [exchange for exchange in rows if exchange is not None] if rows else None

    async def logout(self, flow: FlowId) -> Flow | None:
        rows = await ask(self._pool, FlowRow, _LOGOUT, {"id": flow})
        if not rows:
            return None
        await bring(self._pool, rows[0].flow_dress)
        return rows[0].flow(flow)

    async def sign_out_under_way(self, browser_digest: bytes, since: datetime) -> Flow | None:
        parameters = {"browser_digest": browser_digest, "first": first_id(since)}
        rows = await ask(self._pool, IdRow, _UNDER_WAY, parameters)
        return await self.logout(FlowId(rows[0].id)) if rows else None

    async def claim(self, flow: FlowId, browser_digest: bytes, becomes: FlowId) -> bool:
        parameters = {"id": flow, "browser_digest": browser_digest, "unclaimed": unclaimed_digest(flow), "becomes": becomes}
        return bool(await ask(self._pool, IdRow, _CLAIM, parameters))

    async def was_in(self, browser_session: bytes, people: Collection[UserId]) -> bool:
        return bool(await ask(self._pool, IdRow, _WAS_IN, {"digest": browser_session, "people": list(people)}))

    async def waiting(self, flow: FlowId) -> ServiceName | None:
        rows = await ask(self._pool, _Waiting, _WAITING, {"id": flow, "unclaimed": unclaimed_digest(flow)})
        return ServiceName(rows[0].organization, rows[0].service) if rows else None

    async def expiring(self, after: datetime, before: datetime, limit: int) -> Sequence[Expiring]:
        parameters = {"after": after, "before": before, "limit": limit}
        return await ask(self._pool, _expiring, _EXPIRING, parameters)

    async def all(self) -> Sequence[Configured]:
        return [row.configured() for row in await ask(self._pool, _Configured, _ALL)]


_CONFIGURED: Final[LiteralString] = f"""
    select services.id as service_id, organizations.slug as organization_slug, services.slug as service_slug,
           services.name as service_name, organizations.status = 'active' as organization_is_active,
           {CONFIGURATION},
           {SIGNERS}
      from services
      join organizations on organizations.id = services.org_id
      left join saml_configurations as saml on saml.service_id = services.id
"""

_OF_SERVICE: Final[LiteralString] = f"{_CONFIGURED} where services.org_id = %(organization)s and services.slug = %(slug)s"

_PUBLIC: Final[LiteralString] = f"{_CONFIGURED} where organizations.slug = %(organization)s and services.slug = %(slug)s"

# Writes the time of the fetch at most once a minute, unless there is a certificate that nobody is known to have read yet.
_FETCHED: Final[LiteralString] = f"""
    with fetched as (
             update saml_configurations
                set metadata_fetched_at = %(at)s
              where service_id = (
                        select services.id
                          from services
                          join organizations on organizations.id = services.org_id
                         where organizations.slug = %(organization)s and services.slug = %(slug)s
                    )
                and (metadata_fetched_at is null or metadata_fetched_at < %(at)s::timestamptz - interval '1 minute'
                     or exists (
                        select from saml_certificates
                         where saml_certificates.service_id = saml_configurations.service_id
                           and saml_certificates.created_at > saml_configurations.metadata_fetched_at
                     ))
         )
    {_PUBLIC}
"""

_ALL: Final[LiteralString] = f"{_CONFIGURED} where saml.service_id is not null order by organizations.slug, services.slug"

_MEETING: Final[LiteralString] = f"""
           users.email, sessions.ends_at,
           (
               select memberships.role from memberships where memberships.org_id = services.org_id and memberships.user_id = users.id
           ) as role,
           (
               select consents.saml_entity_id from consents where consents.service_id = services.id and consents.user_id = users.id
           ) as allowed,
           (
               select consents.saml_scopes from consents where consents.service_id = services.id and consents.user_id = users.id
           ) as allowed_scopes,
           {PROFILE} as profile,
           {tells_more("services.id", "services.org_id", "users.id")} as tells_more,
           {SIGNERS},
           {CONFIGURATION},
           {AUTHORIZATION_CONTEXT}"""

# No look-up of a caller has confirmed this session: an API client may have signed in for a request.
_MEET: Final[LiteralString] = f"""
    select {_MEETING}
      from services
      join organizations on organizations.id = services.org_id
      left join saml_configurations as saml on saml.service_id = services.id
      left join sessions on sessions.id = %(session)s::uuid and sessions.impersonator_id is null and {SESSION_LIVES}
      left join users on users.id = sessions.user_id
     where organizations.slug = %(organization)s and services.slug = %(slug)s
"""

# The person in the browser is returned also when there is no such service, because the error page speaks the person's language. `browser`
# has checked that the session lives.
_MEET_IN_BROWSER: Final[LiteralString] = f"""
    with {BROWSER}
    select browser.*, {_MEETING}
      from (values (true)) as this (look)
      left join browser on this.look
      left join organizations on organizations.slug = %(organization)s
      left join services on services.org_id = organizations.id and services.slug = %(slug)s
      left join saml_configurations as saml on saml.service_id = services.id
      left join sessions on sessions.id = browser.session_id and sessions.impersonator_id is null
      left join users on users.id = sessions.user_id
"""

_EXCHANGES: Final[LiteralString] = f"""
    select {EXCHANGE.names_in("recent")}
      from services
      left join lateral (
                select * from saml_exchanges where saml_exchanges.service_id = services.id order by id desc limit %(most)s
            ) as recent on true
     where services.org_id = %(organization)s and services.slug = %(slug)s
     order by recent.id desc
"""

_LOGOUT: Final[LiteralString] = f"{FIND_FLOW} where flows.id = %(id)s and flows.purpose = 'saml_logout' and flows.expires_at > now()"

# An id begins with the time at which the id was made. So `id >= first` reads only the latest flows, not all that are under way in other
# browsers.
_UNDER_WAY: Final = """
    select id
      from flows
     where id >= %(first)s and browser_digest = %(browser_digest)s and purpose = 'saml_logout' and completed_at is null
     order by id desc
     limit 1
"""

_CLAIM: Final = """
    update flows
       set id = %(becomes)s, browser_digest = %(browser_digest)s
     where id = %(id)s and browser_digest = %(unclaimed)s and expires_at > now()
 returning id
"""

# The sign-out ended the session at its start, and a flow lives for 15 minutes. So the session was revoked within the last 15 minutes.
_WAS_IN: Final = """
    select sessions.id
      from browser_sessions
      join sessions on sessions.id = browser_sessions.session_id
     where browser_sessions.digest = %(digest)s and sessions.user_id = any (%(people)s::uuid[])
       and coalesce(sessions.revoked_at > now() - interval '15 minutes', true)
"""

_WAITING: Final = """
    select request ->> 'organization' as organization, request ->> 'service' as service
      from flows
     where id = %(id)s and purpose = 'saml' and signed_in_at is null and completed_at is null and expires_at > now()
       and browser_digest <> %(unclaimed)s
"""

_EXPIRING: Final[LiteralString] = f"""
    select {CERTIFICATE.names_in("certificates")}, certificates.warned_days,
           organizations.id as organization, organizations.slug as organization_slug,
           services.slug as service_slug, services.name as service_name
      from saml_certificates as certificates
      join services on services.id = certificates.service_id
      join organizations on organizations.id = services.org_id and organizations.status = 'active'
      join saml_configurations as saml on saml.service_id = services.id and saml.enabled
     where certificates.state = 'active' and certificates.valid_until > %(after)s and certificates.valid_until <= %(before)s
     order by certificates.valid_until <= now(), certificates.valid_until
     limit %(limit)s
"""
