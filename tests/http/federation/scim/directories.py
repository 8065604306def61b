"""A directory that manages the people of an organization, as large directories do."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote
from uuid import UUID

from entrypoints.bootstrap import Postern
from tests.http.client import Client, Pairs, Received
from tests.http.people import People, Person
from tests.http.tenants import Tenant, Tenants

BASE: Final = "/scim/v2"
USERS: Final = f"{BASE}/Users"
GROUPS: Final = f"{BASE}/Groups"
USER: Final = "urn:ietf:params:scim:schemas:core:2.0:User"
GROUP: Final = "urn:ietf:params:scim:schemas:core:2.0:Group"
PATCH_OP: Final = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
ERROR: Final = "urn:ietf:params:scim:api:messages:2.0:Error"


class Directory:
    """The directory of one organization, with a token that the organization's owner made."""

    def __init__(self, postern: Postern, client: Client, people: People, slug: str = "acme") -> None:
        self.postern = postern
        self.client = client
        self.people = people
        self.tenants = Tenants(postern, people)
        self.tenant: Tenant = self.tenants.add(slug)
        self.owner: Person = self.tenants.member(self.tenant, "owner", f"owner@{slug}.example")
        self.token = ""

    @property
    def group(self) -> str:
        return f"{GROUPS}/{self.tenant.id}"

    async def connect(self, name: str = "Directory") -> "Directory":
        path = f"/api/organizations/{self.tenant.slug}/scim-tokens"
        answer = await self.client.post(path, {"name": name}, token=await self.people.token(self.owner))
        self.token = answer.ok()["token"]
        return self

    async def switch(self, groups: str = "teams") -> Received:
        """The owner switches the directory's groups."""
        path = f"/api/organizations/{self.tenant.slug}/scim/settings"
        return await self.client.request("PATCH", path, body={"groups": groups}, token=await self.people.token(self.owner))

    async def map(self, mapping: Mapping[str, str]) -> Received:
        """The owner maps attributes of the directory to fields."""
        path = f"/api/organizations/{self.tenant.slug}/scim/settings"
        return await self.client.request("PATCH", path, body={"profile_mapping": mapping}, token=await self.people.token(self.owner))

    async def declare(self, key: str, kind: str = "text", *writers: str, **more: Any) -> None:
        """The owner declares a field that the directory may write."""
        body = {"key": key, "label": key.title(), "kind": kind, "written_by": [*writers, "directory"], **more}
        path = f"/api/organizations/{self.tenant.slug}/profile-fields"
        assert (await self.client.post(path, body, token=await self.people.token(self.owner))).status == 201

    async def kept(self, user: str) -> dict[str, Any]:
        """The values of the person's fields."""
        path = f"/api/organizations/{self.tenant.slug}/users/{user}/profile"
        values: dict[str, Any] = (await self.client.get(path, token=await self.people.token(self.owner))).ok()["values"]
        return values

    async def ask(self, method: str, target: str, body: Any = None, *, headers: Pairs = (), token: str | None = None) -> Received:
        given = [*headers, ("content-type", "application/scim+json")] if body is not None else list(headers)
        answer = await self.client.request(method, target, body=body, headers=given, token=token or self.token)
        if answer.body:
            assert answer.header("content-type") == "application/scim+json", answer.body
        return answer

    async def create(self, email: str, **attributes: Any) -> dict[str, Any]:
        return (await self.ask("POST", USERS, {"schemas": [USER], "userName": email, **attributes})).ok(201)

    async def get(self, user: str | UUID, query: str = "") -> Received:
        return await self.ask("GET", f"{USERS}/{user}{query}")

    async def shown(self, user: str | UUID) -> dict[str, Any]:
        return (await self.get(user)).ok()

    async def patch(self, target: str, *operations: dict[str, Any], headers: Pairs = ()) -> Received:
        path = target if target.startswith("/") else f"{USERS}/{target}"
        return await self.ask("PATCH", path, {"schemas": [PATCH_OP], "Operations": list(operations)}, headers=headers)

    async def find(self, wanted: str, resources: str = USERS) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = (await self.ask("GET", f"{resources}?filter={quote(wanted)}")).ok()["Resources"]
        return listed

    async def members(self) -> set[str]:
        return {one["value"] for one in (await self.ask("GET", self.group)).ok()["members"]}

    def logged(self) -> Sequence[dict[str, Any]]:
        return self.people.rows("select * from audit_log where organization_id = %s order by created_at, id", self.tenant.id)


def refusal(answer: Received) -> tuple[int, str | None]:
    """The kind of a SCIM error. Checks the shape that SCIM's errors have."""
    body = answer.json()
    assert body["schemas"] == [ERROR]
    assert body["status"] == answer.status
    assert body["detail"]
    assert set(body) <= {"schemas", "status", "detail", "scimType"}
    return answer.status, body.get("scimType")
