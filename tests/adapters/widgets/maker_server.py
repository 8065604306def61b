"""A maker of widgets on loopback. It answers as the makers' published documents say: a token counts once, with the secret of its site."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs

import trio

from adapters.widgets import VerifyingMaker, widget_presets
from core.domain.identity.guards.puzzles import MakerSeen
from core.domain.secrets import Secret
from core.frozen import replace
from entrypoints.bootstrap import Postern
from tests.receiver import Answer, Call, Receiver, answering, receiving

SITE_KEY, SECRET = "1x0-site-key", "2x0-the-secret-of-this-site"
TURNSTILE, HCAPTCHA = "turnstile", "hcaptcha"
# Whose answer to an answer that was verified before says so.
_SPENT: Final = {TURNSTILE: "timeout-or-duplicate", HCAPTCHA: "invalid-or-already-seen-response"}


@dataclass
class WidgetMakerServer:
    name: str
    receiver: Receiver
    tokens: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    asked: list[Mapping[str, str]] = field(default_factory=list)

    def solve(self, attributes: Mapping[str, str], *, site: str = "id.example.org", **changed: str) -> str:
        """What the widget puts into the form for a person on a page of this site with these attributes of its element."""
        token = f"0.token-{len(self.tokens)}_of.{self.name}"
        told = {"hostname": site, "challenge_ts": "2026-11-27T08:00:00Z"}
        if self.name == TURNSTILE:
            told |= {"action": attributes["action"], "cdata": attributes["cdata"]}
        self.tokens[token] = {**told, **changed}
        return token

    async def answer(self, stream: trio.abc.Stream, call: Call) -> bool:
        said = {name: values[0] for name, values in parse_qs(call.body.decode()).items()}
        self.asked.append(said)
        if said.get("secret") != SECRET:
            verdict: Mapping[str, Any] = {"success": False, "error-codes": ["invalid-input-secret"]}
        elif said.get("response") in self.tokens:
            kept = self.tokens[said["response"]]
            self.tokens[said["response"]] = {}
            spent = {"success": False, "error-codes": [_SPENT[self.name]]}
            verdict = {"success": True, "error-codes": [], **kept} if kept else spent
        else:
            verdict = {"success": False, "error-codes": ["invalid-input-response"]}
        return await answering(200, json.dumps(verdict).encode())(stream, call)

    def says(self, answer: Answer) -> None:
        """From now on, whatever it is asked about."""
        self.receiver.answer = answer

    def is_back(self) -> None:
        self.receiver.answer = self.answer


@asynccontextmanager
async def widget_maker(name: str = TURNSTILE) -> AsyncIterator[WidgetMakerServer]:
    async with receiving(answering(500)) as receiver:
        server = WidgetMakerServer(name, receiver)
        server.is_back()
        yield server


def with_widget(postern: Postern, server: WidgetMakerServer, secret: str = SECRET, **changed: Any) -> Postern:
    """Postern as it starts with the settings of the widget, whose maker is this server. `changed` is what else it publishes otherwise."""
    preset = replace(widget_presets()[server.name], verify=f"http://127.0.0.1:{server.receiver.port}/siteverify", **changed)
    maker = VerifyingMaker(postern.foundation.outbound, preset, SITE_KEY, Secret(secret))
    widgets = replace(postern.identity.widgets, maker=maker, seen=MakerSeen())
    return replace(postern, identity=replace(postern.identity, widgets=widgets))
