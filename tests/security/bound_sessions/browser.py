"""A browser with a key of its own, written from the draft of Device Bound Session Credentials (W3C, commit d34681127, 17 February 2026).

It follows the algorithms of the draft by their names: which session needs a renewal, what is sent, what an answer does. Its clock is a
number of seconds, so that no test waits for a cookie to run out.
"""

import json
import re
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookies import SimpleCookie
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from tests.http.browsing import Fields, Tabs
from tests.http.client import Client, Received

BOUND: Final = "__Host-postern_bound"
_ITEM: Final = re.compile(r'"(?P<text>[^"]*)"(?P<parameters>(?:;[a-z_]+="[^"]*")*)')
_OFFER: Final = re.compile(r'\((?P<algorithms>[A-Za-z0-9 ]+)\)(?P<parameters>(?:;[a-z_]+="[^"]*")*)')
_PARAMETER: Final = re.compile(r';([a-z_]+)="([^"]*)"')
# Chromium gives up earlier. A test that needs more has found a circle.
_MOST_ROUNDS: Final = 4

Key = EllipticCurvePrivateKey | RSAPrivateKey


def new_key() -> EllipticCurvePrivateKey:
    return generate_private_key(SECP256R1())


def in_base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value: int, length: int | None = None) -> str:
    return in_base64(value.to_bytes(length or (value.bit_length() + 7) // 8))


def jwk_of(key: Key) -> dict[str, str]:
    if isinstance(key, RSAPrivateKey):
        of_rsa = key.public_key().public_numbers()
        return {"kty": "RSA", "n": number(of_rsa.n), "e": number(of_rsa.e)}
    numbers = key.public_key().public_numbers()
    return {"kty": "EC", "crv": "P-256", "x": number(numbers.x, 32), "y": number(numbers.y, 32)}


def signed(key: Key, header: Mapping[str, Any], payload: Mapping[str, Any]) -> str:
    text = ".".join(in_base64(json.dumps(part).encode()) for part in (header, payload))
    if isinstance(key, RSAPrivateKey):
        return f"{text}.{in_base64(key.sign(text.encode(), PKCS1v15(), SHA256()))}"
    r, s = decode_dss_signature(key.sign(text.encode(), ECDSA(SHA256())))
    return f"{text}.{in_base64(r.to_bytes(32) + s.to_bytes(32))}"


def proof(key: Key, challenge: str, *, names_key: bool = False, **header: Any) -> str:
    """A proof as section "DBSC Proof JWT Syntax" has it."""
    algorithm = "RS256" if isinstance(key, RSAPrivateKey) else "ES256"
    jwk = {"jwk": jwk_of(key)} if names_key else {}
    return signed(key, {"typ": "dbsc+jwt", "alg": algorithm, **jwk, **header}, {"jti": challenge})


@dataclass
class BoundSession:
    """A "device bound session" of the browser's store."""

    identifier: str
    refresh_path: str
    scope: Mapping[str, Any]
    credentials: list[Mapping[str, str]]
    initiators: list[str]
    key: Key
    challenge: str | None = None


@dataclass
class Cookie:
    attributes: frozenset[str]
    until: float


def attributes_of(text: str) -> frozenset[str]:
    """Without Max-Age and Expires, which "will not contribute"."""
    parts = {part.strip().lower() for part in text.split(";") if part.strip()}
    return frozenset(part for part in parts if not part.startswith(("max-age", "expires")))


@dataclass
class Sent:
    """A registration or a renewal, with its answer."""

    path: str
    headers: Mapping[str, str]
    answer: Received


class BoundBrowser(Tabs):
    def __init__(self, client: Client, *, key: Key | None = None, registers: bool = True) -> None:
        super().__init__(client)
        self.now = 0.0
        self.sessions: dict[str, BoundSession] = {}
        self.kept: dict[str, Cookie] = {}
        self.sent: list[Sent] = []
        self.offers: list[tuple[str, str]] = []
        self.registers = registers
        self.origin_of_request: str | None = None
        """Of the page that begins the requests, if it is another site's."""
        self._key = key

    def passes(self, seconds: float) -> None:
        """Cookies run out."""
        self.now += seconds
        for name in [name for name, cookie in self.kept.items() if cookie.until <= self.now]:
            del self.kept[name]
            self.cookies.pop(name, None)

    async def request(self, method: str, target: str, fields: Fields | None = None, *, with_file: bool = False) -> Received:
        deferred: set[str] = set()
        while (session := self._needing_refresh(target, deferred)) is not None:
            deferred.add(session.identifier)
            await self._send(session.refresh_path, session.key, session.identifier, session.challenge)
        answer = await super().request(method, target, fields, with_file=with_file)
        self._keep(answer)
        await self._process_registration(answer)
        self._process_challenge(answer)
        return answer

    def in_scope(self, session: BoundSession, path: str) -> bool:
        """Section "Identify if a URL is in scope"."""
        if path == session.refresh_path:
            return False
        for rule in reversed(session.scope.get("scope_specification", [])):
            pattern = rule.get("path", "/")
            if path == pattern or (pattern.endswith("/") and path.startswith(pattern)) or path.startswith(f"{pattern}/"):
                return bool(rule["type"] == "include")
        return True

    def _needing_refresh(self, target: str, deferred: set[str]) -> BoundSession | None:
        path = target.partition("?")[0]
        for session in self.sessions.values():
            allowed = self.origin_of_request is None or "*" in session.initiators
            if session.identifier not in deferred and self.in_scope(session, path) and allowed and self._is_missing(session):
                return session
        return None

    def _is_missing(self, session: BoundSession) -> bool:
        """Section "Identify if missing session credential": attributes are compared exactly."""
        return any(
            one["name"] not in self.kept or self.kept[one["name"]].attributes != attributes_of(one["attributes"])
            for one in session.credentials
        )

    async def _send(self, path: str, key: Key, identifier: str | None, challenge: str | None) -> None:
        """Section "Send request"."""
        for _ in range(_MOST_ROUNDS):
            headers = {}
            if challenge is not None:
                headers["secure-session-response"] = f'"{proof(key, challenge, names_key=identifier is None)}"'
            if identifier is not None:
                headers["sec-secure-session-id"] = f'"{identifier}"'
            answer = await self.post_as_browser(path, headers)
            self._process_challenge(answer)
            if answer.status in {407, 429} or 300 <= answer.status < 400 or answer.status >= 500:
                return
            if answer.status == 403:
                if identifier is None or identifier not in self.sessions:
                    return
                challenge = self.sessions[identifier].challenge
                continue
            if answer.status >= 400:
                self._terminate(identifier)
                return
            if identifier is None or answer.body:
                self._create(answer, path, identifier, key)
            return
        raise AssertionError(f"{path} has asked for ever more proofs")

    async def post_as_browser(self, path: str, headers: Mapping[str, str]) -> Received:
        own = [("user-agent", self.agent), *headers.items()]
        if self.cookies:
            own.append(("cookie", "; ".join(f"{name}={value}" for name, value in self.cookies.items())))
        if self.origin_of_request is not None:
            own += [("origin", self.origin_of_request), ("sec-fetch-site", "cross-site")]
        answer = await self.client.request("POST", path, headers=own)
        self.sent.append(Sent(path, headers, answer))
        for name, value in answer.headers:
            if name == "set-cookie":
                cookie, _, kept = value.partition(";")[0].partition("=")
                self.cookies[cookie] = kept
        self._keep(answer)
        return answer

    def _create(self, answer: Received, path: str, identifier: str | None, key: Key) -> None:
        """Section "Create session"."""
        said = answer.json()
        if said.get("continue") is False:
            self._terminate(identifier)
            return
        found = said["session_identifier"]
        assert identifier in {None, found}
        assert all("partitioned" not in one["attributes"].lower() and one["type"] == "cookie" for one in said["credentials"])
        self._terminate(identifier)
        self.sessions[found] = BoundSession(
            found, said.get("refresh_url", path), said["scope"], said["credentials"], said.get("allowed_refresh_initiators", []), key
        )
        self._process_challenge(answer)

    def _terminate(self, identifier: str | None) -> None:
        if identifier is not None:
            self.sessions.pop(identifier, None)

    async def _process_registration(self, answer: Received) -> None:
        offered = answer.header("secure-session-registration")
        for one in _OFFER.finditer(offered or ""):
            parameters = dict(_PARAMETER.findall(one["parameters"]))
            assert "ES256" in one["algorithms"].split()
            self.offers.append((parameters["path"], parameters["challenge"]))
            if self.registers:
                await self._send(parameters["path"], self._key or new_key(), None, parameters["challenge"])

    def _process_challenge(self, answer: Received) -> None:
        for one in _ITEM.finditer(answer.header("secure-session-challenge") or ""):
            session = self.sessions.get(dict(_PARAMETER.findall(one["parameters"])).get("id", ""))
            if session is not None:
                session.challenge = one["text"]

    def _keep(self, answer: Received) -> None:
        for name, value in answer.headers:
            if name != "set-cookie":
                continue
            read: SimpleCookie = SimpleCookie(value)
            ((cookie, morsel),) = read.items()
            if morsel["max-age"] == "0":
                self.kept.pop(cookie, None)
                self.cookies.pop(cookie, None)
            else:
                lasts = float(morsel["max-age"]) if morsel["max-age"] else float("inf")
                self.kept[cookie] = Cookie(attributes_of(value.partition(";")[2]), self.now + lasts)


def carried_off(browser: Tabs, client: Client | None = None) -> Tabs:
    """Another client, with all cookies of this one."""
    thief = Tabs(client or browser.client)
    thief.cookies = dict(browser.cookies)
    return thief
