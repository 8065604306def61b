"""Plans in PostgreSQL."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.columns import Columns
from adapters.postgres.statements import first, first_made
from adapters.postgres.storable import storable_text
from adapters.postgres.transaction import OnStatements
from core.domain.identifiers import OrganizationId, PlanId, ServiceId
from core.domain.services.plans import Plan, PlanOverview
from core.frozen import Frozen

PLAN: Final = Columns(Plan, "plans", named={"service": "service_id"}, texts=("name", "features"))


class _Service(Frozen):
    id: UUID


def _overview(*, subscription_count: int, **columns: Any) -> PlanOverview:
    return PlanOverview(PLAN.row(**columns), subscription_count)


class PlanRows(OnStatements):
    """Implements `ports.services.billing.PlanStore`."""

    async def list(self, organization: OrganizationId, service_slug: str) -> Sequence[PlanOverview] | None:
        parameters = {"organization": organization, "slug": storable_text(service_slug)}
        rows = await self._statements.ask(_overview, _LIST, parameters)
        if not rows and not await self._statements.ask(_Service, _FIND_SERVICE, parameters):
            return None
        return rows

    async def keys(self, service: ServiceId) -> Collection[str]:
        return set(await self._statements.ask_in_order(str, _KEYS, {"service": service}))

    async def add(self, plan: Plan) -> None:
        await self._statements.tell(_ADD, PLAN.values(plan))

    async def hold(self, organization: OrganizationId, service_slug: str, plan: PlanId) -> PlanOverview | None:
        parameters = {"organization": organization, "slug": storable_text(service_slug), "id": plan}
        await self._statements.tell(_HOLD, parameters)
        return first(await self._statements.ask(_overview, _GET, parameters))

    async def offer(self, service: ServiceId, plan: PlanId, *, leaving: PlanId | None = None) -> Plan | None:
        await self._statements.tell(_HOLD_OWN, {"service": service, "id": plan, "leaving": leaving})
        return first_made(await self._statements.ask(_overview, _OFFER, {"id": plan}), lambda row: row.plan)

    async def save(self, plan: Plan) -> None:
        await self._statements.tell(_SAVE, PLAN.values(plan))

    async def delete(self, plan: PlanId, at: datetime) -> None:
        await self._statements.tell(_DELETE, {"id": plan, "at": at})


_PLAN: Final[LiteralString] = f"""
    select {PLAN.names}, plans.subscription_count
      from plans
      join services on services.id = plans.service_id
     where plans.deleted_at is null
"""

_OF_SERVICE: Final = "and services.org_id = %(organization)s and services.slug = %(slug)s"

_LIST: Final[LiteralString] = f"{_PLAN} {_OF_SERVICE} order by plans.price_cents, plans.created_at, plans.id"

_GET: Final[LiteralString] = f"{_PLAN} {_OF_SERVICE} and plans.id = %(id)s"

_OFFER: Final[LiteralString] = f"{_PLAN} and plans.id = %(id)s"

_FIND_SERVICE: Final = "select id from services where org_id = %(organization)s and slug = %(slug)s"

_KEYS: Final = "select key from plans where service_id = %(service)s and deleted_at is null"

# `_HOLD` and `_HOLD_OWN` are statements of their own: the next statement sees what others committed while the lock was waited for. The lock
# is as strong as an update needs, because counting a subscription updates the plan's row. Two people who subscribe to the same plan wait
# for each other in any case, and upgrading a weaker lock would deadlock.
_HOLD: Final = """
    select
      from plans
      join services on services.id = plans.service_id
     where plans.id = %(id)s and services.org_id = %(organization)s and services.slug = %(slug)s
       for no key update of plans
"""

# Locks plans in the same order as the counting trigger and the removal of subscriptions.
_HOLD_OWN: Final = "select from plans where id in (%(id)s, %(leaving)s) and service_id = %(service)s order by id for no key update"

_ADD: Final[LiteralString] = f"insert into plans ({PLAN.into()}) values ({PLAN.inserted()})"

_SAVE: Final[LiteralString] = f"update plans set {PLAN.changes('id', 'service', 'key', 'created_at')} where id = %(id)s"

_DELETE: Final = "update plans set deleted_at = %(at)s, updated_at = %(at)s where id = %(id)s and deleted_at is null"
