"""Passkeys that belong to another host than the pages, and further origins that may use them."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from adapters.outbound.client import LONGEST_PAGE
from core.domain.identity.passkeys import RELATED_ORIGINS, RelyingParty
from core.frozen import replace
from entrypoints import checks
from entrypoints.bootstrap import Postern
from entrypoints.checks import Verdict
from entrypoints.http.application import build_application
from entrypoints.settings import SettingsError, read
from ports.outbound import Failure, OutboundAnswer, OutboundFailed, OutboundRequest
from tests.authenticator import ORIGIN, Passkey
from tests.changed_fields import put
from tests.http.client import Client
from tests.http.conftest import SETTINGS, postern_on, with_keys
from tests.http.identity.test_passkeys import Owner, owner
from tests.http.people import BASE_URL, People
from tests.http.signing_in import unlimited

OLD: Final = "id.old.example"
SHOP: Final = "https://shop.example:8443"
MOVED: Final = {"POSTERN_PASSKEY_ID": OLD, "POSTERN_PASSKEY_ORIGINS": f"https://{OLD}, {SHOP}"}


@pytest.fixture
async def moved(database_url: str, tmp_path: Path) -> AsyncIterator[Postern]:
    async with postern_on(database_url, tmp_path, MOVED) as opened:
        await with_keys(opened)
        yield opened


@pytest.fixture
async def ada(moved: Postern, database_url: str) -> AsyncIterator[Owner]:
    with People(moved, database_url) as people:
        yield await owner(unlimited(moved), people, moved, "ada@example.org")


def passkey(origin: str = ORIGIN, host: str = OLD) -> Passkey:
    return Passkey.made(origin=origin, relying_party=host)


async def test_passkeys_of_the_host_from_before_go_on(ada: Owner) -> None:
    options = await ada.options()
    assert options["rp"]["id"] == OLD
    assert (await ada.request())["rpId"] == OLD
    kept, _ = await ada.add(passkey(f"https://{OLD}"))
    # Made on the pages of before, used on those of today.
    kept.origin = ORIGIN
    assert (await ada.sign_in(kept)).status == 200


@pytest.mark.parametrize("origin", [ORIGIN, f"https://{OLD}", SHOP])
async def test_each_named_origin_counts(ada: Owner, origin: str) -> None:
    kept, _ = await ada.add(passkey(origin))
    assert (await ada.sign_in(kept)).status == 200


@pytest.mark.parametrize(
    "origin",
    [
        *(f"http://{OLD}", f"https://{OLD}:444", f"https://{OLD}/", f"https://{OLD}.evil.example", f"https://x.{OLD}", OLD),
        *("https://shop.example", "https://SHOP.example:8443", f"{SHOP}/", f"{ORIGIN}:443", f"{ORIGIN}.evil.example", "null", "", None),
        *([ORIGIN], {"a": 1}),
    ],
)
async def test_an_origin_is_compared_whole(ada: Owner, origin: Any) -> None:
    kept, _ = await ada.add(passkey())
    assert (await ada.send(passkey(origin).create(await ada.options()))).status == 400
    kept.origin = origin
    assert (await ada.sign_in(kept)).status == 401


async def test_there_is_one_host_at_a_time(ada: Owner) -> None:
    assert (await ada.send(passkey(host="id.example.org").create(await ada.options()))).status == 400
    kept, _ = await ada.add(passkey())
    kept.relying_party = "id.example.org"
    assert (await ada.sign_in(kept)).status == 401


async def test_the_second_factor_and_the_fresh_proof_are_no_exception(ada: Owner) -> None:
    kept, _ = await ada.add(passkey())
    ada.grow_old()
    proof = "/api/auth/reauthenticate"
    for origin, status in (("https://elsewhere.example", 401), (SHOP, 200)):
        asked = (await ada.client.post(f"{proof}/options", token=ada.token)).ok()
        kept.origin = origin
        assert (await ada.client.post(proof, {"passkey": kept.get(asked)}, token=ada.token)).status == status


async def test_browsers_and_pages_are_told(moved: Postern) -> None:
    client = Client(build_application(moved, SETTINGS))
    answer = await client.get(RELATED_ORIGINS)
    assert (answer.status, answer.header("content-type")) == (200, "application/json")
    assert answer.header("cache-control") == "public, max-age=300"
    assert answer.json() == {"origins": [BASE_URL, f"https://{OLD}", SHOP]}
    body = (await client.get("/ui/sign-in")).body.decode()
    assert "data-related" in body
    assert f"because they belong to {OLD}" in body


async def test_an_installation_that_names_none_has_none_of_it(client: Client) -> None:
    assert (await client.get(RELATED_ORIGINS)).status == 404
    body = (await client.get("/ui/sign-in")).body
    assert b"data-passkey" in body
    assert b"related" not in body


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("ID", one) for one in ("192.0.2.1", "ID.example.org", "https://id.example.org", "id.example.org:443")),
        *(("ID", one) for one in ("example", "[::1]", "a b")),
        *(("ORIGINS", one) for one in ("http://id.example.org", "https://192.0.2.1", "https://a.example/x", "a.example", "https://")),
        ("ORIGINS", "android:apk-key-hash:AAAA"),
        ("ORIGINS", ",".join(f"https://{one}.example" for one in "abcdef")),
    ],
)
def test_what_is_none_stops_the_start(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"POSTERN_PASSKEY_{name} must be"):
        read({f"POSTERN_PASSKEY_{name}": value})


def test_origins_are_written_as_browsers_do() -> None:
    given = "https://A.example:443, http://localhost:8000/, https://a.example"
    assert read({"POSTERN_PASSKEY_ORIGINS": given}).passkey_origins == ("https://a.example", "http://localhost:8000")
    assert read({"POSTERN_PASSKEY_ID": "localhost"}).passkey_id == "localhost"


class _Host:
    """What the host from before answers. It is outside, so it stands here for a server on another machine."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.status, self.kind, self.body = 200, "application/json; charset=utf-8", b""
        self.failure: Failure | None = None

    async def call(self, method: str, request: OutboundRequest, _timeout: object) -> OutboundAnswer:
        self.asked.append(f"{method} {request.destination.scheme}://{request.destination.authority}{request.destination.target}")
        if self.failure is not None:
            raise OutboundFailed(self.failure)
        return OutboundAnswer(self.status, {"content-type": self.kind}, self.body)


async def test_the_doctor_asks_the_host_as_browsers_do(moved: Postern) -> None:
    host = _Host()
    put(moved.foundation, operators_outbound=host)
    host.body = json.dumps({"origins": [SHOP, BASE_URL]}).encode()
    found = await checks.related_origins(moved)
    assert found is not None
    assert (found.verdict, found.text) == (Verdict.OK, f"of {OLD}, which names {BASE_URL}, {SHOP}")
    assert host.asked == [f"GET https://{OLD}{RELATED_ORIGINS}"]
    for said, change in (
        ("answers 301", {"status": 301}),
        ("is not application/json", {"kind": "text/html"}),
        (f"does not name {SHOP}", {"body": json.dumps({"origins": [BASE_URL]}).encode()}),
        (f"does not name {BASE_URL}", {"body": json.dumps({"origins": [f"{BASE_URL}/", SHOP]}).encode()}),
        ("has no list of origins", {"body": b"[]"}),
        ("has no list of origins", {"body": b'{"origins": 1}'}),
        ("has no list of origins", {"body": json.dumps({"origins": f"{BASE_URL} {SHOP}"}).encode()}),
        ("has no list of origins", {"body": b"[" * 10_000}),
        ("is not application/json of at most", {"body": b" " * LONGEST_PAGE}),
        ("does not answer (tls_failed)", {"failure": Failure.TLS}),
    ):
        before = dict(vars(host))
        vars(host).update(change)
        found = await checks.related_origins(moved)
        assert found is not None
        assert (found.verdict, said in found.text) == (Verdict.FAIL, True), (said, found.text)
        vars(host).update(before)


async def test_the_doctor_says_nothing_where_there_is_nothing_to_ask(postern: Postern) -> None:
    assert await checks.related_origins(postern) is None
    party = postern.identity.passkeys.relying_party
    assert isinstance(party, RelyingParty)
    put(postern.identity.passkeys, relying_party=replace(party, others=("https://x.id.example.org",)))
    assert await checks.related_origins(postern) is None


async def test_the_doctor_says_why_there_are_no_passkeys(database_url: str, tmp_path: Path) -> None:
    async with postern_on(database_url, tmp_path, {**MOVED, "POSTERN_BASE_URL": "http://id.example.org"}) as opened:
        found = await checks.related_origins(opened)
    assert found is not None
    assert (found.verdict, found.text) == (Verdict.FAIL, "Passkeys require a base URL with https")
