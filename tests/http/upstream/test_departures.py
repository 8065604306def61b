"""A client that leaves while we call a provider must not lose a token that the provider gives only once. Over our own server, which cancels
requests whose client has left.
"""

from typing import Any

import pytest
import trio

from entrypoints.http.machinery import dispatch
from entrypoints.http.server.limits import ServerSettings
from tests.http.running_server import running
from tests.http.upstream.scene import UpstreamScene
from tests.http.upstream.test_provider_tokens import TokenHolder

SOON = ServerSettings(watch_interval=0.05)
# Longer than the server's interval between looks for clients that have left.
SLOW = 0.7


async def until_asked(fake: Any) -> None:
    while not fake.forms:
        await trio.sleep(0.01)


def request(path: str, header: str, value: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: id.postern.test\r\n{header}: {value}\r\n\r\n".encode()


async def test_an_application_that_hangs_up_while_a_token_is_renewed_loses_none(scene: UpstreamScene) -> None:
    ada, fake = TokenHolder(scene), scene.fakes["websuite"]
    await ada.come()
    ada.expire()
    fake.forms.clear()
    fake.slow = SLOW
    async with running(scene.unlimited.application, SOON) as server:
        client = await server.connect()
        await client.send(request("/api/provider-token/websuite", "Authorization", f"Bearer {ada.token}"))
        await until_asked(fake)
        await client.stream.aclose()
        # The fake takes a refresh token once.
        assert (await ada.get()).status == 200
    assert sum("refresh_token" in call for call in fake.calls) == 1


async def test_whoever_only_waits_for_the_token_may_be_broken_off(scene: UpstreamScene, monkeypatch: pytest.MonkeyPatch) -> None:
    ada, fake = TokenHolder(scene), scene.fakes["websuite"]
    await ada.come()
    ada.expire()
    fake.slow = 0.3
    finishing: list[None] = []
    monkeypatch.setattr(dispatch, "nothing", lambda: finishing.append(None))
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(ada.get)
    assert len(finishing) == 1


async def test_who_reloads_the_page_that_asks_the_provider_is_signed_in(scene: UpstreamScene) -> None:
    tabs, fake = scene.browser(), scene.sits()
    back = fake.consent(await scene.leave(tabs, scene.direct()))
    cookies = "; ".join(f"{name}={value}" for name, value in tabs.cookies.items())
    fake.slow = SLOW
    async with running(scene.unlimited.application, SOON) as server:
        client = await server.connect()
        await client.send(request(back, "Cookie", cookies))
        await until_asked(fake)
        await client.stream.aclose()
        answer = await server.ask(request(back, "Cookie", cookies))
    assert answer.status == 302, answer.body
    assert "code=" in answer.headers["location"]
    assert len(fake.forms) == 1
