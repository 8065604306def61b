"""The drill of machines: its clients repeat what real ones repeat, and its alarms know whom a fault would wake."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import trio

from core.domain.secrets import Token
from ops.drill.__main__ import main
from ops.drill.alarms import INTERVAL, Alarms
from ops.drill.clients import Material
from ops.drill.machines import DETECTION, FAULTS
from ops.drill.proxies import Proxy, running
from ops.drill.visitors import PATIENCE, Visitors
from tests.ops.machines.members import Member
from tests.places import open_directory
from tests.tools import needs


def scrapes(*of: Mapping[str, Mapping[str, float] | None]) -> Alarms:
    return Alarms({}, list(of))


def ready(instance: str, status: str) -> str:
    return (
        f'sso_http_request_duration_seconds_count{{route="/health/ready", status_class="{status}", job="postern", instance="{instance}"}}'
    )


def pool(instance: str) -> str:
    return f'sso_db_pool_waiting{{backend="postgres", job="postern", instance="{instance}"}}'


def alive(number: int) -> Mapping[str, Mapping[str, float] | None]:
    return {one: {pool(one): 0, ready(one, "2xx"): 5.0 * number, ready(one, "5xx"): 0} for one in ("a", "b")}


@needs("promtool")
async def test_one_that_is_gone_is_a_ticket_and_both_are_a_page(tmp_path: Path) -> None:
    before = [alive(number) for number in range(3)]
    assert await scrapes(*before).fired(tmp_path) == {}
    gone = {**alive(3), "a": None}
    assert await scrapes(*before, gone).fired(tmp_path) == {"PosternInstanceDown": "ticket"}
    assert await scrapes(*before, {"a": None, "b": None}).fired(tmp_path) == {"PosternAbsent": "page", "PosternDown": "page"}


@needs("promtool")
async def test_as_long_as_patroni_takes_wakes_nobody_and_minutes_do(tmp_path: Path) -> None:
    def refused(seconds: float) -> list[Mapping[str, Mapping[str, float] | None]]:
        steps = int(seconds / INTERVAL) + 1
        during = [{one: {pool(one): 0, ready(one, "2xx"): 50.0, ready(one, "5xx"): 5.0 * n} for one in ("a", "b")} for n in range(steps)]
        after = [
            {one: {pool(one): 0, ready(one, "2xx"): 50.0 + 5 * n, ready(one, "5xx"): 5.0 * (steps - 1)} for one in ("a", "b")}
            for n in range(20)
        ]
        return [*(alive(number) for number in range(11)), *during, *after]

    assert await scrapes(*refused(DETECTION + 5)).fired(tmp_path) == {}
    assert await scrapes(*refused(180)).fired(tmp_path) == {"PosternNotReady": "page"}


class _Person:
    def __init__(self, email: str) -> None:
        self.email = self.user = email


def material() -> Material:
    people: Any = (_Person(f"{number}@example.com") for number in range(1000))
    return Material(people, cycle([{}]), iter(()), iter(()), cycle([Token("scim_x")]))


@needs("nginx", "haproxy", "openssl")
async def test_clients_go_to_the_other_proxy_and_repeat_reads_alone() -> None:
    async with AsyncExitStack() as stack:
        place = stack.enter_context(open_directory())
        place.chmod(0o755)
        nursery = await stack.enter_async_context(trio.open_nursery())
        stack.callback(nursery.cancel_scope.cancel)
        members = [await Member(name, dies=True).serve(nursery) for name in ("one", "two")]
        ports = [member.port for member in members]
        gone = Proxy("nginx", place, ports)
        there = await stack.enter_async_context(running("haproxy", place, ports))
        visitors = Visitors([gone, there], material())
        await visitors.provision()
        await visitors.provision()
        assert [(one.code, one.tries) for one in visitors.visits] == [("502", 1)] * 2
        assert sum((member.took["POST"] for member in members), 0) == 2
        for member in members:
            member.dies = False
        await visitors.read()
        assert visitors.visits[-1].was_smooth
        assert visitors.under_way == set()


def test_clients_are_more_patient_than_patroni_is_slow() -> None:
    assert PATIENCE > DETECTION + 10


def test_each_fault_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["machines", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(FAULTS)
    assert all(len(line.split()) > 8 for line in lines)
    with pytest.raises(SystemExit):
        main(["machines", "earthquake"])
