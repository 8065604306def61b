"""Trusted issuers over HTTP: made, listed, changed and deleted, with what the audit log says of it."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final
from uuid import uuid4

import pytest
import trio

from core.domain.errors import BadRequest
from core.domain.tenancy.trusted_issuers import MOST_OF_ONE
from core.usecases.tenancy import trusted_issuers as usecase
from entrypoints.bootstrap import Postern
from ports.tenancy.members import ExistingTrustedIssuers
from tests.conftest import CapturedLog
from tests.http.cast import all_at_once
from tests.http.client import refused
from tests.http.federation.relying import Relying, oauth
from tests.http.federation.workloads.issuing import STRANGERS_KEY, SUBJECT, Issuer, issuing, public_jwk
from tests.http.people import BASE_URL, People
from tests.http.signing_in import unlimited
from tests.patience import PATIENCE
from tests.receiver import answering

RULES: Final = "/api/organizations/acme/trusted-issuers"
BAD_REQUEST, NOT_FOUND, CONFLICT = (400, "BAD_REQUEST"), (404, "NOT_FOUND"), (409, "CONFLICT")


@pytest.fixture
async def issuer(postern: Postern, people: People, log: CapturedLog) -> AsyncIterator[Issuer]:
    async with issuing(Relying(postern, people, unlimited(postern), log)) as made:
        yield made


async def test_it_is_made_changed_and_deleted(issuer: Issuer) -> None:
    relying = issuer.relying
    made = await issuer.trusted(claims={"b": 1, "a": "x"})
    assert {name: made[name] for name in made if name not in {"id", "created_at", "updated_at"}} == {
        **issuer.rule(),
        "management_key_id": None,
        "jwks": None,
        "claims": {"a": "x", "b": 1},
        "last_used_at": None,
    }
    one = f"{RULES}/{made['id']}"
    assert (await relying.request("GET", one, by=issuer.owner)).ok() == made
    assert (await relying.request("GET", RULES, by=issuer.owner)).json() == [made]
    unchanged = (await relying.request("PATCH", one, {"name": "Deploy"}, by=issuer.owner)).ok()
    assert unchanged == made
    changed = (await relying.request("PATCH", one, {"audience": "other", "jwks": {"keys": [public_jwk()]}}, by=issuer.owner)).ok()
    assert (changed["audience"], changed["jwks_uri"], [key["kid"] for key in changed["jwks"]["keys"]]) == ("other", None, ["a"])
    assert (await relying.request("DELETE", one, by=issuer.owner)).status == 204
    assert refused(await relying.request("GET", one, by=issuer.owner)) == NOT_FOUND
    told = [(entry["name"], entry["details"]) for entry in relying.told() if entry["name"].startswith("trusted_issuer")]
    assert [name for name, _ in told] == ["trusted_issuer.created", "trusted_issuer.updated", "trusted_issuer.deleted"]
    assert told[0][1]["claims"] == {"a": "x", "b": 1}
    assert told[1][1] == {
        "name": "Deploy",
        "old_audience": BASE_URL,
        "new_audience": "other",
        "old_jwks_uri": issuer.jwks_uri,
        "new_jwks_uri": None,
        "old_key_ids": None,
        "new_key_ids": ["a"],
    }
    assert [entry["action"] for entry in relying.audited("trusted_issuer.%")] == [name for name, _ in told]


async def test_the_address_of_the_keys_is_tried_at_once(issuer: Issuer) -> None:
    relying = issuer.relying
    for address in (
        f"{issuer.address}/nothing",
        f"{issuer.address}/.well-known/openid-configuration",
        "http://192.0.2.7/keys",
        "ftp://ci.example/",
    ):
        assert refused(await relying.request("POST", RULES, issuer.rule(jwks_uri=address), by=issuer.owner)) == BAD_REQUEST
    issuer.keys.clear()
    assert refused(await relying.request("POST", RULES, issuer.rule(), by=issuer.owner)) == BAD_REQUEST
    issuer.keys.append(public_jwk())
    made = await issuer.trusted()
    change = {"jwks_uri": f"{issuer.address}/nothing"}
    assert refused(await relying.request("PATCH", f"{RULES}/{made['id']}", change, by=issuer.owner)) == BAD_REQUEST


async def test_what_is_refused(issuer: Issuer) -> None:
    relying = issuer.relying
    rule: dict[str, Any] = {"jwks_uri": ..., "jwks": {"keys": [public_jwk()]}}
    unfit: Sequence[dict[str, Any]] = (
        {"service_slug": ...},
        {"management_key_id": str(uuid4())},
        {"service_slug": "phone"},
        {"subject_pattern": "*"},
    )
    for changed in unfit:
        assert refused(await relying.request("POST", RULES, issuer.rule(**rule, **changed), by=issuer.owner)) == BAD_REQUEST
    unknown: Sequence[dict[str, Any]] = ({"service_slug": "nothing"}, {"service_slug": ..., "management_key_id": str(uuid4())})
    for changed in unknown:
        assert refused(await relying.request("POST", RULES, issuer.rule(**rule, **changed), by=issuer.owner)) == NOT_FOUND
    private = {**public_jwk(), "d": "AQAB"}
    assert (
        refused(await relying.request("POST", RULES, issuer.rule(jwks_uri=..., jwks={"keys": [private]}), by=issuer.owner)) == BAD_REQUEST
    )
    made = await issuer.trusted(**rule)
    await issuer.trusted(**rule, name="Other")
    one = f"{RULES}/{made['id']}"
    assert refused(await relying.request("POST", RULES, issuer.rule(**rule), by=issuer.owner)) == CONFLICT
    assert refused(await relying.request("PATCH", one, {"name": "Other"}, by=issuer.owner)) == CONFLICT
    assert refused(await relying.request("PATCH", one, {}, by=issuer.owner)) == BAD_REQUEST
    for method, body in (("GET", None), ("PATCH", {"name": "x"}), ("DELETE", None)):
        assert refused(await relying.request(method, f"{RULES}/{uuid4()}", body, by=issuer.owner)) == NOT_FOUND


async def test_a_service_has_ten_at_most_also_at_once(issuer: Issuer) -> None:
    relying = issuer.relying
    rule: dict[str, Any] = {"jwks_uri": ..., "jwks": {"keys": [public_jwk()]}}
    for number in range(MOST_OF_ONE - 2):
        await issuer.trusted(**rule, name=str(number))

    async def one_more(name: str) -> int:
        return (await relying.request("POST", RULES, issuer.rule(**rule, name=name), by=issuer.owner)).status

    statuses = await all_at_once(*[lambda name=name: one_more(name) for name in "abcde"])
    assert sorted(statuses) == [201, 201, 400, 400, 400]
    # Another service has its own ten.
    await issuer.trusted(**rule, name="page", service_slug="page")
    with pytest.raises(BadRequest, match="An organization has at most 500"):
        usecase.require_room(ExistingTrustedIssuers(500, 0))


async def test_the_eleventh_of_a_service_is_refused(issuer: Issuer) -> None:
    relying = issuer.relying
    rule: dict[str, Any] = {"jwks_uri": ..., "jwks": {"keys": [public_jwk()]}}
    for number in range(MOST_OF_ONE):
        await issuer.trusted(**rule, name=str(number))
    assert refused(await relying.request("POST", RULES, issuer.rule(**rule, name="more"), by=issuer.owner)) == BAD_REQUEST
    assert len((await relying.request("GET", RULES, by=issuer.owner)).json()) == MOST_OF_ONE


async def test_its_last_use_is_marked(issuer: Issuer) -> None:
    relying = issuer.relying
    made = await issuer.trusted()
    (await issuer.asks(issuer.token())).ok()
    async with trio.open_nursery() as nursery:
        await nursery.start(relying.postern.federation.trusted_issuer_presence.run)
        with trio.fail_after(PATIENCE):
            while (await relying.request("GET", f"{RULES}/{made['id']}", by=issuer.owner)).ok()["last_used_at"] is None:
                await trio.sleep(0.05)
        nursery.cancel_scope.cancel()


async def test_refusals_stand_with_what_the_rule_wants(issuer: Issuer) -> None:
    """The owners of the application see which part did not fit, beside what is written down, and nothing of the token."""
    relying = issuer.relying
    await issuer.trusted(claims={"repository_id": "74"})
    now = int(relying.postern.foundation.clock.now().timestamp())
    good: dict[str, Any] = {"repository_id": "74"}
    for token in (
        "x",
        issuer.token(iss="https://elsewhere.example"),
        issuer.token(key=STRANGERS_KEY),
        issuer.token(aud="elsewhere", **good),
        issuer.token(exp=now - 60, **good),
        issuer.token(sub="repo:stranger/secret", **good),
        issuer.token(repository_id="75"),
    ):
        assert oauth(await issuer.asks(token)) == (400, "invalid_grant")
    relying.people.change("update trusted_issuers set jwks_uri = 'http://127.0.0.1:9/keys'")
    issuer.receiver.answer = answering(503)
    assert oauth(await issuer.asks(issuer.token(**good))) == (400, "invalid_grant")
    async with trio.open_nursery() as nursery:
        await nursery.start(relying.postern.federation.refusal_recorder.run)
        with trio.fail_after(PATIENCE):
            while True:
                answer = await relying.request("GET", "/api/organizations/acme/services/shop/refusals", by=issuer.owner)
                found: list[Any] = answer.ok()["refusals"]
                if len(found) == 8:
                    break
                await trio.sleep(0.05)
        nursery.cancel_scope.cancel()
    assert b"stranger" not in answer.body
    assert [(one["reason"], one["received"], one["registered"]) for one in reversed(found)] == [
        ("workload_unreadable", "", []),
        ("workload_issuer", "", [issuer.address]),
        ("workload_key", "", []),
        ("workload_audience", "", [BASE_URL]),
        ("workload_time", "", []),
        ("workload_subject", "", [SUBJECT]),
        ("workload_claim", "repository_id", []),
        ("workload_keys_away", "", []),
    ]
