"""A list that is asked for more than it gives: every list answers alike to `limit`, and SCIM lists answer in their own way to `count`."""

import re
from typing import Any, Final
from uuid import uuid4

import msgspec
import pytest

from core.domain.federation.scim.resources import MOST_LISTED
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.routes import ROUTES
from tests.conftest import CapturedLog
from tests.http.cast import Shops
from tests.http.client import Client, Received, refused
from tests.http.people import People

# The document gives these lists no maximum.
WITHOUT_END: Final = {
    "GET /api/organizations/{org_slug}/services",
    "GET /api/organizations/{org_slug}/analytics/recent-logins",
}
HUGE: Final = 10**30


def asks_for(name: str) -> list[Endpoint]:
    return [one for one in ROUTES if name in {field for kind in (one.query_type, one.body_type) for field in fields(kind)}]


def fields(kind: Any) -> dict[str, msgspec.structs.FieldInfo]:
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return {}
    return {one.encode_name: one for one in msgspec.structs.fields(kind)}


class ListScene(Shops):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.speaker = self.resident(self.acme, "owner")
        self.governor = self.people.add(platform_owner=True)
        self.key = self.token = ""

    async def open(self) -> "ListScene":
        keys = "/api/organizations/acme/services/shop/api-keys"
        rights = ["read:users", "read:subscriptions", "read:user_keys"]
        self.key = (await self.request("POST", keys, {"name": "key", "permissions": rights})).ok(201)["key"]
        self.token = (await self.request("POST", "/api/organizations/acme/scim-tokens", {"name": "directory"})).ok()["token"]
        self.log.remember(self.key, self.token)
        connection = {"base_url": "https://board.example/scim/v2"}
        (await self.request("PUT", "/api/organizations/acme/services/shop/provisioning", connection)).ok()
        return self

    async def ask(self, one: Endpoint, query: str = "", body: Any = None) -> Received:
        nothing = {name: str(uuid4()) for name in ("webhook_id", "provider_id", "run_id", "stream_id")}
        named = {"org_slug": "acme", "service_slug": "shop", "team_slug": "none", **nothing}
        path = re.sub(r"\{(\w+)\}", lambda found: named[found[1]], one.path) + query
        if one.path.startswith("/scim/"):
            given = [] if body is None else [("content-type", "application/scim+json")]
            return await self.client.request(one.method, path, body=body, headers=given, token=self.token)
        if one.path.startswith("/api/service/"):
            return await self.client.request(one.method, path, headers=[("x-api-key", self.key)])
        return await self.request(one.method, path, by=self.governor if one.path.startswith("/api/platform/") else None)


@pytest.fixture
async def scene(postern: Postern, people: People, client: Client, log: CapturedLog) -> ListScene:
    return await ListScene(postern, people, client, log).open()


async def test_a_limit_beyond_what_a_list_gives_is_refused(scene: ListScene) -> None:
    walked = asks_for("limit")
    assert len(walked) >= 15
    assert {str(one) for one in walked} >= WITHOUT_END
    for one in walked:
        asked = [(0, False), (-1, False), (1, True), (100, True), (101, str(one) in WITHOUT_END), (HUGE, str(one) in WITHOUT_END)]
        for limit, is_right in asked:
            answer = await scene.ask(one, f"?limit={limit}")
            if is_right:
                # No webhook, run or stream has the id in the path, and no team the slug.
                names_nothing = re.search(r"\{(webhook_id|run_id|team_slug|stream_id)\}", one.path)
                assert answer.status == (404 if names_nothing else 200), (str(one), limit, answer.body)
            else:
                assert refused(answer) == (400, "BAD_REQUEST"), (str(one), limit)
                assert "limit" in answer.json()["error"]


async def test_a_count_beyond_what_a_directory_gets_is_the_greatest(scene: ListScene) -> None:
    """RFC 7644 section 3.4.2.4: a list may have fewer entries than the count, and has none for a negative count."""
    walked = asks_for("count")
    assert {one.path.startswith("/scim/") for one in walked} == {True}
    assert len(walked) == 5
    for one in walked:
        for count in (-HUGE, -1, 0, 1, MOST_LISTED, MOST_LISTED + 1, HUGE):
            query, body = (f"?count={count}", None) if one.method == "GET" else ("", {"count": count})
            listed = (await scene.ask(one, query, body)).ok()
            assert listed["itemsPerPage"] == (1 if count > 0 else 0) or (one.path == "/scim/v2/.search" and count > 0), (str(one), count)
