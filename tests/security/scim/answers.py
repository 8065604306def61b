"""The shape that every answer to a directory must have."""

from typing import Any, Final
from urllib.parse import unquote
from uuid import UUID

from tests.http.client import Received
from tests.http.federation.scim.directories import ERROR, GROUPS, USERS
from tests.security.scim.fuzzer import FuzzedRequest

_WORDS: Final = frozenset({"uniqueness", "invalidSyntax", "invalidFilter", "invalidPath", "noTarget", "invalidValue", "mutability", None})
_STATUSES: Final = frozenset({200, 201, 204, 304, 400, 401, 403, 404, 405, 409, 412, 413, 415, 501})


def part_of(resource: Any, path: str) -> Any:
    for part in path.split("."):
        resource = resource.get(part) if isinstance(resource, dict) else None
    return resource


def user_of(asked: FuzzedRequest) -> str | None:
    """The person that the path names."""
    place, _, name = asked.path.rpartition("/")
    if f"{place}/" != f"{USERS}/" or name == ".search" or asked.method == "OPTIONS":
        return None
    return str(UUID(unquote(name)))


def check_shape(asked: FuzzedRequest, answer: Received) -> None:
    """Checks that the answer is a resource, a list of resources, empty, or an error in SCIM's form."""
    assert answer.status in _STATUSES, answer.body
    if answer.status == 501:
        assert asked.path.endswith(("/Groups", "/Bulk"))
    if asked.method == "HEAD" or answer.status in {204, 304}:
        assert answer.body == b""
        return
    assert answer.header("content-type") == "application/scim+json"
    if asked.method == "PUT" and asked.path.startswith(f"{GROUPS}/"):
        assert answer.status != 403, "owners and admins stay, without being named"
    body = answer.json()
    if answer.status >= 400:
        assert body["schemas"] == [ERROR]
        assert (body["status"], bool(body["detail"])) == (answer.status, True)
        assert body.get("scimType") in _WORDS
        return
    assert body["schemas"]
    if asked.path.startswith((f"{USERS}/", f"{GROUPS}/")) and not asked.path.endswith(".search"):
        assert UUID(body["id"]) == UUID(unquote(asked.path.rpartition("/")[2])), "another resource than the one that was named"
    if "Resources" in body:
        assert body["itemsPerPage"] == len(body["Resources"]) <= body["totalResults"] or body["startIndex"] > body["totalResults"]
