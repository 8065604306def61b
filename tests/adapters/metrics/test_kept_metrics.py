"""Metrics that one test hands on to the next are as good as new."""

from datetime import timedelta

from core.domain.jobs import QueueState
from tests.kept_metrics import KeptMetrics


def lines(metrics: KeptMetrics) -> list[str]:
    """Without what is told of the process, which goes on."""
    return [line for line in metrics.render().decode().splitlines() if "process_" not in line]


def test_nothing_of_an_earlier_test_is_left() -> None:
    metrics = KeptMetrics()
    new = lines(metrics)
    metrics.request_started()
    metrics.request_finished("GET", "/api/user", 200, 0.1)
    metrics.login_failed("wrong_password")
    metrics.login_failed("a reason of its own")
    metrics.password_hashed(0.1, 0.2)
    metrics.key_age("signing", timedelta(days=1))
    metrics.queue([QueueState("a kind", 3, 1, None)], {"a kind": timedelta(seconds=5)})
    used = lines(metrics)
    assert used != new
    metrics.set_back()
    assert lines(metrics) == new
    metrics.request_started()
    metrics.request_finished("GET", "/api/user", 200, 0.1)
    assert [line for line in lines(metrics) if "/api/user" in line] == [line for line in used if "/api/user" in line]
