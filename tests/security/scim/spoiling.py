"""Spoils the fuzzer's requests: their content, and the way in which the content is written."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.security.scim.words import USER, HostileWords, View

Pairs = tuple[tuple[str, str], ...]
Written = tuple[bytes, Pairs]
"""A body and the headers of its request."""
ENTERPRISE: Final = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"

_SPOILT: Final[tuple[Any, ...]] = (
    None,
    True,
    False,
    0,
    -1,
    1.5,
    1e308,
    2**63,
    10**40,
    "",
    "x",
    "\x00",
    "a\x00b",
    "\ud800",
    "\udfff\ud800",
    "\r\nset-cookie: a=b",
    "￿",
    "x" * 5000,
    "False",
    "TRUE",
    [],
    {},
    [[]],
    [None],
    [{}],
    {"": ""},
    {"$ref": None},
    {"value": None},
    {"value": {"value": []}},
    {"__proto__": {"is_platform_owner": True}},
)
# Attributes that Postern does not keep, some of which an attacker would like to set.
UNKEPT: Final[Mapping[str, Any]] = {
    "password": "correct horse battery staple",
    "roles": [{"value": "owner", "primary": True}],
    "entitlements": [{"value": "platform_owner"}],
    "groups": [{"value": "admins"}],
    "userType": "Administrator",
    "isPlatformOwner": True,
    "is_platform_owner": True,
    "role": "owner",
    "org_id": "00000000-0000-0000-0000-000000000000",
    "emailVerified": True,
    "nickName": "x",
    "phoneNumbers": [{"value": "+1", "type": "work"}],
    "addresses": [{"formatted": "x"}],
    "x509Certificates": [{"value": "MII"}],
    "meta": {"resourceType": "User", "created": "1970-01-01T00:00:00Z", "version": 'W/"x"'},
    "id": "00000000-0000-0000-0000-000000000000",
    "locale": "en",
    ENTERPRISE: {"department": "Engines", "manager": {"value": "x"}},
}
_KINDS: Final = (
    "application/json",
    "text/plain",
    "application/xml",
    "",
    "application/scim+json; charset=utf-16",
    "x" * 300,
    "multipart/form-data",
)
# More entries than any list may have.
_LONGEST_LIST: Final = 2000
_TWICE: Final = b'{"userName": "twice@fuzz.example", "active": false, "Operations": [], "members": [],'
_NO_OBJECTS: Final = (b"", b"null", b"[]", b'""', b"1", b"NaN", b"{" * 5000, b"[" * 100_000, b'{"a":' * 3000)


class Spoiler:
    def __init__(self, words: HostileWords) -> None:
        self._words = words

    def content(self, content: Any, view: View) -> Any:
        """Spoils the content in one place or several."""
        for _ in range(self._words.one((1, 1, 2, 4))):
            content = self._once(content, view, 0)
        return content

    def written(self, body: bytes, headers: Pairs) -> Written:
        return self._words.one(_WAYS)(self, body, headers)

    def query(self) -> Pairs:
        return self._words.one(_ODD_QUERIES)

    def _once(self, content: Any, view: View, depth: int) -> Any:
        if not depth or not self._words.maybe(0.35):
            if isinstance(content, dict) and content:
                return self._object(content, view, depth)
            if isinstance(content, list) and content:
                at = self._words.random.randrange(len(content))
                if self._words.maybe(0.2):
                    return (content * self._words.one((2, 40, 1001)))[:_LONGEST_LIST]
                return [*content[:at], self._once(content[at], view, depth + 1), *content[at + 1 :]]
        return self._junk(view)

    def _object(self, content: Mapping[str, Any], view: View, depth: int) -> Any:
        name = self._words.one(list(content))
        how = self._words.random.random()
        if how < 0.1:
            return {key: value for key, value in content.items() if key != name}
        if how < 0.2:
            other = self._words.one((name.upper(), name.lower(), f"{USER}:{name}", f"{name} "))
            return {other if key == name else key: value for key, value in content.items()}
        if how < 0.3:
            return {**content, self._words.one((*UNKEPT, "", "\x00", "constructor")): self._junk(view)}
        return {**content, name: self._once(content[name], view, depth + 1)}

    def _junk(self, view: View) -> Any:
        words = self._words
        if words.maybe(0.25):
            return words.one((words.id(view), words.address(view), view.group, words.one(view.others)))
        if words.maybe(0.05):
            nested: Any = "x"
            for _ in range(words.one((5, 50, 500))):
                nested = [nested] if words.maybe(0.5) else {"value": nested}
            return nested
        return words.one(_SPOILT)

    # Ways to write a body and its headers.

    def _cut(self, body: bytes, headers: Pairs) -> Written:
        return body[: self._words.random.randrange(len(body))], headers

    def _with_a_byte(self, body: bytes, headers: Pairs) -> Written:
        at, byte = self._words.random.randrange(len(body)), self._words.random.randrange(256)
        return body[:at] + bytes((byte,)) + body[at:], headers

    def _with_keys_twice(self, body: bytes, headers: Pairs) -> Written:
        return body.replace(b"{", _TWICE, 1), headers

    def _with_a_mark(self, body: bytes, headers: Pairs) -> Written:
        return b"\xef\xbb\xbf" + body, headers

    def _wide(self, body: bytes, headers: Pairs) -> Written:
        return body.decode(errors="replace").encode("utf-16"), headers

    def _no_object(self, _body: bytes, headers: Pairs) -> Written:
        return self._words.one(_NO_OBJECTS), headers

    def _long(self, body: bytes, headers: Pairs) -> Written:
        return body + b" " * self._words.one((10, 100_000, 2_200_000 if self._words.maybe(0.2) else 1)), headers

    def _of_another_kind(self, body: bytes, _headers: Pairs) -> Written:
        return body, (("content-type", self._words.one(_KINDS)),)

    def _of_no_kind(self, body: bytes, _headers: Pairs) -> Written:
        return body, ()

    def _coded(self, body: bytes, headers: Pairs) -> Written:
        return body, (*headers, ("content-encoding", self._words.one(("gzip", "identity", "br"))))

    def _overridden(self, body: bytes, headers: Pairs) -> Written:
        return body, (*headers, ("x-http-method-override", "DELETE"), ("x-forwarded-host", "evil.example"), ("x-org", "globex"))

    def _wanted_otherwise(self, body: bytes, headers: Pairs) -> Written:
        return body, (*headers, ("accept", self._words.one(("text/html", "application/json", "*/*;q=0", "x"))))


_WAYS: Final[tuple[Callable[[Spoiler, bytes, Pairs], Written], ...]] = tuple(
    getattr(Spoiler, name)
    for name in (
        *("_cut", "_with_a_byte", "_with_keys_twice", "_with_a_mark", "_wide", "_no_object", "_long", "_of_another_kind", "_of_no_kind"),
        *("_coded", "_overridden", "_wanted_otherwise"),
    )
)
_ODD_QUERIES: Final[tuple[Pairs, ...]] = (
    (("attributes", "userName,emails.value"),),
    (("excludedAttributes", "name,members"),),
    # These are refused, so nothing may have changed.
    (("attributes", "a"), ("excludedAttributes", "b")),
    (("attributes", "id"), ("excludedAttributes", "name")),
    (("count", "x"),),
    (("startIndex", ""), ("startIndex", "1")),
    (("organization", "globex"), ("org_id", "1"), ("user_id", "*")),
    (("filter", "\x00"),),
    (("\ufffd", "%"),),
    (("attributes", ",".join("abcdefghij" for _ in range(200))),),
)
