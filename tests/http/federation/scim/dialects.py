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
    """One request. In texts, `{user}`, `{group}`, `{team}` and the like are ids. `shows` are the values in a GET of the resource
    afterwards; `members` says whether the organization then has the user, and `team` who is then in the team.
    """

    what: str
    method: str
    path: str
    status: int
    body: Any = None
    shows: Mapping[str, Any] = field(default_factory=dict)
    finds: int | None = None
    members: bool | None = None
    team: Sequence[str] | None = None
    creates: str = "user"
    """The name of the id of what the request creates."""


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
        {
            "userName": "updated@example.org",
            "emails": [{"value": "updated@example.org", "type": "work", "primary": True}],
            "name": {"formatted": "Ada Lovelace", "familyName": "King", "givenName": "Ada"},
        },
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
        {
            "displayName": "Ada",
            "externalId": "x",
            "name": {"formatted": "Ada Lovelace", "familyName": "King", "givenName": "Augusta"},
        },
    ),
    Shape(
        "the attributes of the default mapping that Postern does not keep, beside one that it keeps",
        "PATCH",
        _WHO,
        200,
        _change(
            _operation("Add", "title", "Countess"),
            _operation("Add", "preferredLanguage", "en-GB"),
            _operation("Add", 'addresses[type eq "work"].formatted', "12 St James's Square"),
            _operation("Add", 'addresses[type eq "work"].locality', "London"),
            _operation("Add", 'phoneNumbers[type eq "work"].value', "+44 20 7946 0000"),
            _operation("Replace", 'phoneNumbers[type eq "mobile"].value', "+44 20 7946 0001"),
            _operation("Add", 'roles[primary eq "True"].value', "Author"),
            _operation("Add", f"{_ENTERPRISE}:employeeNumber", "1"),
            _operation("Add", f"{_ENTERPRISE}:department", "Engines"),
            _operation("Add", f"{_ENTERPRISE}:manager", "26118915-6090-4610-87e4-49d8ca9f808d"),
            _operation("Replace", "displayName", "Ada"),
        ),
        {"displayName": "Ada", "title": None, "phoneNumbers": None, _ENTERPRISE: None},
    ),
    Shape(
        "find the user by a part of the address", "GET", '/Users?filter=emails[type eq "work" and value eq "ada@example.org"]', 200, finds=1
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
        {
            "name": {"givenName": "Ada", "familyName": "Lovelace"},
            "displayName": "Ada Lovelace",
            "externalId": "00ujl29u0le5T6Aj10h7",
            "active": True,
        },
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
    Shape(
        "a part of the name and the name to show, without a path",
        "PATCH",
        _WHO,
        200,
        _change(_operation("replace", None, {"name": {"familyName": "Byron"}, "displayName": "Ada Byron"})),
        {"name": {"givenName": "Augusta", "familyName": "Byron"}, "displayName": "Ada Byron"},
    ),
    Shape(
        "attributes of the default profile that Postern does not keep, without a path",
        "PATCH",
        _WHO,
        200,
        _change(
            _operation(
                "replace",
                None,
                {
                    "title": "Countess",
                    "nickName": "Ada",
                    "phoneNumbers": [{"primary": True, "value": "+44 20 7946 0000", "type": "work"}],
                    _ENTERPRISE: {"department": "Engines", "manager": {"value": "bob@example.org", "displayName": "Bob"}},
                    "displayName": "Ada Byron",
                },
            )
        ),
        {"displayName": "Ada Byron", "title": None, _ENTERPRISE: None},
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


def _user(name: str) -> Shape:
    body = {"schemas": [_USER], "userName": f"{name}@example.org", "active": True}
    return Shape(f"create the user {name}", "POST", "/Users", 201, body, creates=name)


def _named(name: str, **attributes: Any) -> dict[str, Any]:
    return {"schemas": [_GROUP], "displayName": name, **attributes}


_TEAM: Final = "/Groups/{team}"
_OTHER: Final = "/Groups/{other}"
_BY_NAME: Final = '/Groups?excludedAttributes=members&filter=displayName eq "{}"'

# The directory's groups are teams.
ENTRA_TEAMS: Final[Sequence[Shape]] = (
    _user("ada"),
    _user("bob"),
    Shape("look for the group", "GET", _BY_NAME.format("Sales"), 200, finds=0),
    Shape(
        "create the group",
        "POST",
        "/Groups",
        201,
        {
            "schemas": [_GROUP, "http://schemas.microsoft.com/2006/11/ResourceManagement/ADSCIM/2.0/Group"],
            "displayName": "Sales",
            "externalId": "s-1",
            "meta": {"resourceType": "Group"},
        },
        {"displayName": "Sales", "externalId": "s-1"},
        creates="team",
    ),
    Shape("create another group", "POST", "/Groups", 201, _named("Sales", externalId="s-2"), {"externalId": "s-2"}, creates="other"),
    Shape("create a group again", "POST", "/Groups", 409, _named("Sales", externalId="s-1")),
    Shape("find the groups by name", "GET", _BY_NAME.format("Sales"), 200, finds=2),
    Shape("find the group by the directory's id", "GET", '/Groups?filter=externalId eq "s-2"', 200, finds=1),
    Shape("get the group without its members", "GET", f"{_TEAM}?excludedAttributes=members", 200),
    Shape("add a member", "PATCH", _TEAM, 200, _change(_operation("Add", "members", [{"$ref": None, "value": "{ada}"}])), team=["ada"]),
    Shape(
        "add members, and one again",
        "PATCH",
        _TEAM,
        200,
        _change(_operation("Add", "members", [{"value": "{bob}"}, {"value": "{ada}"}])),
        team=["ada", "bob"],
    ),
    Shape(
        "add a member to the other group", "PATCH", _OTHER, 200, _change(_operation("Add", "members", [{"value": "{bob}"}])), team=["bob"]
    ),
    Shape("ask whether the group has a member", "GET", '/Groups?filter=id eq "{other}" and members eq "{ada}"', 200, finds=0),
    Shape("remove a member by path", "PATCH", _TEAM, 200, _change(_operation("Remove", 'members[value eq "{bob}"]')), team=["ada"]),
    Shape(
        "remove a member by value",
        "PATCH",
        _TEAM,
        200,
        _change(_operation("Remove", "members", [{"$ref": None, "value": "{ada}"}])),
        team=[],
    ),
    Shape("rename the group", "PATCH", _TEAM, 200, _change(_operation("Replace", "displayName", "Selling")), {"displayName": "Selling"}),
    Shape("disable a user", "PATCH", "/Users/{bob}", 200, _change(_operation("Replace", "active", "False"))),
    Shape("the group without the disabled user", "GET", _OTHER, 200, team=[]),
    Shape(
        "add a disabled user, who is left out", "PATCH", _OTHER, 200, _change(_operation("Add", "members", [{"value": "{bob}"}])), team=[]
    ),
    Shape("add an unknown user", "PATCH", _OTHER, 400, _change(_operation("Add", "members", [{"value": _NOBODY}]))),
    Shape("delete the group", "DELETE", _TEAM, 204),
    Shape("get a deleted group", "GET", _TEAM, 404),
    Shape("delete the organization's group", "DELETE", _ALL, 403),
)

OKTA_TEAMS: Final[Sequence[Shape]] = (
    _user("ada"),
    _user("bob"),
    Shape("look for the group", "GET", '/Groups?filter=displayName eq "Sales"&startIndex=1&count=100', 200, finds=0),
    Shape(
        "create the group with its members",
        "POST",
        "/Groups",
        201,
        _named("Sales", members=[{"value": "{ada}", "display": "ada@example.org"}]),
        {"displayName": "Sales"},
        team=["ada"],
        creates="team",
    ),
    Shape("create another group", "POST", "/Groups", 201, _named("Support"), {"displayName": "Support"}, team=[], creates="other"),
    Shape("list the groups", "GET", "/Groups?startIndex=1&count=100", 200, finds=3),
    Shape(
        "replace and add members at once",
        "PATCH",
        _OTHER,
        200,
        _change(_operation("replace", "members", [{"value": "{ada}"}]), _operation("add", "members", [{"value": "{bob}"}])),
        team=["ada", "bob"],
    ),
    Shape(
        "the group's new name, without a path",
        "PATCH",
        _OTHER,
        200,
        _change(_operation("replace", value={"id": "{other}", "displayName": "Care"})),
        {"displayName": "Care"},
    ),
    Shape("remove a member by path", "PATCH", _OTHER, 200, _change(_operation("remove", 'members[value eq "{ada}"]')), team=["bob"]),
    Shape(
        "replace the group",
        "PUT",
        _TEAM,
        200,
        _named("Sellers", members=[{"value": "{bob}", "display": "bob@example.org"}]),
        {"displayName": "Sellers"},
        team=["bob"],
    ),
    Shape("deactivate a user", "PATCH", "/Users/{bob}", 200, _change(_operation("replace", value={"active": False}))),
    Shape("the group without the user", "GET", _TEAM, 200, team=[]),
    Shape("delete the group", "DELETE", _TEAM, 204),
    Shape("get a deleted group", "GET", _TEAM, 404),
)

MAPPED: Final[Mapping[str, str]] = {
    "title": "job",
    "preferredLanguage": "language",
    'phoneNumbers[type eq "work"].value': "phone",
    'phoneNumbers[type eq "mobile"].value': "mobile",
    "department": "department",
    "employeeNumber": "number",
    "manager.value": "manager",
    "manager.displayName": "manager_name",
}
"""What the owner has mapped before the last two sequences. `department` is a choice of Engines and Mills, `number` is a number."""
_WORK: Final = {"value": "+44 20 7946 0000", "type": "work"}
_MOBILE: Final = {"value": "+44 20 7946 0001", "type": "mobile"}
_BOB: Final = "26118915-6090-4610-87e4-49d8ca9f808d"

ENTRA_MAPPED: Final[Sequence[Shape]] = (
    Shape(
        "create the user, with mapped attributes and others",
        "POST",
        "/Users",
        201,
        {
            "schemas": [_USER, _ENTERPRISE],
            "externalId": "0a21f0f2-8d2a-4f8e-bf98-7363c4aed4ef",
            "userName": "ada@example.org",
            "active": True,
            "title": "Analyst",
            "addresses": [{"type": "work", "formatted": "12 St James's Square"}],
            "emails": [{"primary": True, "type": "work", "value": "ada@example.org"}],
            "phoneNumbers": [_WORK],
            "roles": [],
            _ENTERPRISE: {"department": "Engines", "employeeNumber": "1", "division": "South"},
        },
        {
            "schemas": [_USER, _ENTERPRISE],
            "title": "Analyst",
            "phoneNumbers": [_WORK],
            "addresses": None,
            _ENTERPRISE: {"department": "Engines", "employeeNumber": "1"},
        },
    ),
    Shape(
        "change mapped attributes by their paths, and others beside them",
        "PATCH",
        _WHO,
        200,
        _change(
            _operation("Add", "title", "Countess"),
            _operation("Add", "preferredLanguage", "en-GB"),
            _operation("Add", 'addresses[type eq "work"].locality', "London"),
            _operation("Replace", 'phoneNumbers[type eq "mobile"].value', _MOBILE["value"]),
            _operation("Replace", f"{_ENTERPRISE}:department", "Mills"),
            _operation("Add", f"{_ENTERPRISE}:manager", _BOB),
            _operation("Replace", "displayName", "Ada"),
        ),
        {
            "displayName": "Ada",
            "title": "Countess",
            "preferredLanguage": "en-GB",
            "phoneNumbers": [_WORK, _MOBILE],
            _ENTERPRISE: {"department": "Mills", "employeeNumber": "1", "manager": {"value": _BOB}},
        },
    ),
    Shape(
        "values that their fields do not take, which are dropped",
        "PATCH",
        _WHO,
        200,
        _change(
            _operation("Replace", f"{_ENTERPRISE}:department", "Poetry"), _operation("Replace", f"{_ENTERPRISE}:employeeNumber", "one")
        ),
        {_ENTERPRISE: {"manager": {"value": _BOB}}},
    ),
    Shape(
        "take mapped attributes away",
        "PATCH",
        _WHO,
        200,
        _change(
            _operation("Remove", "title"),
            _operation("Remove", 'phoneNumbers[type eq "work"].value'),
            _operation("Remove", f"{_ENTERPRISE}:manager"),
        ),
        {"title": None, "phoneNumbers": [_MOBILE], _ENTERPRISE: None},
    ),
    Shape("disable, as a text", "PATCH", _WHO, 200, _change(_operation("Replace", "active", "False")), {"phoneNumbers": [_MOBILE]}),
    Shape("delete the user", "DELETE", _WHO, 204),
)

OKTA_MAPPED: Final[Sequence[Shape]] = (
    Shape(
        "create the user",
        "POST",
        "/Users",
        201,
        {"schemas": [_USER], "userName": "ada@example.org", "active": True, "groups": []},
        {"schemas": [_USER], "title": None, "phoneNumbers": None},
    ),
    Shape(
        "replace the user, with the attributes of the default profile",
        "PUT",
        _WHO,
        200,
        {
            "schemas": [_USER, _ENTERPRISE],
            "id": "{user}",
            "userName": "ada@example.org",
            "title": "Analyst",
            "nickName": "Ada",
            "locale": "en-GB",
            "phoneNumbers": [{"primary": True, **_WORK}, {"value": "+44 20 7946 0009", "type": "home"}],
            _ENTERPRISE: {"department": "Engines", "manager": {"value": "bob@example.org", "displayName": "Bob"}},
            "active": True,
        },
        {
            "schemas": [_USER, _ENTERPRISE],
            "title": "Analyst",
            "nickName": None,
            "locale": None,
            "phoneNumbers": [_WORK],
            _ENTERPRISE: {"department": "Engines", "manager": {"value": "bob@example.org", "displayName": "Bob"}},
        },
    ),
    Shape(
        "change mapped attributes without a path",
        "PATCH",
        _WHO,
        200,
        _change(
            _operation(
                "replace",
                None,
                {"title": "Countess", "phoneNumbers": [_MOBILE], _ENTERPRISE: {"employeeNumber": "7"}, "displayName": "Ada Byron"},
            )
        ),
        {
            "displayName": "Ada Byron",
            "title": "Countess",
            "phoneNumbers": [_MOBILE],
            _ENTERPRISE: {
                "employeeNumber": "7",
                "department": "Engines",
                "manager": {"value": "bob@example.org", "displayName": "Bob"},
            },
        },
    ),
    Shape("deactivate, without a path", "PATCH", _WHO, 200, _change(_operation("replace", None, {"active": False})), {"title": "Countess"}),
    Shape("activate, without a path", "PATCH", _WHO, 200, _change(_operation("replace", None, {"active": True})), {"title": "Countess"}),
    Shape(
        "replace the user, without most attributes",
        "PUT",
        _WHO,
        200,
        {"schemas": [_USER], "id": "{user}", "userName": "ada@example.org", "title": "Countess", "active": True},
        {"title": "Countess", "phoneNumbers": None, _ENTERPRISE: None},
    ),
    Shape("delete the user", "DELETE", _WHO, 204),
)

CORPORA: Final[Mapping[str, Sequence[Shape]]] = {"Microsoft Entra ID": ENTRA, "Okta": OKTA}
TEAM_CORPORA: Final[Mapping[str, Sequence[Shape]]] = {
    "Microsoft Entra ID, with several groups": ENTRA_TEAMS,
    "Okta, with several groups": OKTA_TEAMS,
}
MAPPED_CORPORA: Final[Mapping[str, Sequence[Shape]]] = {
    "Microsoft Entra ID, with mapped attributes": ENTRA_MAPPED,
    "Okta, with mapped attributes": OKTA_MAPPED,
}

_HEAD: Final = """\
# The dialects of directories

Directories make the same requests in different forms. This page lists the requests of two widely used directories, in the
order in which our test sends them to Postern, each with its answer. After each change, the test reads the resource again,
and the resource must show the change. We wrote the requests from the directories' public documents.

`tests/http/federation/scim/test_scim_dialects.py` sends the requests, and fails if this page is not current. Postern
refuses two requests on purpose: 501 for making a group, and 403 for deleting the only group, since this group is the
organization. Before the third and the fourth list, the owner of the organization has switched the directory's groups to
teams. Before the last two, the owner has mapped attributes to fields of the organization.
"""

_OUTWARDS: Final = """
## Systems to which people are sent

Postern also sends people to systems of others ([People there](guides/directories/people-there.md)). A preset says how a
system differs. We have these facts from the public documents of Amazon Web Services and Slack, as they stood in November
2026. **Neither was tried**: tests send people to servers of our own that behave as the documents say
(`ops/stand_ins/remote_dialects.py`), to `scim2-server` by other authors, and to another Postern.

| what | SCIM 2.0 | Postern | Slack | AWS IAM Identity Center |
|---|---|---|---|---|
| base address | as the system says | `https://id.example.org/scim/v2` | `https://api.slack.com/scim/v2` | `https://scim.{region}.amazonaws.com/{tenant}/scim/v2` |
| `userName` | any text | an e-mail address | any text; Slack makes a name of at most 21 characters from an address | any text |
| required besides | nothing | nothing | an e-mail address | `displayName`, `name.givenName`, `name.familyName` |
| refused | nothing | nothing | nothing | `password`, `ims`, `photos`, `x509Certificates`, `entitlements`, `groups` |
| several values of an attribute | yes | yes | yes | no: one address, which is the primary one |
| `PATCH` | yes | yes | yes | yes, with one operation on `userName` and on `active` |
| filters | `eq` of any attribute | `eq` of `userName`, `externalId`, addresses | `eq` | `eq` of `userName` and `externalId` alone |
| lists | pages of 100, by cursor where `ServiceProviderConfig` offers cursors (RFC 9865) | pages of 100 | pages of up to 1000 | pages of up to 100 by cursor, without `startIndex`. Older endpoints list the first 50 and take no notice of a cursor, so people are asked for one by one |
| `DELETE` of a person | deletes | deletes, or ends the membership | deactivates | deletes |
| limits | as the system says | 429 with `Retry-After` | a minute: 600 writes, 180 of them that make and 180 that change people; 1000 reads | 429, without a number |

The sources are "SCIM API reference" and "SCIM API rate limits" of Slack's developer documents, and the pages CreateUser,
PutUser, PatchUser, ListUsers and "Limitations" of "IAM Identity Center SCIM Implementation Developer Guide".
"""  # noqa: E501 - a row of a table is one line


def render() -> str:
    parts = [_HEAD]
    for directory, shapes in {**CORPORA, **TEAM_CORPORA, **MAPPED_CORPORA}.items():
        parts.append(f"\n## {directory}\n\n| what | request | answer |\n|---|---|---|\n")
        parts += [f"| {one.what} | {_request(one)} | {one.status} |\n" for one in shapes]
    return "".join([*parts, _OUTWARDS])


def _request(one: Shape) -> str:
    told = f"`{one.method} {one.path}`"
    if isinstance(one.body, dict) and "Operations" in one.body:
        told += "".join(f"<br>`{_told(operation)}`" for operation in one.body["Operations"])
    return told.replace("|", "\\|")


def _told(operation: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}: {value!r}" if name == "value" else f"{name}: {value}" for name, value in operation.items())


if __name__ == "__main__":
    sys.stdout.write(render())
