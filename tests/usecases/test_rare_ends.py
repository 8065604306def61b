"""Ends that take a mishap or a stubborn rival: what nobody foresaw about one piece of work, and what stays contended."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace, new_class
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import force_setattr

from core.domain.errors import BadRequest, Conflict, Forbidden, Unauthorized, Unavailable
from core.domain.federation.provisioning.runs import ProvisioningRun, ProvisioningRunKind, ProvisioningRunState
from core.domain.federation.signal_grants import OfferedSignals
from core.domain.federation.signals import SignalSettings
from core.domain.identifiers import ProvisioningConnectionId, ProvisioningRunId
from core.domain.identity.flows import FlowOver
from core.domain.identity.passkeys import PasskeyRefused
from core.domain.identity.upstream.identities import Connecting
from core.domain.identity.upstream.sign_in import UsedState
from core.domain.record.signals import SignalType
from core.domain.secrets import Token
from core.frozen import names_of
from core.usecases.federation.authorization_codes import AuthorizationAnswers, CodeNotIssued
from core.usecases.federation.authorization_requests import AwaitedSignIns
from core.usecases.federation.logouts import LogoutReceivers
from core.usecases.federation.provisioning.runs import ProvisioningRuns
from core.usecases.federation.saml.configurations import Saml
from core.usecases.identity.accounts import AccountSummaries
from core.usecases.identity.impersonation import Impersonations
from core.usecases.identity.passkeys import Passkeys
from core.usecases.identity.sign_in.sign_in_results import BrowserSessions
from core.usecases.identity.upstream import identities
from core.usecases.identity.upstream.identities import Identities
from core.usecases.identity.upstream.idp_logins import RepeatedReturns
from core.usecases.record import Audit, Deliveries
from core.usecases.services.billing_reconciliation import BillingReconciliation
from core.usecases.tenancy.mail_servers import MailServers
from core.usecases.tenancy.webhooks import WebhookReceivers
from tests.conftest import CapturedLog

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
ID = UUID(int=7)


def answering(value: Any) -> Callable[..., Awaitable[Any]]:
    async def answer(*_: Any, **__: Any) -> Any:
        if isinstance(value, Exception):
            raise value
        return value

    return answer


class Told:
    """Whatever is told it, by any name."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *given: self.calls.append((name, given))


def of(kind: type[Any], **parts: Any) -> Any:
    """One with these fields and methods alone."""
    partial: Any = new_class(kind.__name__, (kind,), {"frozen": True, "dict": True})
    made = partial(**dict.fromkeys(names_of(kind)))
    for name, value in parts.items():
        force_setattr(made, name, value)
    return made


def sending(receivers: type[Any], *, queue: Any = None, metrics: Any = None) -> Any:
    """Deliveries to such receivers, with these parts alone."""
    unused: Any = Told()
    given = dict.fromkeys(names_of(receivers))
    return Deliveries(receivers(**{**given, "metrics": metrics}), queue, unused, unused, lambda: 0.0, unused)


@pytest.mark.parametrize("kind", [LogoutReceivers, WebhookReceivers])
def test_an_attempt_that_breaks_is_a_failure_that_is_counted(kind: type[Any]) -> None:
    metrics = Told()
    due = SimpleNamespace(id=ID, attempts=0, waited=timedelta(seconds=1))
    outcome = sending(kind, metrics=metrics).broken(due, lambda: 0.5)
    assert not outcome.delivered
    assert metrics.calls


async def test_a_service_whose_address_cannot_be_read_is_put_off(log: CapturedLog) -> None:
    log.allow("logout_address_unreadable")
    released: list[Any] = []

    async def release(*given: Any) -> None:
        released.append(given)

    claimed = SimpleNamespace(url=None, id=ID)
    queue = SimpleNamespace(claim=answering([claimed]), release=release)
    assert await sending(LogoutReceivers, queue=queue).claim(1, failing=False) == []
    assert [one[0] for one in released] == [claimed]


@pytest.mark.parametrize(("mishap", "told"), [(ValueError("odd"), 0), (Unavailable(retry_after=1), None)])
async def test_a_warning_that_fails_keeps_no_other_from_being_told(mishap: Exception, told: int | None, log: CapturedLog) -> None:
    log.allow("saml_warning_failed")
    certificate = SimpleNamespace(id=ID, valid_until=NOW + timedelta(days=1))
    made = of(
        Saml,
        system=SimpleNamespace(clock=SimpleNamespace(now=lambda: NOW)),
        lookup=SimpleNamespace(expiring=answering([SimpleNamespace(certificate=certificate, warned_days=None)])),
        metrics=Told(),
        _warn=answering(mishap),
    )
    if told is None:
        with pytest.raises(Unavailable):
            await made.warn_of_ends(10)
    else:
        assert await made.warn_of_ends(10) == told


async def test_a_look_waits_for_what_is_away() -> None:
    made = of(BillingReconciliation, billing=SimpleNamespace(observe=answering(Unavailable(retry_after=1))), metrics=Told())
    with pytest.raises(Unavailable):
        await made._observe("sub_1", SimpleNamespace(), SimpleNamespace(at=NOW))


async def test_a_sign_in_that_was_none_is_not_repeated() -> None:
    visit = SimpleNamespace(flow=SimpleNamespace(awaits_second_factor=False))
    with pytest.raises(FlowOver):
        await of(BrowserSessions, _repeated=answering(None)).sign_in_once_more(visit, Token("x"))


async def test_a_passkey_that_is_refused_was_not_just_added() -> None:
    made = of(
        Passkeys,
        authenticators=SimpleNamespace(read_registration=answering(PasskeyRefused("odd"))),
        require_relying_party=lambda: None,
    )
    assert not await made.was_just_added(ID, SimpleNamespace())


async def test_an_identity_that_stays_contended_is_tried_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identities, "connecting", lambda *_, **__: Connecting.ALREADY)
    met = SimpleNamespace(identity=None, require_provider=lambda: None)
    made = of(
        Identities,
        devices=SimpleNamespace(observe=answering(None)),
        upstream=SimpleNamespace(meet=answering(met)),
        _connect=answering(False),
    )
    vouched = SimpleNamespace(upstream=SimpleNamespace(key="websuite", organization=None), asserted=None)
    with pytest.raises(Unavailable):
        await made.connect(SimpleNamespace(user=ID), vouched, None)


async def test_nothing_is_connected_to_an_account_that_has_ended() -> None:
    @asynccontextmanager
    async def unit_of_work() -> AsyncIterator[Any]:
        yield SimpleNamespace(
            accounts=SimpleNamespace(lock_for_update=answering(None)),
            sessions=SimpleNamespace(lives=answering(True)),
            sign_ins=SimpleNamespace(confirm=answering(None)),
        )

    made = of(Identities, unit_of_work=unit_of_work, clock=SimpleNamespace(now=lambda: NOW))
    vouched = SimpleNamespace(upstream=None, asserted=SimpleNamespace(email=None))
    taken = SimpleNamespace(sessions=[ID], way=SimpleNamespace(service=None))
    with pytest.raises(Unauthorized):
        await made._connect(taken, vouched, ID, SimpleNamespace(identity=None, connected=None), None)


async def test_who_comes_back_second_does_not_wait_for_ever() -> None:
    lookup = SimpleNamespace(used=answering(UsedState(flow=None, led_to="")))
    with pytest.raises(FlowOver):
        await RepeatedReturns(lookup, answering(None)).wait("websuite", Token("state"), Token("browser"))


async def test_a_start_page_of_an_account_that_is_gone() -> None:
    summaries = of(AccountSummaries, lookup=SimpleNamespace(start=answering(None)), clock=SimpleNamespace(now=lambda: NOW))
    with pytest.raises(Unauthorized):
        await summaries.start(ID)


async def test_nobody_stops_acting_who_does_not_act() -> None:
    with pytest.raises(BadRequest):
        await of(Impersonations).end_in_browser(SimpleNamespace(impersonator=None), Told())


async def test_a_long_chain_is_not_walked_within_a_request() -> None:
    audit = of(Audit, log=SimpleNamespace(newest=answering(SimpleNamespace(total=11))))
    assert await audit.verify_own(ID, 10) is None


async def test_another_process_was_quicker_to_fall_back() -> None:
    @asynccontextmanager
    async def unit_of_work() -> AsyncIterator[Any]:
        yield SimpleNamespace(mail_servers=SimpleNamespace(fall_back=answering(None)))

    servers: Any = object.__new__(MailServers)
    servers._unit_of_work = unit_of_work
    await servers._fall_back(SimpleNamespace(id=ID), NOW)


@pytest.mark.parametrize("how", ["go_on", "leave"])
async def test_another_owner_was_quicker_to_decide_about_a_run(how: str) -> None:
    told = Told()

    @asynccontextmanager
    async def unit_of_work() -> AsyncIterator[Any]:
        yield SimpleNamespace(provisioning_runs=SimpleNamespace(decide=answering(False)), record=told.record, commit=told.commit)

    run = ProvisioningRun(
        id=ProvisioningRunId(ID),
        connection=ProvisioningConnectionId(ID),
        kind=ProvisioningRunKind.PLAN,
        state=ProvisioningRunState.WAITING,
        begun_at=NOW,
        settings_digest=b"settings",
        digest=bytes(32),
    )
    runs = of(
        ProvisioningRuns,
        unit_of_work=unit_of_work,
        system=SimpleNamespace(clock=SimpleNamespace(now=lambda: NOW)),
        _held=answering((SimpleNamespace(digest=b"settings", is_draft=False), run)),
    )
    with pytest.raises(Conflict, match="does not require approval"):
        await getattr(runs, how)(None, "wiki", run.id, None, **({"seen": bytes(32).hex(), "adopts": False} if how == "go_on" else {}))
    assert told.calls == []


async def test_signals_that_an_owner_has_turned_off_since_are_not_granted() -> None:
    shown = OfferedSignals(SignalSettings(events=(SignalType.SESSION_REVOKED,)))
    allowed: Any = SimpleNamespace(signals=shown)
    application: Any = SimpleNamespace(service=ID)
    for now, is_given in ((shown.settings, True), (SignalSettings(events=()), False), (None, False)):
        uow: Any = SimpleNamespace(signals=SimpleNamespace(find_settings_for_update=answering(now)))
        if is_given:
            await AuthorizationAnswers._require_shown(uow, application, allowed)
        else:
            with pytest.raises(CodeNotIssued):
                await AuthorizationAnswers._require_shown(uow, application, allowed)


async def test_nobody_waits_for_a_first_sign_in_in_somebody_elses_name() -> None:
    store = Told()
    waiting: Any = of(AwaitedSignIns, store=store)
    with pytest.raises(Forbidden) as refused:
        await waiting.begin(SimpleNamespace(caller=SimpleNamespace(impersonator=ID)), "shop")
    assert (refused.value.words, store.calls) == ("impersonating", [])
