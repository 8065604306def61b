"""How many receivers of organizations fail, by kind, for whoever is on call."""

from collections.abc import Sequence
from typing import Final

from adapters.postgres.driver.pool import Pool
from adapters.postgres.statements import ask
from core.domain.record.deliveries import ReceiverKind
from core.frozen import Frozen
from ports.record import FailingReceivers


class PostgresFailingReceivers:
    """Implements `ports.record.ReceiversInNeed`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def count(self) -> Sequence[FailingReceivers]:
        rows = await ask(self._pool, _Counted, _COUNT, {})
        return [FailingReceivers(ReceiverKind(row.kind), row.failing, row.organizations, row.all) for row in rows]


class _Counted(Frozen):
    kind: str
    failing: int
    organizations: int
    all: int


# Each receiver is one row of a small table. What nothing is sent to (paused, disabled, of a suspended organization) is not counted.
_COUNT: Final = """
    with receivers (kind, place, organization, is_failing) as (
             select 'webhook', 1, webhooks.org_id, webhooks.failing_since is not null
               from webhooks
              where webhooks.is_active
              union all
             select 'signal', 2, services.org_id, signal_streams.failing_since is not null
               from signal_streams
               join services on services.id = signal_streams.service_id
              where signal_streams.method = 'push' and signal_streams.status = 'enabled'
              union all
             select 'logout_notice', 3, services.org_id, logout_receivers.failing_since is not null
               from logout_receivers
               join services on services.id = logout_receivers.service_id
              where services.backchannel_logout_uri is not null
              union all
             select 'siem', 4, siem_configurations.org_id, siem_configurations.failures > 0
               from siem_configurations
              where siem_configurations.is_active
              union all
             select 'provisioning', 5, provisioning_connections.org_id, provisioning_connections.failing_since is not null
               from provisioning_connections
              where provisioning_connections.state = 'active'
         )
  select receivers.kind, (count(*) filter (where receivers.is_failing))::int as failing,
         (count(distinct receivers.organization) filter (where receivers.is_failing))::int as organizations, count(*)::int as all
    from receivers
    join organizations on organizations.id = receivers.organization and organizations.status = 'active'
   group by receivers.kind, receivers.place
   order by receivers.place
"""
