"""Makes requests of a hostile or careless directory. Pure and seeded: the same seed and the same view make the same request.

Each request begins as a request that a real directory would send, with parts from a grammar. Most requests stay like that, since only good
requests get far; the others are spoilt in one way or several.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import quote

from tests.security.scim.spoiling import ENTERPRISE, UNKEPT, Pairs, Spoiler
from tests.security.scim.words import USER, HostileWords, View

BASE: Final = "/scim/v2"
GROUP: Final = "urn:ietf:params:scim:schemas:core:2.0:Group"
PATCH_OP: Final = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
SEARCH: Final = "urn:ietf:params:scim:api:messages:2.0:SearchRequest"
BULK: Final = "urn:ietf:params:scim:api:messages:2.0:BulkRequest"
SCIM: Final = (("content-type", "application/scim+json"),)

Shows = Mapping[str, Any]
Operation = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FuzzedRequest:
    """One request. `shows` are the values that the resource must show after the request, by paths such as `name.givenName`; `members` says
    whether the group has these people then. Both are empty if the outcome is unknown.
    """

    kind: str
    method: str
    path: str
    query: Pairs = ()
    content: Any = None
    body: bytes = b""
    headers: Pairs = ()
    shows: Shows = field(default_factory=dict)
    members: Mapping[str, bool] = field(default_factory=dict)

    @property
    def target(self) -> str:
        asked = "&".join(f"{quote(name, safe='.$')}={quote(value, safe='', errors='replace')}" for name, value in self.query)
        return f"{self.path}?{asked}" if asked else self.path

    def unsure(self, **changes: Any) -> "FuzzedRequest":
        """The request with these changes, whose outcome is unknown."""
        return replace(self, shows={}, members={}, **changes)

    def __str__(self) -> str:
        return f"{self.method} {self.target[:600]} {self.headers}\n{self.body[:1500]!r}"


_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "get", "QUERY")
_NOWHERE: Final = (
    "/",
    "/Me",
    "/Users/",
    "/users",
    "/Users/.search/x",
    "/Users/{user}/",
    "/Users/{user}/emails",
    "/Users/{user}/../../../api/user",
    "/Users/%2e%2e/Groups",
    "/Users/{user}%00",
    "/Users/{user}%2f",
    "/Groups/{group}/members",
    "/Groups/.search",
    "/Roles",
    "/Entitlements/{user}",
    "/Devices",
    "//Users",
    "/Users;a=b/{user}",
    "/Schemas/" + USER,
    "/Schemas/" + GROUP,
    "/Schemas/" + ENTERPRISE,
    "/ResourceTypes/User",
    "/ResourceTypes/Nothing",
)


class Fuzzer:
    def __init__(self, seed: int) -> None:
        self._words = HostileWords(seed)
        self._spoiler = Spoiler(self._words)

    def draw(self, view: View) -> FuzzedRequest:
        words = self._words
        asked = words.weighed(_MAKERS)(self, view)
        if words.maybe(0.15):
            asked = asked.unsure(query=(*asked.query, *self._spoiler.query()))
        spoilt = asked.content is not None and words.maybe(0.25)
        if spoilt:
            asked = asked.unsure(content=self._spoiler.content(asked.content, view))
        if words.maybe(0.02):
            asked = asked.unsure(method=words.one(_METHODS))
        if asked.content is not None:
            # Spoilt bodies may have lone surrogates, which are no text.
            written = json.dumps(asked.content, ensure_ascii=words.maybe(0.5)).encode(errors="surrogatepass")
            asked = replace(asked, body=written, headers=SCIM)
        if words.maybe(0.06):
            body, headers = self._spoiler.written(asked.body or b"{}", asked.headers)
            asked = asked.unsure(body=body, headers=headers)
        if words.maybe(0.12):
            asked = replace(asked, headers=(*asked.headers, (words.one(("if-match", "if-none-match")), words.version(view))))
        return asked

    # Requests of a directory.

    def create(self, view: View) -> FuzzedRequest:
        content, shows = self._user(view, self._words.new_address() if self._words.maybe(0.4) else self._words.address(view))
        return FuzzedRequest(kind="create a user", method="POST", path=f"{BASE}/Users", content=content, shows=shows)

    def replace_user(self, view: View) -> FuzzedRequest:
        content, shows = self._user(view, self._words.address(view) if self._words.maybe(0.8) else self._words.new_address())
        if self._words.maybe(0.3):
            content["id"] = self._words.one(view.users)
        return FuzzedRequest(kind="replace a user", method="PUT", path=self._user_path(view), content=content, shows=shows)

    def write_back(self, view: View) -> FuzzedRequest:
        """Writes back the resource that was read, with some values changed."""
        user = self._words.one(view.near or view.users)
        content, shows = self._user(view, view.addresses[view.users.index(user)])
        return FuzzedRequest(kind="replace a user", method="PUT", path=f"{BASE}/Users/{user}", content=content, shows=shows)

    def change(self, view: View) -> FuzzedRequest:
        operation, shows = self._operation(view)
        more = [] if self._words.maybe(0.6) else [self._operation(view)[0] for _ in range(self._words.one((1, 2, 4)))]
        content = self._patch([operation, *more])
        return FuzzedRequest(kind="change a user", method="PATCH", path=self._user_path(view), content=content, shows={} if more else shows)

    def delete(self, view: View) -> FuzzedRequest:
        return FuzzedRequest(kind="delete a user", method="DELETE", path=self._user_path(view))

    def get(self, view: View) -> FuzzedRequest:
        return FuzzedRequest(kind="get a user", method="GET", path=self._user_path(view))

    def list_users(self, view: View) -> FuzzedRequest:
        return FuzzedRequest(kind="list users", method="GET", path=f"{BASE}/Users", query=self._search(view))

    def search(self, view: View) -> FuzzedRequest:
        content: dict[str, Any] = {"schemas": [SEARCH]} if self._words.maybe(0.9) else {}
        for name, value in self._search(view):
            content[name] = int(value) if value.lstrip("-").isdigit() else value.split(",") if "ttributes" in name else value
        place = self._words.one(("/Users/.search", "/Groups/.search", "/.search"))
        return FuzzedRequest(kind="search", method="POST", path=f"{BASE}{place}", content=content)

    def get_group(self, view: View) -> FuzzedRequest:
        without: Pairs = (("excludedAttributes", "members"),)
        return FuzzedRequest(kind="get a group", method="GET", path=self._group_path(view), query=without if self._words.maybe(0.3) else ())

    def list_groups(self, view: View) -> FuzzedRequest:
        return FuzzedRequest(kind="list groups", method="GET", path=f"{BASE}/Groups", query=self._search(view))

    def change_group(self, view: View) -> FuzzedRequest:
        operation, members = self._group_operation(view)
        more = [] if self._words.maybe(0.7) else [self._group_operation(view)[0] for _ in range(self._words.one((1, 2, 3)))]
        content = self._patch([operation, *more])
        return FuzzedRequest(
            kind="change a group", method="PATCH", path=self._group_path(view), content=content, members={} if more else members
        )

    def replace_group(self, view: View) -> FuzzedRequest:
        # Most requests keep many people, or an organization would be empty after the first.
        wanted = self._words.people(view, len(view.near) if self._words.maybe(0.7) else 3)
        content: dict[str, Any] = {"schemas": [GROUP], "displayName": self._words.text(), "members": self._members(wanted)}
        if self._words.maybe(0.3):
            content["externalId"] = self._words.external_id()
        members = dict.fromkeys(wanted, True)
        return FuzzedRequest(kind="replace a group", method="PUT", path=self._group_path(view), content=content, members=members)

    def ask_for_more(self, view: View) -> FuzzedRequest:
        """Requests something that Postern does not offer."""
        if self._words.maybe(0.3):
            return FuzzedRequest(kind="delete a group", method="DELETE", path=self._group_path(view))
        if self._words.maybe(0.5):
            content = {"schemas": [GROUP], "displayName": self._words.text(), "members": self._members(self._words.people(view, 2))}
            return FuzzedRequest(kind="create a group", method="POST", path=f"{BASE}/Groups", content=content)
        operations = [
            {"method": "DELETE", "path": f"/Users/{self._words.one(view.users)}"},
            {"method": "POST", "path": "/Users", "bulkId": "a", "data": self._user(view, self._words.new_address())[0]},
        ]
        return FuzzedRequest(kind="bulk", method="POST", path=f"{BASE}/Bulk", content={"schemas": [BULK], "Operations": operations})

    def discover(self, view: View) -> FuzzedRequest:
        path = self._words.one(("ServiceProviderConfig", "ResourceTypes", "Schemas"))
        query: Pairs = () if self._words.maybe(0.7) else (("filter", self._words.filter(view)),)
        return FuzzedRequest(kind="discover", method="GET", path=f"{BASE}/{path}", query=query)

    def look_elsewhere(self, view: View) -> FuzzedRequest:
        path = self._words.one(_NOWHERE).format(user=self._words.one(view.users), group=view.group)
        method = self._words.one(_METHODS)
        content = None if method in {"GET", "HEAD"} else self._user(view, self._words.address(view))[0]
        return FuzzedRequest(kind="elsewhere", method=method, path=f"{BASE}{path}", content=content)

    # Users.

    def _user_path(self, view: View) -> str:
        return f"{BASE}/Users/{self._words.id(view)}"

    def _user(self, view: View, address: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """A whole resource, and the values that it must show afterwards."""
        words = self._words
        content: dict[str, Any] = {"userName": address}
        if words.maybe(0.9):
            content["schemas"] = [USER, ENTERPRISE] if words.maybe(0.2) else [USER]
        content |= {name: text() for name, text in (("displayName", words.text), ("externalId", words.external_id)) if words.maybe(0.5)}
        given = {part: words.text() for part in ("formatted", "givenName", "familyName", "middleName") if words.maybe(0.4)}
        if given:
            content["name"] = given
        shows: dict[str, Any] = {"userName": address.strip()}
        shows |= {name: content.get(name) or None for name in ("displayName", "externalId")}
        shows |= {f"name.{part}": given.get(part) or None for part in ("formatted", "givenName", "familyName")}
        if words.maybe(0.5):
            content["emails"] = self._emails(address if words.maybe(0.6) else words.address(view))
        if words.maybe(0.5):
            content["active"] = shows["active"] = words.maybe(0.6)
        if words.maybe(0.3):
            content |= {name: UNKEPT[name] for name in words.some(list(UNKEPT), 3)}
        return content, shows

    def _emails(self, address: str) -> list[dict[str, Any]]:
        kind = self._words.one(("work", "Work", "home", "other"))
        one: dict[str, Any] = {"value": address, "type": kind, "primary": self._words.maybe(0.7)}
        return [one] if self._words.maybe(0.8) else [one, {"value": f"second-{address}", "type": "home"}]

    # Operations, each with the values that the resource must show afterwards.

    def _patch(self, operations: Sequence[Operation]) -> dict[str, Any]:
        return {"schemas": [PATCH_OP], "Operations": operations} if self._words.maybe(0.95) else {"Operations": operations}

    def _operation(self, view: View) -> tuple[Operation, Shows]:
        words = self._words
        path, value, shows = words.weighed(_SETTINGS)(self, view)
        kind = words.random.random()
        if kind < 0.12:
            gone = words.one(_REMOVED)
            return _given(op=words.verb("remove"), path=gone), {gone: None} if gone in _REMOVABLE else {}
        verb = words.verb("replace", "add")
        if kind < 0.4:
            # As some directories do.
            return {"op": verb, "value": {path: value}}, shows
        if kind < 0.5:
            name = words.one(list(UNKEPT))
            return words.one(
                ({"op": verb, "path": name, "value": UNKEPT[name]}, {"op": verb, "value": {path: value, name: UNKEPT[name]}})
            ), {}
        if kind < 0.55:
            return {"op": verb, "path": words.one((path.upper(), f" {path} ", path.replace(".", ".."))), "value": value}, {}
        if kind < 0.58:
            return {"op": words.one(("move", "", "REPLACE ", "test")), "path": path, "value": value}, {}
        return {"op": verb, "path": f"{USER}:{path}" if words.maybe(0.2) else path, "value": value}, shows

    def _set_active(self, _view: View) -> tuple[str, Any, Shows]:
        active = self._words.maybe(0.5)
        return "active", self._words.one((active, str(active), str(active).lower())), {"active": active}

    def _set_user_name(self, view: View) -> tuple[str, Any, Shows]:
        address = self._words.address(view) if self._words.maybe(0.5) else self._words.new_address()
        return "userName", address, {"userName": address.strip()}

    def _set_email(self, view: View) -> tuple[str, Any, Shows]:
        address = self._words.address(view) if self._words.maybe(0.7) else self._words.new_address()
        path = self._words.one(_EMAILS)
        return path, address if path.endswith("value") else self._emails(address), {}

    def _set_name(self, _view: View) -> tuple[str, Any, Shows]:
        if self._words.maybe(0.2):
            parts = {part: self._words.text() for part in ("givenName", "familyName")}
            return "name", parts, {f"name.{part}": text or None for part, text in parts.items()}
        path, text = self._words.one(("name.givenName", "name.familyName", "name.formatted", "displayName")), self._words.text()
        return path, text, {path: text or None}

    def _set_external_id(self, _view: View) -> tuple[str, Any, Shows]:
        text = self._words.external_id()
        return "externalId", text, {"externalId": text or None}

    # The group.

    def _group_path(self, view: View) -> str:
        return f"{BASE}/Groups/{view.group if self._words.maybe(0.85) else self._words.id(view)}"

    def _group_operation(self, view: View) -> tuple[Operation, Mapping[str, bool]]:
        return self._words.weighed(_GROUP_OPERATIONS)(self, view, self._words.people(view, self._words.one((1, 1, 1, 2, 5))))

    def _add(self, _view: View, users: list[str]) -> tuple[Operation, Mapping[str, bool]]:
        named, verb = self._members(users), self._words.verb("add")
        operation = {"op": verb, "value": {"members": named}} if self._words.maybe(0.3) else {"op": verb, "path": "members", "value": named}
        return operation, dict.fromkeys(users, True)

    def _remove(self, _view: View, users: list[str]) -> tuple[Operation, Mapping[str, bool]]:
        verb, left = self._words.verb("remove"), dict.fromkeys(users, False)
        if self._words.maybe(0.4):
            return {"op": verb, "path": "members", "value": self._members(users)}, left
        selected = " or ".join(f'value eq "{user}"' if self._words.maybe(0.8) else f"value eq {user}" for user in users)
        return {"op": verb, "path": f"members[{selected}]"}, left

    def _replace(self, view: View, _users: list[str]) -> tuple[Operation, Mapping[str, bool]]:
        if self._words.maybe(0.2):
            return _given(op=self._words.verb("remove", "replace"), path="members", value=self._words.one((None, []))), {}
        wanted = self._words.people(view, len(view.near))
        return {"op": self._words.verb("replace"), "path": "members", "value": self._members(wanted)}, dict.fromkeys(wanted, True)

    def _say_of_group(self, view: View, users: list[str]) -> tuple[Operation, Mapping[str, bool]]:
        if self._words.maybe(0.4):
            return {"op": self._words.verb("replace"), "path": "externalId", "value": self._words.external_id()}, {}
        value = self._words.one((self._words.text(), view.group, self._members(users)))
        return {"op": self._words.verb("add", "replace", "remove"), "path": self._words.one(_OF_GROUP), "value": value}, {}

    def _members(self, users: Sequence[str]) -> list[dict[str, Any]]:
        return [{"value": user, **self._words.one(_OF_MEMBERS)} for user in users]

    # Searches.

    def _search(self, view: View) -> Pairs:
        words = self._words
        query = [("filter", words.filter(view))] if words.maybe(0.7) else []
        for names, values in _SEARCHED.items():
            if words.maybe(0.3):
                query += [(words.one(names.split()), words.one(values))]
        return tuple(query)


_REMOVABLE: Final = frozenset({"externalId", "displayName", "name.givenName"})
_REMOVED: Final = (
    *sorted(_REMOVABLE),
    *("name", "emails", 'emails[type eq "work"]', "emails.value", "active", "userName", "id", "groups", "roles", "password", "members"),
    *('emails[type eq "home"]', None),
)
_EMAILS: Final = ('emails[type eq "work"].value', "emails[primary eq true].value", "emails.value", "emails", 'emails[type eq "work"]')
_OF_MEMBERS: Final[tuple[dict[str, Any], ...]] = ({}, {"type": "User"}, {"$ref": None, "display": "x"}, {"type": "User", "role": "owner"})
_OF_GROUP: Final = (
    *("displayName", "id", "schemas", "meta", "owner", "members.value", 'members[type eq "User"]', "members[value pr]", "role"),
)
# Attribute names, each with values of their kind.
_SEARCHED: Final[Mapping[str, Sequence[str]]] = {
    "startIndex": ("1", "2", "5", "0", "-3", "1000000000", "99999999999999999999"),
    "count": ("0", "1", "2", "1000", "5000", "-1"),
    "sortBy": ("userName", "id", "externalId", "meta.lastModified", "displayName", "password", f"{USER}:userName"),
    "sortOrder": ("ascending", "descending", "DESCENDING", "sideways"),
    "attributes excludedAttributes": ("userName", "members", "id,emails.value", "meta.version"),
}
_SETTINGS: Final[Mapping[Callable[[Fuzzer, View], tuple[str, Any, Shows]], float]] = {
    Fuzzer._set_active: 30,
    Fuzzer._set_user_name: 20,
    Fuzzer._set_email: 12,
    Fuzzer._set_name: 28,
    Fuzzer._set_external_id: 10,
}
_GROUP_OPERATIONS: Final[Mapping[Callable[[Fuzzer, View, list[str]], tuple[Operation, Mapping[str, bool]]], float]] = {
    Fuzzer._add: 32,
    Fuzzer._remove: 36,
    Fuzzer._replace: 12,
    Fuzzer._say_of_group: 20,
}
_MAKERS: Final[Mapping[Callable[[Fuzzer, View], FuzzedRequest], float]] = {
    Fuzzer.create: 13,
    Fuzzer.replace_user: 8,
    Fuzzer.write_back: 6,
    Fuzzer.change: 25,
    Fuzzer.delete: 5,
    Fuzzer.get: 4,
    Fuzzer.list_users: 6,
    Fuzzer.search: 5,
    Fuzzer.get_group: 2,
    Fuzzer.list_groups: 3,
    Fuzzer.change_group: 13,
    Fuzzer.replace_group: 4,
    Fuzzer.ask_for_more: 2,
    Fuzzer.discover: 2,
    Fuzzer.look_elsewhere: 3,
}


def _given(**fields: Any) -> Operation:
    return {name: value for name, value in fields.items() if value is not None}
