"""Login events in PostgreSQL: appended, never changed."""

from typing import Final

from adapters.postgres.addresses import storable_address
from adapters.postgres.arrays import array_of_texts
from adapters.postgres.storable import storable_text
from adapters.postgres.transaction import Transaction
from core.domain.identity.login_events import LoginEvent


class LoginEventRows:
    """Implements `ports.identity.login_events.LoginEventStore` in one transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def add(self, event: LoginEvent) -> None:
        await self._transaction.tell_along(
            _ADD,
            {
                "id": event.id,
                "user": event.user,
                "organization": event.organization,
                "service": event.service,
                "device": event.device,
                "provider": event.provider,
                "success": event.failure is None,
                "reason": None if event.failure is None else event.failure.value,
                "address": storable_address(event.address),
                "user_agent": None if event.user_agent is None else storable_text(event.user_agent),
                "risk_score": event.risk_score,
                "risk_factors": array_of_texts(event.risk_factors),
                "flagged": event.flagged,
                "country": event.country,
                "city": event.city,
                "at": event.created_at,
            },
        )


_ADD: Final = """
    insert into login_events (id, user_id, organization_id, service_id, device_id, provider, success, reason, address, user_agent,
                              risk_score, risk_factors, flagged, country, city, created_at)
    values (%(id)s, %(user)s, %(organization)s, %(service)s, %(device)s, %(provider)s, %(success)s, %(reason)s, %(address)s,
            %(user_agent)s, %(risk_score)s, %(risk_factors)s::text[], %(flagged)s, %(country)s, %(city)s, %(at)s)
"""
