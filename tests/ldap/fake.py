"""A directory in a thread: it writes down every bind and every search, and can be said to misbehave."""

import socket
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Self

from adapters.ldap.messages import ENUMERATED, OCTETS, SEQUENCE, SET, Elements, MalformedMessage, encoded, integer, length_at, octets

BIND_DN: Final = "cn=reader,dc=example,dc=org"
BIND_PASSWORD: Final = "the reader's own password"
BASE: Final = "ou=people,dc=example,dc=org"

Answers = Callable[[int, int, bytes], bytes | None]


def result(tag: int, number: int, code: int = 0, said: str = "", controls: bytes = b"") -> bytes:
    body = encoded(tag, integer(code, ENUMERATED), octets(b""), octets(said.encode()))
    return encoded(SEQUENCE, integer(number), body, encoded(0xA0, controls) if controls else b"")


def entry(number: int, dn: str, attributes: Mapping[str, Sequence[bytes]]) -> bytes:
    listed = [
        encoded(SEQUENCE, octets(name.encode()), encoded(SET, *(octets(one) for one in values))) for name, values in attributes.items()
    ]
    return encoded(SEQUENCE, integer(number), encoded(0x64, octets(dn.encode()), encoded(SEQUENCE, *listed)))


def control(oid: bytes, value: bytes) -> bytes:
    return encoded(SEQUENCE, octets(oid), octets(value))


@dataclass
class FakePerson:
    dn: str
    password: str
    attributes: Mapping[str, Sequence[bytes]]
    refused_with: str = ""
    """The words of Active Directory for a right password that does not count."""


@dataclass
class FakeLdap:
    context: ssl.SSLContext
    people: list[FakePerson] = field(default_factory=list)
    binds: list[tuple[str, bytes]] = field(default_factory=list)
    searches: list[list[tuple[str, bytes]]] = field(default_factory=list)
    """The comparisons of each filter."""
    answers: Answers | None = None
    """Answers in place of the honest ones. None for a message means the honest one."""
    in_clear: bool = False
    start_tls_with: bytes = b""
    """What follows the answer to StartTLS in clear."""
    connections: int = 0
    is_away: bool = False
    threshold: int | None = None

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def add(self, uid: str, password: str = "her directory password", mail: str = "", **more: Any) -> FakePerson:
        attributes = {
            "uid": [uid.encode()],
            "mail": [(mail or f"{uid}@example.org").encode()],
            "entryUUID": [f"00000000-0000-4000-8000-{len(self.people):012x}".encode()],
            "objectClass": [b"person"],
            **more.pop("attributes", {}),
        }
        person = FakePerson(more.pop("dn", f"uid={uid},{BASE}"), password, attributes, **more)
        self.people.append(person)
        return person

    def passwords(self) -> list[bytes]:
        return [password for _, password in self.binds]

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            if self.is_away:
                accepted.close()
                continue
            threading.Thread(target=self._serve, args=(accepted,), daemon=True).start()

    def _serve(self, accepted: socket.socket) -> None:
        with suppress(OSError, MalformedMessage), accepted:
            if self.in_clear:
                self._talk(accepted)
                return
            with self.context.wrap_socket(accepted, server_side=True) as stream:
                self._talk(stream)

    def _talk(self, stream: socket.socket) -> None:
        buffer = b""
        while True:
            found = length_at(buffer, 1)
            if found is None or len(buffer) < found[0] + found[1]:
                more = stream.recv(65536)
                if not more:
                    return
                buffer += more
                continue
            length, begins = found
            content, buffer = buffer[begins : begins + length], buffer[begins + length :]
            elements = Elements(content)
            number, operation = elements.number(), elements.next_tag() or 0
            body = elements.take()
            said = None if self.answers is None else self.answers(number, operation, body)
            if operation == 0x77 and said is None:
                stream.sendall(result(0x78, number) + self.start_tls_with)
                with self.context.wrap_socket(stream, server_side=True) as secure:
                    self._talk(secure)
                return
            stream.sendall(said if said is not None else self._honest(number, operation, body))

    def _honest(self, number: int, operation: int, body: bytes) -> bytes:
        elements = Elements(body)
        if operation == 0x60:
            elements.take()
            dn, password = elements.text(), elements.take(0x80)
            self.binds.append((dn, password))
            return self._bound(number, dn, password.decode())
        if operation == 0x63:
            base, scope = elements.text(), elements.number(ENUMERATED)
            elements.number(ENUMERATED)
            for _ in range(2):
                elements.number()
            elements.take()
            compared = comparisons(elements)
            self.searches.append(compared)
            if base == "":
                return entry(number, "", {"namingContexts": [b"dc=example,dc=org"]}) + result(0x65, number)
            if scope == 0 and self.threshold is not None:
                policy = {"lockoutThreshold": [str(self.threshold).encode()], "lockOutObservationWindow": [b"-18000000000"]}
                return entry(number, base, policy) + result(0x65, number)
            if scope == 0 or ("objectClass", b"pwdPolicy") in compared:
                return result(0x65, number)
            names = [value.decode() for attribute, value in compared if attribute.lower() in {"uid", "mail"}]
            found = [one for one in self.people if not names or self._has(one, names[0])]
            return b"".join(entry(number, one.dn, one.attributes) for one in found) + result(0x65, number)
        return b""

    def _has(self, person: FakePerson, name: str) -> bool:
        return any(value.decode().lower() == name.lower() for at in ("uid", "mail") for value in person.attributes.get(at, ()))

    def _bound(self, number: int, dn: str, password: str) -> bytes:
        if password == "":
            # As real directories do: a bind of nobody.
            return result(0x61, number)
        if (dn, password) == (BIND_DN, BIND_PASSWORD):
            return result(0x61, number)
        person = next((one for one in self.people if one.dn == dn), None)
        if person is not None and person.password == password:
            return result(0x61, number, 49 if person.refused_with else 0, person.refused_with)
        return result(0x61, number, 49, "80090308: LdapErr: DSID-0C09, comment: AcceptSecurityContext error, data 52e, v4563")


def comparisons(elements: Elements) -> list[tuple[str, bytes]]:
    """Every comparison with a value that the filter has."""
    tag = elements.next_tag()
    if tag in {0xA0, 0xA1, 0xA2}:
        inner, found = Elements(elements.take()), list[tuple[str, bytes]]()
        while not inner.is_over:
            found += comparisons(inner)
        return found
    content = elements.take()
    if tag == 0xA3:
        pair = Elements(content)
        return [(pair.text(), pair.take(OCTETS))]
    return []
