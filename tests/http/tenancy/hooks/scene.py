"""Acme and its owner, a platform owner, and what they say of their hooks."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.http.cast import Neighbours
from tests.http.client import Received
from tests.http.people import Person
from tests.receiver import Answer, Receiver, answering

ACME: Final = "/api/organizations/acme/hooks/sign-in"
GLOBEX: Final = "/api/organizations/globex/hooks/sign-in"
INSTALLATION: Final = "/api/platform/hooks/sign-in"
GO_ON: Final = {"decision": "go_on"}


def saying(said: Mapping[str, Any]) -> Answer:
    return answering(200, json.dumps(said).encode(), "content-type: application/json")


@dataclass
class HookScene(Neighbours):
    receiver: Receiver = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.boss = self.speaker = self.resident(self.acme, "owner", "boss")
        self.admin = self.resident(self.acme, "admin", "admin")
        self.stranger = self.resident(self.globex, "owner", "stranger")
        self.root = self.people.add("root@platform.example", platform_owner=True)

    def keeper(self, at: str) -> Person:
        return {ACME: self.boss, GLOBEX: self.stranger, INSTALLATION: self.root}[at]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.receiver.port}/sign-in"

    async def ask(self, method: str, step: str = "", body: Any = None, *, at: str = ACME, by: Person | None = None) -> Received:
        return await self.request(method, f"{at}{step}", body, by=by or self.keeper(at))

    async def put(self, *, at: str = ACME, by: Person | None = None, **changed: Any) -> Received:
        body = {"address": self.url, "silence": "go_on", **changed}
        answer = await self.ask("PUT", "", body, at=at, by=by)
        if answer.status == 200 and answer.json()["secret"] is not None:
            self.log.remember(answer.json()["secret"])
        return answer

    async def shown(self, at: str = ACME) -> dict[str, Any]:
        found: dict[str, Any] = (await self.ask("GET", at=at)).ok()
        return found

    async def made(self, at: str = ACME, **changed: Any) -> dict[str, Any]:
        found: dict[str, Any] = (await self.put(at=at, **changed)).ok()
        return found

    def stood(self, **columns: Any) -> None:
        """The only hook has stood in shadow for an hour, or has said what the columns say."""
        for name, value in columns.items():
            self.people.change(f"update hooks set {name} = %s", value)
        if not columns:
            self.people.change("update hooks set since = since - interval '1 hour'")

    async def counting(self, at: str = ACME) -> dict[str, Any]:
        if (await self.shown(at))["id"] is None:
            await self.made(at)
        self.stood()
        seen = (await self.shown(at))["report"]["digest"]
        found: dict[str, Any] = (await self.ask("POST", "/count", {"digest": seen}, at=at)).ok()
        return found
