"""A SCIM server to which people are sent, in a thread: it keeps every request, and can be told to misbehave.

`python -m ops.stand_ins.fake_remote_system --token …` serves in a process of its own and writes its port. `GET /state` is for its starter.
"""

import json
import re
import socket
import ssl
import threading
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final, Self
from urllib.parse import parse_qsl, urlsplit

import trio

from ops.stand_ins.remote_dialects import DIALECTS, GENERIC, RemoteDialect

LONGEST_WAIT: Final = 60.0
BASE: Final = "/scim/v2"
_USER: Final = "urn:ietf:params:scim:schemas:core:2.0:User"
_LIST: Final = "urn:ietf:params:scim:api:messages:2.0:ListResponse"
_ERROR: Final = "urn:ietf:params:scim:api:messages:2.0:Error"
_PEOPLE, _GROUPS = "Users", "Groups"
_FILTER: Final = re.compile(r'\s*([\w.:$-]+)\s+eq\s+("(?:[^"\\]|\\.)*")\s*', re.IGNORECASE)
_STEP: Final = re.compile(r'([\w$-]+)(?:\[\s*([\w$-]+)\s+eq\s+"([^"]*)"\s*\])?')
_GIGABYTE: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Arrived:
    """A request as it came."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: Any
    at: float

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))


@dataclass(frozen=True, slots=True)
class RemoteAnswer:
    """`body` is what becomes JSON, or bytes that go as they are."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


class RemoteRefusal(Exception):
    def __init__(self, status: int, detail: str, kind: str | None = None) -> None:
        super().__init__(detail)
        said = {"schemas": [_ERROR], "status": str(status), "detail": detail}
        self.answer = RemoteAnswer(status, said if kind is None else {**said, "scimType": kind})


class RemoteDirectory:
    """The people or the groups of the remote system. They are found by id, by name and by external id without a walk through all."""

    def __init__(self) -> None:
        self.resources: dict[str, dict[str, Any]] = {}
        self._ids: dict[str, dict[str, list[str]]] = {"username": {}, "externalid": {}, "displayname": {}}

    def keep(self, resource: dict[str, Any]) -> None:
        self.drop(str(resource["id"]))
        self.resources[str(resource["id"])] = resource
        for kind, value in self._keys(resource):
            self._ids[kind].setdefault(value, []).append(str(resource["id"]))

    def drop(self, number: str) -> None:
        if (known := self.resources.pop(number, None)) is not None:
            for kind, value in self._keys(known):
                self._ids[kind][value].remove(number)

    def named(self, kind: str, value: str) -> list[dict[str, Any]]:
        if kind == "id":
            return [self.resources[value]] if value in self.resources else []
        if kind == "emails.value":
            return [one for one in self.resources.values() if value.lower() in {str(each.get("value")).lower() for each in _listed(one)}]
        return [self.resources[one] for one in self._ids[kind].get(value if kind == "externalid" else value.lower(), ())]

    @staticmethod
    def _keys(resource: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        for kind, name in (("username", "userName"), ("externalid", "externalId"), ("displayname", "displayName")):
            if (value := resource.get(name)) is not None:
                yield kind, str(value) if kind == "externalid" else str(value).lower()


def _listed(resource: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    emails = resource.get("emails")
    return [one for one in emails if isinstance(one, Mapping)] if isinstance(emails, list) else []


@dataclass
class FakeRemoteSystem:
    """`token` is the bearer token that it takes. A test may change any switch while it serves."""

    dialect: RemoteDialect = GENERIC
    token: str = "far-side-token-7a91c3"
    tls: ssl.SSLContext | None = None
    throttles_each: int = 0
    """Each so-manieth request is answered 429."""
    retry_after: str = "1"
    fails_at: set[int] = field(default_factory=set)
    """The numbers of the writes, from 1, that are answered 500 and do nothing."""
    fails_behind: set[int] = field(default_factory=set)
    """The numbers of the writes that are done, and answered 500."""
    hangs_up_behind: set[int] = field(default_factory=set)
    """The numbers of the writes that are done, and not answered."""
    holds_behind: set[int] = field(default_factory=set)
    """The numbers of the writes that are done, and answered once `go_on` was called."""
    is_huge: bool = False
    """Answers with a gigabyte."""
    redirects_to: str = ""
    answers_id: str = ""
    """The id that stands in answers to writes, in place of the right one."""
    swaps_case: bool = False
    """userName stands in answers in other letters than it was sent."""
    taken: set[str] = field(default_factory=set)
    """Names, in small letters, that are refused as taken, though no list shows whose they are."""
    refuses: dict[str, tuple[int, str, str]] = field(default_factory=dict)
    """Names, in small letters, whose writes are refused, with status, `scimType` and words."""
    echoes: bool = False
    """Refuses writes in words that repeat the request's credentials and body."""
    answers: Callable[[Arrived], RemoteAnswer | None] | None = None
    """Answers in place of the honest ones. None means the honest one."""
    delay: float = 0.0
    arrived: list[Arrived] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    sent: int = 0
    """Bytes of a huge answer that were sent."""

    def __post_init__(self) -> None:
        self.people, self.groups = RemoteDirectory(), RemoteDirectory()
        self._changed = threading.Condition()
        self._next, self._writes = 1, 0
        self._held = threading.Event()
        self._open: set[socket.socket] = set()

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._held.set()
        self._listener.close()
        with self._changed:
            left = list(self._open)
        for one in left:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    @property
    def url(self) -> str:
        return f"{'http' if self.tls is None else 'https'}://127.0.0.1:{self.port}{BASE}"

    def add(self, user_name: str, **attributes: Any) -> dict[str, Any]:
        """Somebody who was there before."""
        with self._changed:
            made = {"schemas": [_USER], "id": self._new_id(), "userName": user_name, "active": True, **attributes}
            self.people.keep(made)
            return made

    def everybody(self) -> list[dict[str, Any]]:
        with self._changed:
            return deepcopy(list(self.people.resources.values()))

    def named(self, user_name: str) -> dict[str, Any] | None:
        """The one person with this name."""
        with self._changed:
            found = self.people.named("username", user_name)
            assert len(found) <= 1, found
            return deepcopy(found[0]) if found else None

    def active(self) -> set[str]:
        return {str(one["userName"]) for one in self.everybody() if one.get("active", True)}

    def doubles(self) -> list[str]:
        """External ids and names, in small letters, that more than one person has."""
        everybody = self.everybody()
        counted = [Counter(str(one.get(key)).lower() for one in everybody if one.get(key)) for key in ("externalId", "userName")]
        return [value for each in counted for value, times in each.items() if times > 1]

    def writes(self) -> list[Arrived]:
        with self._changed:
            return [one for one in self.arrived if one.method != "GET"]

    def forget_requests(self) -> None:
        with self._changed:
            self.arrived.clear()
            self.statuses.clear()

    def until(self, holds: Callable[[Self], bool], longest: float = LONGEST_WAIT) -> None:
        """Waits in this thread until the condition holds, which is asked again after each request."""
        end = time.monotonic() + longest
        while not holds(self):
            with self._changed:
                left = end - time.monotonic()
                assert left > 0, f"{len(self.arrived)} requests came"
                self._changed.wait(min(left, 0.05))

    async def met(self, holds: Callable[[Self], bool], longest: float = LONGEST_WAIT) -> None:
        await trio.to_thread.run_sync(self.until, holds, longest, abandon_on_cancel=True)

    def go_on(self) -> None:
        """Answers whatever is held, and holds nothing more."""
        self.holds_behind.clear()
        self._held.set()

    def release(self) -> None:
        """Answers whatever is held. Later writes may be held again."""
        held, self._held = self._held, threading.Event()
        held.set()

    def state(self) -> dict[str, Any]:
        everybody = self.everybody()
        with self._changed:
            counted = dict(Counter(one.method for one in self.arrived))
            statuses = {str(status): times for status, times in self.statuses.items()}
        active = sum(bool(one.get("active", True)) for one in everybody)
        return {"people": len(everybody), "active": active, "doubles": self.doubles(), "requests": counted, "statuses": statuses}

    def _new_id(self) -> Any:
        number, self._next = self._next, self._next + 1
        return number if self.dialect.numbers else f"far-{number}"

    # The wire.

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                return
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(accepted,), daemon=True).start()

    def _serve(self, accepted: socket.socket) -> None:
        with self._changed:
            self._open.add(accepted)
        with suppress(OSError, ValueError), accepted:
            stream = accepted if self.tls is None else self.tls.wrap_socket(accepted, server_side=True)
            with stream, stream.makefile("rb") as reader:
                while line := reader.readline(1 << 16):
                    method, target, _ = line.decode("latin-1").split(" ", 2)
                    headers: dict[str, str] = {}
                    while (line := reader.readline(1 << 16)) not in {b"\r\n", b""}:
                        name, _, value = line.decode("latin-1").partition(":")
                        headers[name.strip().lower()] = value.strip()
                    sent = reader.read(int(headers.get("content-length", "0")))
                    if not self._answered(stream, method, target, headers, sent):
                        break
        with self._changed:
            self._open.discard(accepted)

    def _answered(self, stream: socket.socket, method: str, target: str, headers: Mapping[str, str], sent: bytes) -> bool:
        if target == "/state":
            _send(stream, RemoteAnswer(200, self.state()))
            return True
        request = Arrived(method, target, headers, _parsed(sent), time.monotonic())
        if self.delay:
            time.sleep(self.delay)
        with self._changed:
            self.arrived.append(request)
            answer, number = self._one(request)
            held = self._held
            self.statuses[answer.status] += 1
            self._changed.notify_all()
        if number in self.holds_behind:
            held.wait()
        if number in self.hangs_up_behind:
            return False
        if self.is_huge:
            self._send_a_gigabyte(stream)
            return False
        _send(stream, RemoteAnswer(500, {"detail": "an accident behind the work"}) if number in self.fails_behind else answer)
        return True

    def _send_a_gigabyte(self, stream: socket.socket) -> None:
        stream.sendall(f"HTTP/1.1 200 OK\r\ncontent-type: application/scim+json\r\ncontent-length: {_GIGABYTE}\r\n\r\n".encode())
        piece = b'{"Resources": [' + b" " * ((1 << 16) - 15)
        while self.sent < _GIGABYTE:
            stream.sendall(piece)
            self.sent += len(piece)

    def _one(self, request: Arrived) -> tuple[RemoteAnswer, int]:
        """The answer, and the number of the write, or 0."""
        if (said := self._said_first(request)) is not None:
            return said, 0
        number = 0
        if request.method != "GET":
            self._writes += 1
            number = self._writes
        if number in self.fails_at:
            return RemoteAnswer(500, {"detail": "an accident"}), number
        if number and self.echoes:
            said_back = f"{request.headers['authorization']} may not send {json.dumps(request.body)}"
            return RemoteRefusal(400, said_back, "invalidValue").answer, number
        try:
            answer = self._handled(request)
        except RemoteRefusal as refusal:
            answer = refusal.answer
        return self._spoiled(request, answer), number

    def _said_first(self, request: Arrived) -> RemoteAnswer | None:
        """What is answered before anybody looks at what is asked."""
        if self.answers is not None and (said := self.answers(request)) is not None:
            return said
        if self.redirects_to:
            return RemoteAnswer(307, None, {"location": self.redirects_to})
        if request.headers.get("authorization") != f"Bearer {self.token}":
            return RemoteRefusal(401, "the token is unknown").answer
        if self.throttles_each and len(self.arrived) % self.throttles_each == 0:
            return RemoteAnswer(429, {"detail": "too many"}, {"retry-after": self.retry_after})
        return None

    def _spoiled(self, request: Arrived, answer: RemoteAnswer) -> RemoteAnswer:
        body = deepcopy(answer.body)
        if self.answers_id and request.method != "GET" and isinstance(body, dict) and "id" in body:
            body["id"] = self.answers_id
        if self.swaps_case and isinstance(body, dict):
            for one in body.get("Resources", [body]):
                if "userName" in one:
                    one["userName"] = one["userName"].swapcase()
        return RemoteAnswer(answer.status, body, answer.headers)

    # What SCIM asks for.

    def _handled(self, request: Arrived) -> RemoteAnswer:
        parts = request.path.removeprefix(BASE).strip("/").split("/")
        if not request.path.startswith(BASE):
            raise RemoteRefusal(404, "nothing is here")
        if parts == ["ServiceProviderConfig"]:
            return RemoteAnswer(200, self._described())
        if parts[0] not in {_PEOPLE, _GROUPS} or (parts[0] == _GROUPS and not self.dialect.groups):
            raise RemoteRefusal(404, "nothing is here")
        kept = self.people if parts[0] == _PEOPLE else self.groups
        if len(parts) == 1:
            return self._created(kept, request.body) if request.method == "POST" else self._found(kept, request.query)
        if (known := kept.resources.get(parts[1])) is None:
            raise RemoteRefusal(404, "nobody has this id")
        if request.method == "GET":
            return RemoteAnswer(200, known)
        if request.method == "DELETE":
            return self._deleted(kept, known)
        if request.method == "PUT":
            return self._kept(kept, {**request.body, "id": known["id"]}, known)
        if request.method != "PATCH" or not self.dialect.patches:
            raise RemoteRefusal(405 if request.method != "PATCH" else 501, "this method is not taken")
        return self._kept(kept, self._patched(known, request.body), known)

    def _described(self) -> dict[str, Any]:
        return {
            "schemas": ["urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"],
            "patch": {"supported": self.dialect.patches},
            "pagination": {
                "cursor": self.dialect.cursors if self.dialect.says_cursors is None else self.dialect.says_cursors,
                "index": self.dialect.pages,
            },
            "filter": {"supported": bool(self.dialect.filters), "maxResults": self.dialect.longest_page},
            **{name: {"supported": False} for name in ("bulk", "changePassword", "sort", "etag")},
            "authenticationSchemes": [{"type": "oauthbearertoken", "name": "Token", "description": "A bearer token"}],
        }

    def _found(self, kept: RemoteDirectory, query: Mapping[str, str]) -> RemoteAnswer:
        wanted = query.get("filter")
        if wanted is None or self.dialect.ignores_filters:
            found = list(kept.resources.values())
        else:
            compared = _FILTER.fullmatch(wanted)
            kind = "" if compared is None else compared[1].rpartition(":")[2].lower()
            if compared is None or kind not in self.dialect.filters:
                raise RemoteRefusal(400, "this filter is not taken", "invalidFilter")
            found = kept.named(kind, json.loads(compared[2]))
        if "cursor" in query and self.dialect.cursors:
            return self._by_cursor(found, query)
        start = max(int(query.get("startIndex", "1")), 1) if self.dialect.pages else 1
        page = found[start - 1 :][: min(int(query.get("count", self.dialect.longest_page)), self.dialect.longest_page)]
        listed = {"totalResults": len(found), "startIndex": start, "itemsPerPage": len(page), "Resources": page}
        return RemoteAnswer(200, {"schemas": [_LIST], **listed})

    def _by_cursor(self, found: list[dict[str, Any]], query: Mapping[str, str]) -> RemoteAnswer:
        """Cursors are a place and the number of the request that gave them, in an alphabet that has to be quoted."""
        now, start = len(self.arrived), 0
        if query["cursor"]:
            given = re.fullmatch(r"([0-9]+)/([0-9]+)=\+:", query["cursor"])
            if given is None:
                raise RemoteRefusal(400, "this is no cursor", "invalidCursor")
            start = int(given[1])
            if now - int(given[2]) > self.dialect.cursor_lasts:
                raise RemoteRefusal(400, "this cursor has expired", "expiredCursor")
        count = min(int(query.get("count", self.dialect.longest_page)), self.dialect.longest_page)
        page, behind = found[start : start + count], start + count
        more = {"nextCursor": f"{behind}/{now}=+:"} if behind < len(found) else {}
        return RemoteAnswer(200, {"schemas": [_LIST], "itemsPerPage": len(page), "Resources": page, **more})

    def _created(self, kept: RemoteDirectory, body: Any) -> RemoteAnswer:
        if not isinstance(body, dict):
            raise RemoteRefusal(400, "no resource was sent", "invalidSyntax")
        return self._kept(kept, {"active": True, **body, "id": None} if kept is self.people else {**body, "id": None}, None)

    def _kept(self, kept: RemoteDirectory, resource: dict[str, Any], known: Mapping[str, Any] | None) -> RemoteAnswer:
        if kept is self.people:
            self._check(resource, known)
            if self.dialect.handles:
                resource["userName"] = re.sub(r"[^a-z0-9._-]", "", str(resource["userName"]).partition("@")[0].lower())[:21]
            resource.pop("password", None)
        resource["id"] = self._new_id() if known is None else known["id"]
        kept.keep(resource)
        return RemoteAnswer(201 if known is None else 200, resource)

    def _check(self, resource: Mapping[str, Any], known: Mapping[str, Any] | None) -> None:
        name = str(resource.get("userName", "")).lower()
        if name in self.refuses:
            status, kind, words = self.refuses[name]
            raise RemoteRefusal(status, words, kind or None)
        for path in self.dialect.required:
            first, _, second = path.partition(".")
            value = resource.get(first)
            if not (value.get(second) if second and isinstance(value, Mapping) else value):
                raise RemoteRefusal(400, f"{path} is required", "invalidValue")
        if unwanted := self.dialect.refused & resource.keys():
            raise RemoteRefusal(400, f"{min(unwanted)} is not taken", "invalidValue")
        if self.dialect.one_value and any(
            isinstance(value, list) and len(value) > 1 for key, value in resource.items() if key != "schemas"
        ):
            raise RemoteRefusal(400, "one value is taken", "invalidValue")
        others = [one for one in self.people.named("username", name) if known is None or one["id"] != known["id"]]
        if name in self.taken or (others and not self.dialect.handles):
            raise RemoteRefusal(409, "the name is taken", "uniqueness")

    def _deleted(self, kept: RemoteDirectory, known: dict[str, Any]) -> RemoteAnswer:
        if self.dialect.deletes == "refuses":
            raise RemoteRefusal(405, "this method is not taken")
        if kept is self.people and self.dialect.deletes == "deactivates":
            known["active"] = False
        else:
            kept.drop(str(known["id"]))
        return RemoteAnswer(204)

    def _patched(self, known: Mapping[str, Any], body: Any) -> dict[str, Any]:
        changed = deepcopy(dict(known))
        alone: Counter[str] = Counter()
        for operation in body["Operations"]:
            verb, path, value = str(operation["op"]).lower(), operation.get("path"), operation.get("value")
            if verb == "remove" and path is None:
                raise RemoteRefusal(400, "what is removed has to be named", "noTarget")
            changes = {path: value} if path is not None else dict(value)
            for where, what in changes.items():
                first = str(where).rpartition(":")[2] if str(where).startswith(f"{_USER}:") else str(where)
                alone[first.lower()] += 1
                _set(changed, first, what, verb)
        if any(alone[one] > 1 for one in self.dialect.lone_operations):
            raise RemoteRefusal(400, "one change of an attribute is taken", "invalidValue")
        if isinstance(changed.get("active"), str):
            changed["active"] = changed["active"].lower() == "true"
        return changed


def _set(resource: dict[str, Any], path: str, value: Any, verb: str) -> None:
    """Writes a value to a path such as `active`, `name.givenName`, `emails[type eq "work"].value` or `urn:…:User:department`."""
    urn, _, last = path.rpartition(":") if path.startswith("urn:") else ("", "", path)
    place: Any = resource.setdefault(urn, {}) if urn and path not in resource else resource
    last = path if urn and path in resource else last
    steps = list(_STEP.finditer(last)) if last != path or not path.startswith("urn:") else []
    if not steps:
        place[last] = value
        return
    for step in steps[:-1]:
        place = _row(place, step) if step[2] else place.setdefault(step[1], {})
    step = steps[-1]
    if step[2]:
        rows = place.get(step[1], [])
        place[step[1]] = [one for one in rows if str(one.get(step[2])) != step[3]] if verb == "remove" else rows
        if verb != "remove":
            _row(place, step).update(value)
    elif verb == "remove":
        place.pop(step[1], None)
    elif verb == "add" and isinstance(place.get(step[1]), list):
        place[step[1]] = [*place[step[1]], *(one for one in value if one not in place[step[1]])]
    elif isinstance(value, dict) and isinstance(place.get(step[1]), dict):
        place[step[1]] = {**place[step[1]], **value}
    else:
        place[step[1]] = value


def _row(place: dict[str, Any], step: re.Match[str]) -> dict[str, Any]:
    rows = place.setdefault(step[1], [])
    for row in rows:
        if str(row.get(step[2])) == step[3]:
            return _dict(row)
    rows.append({step[2]: step[3]})
    return _dict(rows[-1])


def _dict(row: Any) -> dict[str, Any]:
    assert isinstance(row, dict), row
    return row


def _parsed(sent: bytes) -> Any:
    try:
        return json.loads(sent) if sent else None
    except ValueError:
        return sent.decode("latin-1")


def _send(stream: socket.socket, answer: RemoteAnswer) -> None:
    body = answer.body if isinstance(answer.body, bytes) else b"" if answer.body is None else json.dumps(answer.body).encode()
    length = [] if answer.status == 204 else [f"content-length: {len(body)}"]
    lines = [f"HTTP/1.1 {answer.status} X", "content-type: application/scim+json", *length]
    lines += [f"{name}: {value}" for name, value in answer.headers.items()]
    stream.sendall("\r\n".join([*lines, "", ""]).encode() + body)


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--token", required=True)
    parser.add_argument("--dialect", choices=sorted(DIALECTS), default="generic")
    given = parser.parse_args()
    with FakeRemoteSystem(DIALECTS[given.dialect], token=given.token) as remote_system:
        print(remote_system.port, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
