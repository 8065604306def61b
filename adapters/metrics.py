"""The Prometheus metrics."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import partial
from itertools import product
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from core.domain.federation.backchannel_requests import BackchannelStep
from core.domain.federation.directory_runs.runs import RunKind
from core.domain.federation.oauth.authorizations import SHOWN_TO_THE_PERSON, AuthorizationErrorCode
from core.domain.federation.oauth.device_flow import DeviceStep
from core.domain.federation.provisioning.runs import DoneThere, ProvisioningRunKind
from core.domain.identity.foreign_hashes.hashes import HashKind
from core.domain.identity.guards.bound_sessions import BindingOutcome
from core.domain.identity.login_events import LoginFailure
from core.domain.identity.proofs import ProofMethod
from core.domain.identity.registering import BudgetScope
from core.domain.identity.terms import TermsKeeper
from core.domain.identity.upstream.refreshes import RefreshFault
from core.domain.jobs import QueueState
from core.domain.mail import MAIL_JOB
from core.domain.platform.governance import ApprovalOutcome
from core.domain.record.deliveries import ReceiverKind
from core.domain.services.billing_news import NewsType
from core.domain.services.user_keys import KeyReason
from core.domain.tenancy.join_requests import Joined
from core.domain.tenancy.mail_servers import ORGANIZATION_MAIL_JOB
from ports.crypto import ListedPasswords
from ports.metrics import DatabaseHost, PoolState, Population

Kind = TypeVar("Kind", bound=MetricWrapperBase)

_SHARED_DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"
_BACKEND = "postgres"

_REQUEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_WAIT_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
_HASH_BUCKETS = (0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.25, 0.5, 1)
_JOB_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)

# Label values that are known from the start.
_KNOWN_JOBS = (MAIL_JOB,)
_LARGE_TABLES = frozenset(
    {
        *("audit_entries", "audit_links", "audit_personal", "events", "login_events", "refresh_tokens", "sessions", "users"),
        "webhook_deliveries",
    }
)
_CLOCK_DOUBTS = ("apart", "unseen")
_KNOWN_WRITE_FAILURES = ("disk_full", "read_only", "input_or_output_error", "no_standby_confirms_commits", "statement_timeout")
_KNOWN_HOST_STATES = ("takes_writes", "takes_no_writes", "refuses_the_connection", "no_answer")
_KNOWN_SAML = ("authn_request", "response", "logout_request", "logout_response", "our_logout_request", "our_logout_response")
_KNOWN_HOOK_OUTCOMES = ("go_on", "second_factor", "passkey", "no", "silent")
_KNOWN_NOT_ASKED = ("busy", "flow_over")
_KNOWN_DELIVERIES = ("delivered", "failed", "given_up")
_KNOWN_ORGANIZATION_MAILS = ("own", "installation", "failed", "refused")
_KNOWN_EXPORTS = ("received", "failed")
_KNOWN_NEWS = ("applied", "refused", "ignored", "repeated")
_KNOWN_CHECKS = ("same", "drifted", "refused", "failed")
_KNOWN_REACHES = ("reached", "failed")
_KNOWN_SPANS = ("sent", "dropped", "failed")
_KNOWN_CLOSINGS = ("slow_head", "slow_body", "slow_reader", "crowded_out", "made_room", "address_full", "process_full")
_STATUS_CLASSES = ("0xx", "1xx", "2xx", "3xx", "4xx", "5xx")

# The `_created` series would double the size of the page, and the process's start time says as much.
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # the library is only partly typed


class _Declared(Generic[Kind]):
    """A metric of each `PrometheusMetrics`. `known` are label values that are known from the start: their series begin at 0, so that `rate`
    does not miss the first increase.
    """

    def __init__(self, make: partial[Kind], known: Iterable[str | tuple[str, ...]]) -> None:
        self._make = make
        self.name, self.text, self.labels = make.args
        self.kind = getattr(make.func, "__name__", "").lower()
        self._known = [(one,) if isinstance(one, str) else one for one in known]

    def __get__(self, _metrics: object, _owner: type) -> Kind:
        # Python finds the metric that `PrometheusMetrics.__init__` has put beside this descriptor, which has no `__set__`.
        raise AttributeError("made when the metrics are")

    def made(self, registry: CollectorRegistry) -> Kind:
        metric = self._make(registry=registry)
        for labels in self._known:
            metric.labels(*labels)
        return metric


def _counter(name: str, text: str, *labels: str, known: Iterable[str | tuple[str, ...]] = ()) -> _Declared[Counter]:
    return _Declared(partial(Counter, name, text, labels), known)


def _gauge(name: str, text: str, mode: str, *labels: str, known: Iterable[str | tuple[str, ...]] = ()) -> _Declared[Gauge]:
    """`mode` says how the values of several processes are combined. Values of a pool are summed, since each process has a pool of its own.
    For the job queue the latest value counts, since all processes see the same queue.
    """
    return _Declared(partial(Gauge, name, text, labels, multiprocess_mode=mode), known)  # type: ignore[arg-type]  # literals below


def _histogram(
    name: str, text: str, buckets: Sequence[float], *labels: str, known: Iterable[str | tuple[str, ...]] = ()
) -> _Declared[Histogram]:
    return _Declared(partial(Histogram, name, text, labels, buckets=buckets), known)


class PrometheusMetrics:
    """Counts in this process, or in files that all processes share: with several processes, each writes its values into files of the
    directory `PROMETHEUS_MULTIPROC_DIR`, and one scrape sums the values of all. The parent sets the variable before a child imports this
    module, because the client library decides at import whether values live in memory or in files.

    Implements `ports.metrics.Metrics` and `ports.metrics.MetricsPage`.
    """

    _requests = _histogram(
        "sso_http_request_duration_seconds",
        "Time from request to answer, without the wait for enforced hooks",
        _REQUEST_BUCKETS,
        "method",
        "route",
        "status_class",
        known=(("GET", "/metrics", "2xx"),),
    )
    _in_flight = _gauge("sso_http_requests_in_flight", "Requests in progress", "livesum")
    _connections_closed = _counter(
        "sso_http_connections_closed_total",
        "Connections that Postern refused or closed",
        "reason",
        known=_KNOWN_CLOSINGS,
    )
    _rate_limited = _counter("sso_rate_limited_total", "Requests refused by a rate limit", "limit", "stage")
    _pool_connections = _gauge("sso_db_pool_connections_total", "Open database connections", "livesum", "backend", known=(_BACKEND,))
    _pool_idle = _gauge("sso_db_pool_connections_idle", "Idle database connections", "livesum", "backend", known=(_BACKEND,))
    _pool_max_size = _gauge(
        "sso_db_pool_connections_max", "Maximum number of database connections", "livesum", "backend", known=(_BACKEND,)
    )
    _pool_waiting = _gauge("sso_db_pool_waiting", "Tasks waiting for a database connection", "livesum", "backend", known=(_BACKEND,))
    _pool_wait = _histogram("sso_db_pool_wait_seconds", "Wait for a database connection", _WAIT_BUCKETS)
    _given_up = _counter(
        "sso_db_connections_given_up_total", "Database connections that Postern closed because the server did not execute their statements"
    )
    _writes_failing = _gauge(
        "sso_db_writes_failing", "1 while the database refuses writes, by the reason", "livemax", "reason", known=_KNOWN_WRITE_FAILURES
    )
    _database_hosts = _gauge("sso_db_host_state", "1 for the state of each of several database hosts", "livemax", "host", "state")
    _queue_depth = _gauge("sso_job_queue_depth", "Jobs waiting", "mostrecent")
    _jobs_waiting = _gauge("sso_jobs_waiting", "Jobs waiting, by kind", "mostrecent", "job_type")
    _jobs_dead = _gauge("sso_jobs_dead", "Jobs given up, by kind", "mostrecent", "job_type")
    _oldest_job = _gauge("sso_job_oldest_due_age_seconds", "How long the oldest due job has waited", "mostrecent")
    _oldest_jobs = _gauge("sso_jobs_oldest_due_age_seconds", "How long the oldest due job of a kind has waited", "mostrecent", "job_type")
    _jobs = _histogram("sso_job_processing_duration_seconds", "Time to process a job", _JOB_BUCKETS, "job_type", known=_KNOWN_JOBS)
    _jobs_processed = _counter(
        "sso_jobs_processed_total",
        "Attempts at jobs, by outcome",
        "job_type",
        "outcome",
        known=product(_KNOWN_JOBS, ("succeeded", "failed")),
    )
    _webhooks = _histogram("sso_webhook_delivery_latency_seconds", "Time for a webhook delivery attempt", _JOB_BUCKETS)
    _webhook_wait = _histogram(
        "sso_webhook_delivery_wait_seconds", "Time from when a webhook delivery was due to its attempt", _JOB_BUCKETS
    )
    _webhook_attempts = _counter(
        "sso_webhook_deliveries_total", "Webhook delivery attempts, by outcome", "outcome", known=_KNOWN_DELIVERIES
    )
    _webhooks_paused = _counter("sso_webhooks_paused_total", "Webhooks disabled after days of failures")
    _hooks = _histogram("sso_hook_latency_seconds", "Duration of a hook request", _JOB_BUCKETS)
    _hook_waits = _histogram(
        "sso_hook_wait_seconds",
        "Time that a sign-in waited for an enforced hook; sso_http_request_duration_seconds leaves it out",
        _JOB_BUCKETS,
    )
    _slow_hooks = _gauge("sso_hooks_slow", "Enforced hooks for which one in ten sign-ins waits longer than a second", "livemax")
    _hooks_asked = _counter("sso_hooks_asked_total", "Sign-in hook requests, by outcome", "outcome", known=_KNOWN_HOOK_OUTCOMES)
    _hooks_not_asked = _counter(
        "sso_hooks_not_asked_total",
        "Sign-ins denied because the hook could not be called, by reason",
        "reason",
        known=_KNOWN_NOT_ASKED,
    )
    _logout_notices = _histogram("sso_logout_notice_latency_seconds", "Time for a logout notice attempt", _JOB_BUCKETS)
    _logout_attempts = _counter("sso_logout_notices_total", "Logout notice attempts, by outcome", "outcome", known=_KNOWN_DELIVERIES)
    _signals = _histogram("sso_signal_latency_seconds", "Duration of an attempt to push a shared signal (SSF)", _JOB_BUCKETS)
    _signal_wait = _histogram("sso_signal_wait_seconds", "Time from when a signal was due to its attempt", _JOB_BUCKETS)
    _signal_attempts = _counter(
        "sso_signals_total", "Attempts to push shared signals (SSF), by outcome", "outcome", known=_KNOWN_DELIVERIES
    )
    _polled = _counter(
        "sso_signals_polled_total",
        "Shared signals (SSF) sent in poll responses, and acknowledged signals",
        "outcome",
        known=("sent", "acknowledged"),
    )
    _organization_mails = _counter(
        "sso_organization_mails_total",
        "Emails of organizations, by server: their own or the installation's",
        "outcome",
        known=_KNOWN_ORGANIZATION_MAILS,
    )
    _offboarding_late = _counter(
        "sso_offboarding_late_total", "Receivers that did not accept an act of offboarding within the deadline of their organization"
    )
    _text_approvals = _counter(
        "sso_text_approvals_total", "Platform owners' decisions on custom texts, by outcome", "outcome", known=ApprovalOutcome
    )
    _domain_checks = _counter(
        "sso_domain_checks_total", "Domain verification checks, by outcome", "outcome", known=("found", "missed", "unknown")
    )
    _upstream_sign_ins = _counter(
        "sso_upstream_sign_ins_total", "Sign-ins through identity providers, by provider and step", "provider", "outcome"
    )
    _odd_profiles = _counter(
        "sso_upstream_odd_profiles_total", "Sign-ins with a provider profile that does not identify a person, by provider", "provider"
    )
    _provider_tokens = _counter(
        "sso_provider_token_refreshes_total", "Token refreshes at identity providers, by outcome", "provider", "outcome"
    )
    _siem = _histogram("sso_siem_attempt_duration_seconds", "Time to send a batch to a SIEM", _JOB_BUCKETS)
    _siem_wait = _histogram("sso_siem_wait_seconds", "Time from when a batch for a SIEM could have been sent to its attempt", _JOB_BUCKETS)
    _siem_attempts = _counter("sso_siem_batches_total", "Attempts to send a batch to a SIEM, by outcome", "outcome", known=_KNOWN_EXPORTS)
    _siem_entries = _counter("sso_siem_entries_total", "Entries that SIEMs have received")
    _billing_checks = _counter(
        "sso_billing_checks_total", "Subscriptions reconciled with the payment provider, by result", "outcome", known=_KNOWN_CHECKS
    )
    _domain_joins = _counter(
        "sso_domain_joins_total", "People who became members by the domain of their address, or asked to", "outcome", known=Joined
    )
    _authorizations_refused = _counter(
        "sso_authorizations_refused_total",
        "Authorization requests refused",
        "reason",
        known=(*(word.value for word in AuthorizationErrorCode), *SHOWN_TO_THE_PERSON),
    )
    _user_keys_checked = _counter(
        "sso_user_key_checks_total",
        "Checks of user API keys",
        "outcome",
        known=("valid", *(reason.value for reason in KeyReason)),
    )
    _mails_held_back = _counter(
        "sso_mails_held_back_total",
        "Email requests that an email rate limit rejected or delayed, by the narrowest such limit",
        "budget",
        "outcome",
        known=product((scope.value for scope in BudgetScope), ("refused", "waits")),
    )
    _puzzles_answered = _counter(
        "sso_puzzles_answered_total",
        "Bot challenges (proof of work), by purpose and outcome",
        "purpose",
        "outcome",
    )
    _binding_asked = _counter(
        "sso_bound_sessions_total",
        "Requests of browsers to bind a session to a key or to renew its cookie, by outcome; forged: a wrong signature",
        "outcome",
        known=tuple(BindingOutcome),
    )
    _guesses_slowed = _counter(
        "sso_guesses_slowed_total",
        "Sign-ins from networks with credential stuffing, by whether the response was delayed or the request rejected",
        "outcome",
        known=("waited", "refused"),
    )
    _widgets_answered = _counter(
        "sso_widgets_answered_total",
        "CAPTCHA challenges, by purpose and outcome",
        "purpose",
        "outcome",
    )
    _billing_events = _counter(
        "sso_billing_events_total",
        "Events of the payment provider, by type and outcome",
        "event_type",
        "outcome",
        known=product(NewsType, _KNOWN_NEWS),
    )
    _billing_pending = _gauge("sso_billing_events_pending", "Events of the payment provider that are not applied yet", "mostrecent")
    _billing_oldest = _gauge("sso_billing_oldest_pending_age_seconds", "How long the oldest of these events has waited", "mostrecent")
    _saml = _counter(
        "sso_saml_messages_total",
        "SAML messages received and sent",
        "kind",
        "outcome",
        known=product(_KNOWN_SAML, ("succeeded", "refused")),
    )
    _connections = _counter(
        "sso_connection_exchanges_total",
        "Exchanges with organizations' identity providers",
        "kind",
        "outcome",
        known=product(("sign_in", "test", "logout"), ("succeeded", "refused")),
    )
    _refreshes = _counter(
        "sso_connection_refreshes_total",
        "Daily metadata checks of organizations' identity providers, by outcome",
        "outcome",
        known=("read", "asked", *RefreshFault),
    )
    _connection_needs = _gauge(
        "sso_connections_in_need",
        "Identity providers whose certificate expires within 30 days, within 7 (urgent), awaits an owner's approval, or is unreadable",
        "mostrecent",
        "need",
    )
    _directory_runs = _counter(
        "sso_directory_runs_total",
        "LDAP directory sync runs, by kind and outcome",
        "kind",
        "outcome",
        known=product(RunKind, ("done", "waiting", "failed")),
    )
    _directory_needs = _gauge(
        "sso_directory_runs_in_need",
        "Sync runs that await an owner's approval, and directories whose last sync run failed",
        "mostrecent",
        "need",
    )
    _provisioning_runs = _counter(
        "sso_provisioning_runs_total",
        "Provisioning sync runs, by kind and outcome",
        "kind",
        "outcome",
        known=product(ProvisioningRunKind, ("done", "waiting", "failed", "throttled", "turn_over")),
    )
    _provisioned_people = _counter(
        "sso_provisioning_people_total",
        "Provisioned users, by action",
        "what",
        known=(*DoneThere, "deleted"),
    )
    _provisioning_needs = _gauge(
        "sso_provisioning_in_need",
        "Provisioning runs that await an owner's approval, and provisioning connections that fail",
        "mostrecent",
        "need",
    )
    _provisioning_wait = _gauge(
        "sso_provisioning_wait_seconds",
        "How long the oldest change has waited to be provisioned, for connections that do not fail",
        "mostrecent",
    )
    # The sums over the processes: each counts what it has tried itself.
    _receivers = _gauge(
        "sso_outbound_receivers",
        "Receivers of organizations that were tried within 15 minutes, by kind and by whether one attempt succeeded or all failed",
        "livesum",
        "kind",
        "outcome",
        known=product(ReceiverKind, _KNOWN_REACHES),
    )
    _receiving_organizations = _gauge(
        "sso_outbound_organizations",
        "Organizations of these receivers, by whether one attempt at any of their receivers succeeded or all failed",
        "livesum",
        "outcome",
        known=_KNOWN_REACHES,
    )
    _saml_ending = _gauge(
        "sso_saml_certificates_ending", "Active SAML certificates that expire within 60 days, or expired in the last 30", "mostrecent"
    )
    _saml_first_end = _gauge(
        "sso_saml_certificate_end_timestamp_seconds",
        "When the first of these SAML certificates expires, in seconds since 1970; 0: none",
        "mostrecent",
    )
    _tls_end = _gauge(
        "sso_tls_certificate_end_timestamp_seconds",
        "When the HTTPS certificate of Postern expires, in seconds since 1970; 0: Postern serves HTTP",
        "mostrecent",
    )
    # The least over the processes, so that the metrics show a process that refused the file.
    _filter_hashes = _gauge(
        "sso_password_filter_hashes", "Hashes in the filter of breached passwords; 0: no file is set, or it is invalid", "livemin"
    )
    _filter_day = _gauge(
        "sso_password_filter_day_timestamp_seconds",
        "The day when the lists of this filter were read, in seconds since 1970; 0: there is none",
        "livemin",
    )
    _active_users = _gauge("sso_active_users_total", "Accounts that are not deactivated", "mostrecent")
    _organizations = _gauge("sso_total_organizations", "Organizations", "mostrecent")
    _mfa_users = _gauge("sso_mfa_enabled_users_total", "Users with MFA", "mostrecent")
    _mfa_adoption = _gauge("sso_mfa_adoption_percentage", "Share of active users with MFA", "mostrecent")
    _login_failures = _counter("sso_login_failures_total", "Failed sign-ins", "reason", known=LoginFailure)
    _reauthentications = _counter("sso_reauthentications_total", "Reauthentications within a session", "method", known=ProofMethod)
    _passkeys = _counter(
        "sso_passkeys_changed_total",
        "Passkeys added, by the browser itself after a password (`conditional`), and removed",
        "change",
        known=("added", "conditional", "removed"),
    )
    _device_flows = _counter("sso_device_flow_total", "Device flows, by step", "step", known=DeviceStep)
    _afar_requests = _counter(
        "sso_afar_requests_total", "Backchannel authentication requests (CIBA), by step", "step", known=BackchannelStep
    )
    _terms_accepted = _counter("sso_terms_accepted_total", "Accepted terms of service, by owner of the terms", "keeper", known=TermsKeeper)
    _tokens = _counter("sso_auth_tokens_issued_total", "Access tokens issued")
    _exchanges = _counter("sso_auth_tokens_exchanged_total", "Access tokens that services exchanged for one for another API")
    # The minimum over the processes, so that the metric shows an actor that is down in any of them.
    _actors = _gauge("sso_actor_up", "1 while the actor runs", "livemin", "actor")
    # The earliest over the processes, for the same reason.
    _turns = _gauge("sso_actor_last_turn_timestamp_seconds", "When the actor's last turn ended, in seconds since 1970", "livemin", "actor")
    _turns_due = _gauge(
        "sso_actor_turn_due_timestamp_seconds", "When the actor's next turn ends at the latest, unless it stalls", "livemin", "actor"
    )
    _restarts = _counter("sso_actor_restarts_total", "Restarts of an actor by its supervisor", "actor")
    _broken = _counter("sso_actor_work_broken_total", "Unexpected failures of an actor's work", "actor")
    _presence_dropped = _counter("sso_presence_dropped_total", "Last-used timestamps dropped because the buffer was full")
    _spans = _counter("sso_spans_total", "Trace spans: sent, dropped because the buffer was full, or failed", "outcome", known=_KNOWN_SPANS)
    _hashing = _histogram("sso_password_hash_seconds", "Time to hash or verify a password", _HASH_BUCKETS)
    _hashing_wait = _histogram("sso_password_hash_wait_seconds", "Wait for a hashing thread", _WAIT_BUCKETS)
    _hashing_queue = _gauge("sso_password_hash_queue", "Passwords waiting to be hashed", "livesum")
    _foreign_passwords = _gauge(
        "sso_foreign_passwords", "Accounts whose password hash another system made, by kind", "mostrecent", "kind", known=HashKind
    )
    _audit_pending = _gauge("sso_audit_entries_pending", "Audit entries that wait for their place in a chain", "mostrecent")
    _audit_oldest = _gauge("sso_audit_oldest_pending_age_seconds", "How long the oldest audit entry has waited for its place", "mostrecent")
    _backup_checked = _gauge(
        "sso_backup_checked_timestamp_seconds", "When a backup was last verified, in seconds since 1970; 0: never", "mostrecent"
    )
    _key_age = _gauge("sso_signing_key_age_seconds", "Age of the current signing key", "mostrecent", "purpose")
    _database_bytes = _gauge("sso_database_bytes", "Size of the database", "mostrecent")
    _table_bytes = _gauge("sso_table_bytes", "Size of a table that can become large, indexes included", "mostrecent", "table")
    _partitions_ahead = _gauge(
        "sso_partitions_ahead_seconds", "How long there will be a month to write to, by table", "mostrecent", "table"
    )
    _partitions_obstructed = _gauge(
        "sso_partitions_obstructed", "Months ahead in whose way another table stands, by table", "mostrecent", "table"
    )
    _clock_ahead = _gauge(
        "sso_clock_ahead_seconds", "By how much the process's clock is ahead of the database's; negative: behind", "mostrecent"
    )
    _clock_doubted = _gauge(
        "sso_clock_doubted",
        "1 while nothing is deleted for its age, since the clock may be wrong, by the reason",
        "livemax",
        "reason",
        known=_CLOCK_DOUBTS,
    )

    def __init__(self) -> None:
        directory = os.environ.get(_SHARED_DIRECTORY)
        self._registry = CollectorRegistry()
        self._page = self._registry if directory is None else _summed(self._registry, Path(directory))
        if directory is None:
            self._registry.register(_Processes(lambda: [os.getpid()]))
        for name, one in vars(PrometheusMetrics).items():
            if isinstance(one, _Declared):
                setattr(self, name, one.made(self._registry))
        # `labels` takes a lock at each call. So the children used so far are kept here.
        self._request_children: dict[tuple[str, str, int], Histogram] = {}
        # From the first look at the queue on: ten mails that are then lost at once are ten more than before. Before it, nobody knows.
        self._job_kinds = {MAIL_JOB, ORGANIZATION_MAIL_JOB}

    def request_started(self) -> None:
        self._in_flight.inc()

    def request_finished(self, method: str, route: str, status: int, seconds: float) -> None:
        self._in_flight.dec()
        self._request_child(method, route, status // 100).observe(seconds)

    def _request_child(self, method: str, route: str, status_class: int) -> Histogram:
        key = (method, route, status_class)
        child = self._request_children.get(key)
        if child is None:
            child = self._request_children[key] = self._requests.labels(method, route, _STATUS_CLASSES[status_class])
        return child

    def login_failed(self, reason: str) -> None:
        self._login_failures.labels(reason).inc()

    def reauthenticated(self, method: str) -> None:
        self._reauthentications.labels(method).inc()

    def passkeys_changed(self, change: str) -> None:
        self._passkeys.labels(change).inc()

    def device_flow(self, step: str) -> None:
        self._device_flows.labels(step).inc()

    def afar_request(self, step: str) -> None:
        self._afar_requests.labels(step).inc()

    def terms_accepted(self, keeper: str) -> None:
        self._terms_accepted.labels(keeper).inc()

    def authorization_refused(self, reason: str) -> None:
        self._authorizations_refused.labels(reason).inc()

    def user_key_checked(self, outcome: str) -> None:
        self._user_keys_checked.labels(outcome).inc()

    def mail_held_back(self, budget: str, outcome: str) -> None:
        self._mails_held_back.labels(budget, outcome).inc()

    def puzzle_answered(self, purpose: str, outcome: str) -> None:
        self._puzzles_answered.labels(purpose, outcome).inc()

    def binding_asked(self, outcome: str) -> None:
        self._binding_asked.labels(outcome).inc()

    def guess_slowed(self, outcome: str) -> None:
        self._guesses_slowed.labels(outcome).inc()

    def widget_answered(self, purpose: str, outcome: str) -> None:
        self._widgets_answered.labels(purpose, outcome).inc()

    def upstream_sign_in(self, provider: str, outcome: str) -> None:
        self._upstream_sign_ins.labels(provider, outcome).inc()

    def upstream_odd_profile(self, provider: str) -> None:
        self._odd_profiles.labels(provider).inc()

    def provider_token_refreshed(self, provider: str, outcome: str) -> None:
        self._provider_tokens.labels(provider, outcome).inc()

    def token_issued(self) -> None:
        self._tokens.inc()

    def token_exchanged(self) -> None:
        self._exchanges.inc()

    def job_processed(self, kind: str, seconds: float, *, succeeded: bool) -> None:
        self._jobs.labels(kind).observe(seconds)
        self._jobs_processed.labels(kind, "succeeded" if succeeded else "failed").inc()

    def webhook_attempted(self, outcome: str, seconds: float, waited: float) -> None:
        self._webhooks.observe(seconds)
        self._webhook_wait.observe(waited)
        self._webhook_attempts.labels(outcome).inc()

    def webhook_paused(self) -> None:
        self._webhooks_paused.inc()

    def hooks_slow(self, number: int) -> None:
        self._slow_hooks.set(number)

    def hook_asked(self, outcome: str, seconds: float, *, counts: bool) -> None:
        self._hooks.observe(seconds)
        if counts:
            self._hook_waits.observe(seconds)
        self._hooks_asked.labels(outcome).inc()

    def hook_not_asked(self, why: str) -> None:
        self._hooks_not_asked.labels(why).inc()

    def logout_notice_attempted(self, outcome: str, seconds: float) -> None:
        self._logout_notices.observe(seconds)
        self._logout_attempts.labels(outcome).inc()

    def signal_attempted(self, outcome: str, seconds: float, waited: float) -> None:
        self._signals.observe(seconds)
        self._signal_wait.observe(waited)
        self._signal_attempts.labels(outcome).inc()

    def signals_polled(self, outcome: str, number: int) -> None:
        self._polled.labels(outcome).inc(number)

    def organization_mail(self, outcome: str) -> None:
        self._organization_mails.labels(outcome).inc()

    def offboarding_late(self, receivers: int) -> None:
        self._offboarding_late.inc(receivers)

    def text_approval(self, outcome: str) -> None:
        self._text_approvals.labels(outcome).inc()

    def domain_checked(self, outcome: str) -> None:
        self._domain_checks.labels(outcome).inc()

    def siem_attempted(self, outcome: str, seconds: float, waited: float, received: int) -> None:
        self._siem.observe(seconds)
        self._siem_wait.observe(waited)
        self._siem_attempts.labels(outcome).inc()
        self._siem_entries.inc(received)

    def billing_event(self, event_type: str, outcome: str) -> None:
        self._billing_events.labels(event_type, outcome).inc()

    def billing_check(self, outcome: str) -> None:
        self._billing_checks.labels(outcome).inc()

    def billing_waiting(self, events: int, oldest: timedelta | None) -> None:
        self._billing_pending.set(events)
        self._billing_oldest.set(0 if oldest is None else oldest.total_seconds())

    def connection_exchanged(self, kind: str, *, succeeded: bool) -> None:
        self._connections.labels(kind, "succeeded" if succeeded else "refused").inc()

    def connection_refreshed(self, outcome: str) -> None:
        self._refreshes.labels(outcome).inc()

    def connections_ending(self, ending: int, waiting: int, failing: int, *, urgent: int) -> None:
        for need, count in (("ending", ending), ("urgent", urgent), ("waiting", waiting), ("failing", failing)):
            self._connection_needs.labels(need).set(count)

    def directory_run_ended(self, kind: str, outcome: str) -> None:
        self._directory_runs.labels(kind, outcome).inc()

    def directory_runs(self, waiting: int, failing: int) -> None:
        for need, count in (("waiting", waiting), ("failing", failing)):
            self._directory_needs.labels(need).set(count)

    def provisioning_run_ended(self, kind: str, outcome: str) -> None:
        self._provisioning_runs.labels(kind, outcome).inc()

    def person_sent_there(self, what: str) -> None:
        self._provisioned_people.labels(what).inc()

    def provisioning(self, waiting: int, failing: int, late: float) -> None:
        for need, count in (("waiting", waiting), ("failing", failing)):
            self._provisioning_needs.labels(need).set(count)
        self._provisioning_wait.set(max(late, 0.0))

    def receivers_reached(self, kind: str, reached: int, failed: int) -> None:
        for outcome, count in (("reached", reached), ("failed", failed)):
            self._receivers.labels(kind, outcome).set(count)

    def organizations_reached(self, reached: int, failed: int) -> None:
        for outcome, count in (("reached", reached), ("failed", failed)):
            self._receiving_organizations.labels(outcome).set(count)

    def saml_exchanged(self, kind: str, *, succeeded: bool) -> None:
        self._saml.labels(kind, "succeeded" if succeeded else "refused").inc()

    def saml_certificates_ending(self, number: int, first: datetime | None) -> None:
        self._saml_ending.set(number)
        self._saml_first_end.set(0 if first is None else first.timestamp())

    def password_filter(self, in_force: ListedPasswords | None) -> None:
        self._filter_hashes.set(0 if in_force is None else in_force.hashes)
        self._filter_day.set(0 if in_force is None else (in_force.day - date(1970, 1, 1)).total_seconds())

    def tls_certificate_ends(self, at: datetime) -> None:
        self._tls_end.set(at.timestamp())

    def joined_by_domain(self, outcome: str) -> None:
        self._domain_joins.labels(outcome).inc()

    def actor_up(self, actor: str, *, up: bool) -> None:
        self._actors.labels(actor).set(int(up))
        # The counter begins at 0, so that the first failure shows as an increase.
        self._broken.labels(actor)

    def actor_turned(self, actor: str, *, since: float, within: float) -> None:
        now = time.time()
        self._turns.labels(actor).set(now - since)
        self._turns_due.labels(actor).set(now + within)

    def work_broken(self, actor: str) -> None:
        self._broken.labels(actor).inc()

    def actor_restarted(self, actor: str) -> None:
        self._restarts.labels(actor).inc()

    def presence_dropped(self) -> None:
        self._presence_dropped.inc()

    def spans(self, outcome: str, number: int) -> None:
        self._spans.labels(outcome).inc(number)

    def connection_closed(self, reason: str) -> None:
        self._connections_closed.labels(reason).inc()

    def rate_limited(self, limit: str, stage: str) -> None:
        self._rate_limited.labels(limit, stage).inc()

    def password_hashed(self, seconds: float, waited: float) -> None:
        self._hashing.observe(seconds)
        self._hashing_wait.observe(waited)

    def hashing_queue(self, length: int) -> None:
        self._hashing_queue.set(length)

    def foreign_passwords(self, remaining: Mapping[str, int]) -> None:
        for kind in HashKind:
            self._foreign_passwords.labels(kind.value).set(remaining.get(kind.value, 0))

    def pool_waited(self, seconds: float) -> None:
        self._pool_wait.observe(seconds)

    def pool(self, state: PoolState) -> None:
        self._pool_connections.labels(_BACKEND).set(state.connections)
        self._pool_idle.labels(_BACKEND).set(state.idle)
        self._pool_max_size.labels(_BACKEND).set(state.max_size)
        self._pool_waiting.labels(_BACKEND).set(state.waiting)

    def connections_given_up(self, number: int) -> None:
        self._given_up.inc(number)

    def writes_failing(self, reason: str | None) -> None:
        found = "" if reason is None else reason.replace(" ", "_")
        for known in {*_KNOWN_WRITE_FAILURES, found} - {""}:
            self._writes_failing.labels(known).set(known == found)

    def database_hosts(self, hosts: Sequence[DatabaseHost]) -> None:
        for host in hosts:
            found = host.state.replace(" ", "_")
            for known in {*_KNOWN_HOST_STATES, found}:
                self._database_hosts.labels(host.name, known).set(known == found)

    def queue(self, states: Sequence[QueueState], waits: Mapping[str, timedelta]) -> None:
        self._queue_depth.set(sum(state.waiting for state in states))
        self._oldest_job.set(max((wait.total_seconds() for wait in waits.values()), default=0))
        # A kind whose last job is done is no longer in `states`. Its gauges are set to 0, because they would keep their last values
        # otherwise.
        gone = self._job_kinds - {state.kind for state in states}
        for state in (*states, *(QueueState(kind, 0, 0, None) for kind in gone)):
            self._jobs_waiting.labels(state.kind).set(state.waiting)
            self._jobs_dead.labels(state.kind).set(state.dead)
            self._oldest_jobs.labels(state.kind).set(waits.get(state.kind, timedelta(0)).total_seconds())
            self._job_kinds.add(state.kind)

    def population(self, population: Population) -> None:
        self._active_users.set(population.active_users)
        self._organizations.set(population.organizations)
        self._mfa_users.set(population.mfa_enabled_users)
        self._mfa_adoption.set(100 * population.mfa_enabled_users / population.active_users if population.active_users else 0)

    def audit_backlog(self, pending: int, oldest: timedelta | None) -> None:
        self._audit_pending.set(pending)
        self._audit_oldest.set(0 if oldest is None else oldest.total_seconds())

    def backup_checked(self, at: datetime | None) -> None:
        self._backup_checked.set(0 if at is None else at.timestamp())

    def key_age(self, purpose: str, age: timedelta) -> None:
        self._key_age.labels(purpose).set(age.total_seconds())

    def stored(self, database: int, tables: Mapping[str, int]) -> None:
        self._database_bytes.set(database)
        for name in _LARGE_TABLES & tables.keys():
            self._table_bytes.labels(name).set(tables[name])

    def partitions_ahead(self, table: str, ahead: timedelta) -> None:
        self._partitions_ahead.labels(table).set(ahead.total_seconds())

    def partitions_obstructed(self, table: str, months: int) -> None:
        self._partitions_obstructed.labels(table).set(months)

    def clock_ahead(self, ahead: timedelta) -> None:
        self._clock_ahead.set(ahead.total_seconds())

    def clock_doubted(self, reason: str | None) -> None:
        for known in _CLOCK_DOUBTS:
            self._clock_doubted.labels(known).set(known == reason)

    def render(self) -> bytes:
        return prometheus_client.generate_latest(self._page)


def every_metric() -> Iterator[tuple[str, str, Sequence[str], str]]:
    """Each metric as its name, its kind, its labels and what it says, by name."""
    every = (one for one in vars(PrometheusMetrics).values() if isinstance(one, _Declared))
    for one in sorted(every, key=lambda one: one.name):
        yield one.name, one.kind, one.labels, one.text


def forget_process(pid: int) -> None:
    """The parent calls this function when a child has ended. It removes the child's gauges and keeps its counts."""
    mark_process_dead(pid)  # type: ignore[no-untyped-call]  # the library is only partly typed


def _summed(declared: CollectorRegistry, directory: Path) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(_Processes(lambda: _living(directory)))
    registry.register(_Shared(declared, directory))
    return registry


def _living(directory: Path) -> list[int]:
    """The processes that write into the directory. `forget_process` removes their files of live gauges when they end."""
    pids = {int(file.stem.rpartition("_")[2]) for file in directory.glob("gauge_livesum_*.db")}
    return sorted(pid for pid in pids if _exists(pid))


def _exists(pid: int) -> bool:
    # Signal 0 instead of /proc, because macOS has no /proc.
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


class _Shared(Collector):
    """The values that all processes wrote. Metrics without a value yet appear by name alone, so that every metric exists from the first
    scrape on.
    """

    def __init__(self, declared: CollectorRegistry, directory: Path) -> None:
        self._declared = declared
        self._collector = MultiProcessCollector(None, str(directory))  # type: ignore[no-untyped-call]  # the library is only partly typed

    def collect(self) -> Iterator[Metric]:
        collected: Iterable[Metric] = self._collector.collect()  # type: ignore[no-untyped-call]  # the library is only partly typed
        written = {metric.name: metric for metric in collected}
        for declared in self._declared.collect():
            yield written.pop(declared.name, Metric(declared.name, declared.documentation, declared.type))
        yield from written.values()


class _Processes(Collector):
    """Processor time, memory and descriptors of the serving processes, read from /proc at each scrape. Time and memory are summed."""

    # The limit of descriptors applies to each process, so the smallest limit counts, and the process with the most. The latest start time
    # counts, because it shows a restart.
    _COMBINED: ClassVar[dict[str, Callable[[Iterable[float]], float]]] = {
        "process_open_fds": max,
        "process_max_fds": min,
        "process_start_time_seconds": max,
    }

    def __init__(self, pids: Callable[[], Sequence[int]]) -> None:
        self._pids = pids

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        values: dict[str, list[float]] = {}
        for pid in self._pids():
            for family in ProcessCollector(pid=lambda pid=pid: pid, registry=None).collect():  # type: ignore[misc]  # the default binds pid
                for sample in family.samples:
                    families[sample.name] = family
                    values.setdefault(sample.name, []).append(sample.value)
        for name, family in families.items():
            family.samples = [Sample(name, {}, self._COMBINED.get(name, sum)(values[name]))]
            yield family
