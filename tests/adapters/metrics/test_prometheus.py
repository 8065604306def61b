"""The metrics: their names, types and labels from the first scrape on, and one page for several processes."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from adapters.metrics import PrometheusMetrics, _Processes
from core.domain.jobs import QueueState
from entrypoints import metrics_page
from ports.crypto import ListedPasswords
from ports.metrics import PoolState, Population
from tests.patience import PATIENCE
from tests.places import ROOT

NOW = datetime(2026, 11, 20, tzinfo=UTC)

# Operations interface, section 4.11.
PROMISED = {
    "sso_http_request_duration_seconds": "histogram",
    "sso_db_pool_connections_total": "gauge",
    "sso_db_pool_connections_idle": "gauge",
    "sso_db_pool_connections_max": "gauge",
    "sso_job_queue_depth": "gauge",
    "sso_job_processing_duration_seconds": "histogram",
    "sso_webhook_delivery_latency_seconds": "histogram",
    "sso_active_users_total": "gauge",
    "sso_total_organizations": "gauge",
    "sso_mfa_enabled_users_total": "gauge",
    "sso_mfa_adoption_percentage": "gauge",
    "sso_login_failures_total": "counter",
    "sso_auth_tokens_issued_total": "counter",
}
PROCESS = {
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
    "process_open_fds",
    "process_start_time_seconds",
}


def types(page: str) -> dict[str, str]:
    lines = (line.split() for line in page.splitlines() if line.startswith("# TYPE "))
    return {name: kind for _, _, name, kind in lines}


def value(page: str, name: str, **labels: str) -> float:
    found = [
        sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == name and sample.labels == labels
    ]
    assert len(found) == 1, f"{name} {labels}: {found}"
    return float(found[0])


@pytest.fixture
def metrics() -> PrometheusMetrics:
    return PrometheusMetrics()


def test_every_promised_metric_is_on_the_first_page(metrics: PrometheusMetrics) -> None:
    page = metrics.render().decode()
    assert PROMISED.items() <= types(page).items()
    assert types(page).keys() >= PROCESS
    assert "_created" not in page
    for name in ("connections_total", "connections_idle", "connections_max"):
        assert value(page, f"sso_db_pool_{name}", backend="postgres") == 0
    assert value(page, "sso_login_failures_total", reason="wrong_password") == 0
    assert value(page, "sso_job_processing_duration_seconds_count", job_type="mail") == 0
    assert value(page, "sso_http_request_duration_seconds_count", method="GET", route="/metrics", status_class="2xx") == 0


def test_requests_are_timed_by_method_route_and_class_of_status(metrics: PrometheusMetrics) -> None:
    for status in (200, 204, 404):
        metrics.request_started()
        metrics.request_finished("GET", "/x/{id}", status, 0.004)
    metrics.request_started()
    page = metrics.render().decode()
    labels = {"method": "GET", "route": "/x/{id}"}
    assert value(page, "sso_http_request_duration_seconds_count", **labels, status_class="2xx") == 2
    assert value(page, "sso_http_request_duration_seconds_bucket", **labels, status_class="2xx", le="0.005") == 2
    assert value(page, "sso_http_request_duration_seconds_bucket", **labels, status_class="2xx", le="0.0025") == 0
    assert value(page, "sso_http_request_duration_seconds_count", **labels, status_class="4xx") == 1
    assert value(page, "sso_http_requests_in_flight") == 1


def test_everything_else_that_is_told_shows(metrics: PrometheusMetrics) -> None:  # noqa: PLR0915 - a list
    metrics.login_failed("wrong_password")
    metrics.token_issued()
    metrics.user_key_checked("valid")
    metrics.puzzle_answered("registration", "solved")
    metrics.guess_slowed("waited")
    metrics.widget_answered("registration", "asked")
    metrics.token_exchanged()
    metrics.terms_accepted("organization")
    metrics.text_approval("approved")
    metrics.job_processed("mail", 0.2, succeeded=True)
    metrics.job_processed("mail", 0.2, succeeded=False)
    metrics.webhook_attempted("delivered", 0.3, 0.1)
    metrics.webhook_paused()
    metrics.logout_notice_attempted("failed", 0.2)
    metrics.signal_attempted("failed", 0.2, 0.1)
    metrics.signals_polled("sent", 2)
    metrics.siem_attempted("received", 0.3, 0.1, 12)
    metrics.siem_attempted("failed", 0.3, 0.1, 0)
    metrics.billing_event("invoice.paid", "applied")
    metrics.billing_check("drifted")
    metrics.billing_waiting(3, timedelta(seconds=20))
    metrics.connection_refreshed("read")
    metrics.connections_ending(2, 1, 0, urgent=2)
    metrics.directory_run_ended("whole", "done")
    metrics.directory_runs(1, 2)
    metrics.saml_exchanged("response", succeeded=True)
    metrics.saml_certificates_ending(1, NOW)
    metrics.tls_certificate_ends(NOW)
    metrics.password_filter(ListedPasswords(7, date(1970, 1, 3)))
    metrics.actor_up("mailer", up=True)
    metrics.actor_up("janitor", up=False)
    metrics.actor_turned("mailer", since=5, within=60)
    metrics.actor_restarted("janitor")
    metrics.work_broken("janitor")
    metrics.presence_dropped()
    metrics.spans("sent", 12)
    metrics.rate_limited("login", "process")
    metrics.connection_closed("slow_body")
    metrics.password_hashed(0.01, 0.002)
    metrics.hashing_queue(7)
    metrics.foreign_passwords({"bcrypt": 9})
    metrics.pool_waited(0.001)
    metrics.pool(PoolState(connections=4, idle=1, max_size=10, waiting=2))
    metrics.audit_backlog(12, timedelta(minutes=4))
    metrics.key_age("access", timedelta(days=3))
    metrics.partitions_ahead("events", timedelta(days=90))
    metrics.partitions_obstructed("events", 2)
    metrics.clock_ahead(timedelta(seconds=-40))
    metrics.clock_doubted("unseen")
    metrics.stored(1000, {"events": 700, "tiers": 1})
    page = metrics.render().decode()
    assert value(page, "sso_billing_events_total", event_type="invoice.paid", outcome="applied") == 1
    assert value(page, "sso_billing_checks_total", outcome="drifted") == 1
    assert value(page, "sso_billing_events_pending") == 3
    assert value(page, "sso_billing_oldest_pending_age_seconds") == 20
    assert value(page, "sso_login_failures_total", reason="wrong_password") == 1
    assert value(page, "sso_foreign_passwords", kind="bcrypt") == 9
    assert value(page, "sso_foreign_passwords", kind="scrypt") == 0
    assert value(page, "sso_auth_tokens_issued_total") == 1
    assert value(page, "sso_auth_tokens_exchanged_total") == 1
    assert value(page, "sso_job_processing_duration_seconds_count", job_type="mail") == 2
    assert value(page, "sso_jobs_processed_total", job_type="mail", outcome="failed") == 1
    assert value(page, "sso_webhook_delivery_latency_seconds_count") == 1
    assert value(page, "sso_siem_entries_total") == 12
    assert value(page, "sso_siem_batches_total", outcome="failed") == 1
    assert value(page, "sso_siem_wait_seconds_count") == 2
    assert value(page, "sso_actor_up", actor="mailer") == 1
    assert value(page, "sso_actor_up", actor="janitor") == 0
    assert value(page, "sso_saml_certificate_end_timestamp_seconds") == NOW.timestamp()
    assert value(page, "sso_tls_certificate_end_timestamp_seconds") == NOW.timestamp()
    assert value(page, "sso_guesses_slowed_total", outcome="waited") == 1
    assert value(page, "sso_password_filter_hashes") == 7
    assert value(page, "sso_password_filter_day_timestamp_seconds") == 2 * 86_400
    metrics.password_filter(None)
    assert value(metrics.render().decode(), "sso_password_filter_hashes") == 0
    assert value(metrics.render().decode(), "sso_password_filter_day_timestamp_seconds") == 0
    assert value(page, "sso_connections_in_need", need="urgent") == 2
    assert value(page, "sso_actor_restarts_total", actor="janitor") == 1
    due, last = (value(page, f"sso_actor_{name}_timestamp_seconds", actor="mailer") for name in ("turn_due", "last_turn"))
    assert due - last == pytest.approx(65)
    assert last < time.time() < due
    assert value(page, "sso_actor_work_broken_total", actor="janitor") == 1
    assert value(page, "sso_actor_work_broken_total", actor="mailer") == 0
    assert value(page, "sso_presence_dropped_total") == 1
    assert value(page, "sso_spans_total", outcome="sent") == 12
    assert value(page, "sso_spans_total", outcome="dropped") == 0
    assert value(page, "sso_rate_limited_total", limit="login", stage="process") == 1
    assert value(page, "sso_http_connections_closed_total", reason="slow_body") == 1
    assert value(page, "sso_http_connections_closed_total", reason="made_room") == 0
    assert value(page, "sso_password_hash_seconds_count") == 1
    assert value(page, "sso_password_hash_wait_seconds_count") == 1
    assert value(page, "sso_password_hash_queue") == 7
    assert value(page, "sso_db_pool_wait_seconds_count") == 1
    assert value(page, "sso_db_pool_connections_total", backend="postgres") == 4
    assert value(page, "sso_db_pool_connections_idle", backend="postgres") == 1
    assert value(page, "sso_db_pool_connections_max", backend="postgres") == 10
    assert value(page, "sso_db_pool_waiting", backend="postgres") == 2
    assert value(page, "sso_audit_entries_pending") == 12
    assert value(page, "sso_audit_oldest_pending_age_seconds") == 240
    metrics.audit_backlog(0, None)
    assert value(metrics.render().decode(), "sso_audit_oldest_pending_age_seconds") == 0
    assert value(page, "sso_signing_key_age_seconds", purpose="access") == 3 * 86_400
    assert value(page, "sso_partitions_ahead_seconds", table="events") == 90 * 86_400
    assert value(page, "sso_partitions_obstructed", table="events") == 2
    assert value(page, "sso_clock_ahead_seconds") == -40
    assert [value(page, "sso_clock_doubted", reason=reason) for reason in ("apart", "unseen")] == [0, 1]
    assert (value(page, "sso_database_bytes"), value(page, "sso_table_bytes", table="events")) == (1000, 700)
    assert "tiers" not in page


def test_the_share_of_users_with_mfa_is_a_percentage_also_of_nobody(metrics: PrometheusMetrics) -> None:
    metrics.population(Population(active_users=8, organizations=3, mfa_enabled_users=2))
    page = metrics.render().decode()
    assert value(page, "sso_mfa_adoption_percentage") == 25
    assert value(page, "sso_active_users_total") == 8
    assert value(page, "sso_total_organizations") == 3
    assert value(page, "sso_mfa_enabled_users_total") == 2
    metrics.population(Population(active_users=0, organizations=0, mfa_enabled_users=0))
    assert value(metrics.render().decode(), "sso_mfa_adoption_percentage") == 0


def test_the_queue_is_told_as_a_whole_and_by_kind_and_a_kind_that_is_done_goes_to_zero(metrics: PrometheusMetrics) -> None:
    waits = {"mail": timedelta(seconds=90), "webhook": timedelta(seconds=5)}
    metrics.queue([QueueState("mail", 3, 1, NOW), QueueState("webhook", 2, 0, NOW)], waits)
    page = metrics.render().decode()
    assert value(page, "sso_job_queue_depth") == 5
    assert value(page, "sso_jobs_dead", job_type="mail") == 1
    assert value(page, "sso_job_oldest_due_age_seconds") == 90
    assert value(page, "sso_jobs_oldest_due_age_seconds", job_type="webhook") == 5
    metrics.queue([QueueState("mail", 1, 0, None)], {})
    page = metrics.render().decode()
    assert value(page, "sso_job_queue_depth") == 1
    assert value(page, "sso_jobs_waiting", job_type="webhook") == 0
    assert value(page, "sso_jobs_oldest_due_age_seconds", job_type="webhook") == 0
    assert value(page, "sso_job_oldest_due_age_seconds") == 0


def test_mails_that_are_given_up_count_from_the_first_look_at_the_queue_on(metrics: PrometheusMetrics) -> None:
    """A series that begins with ten shows no increase. One that began with 0 before the first look would show one at each start."""
    assert "sso_jobs_dead{" not in metrics.render().decode()
    metrics.queue([], {})
    page = metrics.render().decode()
    assert [value(page, "sso_jobs_dead", job_type=kind) for kind in ("mail", "mail.organization")] == [0, 0]


_CHILD = """
import sys
import time
from adapters.metrics import PrometheusMetrics
from ports.metrics import PoolState, Population
metrics = PrometheusMetrics()
metrics.request_started()
metrics.request_finished("GET", "/x", 200, 0.004)
metrics.request_started()
metrics.token_issued()
metrics.pool(PoolState(connections=4, idle=1, max_size=10, waiting=0))
metrics.population(Population(active_users=8, organizations=3, mfa_enabled_users=2))
metrics.actor_up("mailer", up=sys.argv[1] == "up")
metrics.actor_turned("mailer", since=0, within=1000 if sys.argv[1] == "up" else 1)
print("ready", flush=True)
for line in sys.stdin:
    print(metrics.render().decode() + "# end", flush=True)
"""


class Child:
    """A serving process, as far as its metrics go."""

    def __init__(self, directory: Path, state: str) -> None:
        environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(directory), "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", _CHILD, state], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def lines_until(self, last: str) -> str:
        assert self.process.stdout is not None
        lines: list[str] = []
        while not lines or lines[-1] != last:
            lines.append(self.process.stdout.readline().rstrip("\n"))
            assert self.process.poll() is None
        return "\n".join(lines[:-1]) + "\n"

    def page(self) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.lines_until("# end")

    def end(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        self.process.wait(PATIENCE)


def due_in(page: str) -> float:
    return value(page, "sso_actor_turn_due_timestamp_seconds", actor="mailer") - value(
        page, "sso_actor_last_turn_timestamp_seconds", actor="mailer"
    )


def test_one_scrape_sums_all_processes_and_forgets_the_gauges_of_those_that_ended(tmp_path: Path) -> None:
    children = [Child(tmp_path, "up"), Child(tmp_path, "down")]
    try:
        for child in children:
            child.lines_until("ready")
        page = children[0].page()
        assert PROMISED.items() <= types(page).items()
        assert value(page, "sso_http_request_duration_seconds_count", method="GET", route="/x", status_class="2xx") == 2
        assert value(page, "sso_http_request_duration_seconds_bucket", method="GET", route="/x", status_class="2xx", le="0.005") == 2
        assert value(page, "sso_http_requests_in_flight") == 2
        assert value(page, "sso_auth_tokens_issued_total") == 2
        for name, total in (("total", 8), ("idle", 2), ("max", 20)):
            assert value(page, f"sso_db_pool_connections_{name}", backend="postgres") == total
        assert value(page, "sso_active_users_total") == 8
        assert value(page, "sso_actor_up", actor="mailer") == 0
        assert due_in(page) < 500, "the process that is due first counts"
        resident = value(page, "process_resident_memory_bytes")
        assert value(children[1].page(), "sso_auth_tokens_issued_total") == 2

        children[1].end()
        forget = "import sys; from adapters.metrics import forget_process; forget_process(int(sys.argv[1]))"
        subprocess.run(
            [sys.executable, "-c", forget, str(children[1].process.pid)],
            env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)},
            check=True,
        )
        page = children[0].page()
        assert value(page, "sso_db_pool_connections_max", backend="postgres") == 10
        assert value(page, "sso_http_requests_in_flight") == 1
        assert value(page, "sso_actor_up", actor="mailer") == 1
        assert due_in(page) > 500
        assert value(page, "sso_auth_tokens_issued_total") == 2, "what was counted stays counted"
        assert value(page, "process_resident_memory_bytes") < resident
    finally:
        for child in children:
            child.end()


def test_the_open_files_are_those_of_the_process_that_has_the_most() -> None:
    """The limit is each process's own: a sum would exceed it, and page, long before any process does."""
    many = "import os; kept = [os.dup(0) for _ in range(20)]"
    with _waiting(many) as busy, _waiting() as idle:
        one, other, both = (
            {sample.name: sample.value for family in _Processes(lambda pids=pids: pids).collect() for sample in family.samples}  # type: ignore[misc]
            for pids in ([busy], [idle], [busy, idle])
        )
    assert one["process_open_fds"] == other["process_open_fds"] + 20
    assert both["process_open_fds"] == one["process_open_fds"]
    memory = "process_resident_memory_bytes"
    assert both[memory] > max(one[memory], other[memory])


@contextmanager
def _waiting(program: str = "") -> Iterator[int]:
    """The process of a program that has run, and waits. Before its line, the kernel may count no memory for it."""
    with subprocess.Popen(
        [sys.executable, "-c", f"{program}\nprint(flush=True)\ninput()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        process.stdout.readline()
        yield process.pid
        process.kill()


def test_the_page_of_the_documents_is_current_and_names_every_metric_that_is_served() -> None:
    written = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert written == metrics_page.render(), "run: .venv/bin/python -m entrypoints.metrics_page > docs/metrics.md"
    served = {name for name in re.findall(r"^# TYPE (\w+)", PrometheusMetrics().render().decode(), re.MULTILINE) if name.startswith("sso_")}
    assert served == set(re.findall(r"^\| `(\w+)`", written, re.MULTILINE))
