"""What goes into the flight recorder of a service."""

from core.domain.federation.saml.configurations import Binding
from core.domain.federation.saml.exchanges import Exchange, ExchangeKind, kept_id
from core.domain.federation.saml.messages import MessageRefused, Status
from core.domain.identifiers import SamlCertificateId, SamlExchangeId, ServiceId
from ports.clock import Clock
from ports.ids import Ids
from ports.metrics import Metrics
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class Recorder:
    def __init__(self, unit_of_work: UnitOfWorkFactory, metrics: Metrics, clock: Clock, ids: Ids) -> None:
        self._unit_of_work = unit_of_work
        self._metrics = metrics
        self._clock = clock
        self._ids = ids

    def exchange(
        self,
        service: ServiceId,
        kind: ExchangeKind,
        binding: Binding,
        *,
        status: Status | None = None,
        reason: str = "",
        advice: str = "",
        message: str = "",
        in_response_to: str = "",
        certificate: SamlCertificateId | None = None,
        succeeded: bool | None = None,
    ) -> Exchange:
        """One that happens now. Without `succeeded`: it has if there is no reason."""
        return Exchange(
            id=SamlExchangeId(self._ids.new()),
            service=service,
            kind=kind,
            binding=binding,
            succeeded=not reason if succeeded is None else succeeded,
            status="" if status is None else status.last,
            reason=reason,
            advice=advice,
            message=kept_id(message),
            in_response_to=kept_id(in_response_to),
            certificate=certificate,
            created_at=self._clock.now(),
        )

    def refused(self, service: ServiceId, kind: ExchangeKind, binding: Binding, refusal: MessageRefused, message: str) -> Exchange:
        return self.exchange(service, kind, binding, reason=refusal.reason, advice=refusal.advice, message=message)

    async def record(self, uow: UnitOfWork, *exchanges: Exchange) -> None:
        """Within the caller's unit of work, and without a round trip of its own."""
        await uow.saml.exchanged(*exchanges)
        self.count(*exchanges)

    def count(self, *exchanges: Exchange) -> None:
        for exchange in exchanges:
            self._metrics.saml_exchanged(exchange.kind.value, succeeded=exchange.succeeded)

    async def refuse(self, service: ServiceId, kind: ExchangeKind, binding: Binding, refusal: MessageRefused, message: str = "") -> None:
        """In a unit of work of its own, since nothing else has happened."""
        async with self._unit_of_work() as uow:
            await self.record(uow, self.refused(service, kind, binding, refusal, message))
            await uow.commit()
