"""What the doctor and the page of health say about further providers."""

from entrypoints import checks
from entrypoints.checks import Verdict
from tests.http.upstream.further.scene import PROVIDERS, FurtherScene
from tests.http.upstream.further.test_administration import OPENID


async def test_without_one_there_is_nothing_to_look_at(scene: FurtherScene) -> None:
    assert (await checks.further_providers(scene.postern)).is_used is False


async def test_those_that_are_on_are_looked_at(scene: FurtherScene) -> None:
    for preset in ("apple", "discord", "gitlab"):
        await scene.has(preset)
    finding = await checks.further_providers(scene.postern)
    assert finding.verdict is Verdict.OK, finding.text
    assert all(key in finding.text for key in ("apple", "discord", "gitlab"))


async def test_an_issuer_that_does_not_answer_is_told_and_the_others_are_none_the_worse(scene: FurtherScene) -> None:
    company = scene.fakes["company"]
    assert (await scene.add({**OPENID, "issuer": company.issuer})).status == 201
    await scene.has("gitlab")
    company.__exit__()
    finding = await checks.further_providers(scene.postern)
    assert finding.verdict is Verdict.FAIL
    assert f"company: issuer: {company.issuer}" in finding.text
    assert "gitlab" not in finding.text
    shown = await scene.signed_in(scene.root).request("GET", "/ui/platform/health")
    assert shown.status == 200
    assert b"Until this is fixed, people cannot sign in with the provider." in shown.body
    assert (await scene.request("PATCH", f"{PROVIDERS}/company", {"enabled": False}, by=scene.root)).status == 200
    assert (await checks.further_providers(scene.postern)).verdict is Verdict.OK


async def test_an_issuer_that_says_nothing_is_not_waited_for(scene: FurtherScene) -> None:
    await scene.has("gitlab")
    finding = await checks.further_providers(scene.postern, within=0)
    assert (finding.verdict, "gitlab: no answer within 0 s" in finding.text) == (Verdict.FAIL, True)


async def test_a_secret_that_is_no_key_or_that_no_key_of_ours_opens_is_told(scene: FurtherScene) -> None:
    await scene.has("apple")
    await scene.has("discord")
    keyring = scene.postern.foundation.keyring
    (apple,) = scene.people.rows("select id from further_providers where key = 'apple'")
    broken = keyring.seal(b"no key", f"further_providers.sealed_client_secret:{apple['id']}")
    scene.people.change("update further_providers set sealed_client_secret = %s where key = 'apple'", broken)
    scene.people.change("update further_providers set sealed_client_secret = 'x' where key = 'discord'")
    finding = await checks.further_providers(scene.postern)
    assert finding.verdict is Verdict.FAIL
    assert "apple: client_secret: no private key" in finding.text
    assert "discord: client_secret: no current encryption key decrypts it" in finding.text
