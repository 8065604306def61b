"""The last refused requests of applications, in PostgreSQL."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from adapters.postgres.driver.pool import Pool
from adapters.postgres.identity.sessions.audiences import IS_OPEN, admits_service
from adapters.postgres.statements import ask
from adapters.postgres.storable import storable, storable_text
from adapters.postgres.transaction import tell_together
from core.domain.federation.authorization_refusals import (
    MOST_REFUSALS,
    AuthorizationRefusal,
    DocumentRefusal,
    ListedRefusal,
    RefusalContext,
    RefusingEndpoint,
    registered_for,
)
from core.domain.federation.oauth.refusals import RefusalReason, reason_in_words
from core.domain.identifiers import AuthorizationRefusalId, OrganizationId, ResourceServerId
from core.frozen import Frozen

_AT_ONCE: Final = 100


class _Refusal(Frozen):
    """For a service without refusals, the list has one row of nulls."""

    redirect_uris: list[str]
    secrets: list[str]
    resources: list[str]
    trusted: dict[str, list[str]]
    id: UUID | None
    place: str | None
    reason: str | None
    received: str | None
    expected: str | None
    said: str | None
    advice: str | None
    occurred_at: datetime | None

    def listed(self) -> ListedRefusal | None:
        if self.id is None or self.place is None or self.reason is None or self.occurred_at is None:
            return None
        reason = RefusalReason(self.reason)
        because, advice = reason_in_words(reason, self.received or "")
        context = RefusalContext(redirect_uris=self.redirect_uris, secrets=self.secrets, resources=self.resources, trusted=self.trusted)
        return ListedRefusal(
            id=AuthorizationRefusalId(self.id),
            at=RefusingEndpoint(self.place),
            reason=reason,
            because=self.said or because,
            advice=self.advice or advice,
            received=self.received or "",
            registered=registered_for(reason, self.expected or "", context),
            occurred_at=self.occurred_at,
        )


class PostgresAuthorizationRefusals:
    """Implements `ports.federation.oauth.AuthorizationRefusalStore`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def add(self, refusals: Sequence[AuthorizationRefusal | DocumentRefusal]) -> None:
        of_apis = [one for one in refusals if isinstance(one, DocumentRefusal)]
        of_clients = [one for one in refusals if not isinstance(one, DocumentRefusal)]
        for begin in range(0, len(of_apis), _AT_ONCE):
            documents = of_apis[begin : begin + _AT_ONCE]
            apis = list(dict.fromkeys(one.api for one in documents))
            await tell_together(
                self._pool,
                (_HOLD_APIS, {"apis": apis}),
                (_ADD_DOCUMENTS, {"refusals": Jsonb([_document_as_json(one) for one in documents])}),
                (_TRIM_DOCUMENTS, {"apis": apis, "most": MOST_REFUSALS}),
            )
        for begin in range(0, len(of_clients), _AT_ONCE):
            part = of_clients[begin : begin + _AT_ONCE]
            clients = list(dict.fromkeys(one.client for one in part))
            await tell_together(
                self._pool,
                (_HOLD, {"clients": clients}),
                (_ADD, {"refusals": Jsonb([_as_json(one) for one in part])}),
                (_TRIM, {"clients": clients, "most": MOST_REFUSALS}),
            )

    async def list(self, organization: OrganizationId, service_slug: str) -> Sequence[ListedRefusal] | None:
        parameters = {"organization": organization, "slug": storable_text(service_slug), "most": MOST_REFUSALS}
        rows = await ask(self._pool, _Refusal, _LIST, parameters)
        if not rows:
            return None
        return [listed for row in rows if (listed := row.listed()) is not None]

    async def list_of_api(self, organization: OrganizationId, api: ResourceServerId) -> Sequence[DocumentRefusal] | None:
        rows = await ask(self._pool, _document, _LIST_DOCUMENTS, {"organization": organization, "api": api, "most": MOST_REFUSALS})
        return [row for row in rows if row is not None] if rows else None


def _document(*, id: UUID | None, **columns: Any) -> DocumentRefusal | None:  # noqa: A002 - the noun's own word
    """For an API without refusals, the list has one row of nulls."""
    return None if id is None else DocumentRefusal(id=AuthorizationRefusalId(id), **columns)


def _document_as_json(one: DocumentRefusal) -> Any:
    return storable(
        {
            "id": str(one.id),
            "resource_id": str(one.api),
            "address": one.address,
            "reason": one.reason,
            "said": one.because,
            "occurred_at": one.occurred_at.isoformat(),
        }
    )


def _as_json(one: AuthorizationRefusal) -> Any:
    return storable(
        {
            "id": str(one.id),
            "client_id": one.client,
            "place": one.at.value,
            "reason": one.reason.value,
            "received": one.received,
            "occurred_at": one.occurred_at.isoformat(),
            "code_digest": None if one.code is None else one.code.digest.hex(),
            "redirect_uri": None if one.code is None else one.code.redirect_uri,
            "code_challenge": None if one.code is None else one.code.code_challenge,
        }
    )


# Two processes that add refusals of one service take turns, so that each counts what the other has added.
_HOLD: Final = "select from services where oauth_client_id = any (%(clients)s) order by id for no key update"

# A client that does not exist gets no refusals. The query of a registered address is left out, as of a received one.
_ADD: Final = """
    insert into authorization_refusals (id, service_id, place, reason, received, expected, occurred_at)
    select told.id, services.id, told.place,
           case when told.reason <> 'code_refused' then told.reason
                when codes.id is null then 'code_unknown'
                when codes.service_id <> services.id then 'code_of_another'
                when codes.redeemed_at <= told.occurred_at then 'code_used'
                when codes.redirect_uri <> told.redirect_uri then 'redirect_differs'
                when codes.code_challenge is null and told.code_challenge is not null then 'verifier_unasked'
                when codes.code_challenge is not null and told.code_challenge is null then 'verifier_missing'
                when codes.code_challenge <> told.code_challenge then 'verifier_differs'
                when codes.expires_at <= told.occurred_at then 'code_expired'
                else told.reason
           end,
           told.received,
           case when told.reason = 'code_refused' and codes.service_id = services.id
                 and (codes.redeemed_at is null or codes.redeemed_at > told.occurred_at) and codes.redirect_uri <> told.redirect_uri
                then split_part(codes.redirect_uri, '?', 1) else ''
           end,
           told.occurred_at
      from jsonb_to_recordset(%(refusals)s)
        as told (id uuid, client_id text, place text, reason text, received text, occurred_at timestamptz, code_digest text,
                 redirect_uri text, code_challenge text)
      join services on services.oauth_client_id = told.client_id
      left join authorization_codes as codes on codes.digest = decode(told.code_digest, 'hex')
        on conflict do nothing
"""

_TRIM: Final = """
    delete from authorization_refusals
     where id = any (array(
               select older.id
                 from services
                cross join lateral (
                          select id from authorization_refusals where service_id = services.id order by id desc offset %(most)s
                      ) as older
                where services.oauth_client_id = any (%(clients)s)
           ))
"""

_LIST: Final[LiteralString] = f"""
    select services.redirect_uris,
           array(select prefix from client_secrets where client_secrets.service_id = services.id order by client_secrets.id) as secrets,
           array(
               select resource_servers.identifier
                 from resource_servers
                where resource_servers.org_id = services.org_id and {IS_OPEN} and {admits_service("services.id")}
                order by resource_servers.identifier
           ) as resources,
           (
               select jsonb_build_object('issuers', coalesce(jsonb_agg(distinct issuer), '[]'),
                                         'audiences', coalesce(jsonb_agg(distinct audience), '[]'),
                                         'patterns', coalesce(jsonb_agg(distinct subject_pattern), '[]'))
                 from trusted_issuers
                where trusted_issuers.service_id = services.id
           ) as trusted,
           recent.id, recent.place, recent.reason, recent.received, recent.expected, recent.said, recent.advice, recent.occurred_at
      from services
      left join lateral (
                (select id, place, reason, received, expected, '' as said, '' as advice, occurred_at
                   from authorization_refusals
                  where authorization_refusals.service_id = services.id
                  order by id desc
                  limit %(most)s)
                union all
                (select id, 'saml', 'saml', '', '', reason, advice, created_at
                   from saml_exchanges
                  where saml_exchanges.service_id = services.id and not succeeded
                  order by id desc
                  limit %(most)s)
                order by id desc
                limit %(most)s
            ) as recent on true
     where services.org_id = %(organization)s and services.slug = %(slug)s
     order by recent.id desc
"""

_HOLD_APIS: Final = "select from resource_servers where id = any (%(apis)s) order by id for no key update"

_ADD_DOCUMENTS: Final = """
    insert into document_refusals (id, org_id, resource_id, address, reason, said, occurred_at)
    select told.id, resource_servers.org_id, resource_servers.id, told.address, told.reason, told.said, told.occurred_at
      from jsonb_to_recordset(%(refusals)s)
        as told (id uuid, resource_id uuid, address text, reason text, said text, occurred_at timestamptz)
      join resource_servers on resource_servers.id = told.resource_id
        on conflict do nothing
"""

_TRIM_DOCUMENTS: Final = """
    delete from document_refusals
     where id = any (array(
               select older.id
                 from unnest(%(apis)s::uuid[]) as api (id)
                cross join lateral (
                          select id from document_refusals where resource_id = api.id order by id desc offset %(most)s
                      ) as older
           ))
"""

_LIST_DOCUMENTS: Final = """
    select recent.id, resource_servers.id as api, recent.address, recent.reason, recent.said as because, recent.occurred_at
      from resource_servers
      left join lateral (
                select * from document_refusals where resource_id = resource_servers.id order by id desc limit %(most)s
           ) as recent on true
     where resource_servers.id = %(api)s and resource_servers.org_id = %(organization)s
     order by recent.id desc
"""
