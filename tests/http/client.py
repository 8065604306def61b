"""A client that speaks ASGI to the application, in the test's own task: no socket, no server."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import trio

from entrypoints.http.application import PosternApplication
from tests.http.described import reading, require_described

# A piece of a body.
Piece = bytes | Callable[[], Awaitable[None]] | None
Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Received:
    status: int
    headers: Pairs
    body: bytes

    def header(self, name: str) -> str | None:
        found = [value for one, value in self.headers if one == name]
        assert len(found) < 2, f"{name} is there {len(found)} times"
        return found[0] if found else None

    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    def ok(self, status: int = 200) -> dict[str, Any]:
        """The JSON object of an answer, which must have this status."""
        assert self.status == status, self.body
        body: dict[str, Any] = self.json()
        return body

    @property
    def error_code(self) -> str:
        """The error code of an answer. Checks the shape that all failures have."""
        body = self.json()
        # A program may solve its way past a budget of mails.
        assert set(body) - ({"puzzle"} if self.status == 429 else set()) == {"error", "error_code", "timestamp"}, body
        assert self.header("content-type") == "application/json"
        return str(body["error_code"])


def refused(answer: Received) -> tuple[int, str]:
    return answer.status, answer.error_code


class Client:
    def __init__(self, application: PosternApplication, address: str = "192.0.2.1") -> None:
        self.application = application
        self.address = address

    async def get(self, target: str, *, token: str | None = None, headers: Pairs = ()) -> Received:
        return await self.request("GET", target, token=token, headers=headers)

    async def post(self, target: str, body: Any = None, *, token: str | None = None, headers: Pairs = ()) -> Received:
        """Sends a POST request. `body` is sent as JSON, but bytes are sent as they are."""
        return await self.request("POST", target, body=body, token=token, headers=headers)

    async def request(
        self, method: str, target: str, *, body: Any = None, token: str | None = None, headers: Pairs = (), chunk: int = 65_536
    ) -> Received:
        given = [(name.lower(), value) for name, value in headers]
        content = b""
        if body is not None:
            content = body if isinstance(body, bytes) else msgspec.json.encode(body)
            if not any(name == "content-type" for name, _ in given):
                given.append(("content-type", "application/json"))
        if token is not None:
            given.append(("authorization", f"Bearer {token}"))
        pieces = [content[at : at + chunk] for at in range(0, len(content), chunk)] or [b""]
        return await self.exchange(method, target, given, pieces)

    async def exchange(self, method: str, target: str, headers: Pairs, pieces: Sequence[Piece]) -> Received:
        """One request, with its body in these pieces. None as a piece means that the client sends no more; a function as a piece is
        awaited.
        """
        with reading() as read:
            answer = _received(await self._speak(method, target, headers, pieces, leaves=False))
        told = answer.status, dict(answer.headers), answer.body
        # A listener of its own for the metrics has no document that describes it.
        endpoints = getattr(self.application, "endpoints", None)
        if endpoints is not None:
            require_described(endpoints, method, target.partition("?")[0], read, told)
        return answer

    async def leave(self, method: str, target: str, headers: Pairs, pieces: Sequence[bytes]) -> None:
        """A client that goes away after these pieces of its body. The application must send it nothing."""
        assert await self._speak(method, target, headers, [*pieces, None], leaves=True) == []

    async def _speak(self, method: str, target: str, headers: Pairs, pieces: Sequence[Piece], *, leaves: bool) -> list[Mapping[str, Any]]:
        raw_path, _, query = target.encode().partition(b"?")
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.1"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": raw_path.decode("latin-1"),
            "raw_path": raw_path,
            "query_string": query,
            "root_path": "",
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers],
            "client": (self.address, 50_000),
            "server": ("127.0.0.1", 8000),
            "extensions": {},
        }
        waiting = [*pieces]
        sent: list[Mapping[str, Any]] = []

        async def receive() -> dict[str, Any]:
            piece = waiting.pop(0) if waiting else None
            if callable(piece):
                await piece()
                piece = waiting.pop(0)
            if piece is None:
                if not leaves:
                    await trio.sleep_forever()
                return {"type": "http.disconnect"}
            assert isinstance(piece, bytes)
            return {"type": "http.request", "body": piece, "more_body": bool(waiting)}

        async def send(message: Mapping[str, Any]) -> None:
            sent.append(message)

        await self.application(scope, receive, send)  # type: ignore[arg-type]  # plain dicts in place of hypercorn's typed ones
        return sent


def _received(sent: list[Mapping[str, Any]]) -> Received:
    assert sent, "no answer"
    start, *rest = sent
    assert start["type"] == "http.response.start"
    assert [message["type"] for message in rest] == ["http.response.body"] * len(rest)
    assert [message.get("more_body", False) for message in rest] == [True] * (len(rest) - 1) + [False]
    headers = [(name.decode(), value.decode()) for name, value in start["headers"]]
    return Received(start["status"], headers, b"".join(message["body"] for message in rest))
