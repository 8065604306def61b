"""Helpers by which tests watch actors: metrics that remember, and a spread without chance."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import trio

from core.domain.jobs import QueueState
from ports.crypto import ListedPasswords
from ports.metrics import DatabaseHost, PoolState, Population


def no_spread() -> float:
    return 0.0


async def no_doubt() -> None:
    """The clock is right."""
    await trio.lowlevel.checkpoint()


class RememberedMetrics:
    """Implements `ports.metrics.Metrics` as far as actors use it."""

    def __init__(self) -> None:
        self.up: dict[str, bool] = {}
        self.restarts: Counter[str] = Counter()
        # By actor: how long ago its last turn ended, and within how many seconds its next one does.
        self.turned: dict[str, tuple[float, float]] = {}
        self.broken: Counter[str] = Counter()
        self.jobs: list[tuple[str, bool]] = []
        self.dropped = 0
        self.slow_hooks: list[int] = []
        # Kind, reached, failed.
        self.reached: list[tuple[str, int, int]] = []
        self.spans_by_outcome: Counter[str] = Counter()
        self.pools: list[PoolState] = []
        self.given_up = 0
        self.write_failures: list[str | None] = []
        self.hosts: list[Sequence[DatabaseHost]] = []
        self.populations: list[Population] = []
        self.queues: list[tuple[Sequence[QueueState], Mapping[str, timedelta]]] = []
        self.backups_checked: list[datetime | None] = []
        self.directories: list[tuple[int, int]] = []
        self.audit_backlogs: list[tuple[int, timedelta | None]] = []
        self.key_ages: dict[str, timedelta] = {}
        self.ahead: dict[str, timedelta] = {}
        self.obstructed: dict[str, int] = {}
        self.clocks_ahead: list[timedelta] = []
        self.clock_doubts: list[str | None] = []
        self.sizes: dict[str, int] = {}
        self.refreshed: Counter[str] = Counter()
        self.endings: list[tuple[int, int, int]] = []
        self.urgent: list[int] = []
        self.tls_ends: list[datetime] = []
        self.filters: list[ListedPasswords | None] = []

    def actor_up(self, actor: str, *, up: bool) -> None:
        self.up[actor] = up

    def actor_turned(self, actor: str, *, since: float, within: float) -> None:
        self.turned[actor] = since, within

    def actor_restarted(self, actor: str) -> None:
        self.restarts[actor] += 1

    def work_broken(self, actor: str) -> None:
        self.broken[actor] += 1

    def job_processed(self, kind: str, seconds: float, *, succeeded: bool) -> None:
        assert seconds >= 0
        self.jobs.append((kind, succeeded))

    def presence_dropped(self) -> None:
        self.dropped += 1

    def spans(self, outcome: str, number: int) -> None:
        self.spans_by_outcome[outcome] += number

    def pool(self, state: PoolState) -> None:
        self.pools.append(state)

    def connections_given_up(self, number: int) -> None:
        self.given_up += number

    def writes_failing(self, reason: str | None) -> None:
        self.write_failures.append(reason)

    def database_hosts(self, hosts: Sequence[DatabaseHost]) -> None:
        self.hosts.append(hosts)

    def queue(self, states: Sequence[QueueState], waits: Mapping[str, timedelta]) -> None:
        self.queues.append((states, waits))

    def population(self, population: Population) -> None:
        self.populations.append(population)

    def audit_backlog(self, pending: int, oldest: timedelta | None) -> None:
        self.audit_backlogs.append((pending, oldest))

    def key_age(self, purpose: str, age: timedelta) -> None:
        self.key_ages[purpose] = age

    def stored(self, database: int, tables: Mapping[str, int]) -> None:
        self.sizes = {"": database, **tables}

    def partitions_ahead(self, table: str, ahead: timedelta) -> None:
        self.ahead[table] = ahead

    def partitions_obstructed(self, table: str, months: int) -> None:
        self.obstructed[table] = months

    def clock_ahead(self, ahead: timedelta) -> None:
        self.clocks_ahead.append(ahead)

    def clock_doubted(self, reason: str | None) -> None:
        self.clock_doubts.append(reason)

    def request_started(self) -> None: ...
    def request_finished(self, method: str, route: str, status: int, seconds: float) -> None: ...
    def connection_closed(self, reason: str) -> None: ...
    def login_failed(self, reason: str) -> None: ...
    def reauthenticated(self, method: str) -> None: ...
    def passkeys_changed(self, change: str) -> None: ...
    def authorization_refused(self, reason: str) -> None: ...
    def user_key_checked(self, outcome: str) -> None: ...
    def puzzle_answered(self, purpose: str, outcome: str) -> None: ...
    def binding_asked(self, outcome: str) -> None: ...
    def guess_slowed(self, outcome: str) -> None: ...
    def widget_answered(self, purpose: str, outcome: str) -> None: ...
    def device_flow(self, step: str) -> None: ...
    def afar_request(self, step: str) -> None: ...
    def terms_accepted(self, keeper: str) -> None: ...
    def upstream_sign_in(self, provider: str, outcome: str) -> None: ...

    def upstream_odd_profile(self, provider: str) -> None: ...

    def provider_token_refreshed(self, provider: str, outcome: str) -> None: ...

    def token_issued(self) -> None: ...
    def token_exchanged(self) -> None: ...
    def webhook_attempted(self, outcome: str, seconds: float, waited: float) -> None: ...
    def webhook_paused(self) -> None: ...
    def hook_asked(self, outcome: str, seconds: float, *, counts: bool) -> None: ...
    def hooks_slow(self, number: int) -> None:
        self.slow_hooks.append(number)

    def hook_not_asked(self, why: str) -> None: ...

    def logout_notice_attempted(self, outcome: str, seconds: float) -> None: ...
    def signal_attempted(self, outcome: str, seconds: float, waited: float) -> None: ...

    def signals_polled(self, outcome: str, number: int) -> None: ...
    def organization_mail(self, outcome: str) -> None: ...
    def text_approval(self, outcome: str) -> None: ...
    def offboarding_late(self, receivers: int) -> None: ...
    def domain_checked(self, outcome: str) -> None: ...
    def joined_by_domain(self, outcome: str) -> None: ...
    def siem_attempted(self, outcome: str, seconds: float, waited: float, received: int) -> None: ...
    def billing_event(self, event_type: str, outcome: str) -> None: ...
    def billing_check(self, outcome: str) -> None: ...
    def billing_waiting(self, events: int, oldest: timedelta | None) -> None: ...
    def backup_checked(self, at: datetime | None) -> None:
        self.backups_checked.append(at)

    def connection_exchanged(self, kind: str, *, succeeded: bool) -> None: ...
    def connection_refreshed(self, outcome: str) -> None:
        self.refreshed[outcome] += 1

    def connections_ending(self, ending: int, waiting: int, failing: int, *, urgent: int) -> None:
        self.endings.append((ending, waiting, failing))
        self.urgent.append(urgent)

    def directory_run_ended(self, kind: str, outcome: str) -> None: ...
    def directory_runs(self, waiting: int, failing: int) -> None:
        self.directories.append((waiting, failing))

    def provisioning_run_ended(self, kind: str, outcome: str) -> None: ...
    def receivers_reached(self, kind: str, reached: int, failed: int) -> None:
        if reached or failed:
            self.reached.append((kind, reached, failed))

    def organizations_reached(self, reached: int, failed: int) -> None: ...
    def person_sent_there(self, what: str) -> None: ...
    def provisioning(self, waiting: int, failing: int, late: float) -> None: ...
    def saml_exchanged(self, kind: str, *, succeeded: bool) -> None: ...
    def saml_certificates_ending(self, number: int, first: datetime | None) -> None: ...
    def password_filter(self, in_force: ListedPasswords | None) -> None:
        self.filters.append(in_force)

    def tls_certificate_ends(self, at: datetime) -> None:
        self.tls_ends.append(at)

    def foreign_passwords(self, remaining: Mapping[str, int]) -> None: ...
    def rate_limited(self, limit: str, stage: str) -> None: ...
    def mail_held_back(self, budget: str, outcome: str) -> None: ...
    def password_hashed(self, seconds: float, waited: float) -> None: ...
    def hashing_queue(self, length: int) -> None: ...
    def pool_waited(self, seconds: float) -> None: ...
