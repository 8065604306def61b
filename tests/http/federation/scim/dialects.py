"""The requests of two widely used directories, as their public documents show these requests, in the order in which our test sends them.
`.venv/bin/python -m tests.http.federation.scim.dialects > docs/scim-dialects.md` writes the page from this list.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

_USER: Final = "urn:ietf:params:scim:schemas:core:2.0:User"
_ENTERPRISE: Final = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
_GROUP: Final = "urn:ietf:params:scim:schemas:core:2.0:Group"
_PATCH: Final = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
_NOBODY: Final = "7fce0092-d52e-4f76-b727-3955bd72c939"


@dataclass(frozen=True, slots=True)
class Shape:
    """One request. In texts, `{user}` and `{group}` are ids. `shows` are the values in a GET of the resource afterwards; `members` says
    whether the group then has the user.
    """

    what: str
    method: str
    path: str
    status: int
    body: Any = None
    shows: Mapping[str, Any] = field(default_factory=dict)
    finds: int | None = None
    members: bool | None = None


def _change(*operations: Mapping[str, Any]) -> dict[str, Any]:
    return {"schemas": [_PATCH], "Operations": list(operations)}


def _operation(op: str, path: str | None = None, value: Any = None) -> dict[str, Any]:
    return {"op": op, **({} if path is None else {"path": path}), **({} if value is None else {"value": value})}


_WHO: Final = "/Users/{user}"
_ALL: Final = "/Groups/{group}"

ENTRA: Final[Sequence[Shape]] = (
    Shape("the connection test: an unknown user", "GET", f'/Users?filter=userName eq "{_NOBODY}"', 200, finds=0),
    Shape("look for the user", "GET", '/Users?filter=userName eq "ada@example.org"', 200, finds=0),
    Shape(
        "create the user, with attributes that Postern does not keep",
        "POST",
        "/Users",
        201,
        {
            "schemas": [_USER, _ENTERPRISE],
            "externalId": "0a21f0f2-8d2a-4f8e-bf98-7363c4aed4ef",
            "userName": "ada@example.org",
            "active": True,
            "emails": [{"primary": True, "type": "work", "value": "ada@example.org"}],
            "meta": {"resourceType": "User"},
            "name": {"formatted": "Ada Lovelace", "familyName": "Lovelace", "givenName": "Ada"},
            "roles": [],
            _ENTERPRISE: {"department": "Engines", "employeeNumber": "1"},
        },
        {"userName": "ada@example.org", "externalId": "0a21f0f2-8d2a-4f8e-bf98-7363c4aed4ef", "active": True},
        members=True,
    ),
    Shape("get the user", "GET", _WHO, 200, shows={"name": {"formatted": "Ada Lovelace", "familyName": "Lovelace", "givenName": "Ada"}}),
    Shape("find the user by name", "GET", '/Users?filter=userName eq "Ada@Example.org"', 200, finds=1),
    Shape("find the user by the directory's id", "GET", '/Users?filter=externalId eq "0a21f0f2-8d2a-4f8e-bf98-7363c4aed4ef"', 200, finds=1),
    Shape("find the user by address", "GET", '/Users?filter=emails[type eq "work"].value eq "ada@example.org"', 200, finds=1),
    Shape(
        "change a part of the name and the address, with verbs capitalised",
        "PATCH",
        _WHO,
        200,
        _change(
            _operation("Replace", 'emails[type eq "work"].value', "updated@example.org"),
            _operation("Replace", "name.familyName", "King"),
        ),
        {"userName": "updated@example.org", "emails": [{"value": "updated@example.org", "type": "work", "primary": True}]},
    ),
    Shape(
        "change the name to sign in with",
        "PATCH",
        _WHO,
        200,
        _change(_operation("Replace", "userName", "ada@example.org")),
        {"userName": "ada@example.org"},
    ),
    Shape("add an attribute", "PATCH", _WHO, 200, _change(_operation("Add", "displayName", "Countess")), {"displayName": "Countess"}),
    Shape(
        "several attributes without a path, by their paths as names",
        "PATCH",
        _WHO,
        200,
        _change(_operation("Add", None, {"name.givenName": "Augusta", "displayName": "Ada", f"{_USER}:externalId": "x"})),
        {"displayName": "Ada", "externalId": "x"},
    ),
    Shape("take an attribute away", "PATCH", _WHO, 200, _change(_operation("Remove", "externalId")), {"externalId": None}),
    Shape("disable, as a text", "PATCH", _WHO, 200, _change(_operation("Replace", "active", "False")), {"active": False}, members=True),
    Shape("enable, as a text", "PATCH", _WHO, 200, _change(_operation("Replace", "active", "True")), {"active": True}, members=True),
    Shape("disable", "PATCH", _WHO, 200, _change(_operation("Replace", "active", value=False)), {"active": False}),
    Shape("enable", "PATCH", _WHO, 200, _change(_operation("Replace", "active", value=True)), {"active": True}),
    Shape("find the group without its members", "GET", '/Groups?excludedAttributes=members&filter=displayName eq "Acme"', 200, finds=1),
    Shape("get the group without its members", "GET", f"{_ALL}?excludedAttributes=members", 200),
    Shape("set the group's external id", "PATCH", _ALL, 200, _change(_operation("Replace", "externalId", "g-1")), {"externalId": "g-1"}),
    Shape("the group's name, as it is", "PATCH", _ALL, 200, _change(_operation("Replace", "displayName", "Acme")), {"displayName": "Acme"}),
    Shape(
        "remove a member by value",
        "PATCH",
        _ALL,
        200,
        _change(_operation("Remove", "members", [{"$ref": None, "value": "{user}"}])),
        members=False,
    ),
    Shape("add a member", "PATCH", _ALL, 200, _change(_operation("Add", "members", [{"$ref": None, "value": "{user}"}])), members=True),
    Shape("ask whether the group has a member", "GET", '/Groups?filter=id eq "{group}" and members eq "{user}"', 200, finds=1),
    Shape("remove a member by path", "PATCH", _ALL, 200, _change(_operation("Remove", 'members[value eq "{user}"]')), members=False),
    Shape("create a group", "POST", "/Groups", 501, {"schemas": [_GROUP], "externalId": "g-2", "displayName": "New", "members": []}),
    Shape("delete the group", "DELETE", _ALL, 403),
    Shape("delete the user", "DELETE", _WHO, 204),
    Shape("get a deleted user", "GET", _WHO, 404),
)

OKTA: Final[Sequence[Shape]] = (
    Shape("the connection test: a page of users", "GET", "/Users?startIndex=1&count=2", 200, finds=1),
    Shape("look for the user", "GET", '/Users?filter=userName eq "ada@example.org"&startIndex=1&count=100', 200, finds=0),
    Shape(
        "create the user, with a password and attributes that Postern does not keep",
        "POST",
        "/Users",
        201,
        {
            "schemas": [_USER],
            "userName": "ada@example.org",
            "name": {"givenName": "Ada", "familyName": "Lovelace"},
            "emails": [{"primary": True, "value": "ada@example.org", "type": "work"}],
            "displayName": "Ada Lovelace",
            "locale": "en-US",
            "externalId": "00ujl29u0le5T6Aj10h7",
            "groups": [],
            "password": "1mz050nq",
            "active": True,
        },
        {"displayName": "Ada Lovelace", "externalId": "00ujl29u0le5T6Aj10h7", "active": True},
        members=True,
    ),
    Shape("get the user", "GET", _WHO, 200, shows={"userName": "ada@example.org"}),
    Shape(
        "replace the user",
        "PUT",
        _WHO,
        200,
        {
            "schemas": [_USER],
            "id": "{user}",
            "userName": "ada@example.org",
            "name": {"givenName": "Augusta", "middleName": "", "familyName": "King"},
            "emails": [{"primary": True, "value": "ada@example.org", "type": "work", "display": "ada@example.org"}],
            "active": True,
            "groups": [],
            "meta": {"resourceType": "User"},
        },
        {"name": {"givenName": "Augusta", "familyName": "King"}, "externalId": None},
    ),
    Shape("deactivate, without a path", "PATCH", _WHO, 200, _change(_operation("replace", None, {"active": False})), {"active": False}),
    Shape("activate, without a path", "PATCH", _WHO, 200, _change(_operation("replace", None, {"active": True})), {"active": True}),
    Shape(
        "deactivate by replacing",
        "PUT",
        _WHO,
        200,
        {"schemas": [_USER], "id": "{user}", "userName": "ada@example.org", "active": False},
        {"active": False},
    ),
    Shape(
        "activate by replacing",
        "PUT",
        _WHO,
        200,
        {"schemas": [_USER], "id": "{user}", "userName": "ada@example.org", "active": True},
        {"active": True},
    ),
    Shape("list the groups", "GET", "/Groups?startIndex=1&count=100", 200, finds=1),
    Shape("find the group by name", "GET", '/Groups?filter=displayName eq "Acme"&startIndex=1&count=100', 200, finds=1),
    Shape("get the group", "GET", _ALL, 200, shows={"displayName": "Acme"}),
    Shape(
        "the group's name and id, without a path, as they are",
        "PATCH",
        _ALL,
        200,
        _change(_operation("replace", None, {"id": "{group}", "displayName": "Acme"})),
        {"displayName": "Acme"},
    ),
    Shape("remove a member by path", "PATCH", _ALL, 200, _change(_operation("remove", 'members[value eq "{user}"]')), members=False),
    Shape(
        "add a member, with a name",
        "PATCH",
        _ALL,
        200,
        _change(_operation("add", "members", [{"value": "{user}", "display": "ada@example.org"}])),
        members=True,
    ),
    Shape(
        "remove one and add another in one request",
        "PATCH",
        _ALL,
        200,
        _change(_operation("remove", 'members[value eq "{user}"]'), _operation("add", "members", [{"value": "{user}"}])),
        members=True,
    ),
    Shape("replace the members", "PATCH", _ALL, 200, _change(_operation("replace", "members", [{"value": "{user}"}])), members=True),
    Shape(
        "replace the group",
        "PUT",
        _ALL,
        200,
        {"schemas": [_GROUP], "id": "{group}", "displayName": "Acme", "members": [{"value": "{user}", "display": "ada@example.org"}]},
        members=True,
    ),
    Shape("create a group", "POST", "/Groups", 501, {"schemas": [_GROUP], "displayName": "New", "members": []}),
    Shape("delete the group", "DELETE", _ALL, 403),
    Shape("delete the user", "DELETE", _WHO, 204),
)

CORPORA: Final[Mapping[str, Sequence[Shape]]] = {"Microsoft Entra ID": ENTRA, "Okta": OKTA}

_HEAD: Final = """\
# The dialects of directories

Directories make the same requests in different forms. This page lists the requests of two widely used directories, in the
order in which our test sends them to Postern, each with its answer. After each change, the test reads the resource again,
and the resource must show the change. We wrote the requests from the directories' public documents.

`tests/http/federation/scim/test_scim_dialects.py` sends the requests, and fails if this page is not current. Postern
refuses two requests on purpose: 501 for making a group, and 403 for deleting the only group, since this group is the
organization.
"""


def render() -> str:
    parts = [_HEAD]
    for directory, shapes in CORPORA.items():
        parts.append(f"\n## {directory}\n\n| what | request | answer |\n|---|---|---|\n")
        parts += [f"| {one.what} | {_request(one)} | {one.status} |\n" for one in shapes]
    return "".join(parts)


def _request(one: Shape) -> str:
    told = f"`{one.method} {one.path}`"
    if isinstance(one.body, dict) and "Operations" in one.body:
        told += "".join(f"<br>`{_told(operation)}`" for operation in one.body["Operations"])
    return told.replace("|", "\\|")


def _told(operation: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}: {value!r}" if name == "value" else f"{name}: {value}" for name, value in operation.items())


if __name__ == "__main__":
    sys.stdout.write(render())
