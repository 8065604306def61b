"""The receiver of the guide does what the guide says: the test runs the text that stands there."""

import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from tests.http.federation.signals.scene import VERIFY, Signalling, delivery
from tests.http.people import BASE_URL
from tests.patience import PATIENCE
from tests.places import ROOT
from tests.receiver import Receiver, answering, receiving

GUIDE = ROOT / "docs" / "guides" / "apis" / "signals.md"
HEADER = "Bearer of the guide"


def program() -> str:
    (text,) = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return str(text)


class GuideReceiver:
    def __init__(self, output: trio.abc.ReceiveStream) -> None:
        self._output = output
        self._text = ""

    async def line(self) -> str:
        with trio.fail_after(PATIENCE):
            while "\n" not in self._text:
                received = await self._output.receive_some()
                assert received, self._text
                self._text += received.decode()
        line, _, self._text = self._text.partition("\n")
        return line


@asynccontextmanager
async def running(signalling: Signalling, keys: Receiver, place: Path) -> AsyncIterator[tuple[GuideReceiver, int]]:
    """The program of the guide, and its port."""
    (place / "receiver.py").write_text(program(), encoding="utf-8")
    told = {
        "OIDC_ISSUER": BASE_URL,
        "OIDC_CLIENT_ID": signalling.shop.client_id,
        "HEADER": HEADER,
        "JWKS_URI": f"http://127.0.0.1:{keys.port}/jwks",
        "PORT": "0",
    }
    command = [sys.executable, str(place / "receiver.py")]
    environment = {**os.environ, **told}
    process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
    try:
        assert process.stdout is not None
        receiver = GuideReceiver(process.stdout)
        yield receiver, int((await receiver.line()).rpartition(" ")[2])
    finally:
        process.kill()
        await process.wait()


def test_the_receiver_has_thirty_lines_and_its_imports() -> None:
    lines = [line for line in program().splitlines() if line.strip() and not line.startswith(("import ", "from "))]
    assert len(lines) <= 30


async def test_the_receiver_of_the_guide_hears_of_a_sign_out_and_refuses_others(signalling: Signalling, tmp_path: Path) -> None:
    jwks = (await signalling.client.get("/.well-known/jwks.json")).body
    signalling.log.remember(HEADER)
    async with receiving(answering(200, jwks)) as keys, running(signalling, keys, tmp_path) as (receiver, port), signalling.dispatching():
        await signalling.turned_on()
        made = {"delivery": delivery(port, authorization_header=HEADER)}
        stream = (await signalling.call("POST", "/ssf/streams", made)).ok(201)["stream_id"]
        assert (await signalling.call("POST", VERIFY, {"stream_id": stream})).status == 204
        assert (await receiver.line()).startswith("verification None")
        person = await signalling.leaves()
        assert (await receiver.line()).startswith(f"session-revoked {person} {{'event_timestamp'")
        await signalling.settled()
        assert signalling.errors() == [None, None]
        # Without the header that only Postern has, a signal is refused for good.
        (await signalling.call("PATCH", "/ssf/streams", {"stream_id": stream, "delivery": delivery(port, authorization_header="x")})).ok()
        await signalling.leaves()
        await signalling.settled()
    assert "refused: invalid_request" in signalling.errors()
