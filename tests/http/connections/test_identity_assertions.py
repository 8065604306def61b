"""An owner turns a connection's identity assertions on, administrators check one, and both see why one was refused. The attacks are in
`tests/security/grants/test_assertions.py`.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from core.domain.identity.upstream.identity_assertions import DRAFT
from entrypoints.bootstrap import Postern
from entrypoints.http.console.organization.organization_tabs import DIRECTORIES
from ops.stand_ins.fake_providers import KEY, FakeProvider, public_jwk
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.client import Received, refused
from tests.http.connections.asserting import PROVIDERS, Asserting
from tests.http.federation.relying import oauth
from tests.http.people import BASE_URL, People
from tests.http.signing_in import unlimited

database_url, postern, people = http.database_url, http.postern, http.people


@pytest.fixture
def directory() -> Iterator[FakeProvider]:
    with FakeProvider() as running:
        yield running


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog, directory: FakeProvider) -> Asserting:
    scene = Asserting(postern, people, unlimited(postern), log).begin(directory)
    scene.speaker = scene.boss
    return scene


async def decide(scene: Asserting, **settings: Any) -> Received:
    return await scene.request("PUT", f"{PROVIDERS}/{scene.provider}/assertions", {"issues": True, **settings})


async def check(scene: Asserting, assertion: str) -> dict[str, Any]:
    verdict: dict[str, Any] = (await scene.request("POST", f"{PROVIDERS}/{scene.provider}/assertions/check", {"assertion": assertion})).ok()
    return verdict


async def record(scene: Asserting) -> dict[str, Any]:
    (one,) = (await scene.request("GET", PROVIDERS)).json()
    return {name: one[name] for name in one if "assertion" in name}


async def tested(scene: Asserting) -> None:
    (one,) = (await scene.request("GET", PROVIDERS)).json()
    scene.people.change("update upstream_providers set tested_digest = decode(%s, 'hex'), tested_at = now()", one["digest"])


async def test_an_owner_turns_them_on_and_off(scene: Asserting) -> None:
    scene.people.change("update upstream_providers set issues_assertions = false")
    assert oauth(await scene.bring(scene.assertion())) == (400, "invalid_grant")
    # It was never tested.
    assert refused(await decide(scene)) == (400, "BAD_REQUEST")
    await tested(scene)
    decided = (await decide(scene, subject="oid")).ok()
    assert (decided["issues_assertions"], decided["assertion_subject"]) == (True, "oid")
    assert (await scene.bring(scene.assertion(oid="u-1"))).status == 200
    assert (await decide(scene, subject="oid")).ok()["updated_at"] == decided["updated_at"]
    (await decide(scene, issues=False)).ok()
    assert await record(scene) == {
        "issues_assertions": False,
        "assertion_issuer": "",
        "assertion_jwks_uri": "",
        "assertion_jwks": None,
        "assertion_subject": "sub",
    }
    first, second = [one["details"] for one in scene.audited("organization.upstream_provider.updated")]
    assert first == {
        "name": "Acme login",
        "old_issues_assertions": False,
        "new_issues_assertions": True,
        "old_assertion_subject": "sub",
        "new_assertion_subject": "oid",
    }
    assert (second["old_issues_assertions"], second["new_issues_assertions"]) == (True, False)


async def test_nobody_but_an_owner_decides(scene: Asserting) -> None:
    await tested(scene)
    admin = scene.resident(scene.acme, "admin")
    scene.speaker = admin
    assert (await decide(scene)).status == 403
    assert (await check(scene, scene.assertion()))["accepted"]
    scene.speaker = scene.resident(scene.globex, "owner")
    assert (await decide(scene)).status in {403, 404}


@pytest.mark.parametrize("state", ["draft", "tested"])
async def test_one_that_is_not_active_issues_none(scene: Asserting, state: str) -> None:
    await tested(scene)
    scene.people.change("update upstream_providers set state = %s, enabled = false, issues_assertions = false", state)
    assert refused(await decide(scene)) == (400, "BAD_REQUEST")
    assert (await decide(scene, issues=False, subject="oid")).ok()["assertion_subject"] == "oid"


async def test_two_connections_with_one_issuer(scene: Asserting, directory: FakeProvider) -> None:
    """One assertion must not mean two connections, which may know the person by different rules."""
    other = scene.connect(scene.acme, directory, name="Again", issues=False)
    for one in (await scene.request("GET", PROVIDERS)).json():
        scene.people.change("update upstream_providers set tested_digest = decode(%s, 'hex') where id = %s", one["digest"], one["id"])
    answer = await scene.request("PUT", f"{PROVIDERS}/{other}/assertions", {"issues": True})
    assert refused(answer) == (409, "CONFLICT")
    (await decide(scene, issues=False)).ok()
    (await scene.request("PUT", f"{PROVIDERS}/{other}/assertions", {"issues": True})).ok()
    assert (await check(scene, scene.assertion()))["fault"] == "not_issuing"


def _as_saml(scene: Asserting) -> None:
    scene.people.change(
        "update upstream_providers set kind = 'saml', client_id = null, sealed_client_secret = null, saml = '{}', certificate = 'c',"
        " sealed_private_key = 'k', issuer = 'urn:acme:directory', issues_assertions = false"
    )
    scene.people.change("update identities set issuer = 'urn:acme:directory'")


async def test_a_directory_by_saml_needs_issuer_and_keys(scene: Asserting, directory: FakeProvider) -> None:
    _as_saml(scene)
    await tested(scene)
    at, keys = f"{directory.url}/keys", {"keys": [public_jwk("one", KEY)]}
    private = {"keys": [{**public_jwk("one", KEY), "d": "x"}]}
    wrong: tuple[dict[str, Any], ...] = (
        {},
        {"issuer": directory.issuer},
        {"jwks_uri": at},
        {"issuer": directory.issuer, "jwks_uri": at, "jwks": keys},
        {"issuer": directory.issuer, "jwks_uri": "ftp://x.example/"},
        {"issuer": directory.issuer, "jwks": private},
        {"issuer": "a\nb", "jwks": keys},
        {"issuer": "x" * 501, "jwks": keys},
        {"issuer": BASE_URL, "jwks_uri": f"{BASE_URL}/.well-known/jwks.json"},
        {"issuer": f"{BASE_URL}/", "jwks": keys},
        {"issuer": BASE_URL, "jwks": keys, "issues": False},
        {"issuer": directory.issuer, "jwks": keys, "subject": ""},
        {"issuer": directory.issuer, "jwks": keys, "subject": "x" * 201},
    )
    for one in wrong:
        assert refused(await decide(scene, **one)) == (400, "BAD_REQUEST"), one
    (await decide(scene, issuer=directory.issuer, jwks_uri=at)).ok()
    assert (await check(scene, scene.assertion()))["accepted"]
    decided = (await decide(scene, issuer=directory.issuer, jwks=keys)).ok()
    assert (decided["assertion_jwks_uri"], decided["assertion_jwks"]["keys"][0]["kid"]) == ("", "one")
    assert (await check(scene, scene.assertion()))["accepted"]
    *_, last = scene.audited("organization.upstream_provider.updated")
    assert (last["details"]["old_assertion_keys"], last["details"]["new_assertion_keys"]) == ([], ["one"])


@pytest.mark.parametrize("settings", [{"issuer": "https://x.example"}, {"jwks_uri": "https://x.example/k"}, {"jwks": {"keys": []}}])
async def test_a_provider_of_openid_connect_has_its_own_issuer_and_keys(scene: Asserting, settings: dict[str, Any]) -> None:
    await tested(scene)
    assert refused(await decide(scene, **settings)) == (400, "BAD_REQUEST")


async def test_a_provider_with_our_own_issuer_issues_none(scene: Asserting) -> None:
    """What this installation signs is no word of a directory. Turning off what was on before works all the same."""
    scene.people.change("update upstream_providers set issuer = %s", BASE_URL)
    await tested(scene)
    refusal = await decide(scene)
    assert refused(refusal) == (400, "BAD_REQUEST")
    assert "this installation's own tokens" in refusal.json()["error"]
    (await decide(scene, issues=False)).ok()


async def test_an_assertion_is_checked_and_nothing_is_issued(scene: Asserting) -> None:
    assertion = scene.assertion()
    for _ in range(2):
        assert await check(scene, assertion) == {
            "accepted": True,
            "fault": "",
            "words": "The assertion would give the application a token. No token was issued, and the assertion can still be used.",
            "mend": "",
        }
    assert scene.living() == 0
    assert scene.people.rows("select from identity_assertions union all select from service_users") == []
    assert scene.audited("user.assertion.accepted") == []
    assert (await scene.bring(assertion)).status == 200
    assert (await check(scene, assertion))["fault"] == "used"
    assert await scene.faults() == []


async def test_a_check_says_what_would_go_wrong(scene: Asserting) -> None:
    mobile, theirs = scene.phone.client_id, scene.theirs.client_id
    faults = {
        "issuer": [scene.assertion(iss="https://elsewhere.example")],
        "malformed": ["x", "e30"],
        "client": [scene.assertion(client_id=theirs), scene.assertion(client_id="x"), scene.assertion(client_id=None)],
        "public_client": [scene.assertion(client_id=mobile)],
        "audience": [scene.assertion(aud="https://elsewhere.example")],
        "resource": [scene.assertion(resource=[])],
        "resource_closed": [scene.assertion(resource=["https://api.acme.example/none", "https://api.acme.example/more"])],
        "narrower": [scene.assertion(cnf={"jkt": "x"})],
        "person_unknown": [scene.assertion(sub="u-9")],
    }
    for fault, assertions in faults.items():
        for assertion in assertions:
            verdict = await check(scene, assertion)
            assert (verdict["accepted"], verdict["fault"]) == (False, fault)
            assert verdict["words"].endswith(".")
            assert verdict["mend"].endswith(".")
    assert (await check(scene, scene.assertion(cnf={"jkt": "x"})))[
        "words"
    ] == "The assertion has restrictions that a token of Postern cannot enforce: cnf."


async def test_a_refusal_is_in_the_recorder_and_in_the_refusals_of_the_application(scene: Asserting) -> None:
    for _ in range(2):
        await scene.bring(scene.assertion(aud="https://elsewhere.example"))
    answer = await scene.bring(scene.assertion(aud="https://elsewhere.example"))
    assert answer.json()["error_description"] == "The audience of the assertion is not this installation only"
    await scene.bring(scene.assertion(sub="u-9"))
    await scene.bring(scene.assertion(resource="https://api.acme.example/none"))
    await scene.recorded()
    listed = (await scene.request("GET", f"{PROVIDERS}/{scene.provider}/exchanges")).ok()["exchanges"]
    found = {one["fault"]: (one["kind"], one["succeeded"], one["times"], one["advice"]) for one in listed}
    mend = "Request an assertion whose aud is the issuer of Postern only"
    assert found["audience"] == ("assertion", False, 3, mend)
    assert found.keys() == {"audience", "person_unknown", "resource_closed"}
    refusals = (await scene.request("GET", "/api/organizations/acme/services/shop/refusals")).ok()["refusals"]
    told = {one["received"]: (one["reason"], one["because"], one["advice"]) for one in refusals}
    assert told["audience"] == ("identity_assertion", "The audience of the assertion is not this installation only", mend)
    assert told["person_unknown"][1] == "No person with this subject has signed in through the identity provider"
    assert told[""][0] == "resource_unknown"
    # Another connection's issuer has no recorder of ours, and the application still learns it.
    await scene.bring(scene.assertion(iss="https://elsewhere.example"))
    await scene.recorded()
    refusals = (await scene.request("GET", "/api/organizations/acme/services/shop/refusals")).ok()["refusals"]
    assert refusals[0]["received"] == "issuer"


async def test_the_metadata_say_that_there_is_the_grant(scene: Asserting) -> None:
    for path in ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"):
        said = (await scene.client.get(path)).json()
        assert said["authorization_grant_profiles_supported"] == ["urn:ietf:params:oauth:grant-profile:id-jag"]
        assert "urn:ietf:params:oauth:grant-type:jwt-bearer" in said["grant_types_supported"]
        assert said["issuer"] == BASE_URL


async def test_the_page_decides_and_checks(scene: Asserting) -> None:
    await tested(scene)
    tab = await scene.browser(scene.boss).tab().open(f"{DIRECTORIES}/{scene.provider}/assertions".replace("{org_slug}", "acme"))
    assert DRAFT in tab.page.text
    assert "Accept identity assertions of this identity provider" in tab.page.text
    save, ask = [at for at, form in enumerate(tab.page.forms) if "/assertions" in form.action]
    await tab.send(ask, assertion=scene.assertion())
    assert "The assertion would give the application a token." in tab.page.text
    await tab.send(ask, assertion=scene.assertion(aud="https://elsewhere.example"))
    assert "The audience of the assertion is not this installation only. Request an assertion" in tab.page.text
    await tab.send(ask, assertion="x" * (17 << 10))
    assert "The assertion cannot be read. Send" in tab.page.text
    await tab.send(save, issues="yes", subject="oid")
    assert (await record(scene))["assertion_subject"] == "oid"
    # Without the tick it is turned off.
    await tab.send(save, issues="", subject="")
    assert await record(scene) == {
        "issues_assertions": False,
        "assertion_issuer": "",
        "assertion_jwks_uri": "",
        "assertion_jwks": None,
        "assertion_subject": "sub",
    }


async def test_the_page_of_a_directory_by_saml_takes_keys(scene: Asserting, directory: FakeProvider) -> None:
    _as_saml(scene)
    await tested(scene)
    tab = await scene.browser(scene.boss).tab().open(f"{DIRECTORIES}/{scene.provider}/assertions".replace("{org_slug}", "acme"))
    save = next(at for at, form in enumerate(tab.page.forms) if "/assertions" in form.action)
    for keys in ("no JSON", "[]", "1"):
        await tab.send(save, issues="yes", subject="sub", issuer=directory.issuer, jwks=keys)
        assert tab.status == 400
        assert "This is not a valid JSON Web Key Set." in tab.page.text
    await tab.send(save, issues="yes", subject="sub", issuer="", jwks="")
    assert "Enter the issuer of the assertions and its keys" in tab.page.text
    await tab.send(save, issues="yes", subject="sub", issuer=directory.issuer, jwks=json.dumps({"keys": [public_jwk("one", KEY)]}))
    assert (await record(scene))["issues_assertions"]
    # An administrator sees it, and does not decide.
    tab = await scene.browser(scene.resident(scene.acme, "admin")).tab().open(tab.place.partition("?")[0])
    assert "Only an owner can change this." in tab.page.text
