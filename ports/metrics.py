"""Counts and times. No method waits or fails. Labels are bounded: routes are templates, and reasons and kinds are our own words."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from core.domain.jobs import QueueState
from core.frozen import Frozen
from ports.crypto import ListedPasswords


class PoolState(Frozen):
    """The connection pool at this moment. `connections` is the sum of idle and in use; one that is being opened is no connection yet."""

    connections: int
    idle: int
    max_size: int
    waiting: int


class DatabaseHost(Frozen):
    """One of several hosts, as it was last seen."""

    name: str
    state: str
    """In words that anybody may read: `takes writes`, `takes no writes`, `refuses the connection` or `no answer`."""


class Population(Frozen):
    """Counts over the whole installation."""

    active_users: int
    organizations: int
    mfa_enabled_users: int


class Metrics(Protocol):
    """Prometheus' client implements it."""

    def request_started(self) -> None: ...
    def request_finished(self, method: str, route: str, status: int, seconds: float) -> None: ...
    def login_failed(self, reason: str) -> None: ...
    def reauthenticated(self, method: str) -> None: ...
    def passkeys_changed(self, change: str) -> None: ...
    def device_flow(self, step: str) -> None: ...
    def afar_request(self, step: str) -> None: ...
    def terms_accepted(self, keeper: str) -> None:
        """`keeper` is a `TermsKeeper`: whose terms they are."""

    def authorization_refused(self, reason: str) -> None: ...
    def user_key_checked(self, outcome: str) -> None: ...
    def puzzle_answered(self, purpose: str, outcome: str) -> None: ...
    def binding_asked(self, outcome: str) -> None:
        """`outcome` is a `BindingOutcome`."""

    def guess_slowed(self, outcome: str) -> None: ...
    def widget_answered(self, purpose: str, outcome: str) -> None:
        """`outcome` is `asked` when a page shows the widget."""

    def upstream_sign_in(self, provider: str, outcome: str) -> None:
        """`provider` is the name of a provider of the installation, or one name for those of all organizations."""

    def upstream_odd_profile(self, provider: str) -> None:
        """What a provider of the installation tells of one person identifies nobody."""

    def provider_token_refreshed(self, provider: str, outcome: str) -> None: ...
    def token_issued(self) -> None: ...
    def token_exchanged(self) -> None: ...
    def job_processed(self, kind: str, seconds: float, *, succeeded: bool) -> None: ...
    def webhook_attempted(self, outcome: str, seconds: float, waited: float) -> None: ...
    def webhook_paused(self) -> None: ...
    def hook_asked(self, outcome: str, seconds: float, *, counts: bool) -> None:
        """`outcome` is the word of an answer, or `silent`. For a hook that `counts`, a sign-in has waited."""

    def hooks_slow(self, number: int) -> None:
        """The hooks of which this process knows that nine of ten sign-ins wait longer than a second."""

    def hook_not_asked(self, why: str) -> None:
        """`busy`: too many questions, or failures about one person; `flow_over`: the flow had asked as often as it may."""

    def logout_notice_attempted(self, outcome: str, seconds: float) -> None: ...
    def signal_attempted(self, outcome: str, seconds: float, waited: float) -> None: ...
    def signals_polled(self, outcome: str, number: int) -> None: ...
    def organization_mail(self, outcome: str) -> None: ...
    def offboarding_late(self, receivers: int) -> None:
        """So many receivers more have missed the deadline of their organization."""

    def text_approval(self, outcome: str) -> None:
        """A platform owner's answer to own texts of an organization."""

    def domain_checked(self, outcome: str) -> None: ...
    def joined_by_domain(self, outcome: str) -> None: ...
    def siem_attempted(self, outcome: str, seconds: float, waited: float, received: int) -> None: ...
    def billing_event(self, event_type: str, outcome: str) -> None: ...
    def billing_check(self, outcome: str) -> None: ...
    def billing_waiting(self, events: int, oldest: timedelta | None) -> None: ...
    def connection_exchanged(self, kind: str, *, succeeded: bool) -> None:
        """An exchange with an organization's own provider, as its recorder has it."""

    def connection_refreshed(self, outcome: str) -> None:
        """The daily look at a connection: `read`, `asked`, or a `RefreshFault`."""

    def connections_ending(self, ending: int, waiting: int, failing: int, *, urgent: int) -> None:
        """The fields of `ConnectionsEnding`."""

    def directory_run_ended(self, kind: str, outcome: str) -> None:
        """A run of a directory by LDAP: a `RunKind`, and `failed`, `done` or `waiting`."""

    def directory_runs(self, waiting: int, failing: int) -> None:
        """Runs that wait for an owner, and directories whose last run has failed."""

    def provisioning_run_ended(self, kind: str, outcome: str) -> None:
        """A run of a connection outwards: a `ProvisioningRunKind`, and `done`, `waiting`, `failed` or `throttled`; or `turn_over`, which
        another turn goes on from.
        """

    def person_sent_there(self, what: str) -> None:
        """A person in the system of an application: a `DoneThere`, or `deleted`."""

    def provisioning(self, waiting: int, failing: int, late: float) -> None:
        """Runs that wait for an owner, connections outwards that fail, and the seconds that the oldest change waits."""

    def receivers_reached(self, kind: str, reached: int, failed: int) -> None:
        """Receivers of a `ReceiverKind` that this process has tried within the last fifteen minutes: how many it reached, and how many only
        failed.
        """

    def organizations_reached(self, reached: int, failed: int) -> None:
        """The organizations of all these receivers: those of which it reached a receiver of any kind, and the others."""

    def saml_exchanged(self, kind: str, *, succeeded: bool) -> None: ...
    def saml_certificates_ending(self, number: int, first: datetime | None) -> None:
        """How many end soon, and when the first of them does."""

    def tls_certificate_ends(self, at: datetime) -> None:
        """The certificate with which this process serves HTTPS."""

    def actor_up(self, actor: str, *, up: bool) -> None: ...
    def actor_turned(self, actor: str, *, since: float, within: float) -> None:
        """The last turn of the actor ended so many seconds ago. Its next turn ends within so many seconds, or the actor is stalled."""

    def actor_restarted(self, actor: str) -> None: ...
    def work_broken(self, actor: str) -> None: ...
    def presence_dropped(self) -> None: ...
    def spans(self, outcome: str, number: int) -> None:
        """Spans for the operator's collector: `sent`, `dropped` for want of room, or `failed`."""

    def connection_closed(self, reason: str) -> None: ...
    def rate_limited(self, limit: str, stage: str) -> None: ...
    def mail_held_back(self, budget: str, outcome: str) -> None:
        """`budget` is the narrowest that is used up."""

    def password_filter(self, in_force: ListedPasswords | None) -> None: ...
    def password_hashed(self, seconds: float, waited: float) -> None: ...
    def hashing_queue(self, length: int) -> None: ...
    def foreign_passwords(self, remaining: Mapping[str, int]) -> None: ...
    def pool_waited(self, seconds: float) -> None: ...
    def pool(self, state: PoolState) -> None: ...
    def connections_given_up(self, number: int) -> None: ...
    def writes_failing(self, reason: str | None) -> None: ...
    def database_hosts(self, hosts: Sequence[DatabaseHost]) -> None:
        """Of an address that names several."""

    def queue(self, states: Sequence[QueueState], waits: Mapping[str, timedelta]) -> None:
        """`waits` says how long the oldest due job of a kind has waited, if there is one."""

    def population(self, population: Population) -> None: ...
    def audit_backlog(self, pending: int, oldest: timedelta | None) -> None: ...
    def backup_checked(self, at: datetime | None) -> None: ...
    def key_age(self, purpose: str, age: timedelta) -> None: ...
    def partitions_ahead(self, table: str, ahead: timedelta) -> None: ...
    def partitions_obstructed(self, table: str, months: int) -> None: ...
    def clock_ahead(self, ahead: timedelta) -> None:
        """Of the process's clock, compared with the database's. Negative: behind."""

    def clock_doubted(self, reason: str | None) -> None: ...
    def stored(self, database: int, tables: Mapping[str, int]) -> None:
        """In bytes: the whole database, and its tables with their indexes."""


class MetricsPage(Protocol):
    def render(self) -> bytes:
        """The text exposition format 0.0.4, summed over all processes of this `postern serve`."""
