"""Keys that clients publish at an address: fetched when the address is set, and again when the keys are old or do not verify."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from jwt.algorithms import ECAlgorithm

from adapters.outbound import client_documents
from tests.http.cast import all_at_once
from tests.http.client import Received
from tests.http.federation.relying import Relying, oauth
from tests.http.federation.test_clients import asserting
from tests.meanwhile import meanwhile
from tests.receiver import CRUMBS, Receiver, answering, hanging_up, receiving

OLD, NEW = generate_private_key(SECP256R1()), generate_private_key(SECP256R1())
JSON: Final = "content-type: application/json"


def jwk(key: EllipticCurvePrivateKey, kid: str | None) -> dict[str, Any]:
    made = json.loads(ECAlgorithm.to_jwk(key.public_key()))
    return {name: made[name] for name in ("kty", "crv", "x", "y")} | ({} if kid is None else {"kid": kid})


def published(*keys: Mapping[str, Any]) -> Any:
    return answering(200, json.dumps({"keys": keys}).encode(), JSON)


class Publishing:
    """The shop, and the server where it publishes its keys."""

    def __init__(self, relying: Relying, receiver: Receiver) -> None:
        self.relying = relying
        self.receiver = receiver
        self.owner = relying.resident(relying.acme, "owner")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.receiver.port}/keys.json"

    async def change(self, **fields: Any) -> Received:
        path = f"/api/organizations/acme/services/{self.relying.shop.service.slug}"
        return await self.relying.request("PATCH", path, fields, by=self.owner)

    async def comes_with(self, key: EllipticCurvePrivateKey, kid: str | None) -> tuple[int, str]:
        assertion = self.relying.assertion(self.relying.shop, key=key, header={} if kid is None else {"kid": kid})
        answer = await self.relying.ask(fields=asserting(assertion))
        return (200, "") if answer.status == 200 else oauth(answer)

    def row(self) -> dict[str, Any]:
        (row,) = self.relying.people.rows("select * from services where id = %s", self.relying.shop.service.id)
        return row

    def ages(self) -> None:
        self.relying.people.change("update services set jwks_fetched_at = now() - interval '61 minutes' where jwks_uri is not null")


REFUSED: Final = (401, "invalid_client")


@pytest.fixture
async def publishing(relying: Relying) -> AsyncIterator[Publishing]:
    async with receiving(published(jwk(OLD, "old"))) as receiver:
        yield Publishing(relying, receiver)


async def test_they_are_fetched_when_the_address_is_said(publishing: Publishing) -> None:
    shown = (await publishing.change(jwks_uri=publishing.url)).ok()
    assert (shown["jwks_uri"], [key["kid"] for key in shown["jwks"]["keys"]]) == (publishing.url, ["old"])
    assert [(call.method, call.target) for call in publishing.receiver.calls] == [("GET", "/keys.json")]
    assert await publishing.comes_with(OLD, "old") == (200, "")
    assert await publishing.comes_with(OLD, None) == (200, "")
    # While the keys are new, nothing fetches them again.
    assert len(publishing.receiver.calls) == 1
    (entry,) = publishing.relying.people.rows("select details from audit_entries where action = 'service.updated'")
    assert (entry["details"]["old_jwks_uri"], entry["details"]["jwks_uri"]) == (None, publishing.url)
    assert entry["details"]["key_ids"] == ["old"]


async def test_a_service_may_begin_with_them(publishing: Publishing) -> None:
    publishing.relying.people.change("update all_organizations set max_services = 100")
    body = {"slug": "robot", "name": "Robot", "service_type": "api", "jwks_uri": publishing.url}
    made = (await publishing.relying.request("POST", "/api/organizations/acme/services", body, by=publishing.owner)).ok()["service"]
    assert (made["jwks_uri"], len(made["jwks"]["keys"])) == (publishing.url, 1)


async def test_a_key_that_is_new_there_is_found_at_once(publishing: Publishing) -> None:
    (await publishing.change(jwks_uri=publishing.url)).ok()
    publishing.receiver.answer = published(jwk(OLD, "old"), jwk(NEW, "new"))
    assert await publishing.comes_with(NEW, "new") == (200, "")
    assert [key["kid"] for key in publishing.row()["jwks"]["keys"]] == ["old", "new"]
    assert await publishing.comes_with(OLD, "old") == (200, "")
    assert len(publishing.receiver.calls) == 2


async def test_many_with_a_new_key_share_one_look(publishing: Publishing) -> None:
    (await publishing.change(jwks_uri=publishing.url)).ok()
    publishing.receiver.answer = published(jwk(NEW, "new"))
    answers = await all_at_once(*[lambda: publishing.comes_with(NEW, "new")] * 20)
    assert answers == [(200, "")] * 20
    assert len(publishing.receiver.calls) == 2


async def test_keys_that_are_made_up_do_not_have_it_asked_all_the_time(publishing: Publishing, monkeypatch: pytest.MonkeyPatch) -> None:
    (await publishing.change(jwks_uri=publishing.url)).ok()
    for _ in range(5):
        assert await publishing.comes_with(NEW, "made up") == REFUSED
    assert len(publishing.receiver.calls) == 2
    monkeypatch.setattr(client_documents, "_AT_MOST_EVERY", 0.0)
    assert await publishing.comes_with(NEW, "made up") == REFUSED
    assert len(publishing.receiver.calls) == 3


async def test_a_key_that_is_withdrawn_ends_within_the_hour(publishing: Publishing) -> None:
    (await publishing.change(jwks_uri=publishing.url)).ok()
    publishing.receiver.answer = published(jwk(NEW, "new"))
    assert await publishing.comes_with(OLD, "old") == (200, "")
    publishing.ages()
    assert await publishing.comes_with(OLD, "old") == REFUSED
    assert await publishing.comes_with(NEW, "new") == (200, "")


async def test_while_it_is_away_the_last_ones_count(publishing: Publishing) -> None:
    (await publishing.change(jwks_uri=publishing.url)).ok()
    publishing.receiver.answer = hanging_up
    publishing.ages()
    assert await publishing.comes_with(OLD, "old") == (200, "")
    assert await publishing.comes_with(NEW, "new") == REFUSED
    told = publishing.relying.log.events("client_keys_not_read")
    assert [(entry["host"], entry["level"]) for entry in told] == [("127.0.0.1", "warning")]


async def test_keys_of_its_own_take_their_place(publishing: Publishing) -> None:
    (await publishing.change(jwks_uri=publishing.url)).ok()
    shown = (await publishing.change(jwks={"keys": [jwk(NEW, "own")]})).ok()
    assert (shown["jwks_uri"], [key["kid"] for key in shown["jwks"]["keys"]]) == (None, ["own"])
    assert await publishing.comes_with(NEW, "own") == (200, "")
    assert await publishing.comes_with(OLD, "old") == REFUSED
    # Without an address there is nothing to remove.
    assert (await publishing.change(jwks_uri=None)).ok()["jwks"] == shown["jwks"]
    (await publishing.change(jwks_uri=publishing.url)).ok()
    gone = (await publishing.change(jwks_uri=None)).ok()
    assert (gone["jwks_uri"], gone["jwks"], publishing.row()["jwks_fetched_at"]) == (None, None, None)
    assert await publishing.comes_with(OLD, "old") == REFUSED


async def test_an_address_that_changes_meanwhile_does_not_get_the_keys_of_the_earlier_one(publishing: Publishing) -> None:
    (await publishing.change(jwks_uri=publishing.url)).ok()
    publishing.ages()
    publishing.receiver.answer = published(jwk(OLD, "old"), jwk(NEW, "stolen"))
    other = f"http://127.0.0.1:{publishing.receiver.port}/others.json"
    kept = publishing.relying.postern.federation.clients.kept_keys
    publishing.relying.people.change("update services set jwks_uri = %s where jwks_uri is not null", other)
    await kept.keep(publishing.relying.shop.service.id, publishing.url, {"keys": []}, publishing.relying.postern.foundation.clock.now())  # type: ignore[arg-type]
    assert [key["kid"] for key in publishing.row()["jwks"]["keys"]] == ["old"]


_GONE: Final = {
    "the address is taken away": "update services set jwks_uri = null, jwks = null, jwks_fetched_at = null where jwks_uri is not null",
    "another address": "update services set jwks_uri = 'https://keys.example/' where jwks_uri is not null",
    "the organization is suspended": "update all_organizations set status = 'suspended', suspended_at = now() where slug = 'acme'",
    "the service is deleted": "update all_services set deleted_at = now() where jwks_uri is not null",
}


@pytest.mark.parametrize("change", _GONE.values(), ids=list(_GONE))
async def test_what_changes_while_they_are_read_counts(publishing: Publishing, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    (await publishing.change(jwks_uri=publishing.url)).ok()
    publishing.ages()
    people = publishing.relying.people
    meanwhile(monkeypatch, publishing.relying.postern.federation.clients.key_sets, "renewed", lambda: people.change(change))
    expected = (403, "access_denied") if "suspended" in change else REFUSED
    assert await publishing.comes_with(OLD, "old") == expected
    assert people.rows("select from client_assertions") == people.rows("select from sessions where service_id is not null") == []


async def test_own_keys_that_are_replaced_meanwhile_count_no_more(publishing: Publishing, monkeypatch: pytest.MonkeyPatch) -> None:
    (await publishing.change(jwks={"keys": [jwk(OLD, "old")]})).ok()
    assert await publishing.comes_with(OLD, "old") == (200, "")
    replaced = json.dumps({"keys": [jwk(NEW, "new")]})
    lookup = publishing.relying.postern.federation.clients.lookup
    meanwhile(monkeypatch, lookup, "find", lambda: publishing.relying.people.change("update services set jwks = %s", replaced))
    publishing.relying.people.change("delete from client_assertions")
    assert await publishing.comes_with(OLD, "old") == REFUSED
    assert publishing.relying.people.rows("select from client_assertions") == []


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (answering(404), "answers with status 404"),
        (answering(302, b"", "location: https://example.com/"), "answers with status 302"),
        (answering(200, b"keys"), "does not answer with JSON"),
        (answering(200, b"[" * 60_000), "does not answer with JSON"),
        (answering(200, b"[]"), "does not answer with a JSON Web Key Set (RFC 7517)"),
        (answering(200, b" " * 70_000), "answers with more than 64 KiB"),
        (
            published({"kty": "oct", "k": "AAAA"}),
            "publishes no RSA key of 2048 to 4096 bits, no EC key on P-256, and no OKP key on Ed25519, for signatures",
        ),
        (hanging_up, "the host sent no HTTP response"),
        *((crumbs, "the host sent no HTTP response") for crumbs in CRUMBS.values()),
    ],
    ids=["missing", "redirect", "no JSON", "deep", "no set", "too long", "no key for this", "nothing", *CRUMBS],
)
async def test_what_is_no_key_set_is_refused_in_words(publishing: Publishing, answer: Any, words: str) -> None:
    publishing.receiver.answer = answer
    refusal = await publishing.change(jwks_uri=publishing.url)
    assert (refusal.status, refusal.json()["error"]) == (400, f"jwks_uri: {words}")
    assert publishing.row()["jwks_uri"] is None


@pytest.mark.parametrize(
    "uri", ["http://10.0.0.1/keys", "https://169.254.169.254/keys", "https://[::ffff:10.0.0.1]/", "ftp://example.com/", "https://"]
)
async def test_addresses_that_are_never_called_are_refused(publishing: Publishing, uri: str) -> None:
    refusal = await publishing.change(jwks_uri=uri)
    assert (refusal.status, refusal.json()["error"].partition(":")[0]) == (400, "jwks_uri")


async def test_sent_and_published_at_once_is_refused(publishing: Publishing) -> None:
    refusal = await publishing.change(jwks_uri=publishing.url, jwks={"keys": [jwk(NEW, "own")]})
    assert (refusal.status, refusal.json()["error"]) == (400, "jwks: the keys are sent here or published under jwks_uri, not both")
    publishing.relying.people.change("delete from client_secrets")
    (await publishing.change(service_type="mobile")).ok()
    refusal = await publishing.change(jwks_uri=publishing.url)
    assert (refusal.status, refusal.json()["error"].partition(":")[0]) == (400, "jwks")


async def test_of_a_set_that_others_use_too_the_right_ones_are_kept(publishing: Publishing) -> None:
    other = {"kty": "OKP", "crv": "Ed25519", "x": "AAAA", "kid": "ed"}
    encrypting = {**jwk(NEW, "enc"), "use": "enc"}
    again = jwk(NEW, "old")
    publishing.receiver.answer = published(other, encrypting, jwk(OLD, "old"), again, jwk(NEW, None), jwk(NEW, "new"))
    shown = (await publishing.change(jwks_uri=publishing.url)).ok()
    assert [key["kid"] for key in shown["jwks"]["keys"]] == ["old", "new"]
    assert await publishing.comes_with(OLD, "old") == (200, "")
