"""Members that stand in for a daemon: they answer, or take a request and end, as a process does that is killed in the middle of it."""

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

import trio


@dataclass(slots=True)
class Member:
    name: str
    dies: bool = False
    """Ends the connection of each request that it took, without an answer. Looks at its health go on."""
    gone: bool = False
    """Holds its port, and refuses connections."""
    ready: bool = True
    port: int = 0
    took: Counter[str] = field(default_factory=Counter)
    """By its method, how many requests it took, without looks at its health."""
    heads: list[bytes] = field(default_factory=list)

    async def serve(self, nursery: trio.Nursery) -> "Member":
        if self.gone:
            # Bound, and never listening: nobody else gets the port.
            await nursery.start(self._refuse)
            return self
        listeners = await nursery.start(trio.serve_tcp, self._answer, 0)
        self.port = listeners[0].socket.getsockname()[1]
        return self

    async def _refuse(self, *, task_status: trio.TaskStatus[None]) -> None:
        with trio.socket.socket() as closed:
            await closed.bind(("127.0.0.1", 0))
            self.port = closed.getsockname()[1]
            task_status.started()
            await trio.sleep_forever()

    async def _answer(self, stream: trio.SocketStream) -> None:
        # A proxy resets the connection when it has waited for too long.
        async with stream:
            with suppress(trio.BrokenResourceError):
                await self._answer_each(stream)

    async def _answer_each(self, stream: trio.SocketStream) -> None:
        read = b""
        while True:
            while b"\r\n\r\n" not in read:
                received = await stream.receive_some(65536)
                if not received:
                    return
                read += received
            head, _, read = read.partition(b"\r\n\r\n")
            read = read[_length(head) :]
            method, path, _ = head.split(b" ", 2)
            if path == b"/health/ready":
                await stream.send_all(_OK % (b"200 OK" if self.ready else b"503 Unready", b"ready"))
                continue
            self.took[method.decode()] += 1
            self.heads.append(head)
            if self.dies:
                return
            await stream.send_all(_OK % (b"200 OK", self.name.encode().ljust(5)))


_OK = b"HTTP/1.1 %s\r\ncontent-length: 5\r\n\r\n%s"


def _length(head: bytes) -> int:
    lengths = [line.partition(b":")[2] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return int(lengths[0]) if lengths else 0
