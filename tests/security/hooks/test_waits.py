"""An owner whose hook is slow wakes nobody: what a sign-in waits for a hook is no time of ours."""

from collections.abc import Sequence

import trio
from prometheus_client.parser import text_string_to_metric_families

from actors.watchers import OutboundWatcher
from core.usecases.tenancy.hook_asking import ENOUGH
from tests.conftest import CapturedLog
from tests.http.federation.arriving import Arriving
from tests.http.signing_in import PASSWORD, Browser
from tests.receiver import Answer, Call
from tests.security.hooks.hooked import GO_ON, Hooks, saying
from tests.security.hooks.test_doors import INTO

SLOW = 0.4


def late(seconds: float = SLOW) -> Answer:
    async def answer(stream: trio.abc.Stream, call: Call) -> bool:
        await trio.sleep(seconds)
        return await saying(GO_ON)(stream, call)

    return answer


def observed(arriving: Arriving, name: str, **labels: str) -> float:
    page = arriving.postern.foundation.metrics.render().decode()
    samples = (sample for family in text_string_to_metric_families(page) for sample in family.samples)
    return sum(one.value for one in samples if one.name == name and labels.items() <= one.labels.items())


def logged(log: CapturedLog, route: str) -> Sequence[dict[str, float]]:
    return [dict(one) for one in log.events("request") if one["route"] == route]


async def test_the_wait_for_a_hook_that_counts_is_outside_the_objective(arriving: Arriving, hooks: Hooks, log: CapturedLog) -> None:
    grace = arriving.tenants.join(await arriving.people.with_password(PASSWORD, "grace@acme.example"), arriving.acme)
    async with hooks.of(arriving.acme, late()):
        assert (await Browser(arriving.unlimited).login(grace, **INTO)).status == 200
    (line,) = logged(log, "/api/auth/login")
    ours = observed(arriving, "sso_http_request_duration_seconds_sum", route="/api/auth/login")
    assert line["hooks_ms"] >= SLOW * 1000
    # The log has the time that the person has waited.
    assert abs(line["duration_ms"] - line["hooks_ms"] - ours * 1000) < 1
    assert observed(arriving, "sso_hook_wait_seconds_count") == 1
    assert observed(arriving, "sso_hook_wait_seconds_sum") >= SLOW


async def test_a_hook_in_shadow_has_no_part_in_it(arriving: Arriving, hooks: Hooks, log: CapturedLog) -> None:
    grace = arriving.tenants.join(await arriving.people.with_password(PASSWORD, "grace@acme.example"), arriving.acme)
    async with hooks.of(arriving.acme, counts=False) as hooked:
        assert (await Browser(arriving.unlimited).login(grace, **INTO)).status == 200
        await hooked.receiver.until(1)
    (line,) = logged(log, "/api/auth/login")
    assert "hooks_ms" not in line
    assert observed(arriving, "sso_hook_wait_seconds_count") == 0


async def test_slow_hooks_are_named_in_the_log_and_counted_in_the_metrics(arriving: Arriving, hooks: Hooks, log: CapturedLog) -> None:
    foundation = arriving.postern.foundation
    watcher = OutboundWatcher(foundation.outbound_reach, foundation.hook_waits, foundation.metrics)
    async with hooks.of(arriving.acme) as hooked:
        watcher.look_at_hooks()
        assert log.events("hooks_slow") == []
        for _ in range(ENOUGH):
            foundation.hook_waits.answered(hooked.hook, 4.0)
        watcher.look_at_hooks()
    (line,) = log.events("hooks_slow")
    named = {"hook": str(hooked.hook.id), "organization": str(arriving.acme.id), "seconds": 4.0}
    assert (line["level"], line["hooks"], line["slowest"]) == ("warning", 1, [named])
    page = foundation.metrics.render().decode()
    assert "\nsso_hooks_slow 1.0\n" in page
    # Anybody may read the metrics of an installation without a token for them.
    assert str(arriving.acme.id) not in page
    assert "acme" not in page
