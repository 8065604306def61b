"""nginx and HAProxy start from the recipe's own files, before members of which one takes requests and dies."""

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import pytest
import trio

from ops.bench.load import Answer, fetch
from ops.drill.proxies import FOLDER, UNKNOWN, WAYS, Proxy, running
from tests.ops.machines.members import Member
from tests.patience import PATIENCE
from tests.places import open_directory
from tests.tools import needs

pytestmark = needs("nginx", "haproxy", "openssl")
KINDS = sorted(WAYS)


@asynccontextmanager
async def before(kind: str, *members: Member) -> AsyncIterator[Proxy]:
    async with AsyncExitStack() as stack:
        place = stack.enter_context(open_directory())
        place.chmod(0o755)  # workers of nginx are another user
        nursery = await stack.enter_async_context(trio.open_nursery())
        stack.callback(nursery.cancel_scope.cancel)
        ports = [(await member.serve(nursery)).port for member in members]
        yield await stack.enter_async_context(running(kind, place, ports))


async def ask(proxy: Proxy, method: str = "GET", path: str = "/api/user") -> Answer:
    target = replace(proxy.target(path), method=method, body=b"x" if method in {"POST", "PATCH"} else b"")
    answer = await fetch(target, PATIENCE)
    assert answer is not None
    return answer


@pytest.mark.parametrize("kind", KINDS)
async def test_a_read_that_a_member_took_to_its_grave_is_answered_by_the_other(kind: str) -> None:
    dying, well = Member("one", dies=True), Member("two")
    async with before(kind, dying, well) as proxy:
        with trio.fail_after(PATIENCE):
            # A proxy that has missed a look at the health leaves that member out for a while.
            while not dying.took["GET"]:
                answer = await ask(proxy)
                assert (answer.status, answer.body.strip()) == (200, b"two")


@pytest.mark.parametrize("method", ["POST", "PATCH"])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_change_that_a_member_took_is_sent_to_nobody_else(kind: str, method: str) -> None:
    dying, well = Member("one", dies=True), Member("two", dies=True)
    async with before(kind, dying, well) as proxy:
        answer = await ask(proxy, method)
    assert (answer.status, answer.body.decode().strip()) == (502, UNKNOWN)
    assert dying.took[method] + well.took[method] == 1


@pytest.mark.parametrize("kind", KINDS)
async def test_a_change_that_nobody_took_goes_to_the_other(kind: str) -> None:
    """A member that is gone refuses connections, so nothing was done there."""
    gone, well = Member("one", gone=True), Member("two")
    async with before(kind, gone, well) as proxy:
        answers = [await ask(proxy, "POST") for _ in range(3)]
    assert [one.status for one in answers] == [200] * 3
    assert well.took["POST"] == 3


@pytest.mark.parametrize("kind", KINDS)
async def test_the_address_of_a_client_is_the_one_that_the_proxy_saw(kind: str) -> None:
    one, two = Member("one"), Member("two")
    async with before(kind, one, two) as proxy:
        await fetch(replace(proxy.target("/"), headers={"X-Forwarded-For": "203.0.113.7", "X-Request-Id": "mine"}), PATIENCE)
    ((head),) = [*one.heads, *two.heads]
    lines = [line.strip().lower() for line in head.split(b"\r\n")]
    assert [line for line in lines if line.startswith(b"x-forwarded-for:")] == [b"x-forwarded-for: 127.0.0.1"]
    assert b"x-forwarded-proto: https" in lines
    assert b"x-request-id: mine" not in lines


@pytest.mark.parametrize("kind", KINDS)
async def test_metrics_stay_inside_and_plain_http_is_led_to_https(kind: str) -> None:
    one, two = Member("one"), Member("two")
    async with before(kind, one, two) as proxy:
        assert (await ask(proxy, path="/metrics")).status == 404
        plain = await fetch(replace(proxy.target("/x"), tls=False, port=proxy.plain), PATIENCE)
        assert plain is not None
        assert (plain.status, plain.headers["location"].split(":")[0]) == (308, "https")
    assert not one.took + two.took


@pytest.mark.parametrize("kind", KINDS)
async def test_what_keepalived_asks_is_answered_by_the_proxy_alone(kind: str) -> None:
    """While a daemon starts, it lets requests wait, and each proxy leads half of them to it: the address would leave both machines."""
    (path,) = re.findall(r"https://127\.0\.0\.1(/\S+) --header", (FOLDER / "keepalived.conf").read_text())
    gone, other = Member("one", gone=True), Member("two", gone=True)
    async with before(kind, gone, other) as proxy:
        assert (await ask(proxy)).status >= 500
        assert [(await ask(proxy, path=path)).status // 100 for _ in range(3)] == [2, 2, 2]


async def test_haproxy_leads_past_a_member_that_is_not_ready_and_to_all_when_nobody_is() -> None:
    one, two = Member("one", ready=False), Member("two")
    async with before("haproxy", one, two) as proxy:
        with trio.fail_after(PATIENCE):
            while (await ask(proxy)).body.strip() != b"two" or (await ask(proxy)).body.strip() != b"two":
                await trio.sleep(0.1)
        two.ready = False
        one.took.clear()
        with trio.fail_after(PATIENCE):
            while not one.took:
                assert (await ask(proxy)).status == 200
                await trio.sleep(0.1)
