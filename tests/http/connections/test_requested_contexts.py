"""What a connection asks for is compared with what the directory answers."""

from typing import Any, Final

from ops.stand_ins.fake_directory import PASSWORD_CONTEXT
from tests.http.connections.scene import PATH, ConnectionScene

MFA: Final = "https://refeds.org/profile/mfa"
KERBEROS: Final = "urn:oasis:names:tc:SAML:2.0:ac:classes:Kerberos"


async def newest(scene: ConnectionScene, provider: str) -> dict[str, Any]:
    await scene.keep_recorded()
    listed: list[dict[str, Any]] = (await scene.request("GET", f"{PATH}/{provider}/exchanges")).ok()["exchanges"]
    return listed[0]


async def test_another_context_signs_nobody_in(scene: ConnectionScene) -> None:
    scene.directory.context = MFA
    provider = await scene.active(requested_contexts=[MFA])
    scene.directory.context = PASSWORD_CONTEXT
    tabs = scene.browser()
    assert (await scene.arrive(tabs, provider)).status == 502
    told = await newest(scene, provider)
    assert (told["succeeded"], told["fault"]) == (False, "other_context")
    scene.directory.context = MFA
    await scene.arrive(tabs, provider)
    assert tabs.session is not None


async def test_two_factors_are_enough_for_whatever_is_asked(scene: ConnectionScene) -> None:
    scene.directory.context = KERBEROS
    provider = await scene.active(requested_contexts=[KERBEROS])
    scene.directory.context = MFA
    tabs = scene.browser()
    await scene.arrive(tabs, provider)
    assert tabs.session is not None


async def test_a_test_fails_with_another_context(scene: ConnectionScene) -> None:
    provider = await scene.draft(requested_contexts=[MFA])
    assert b"All checks passed" not in (await scene.test(provider)).body
    (row,) = scene.people.rows("select state, saml ->> 'compares_contexts' as compares from upstream_providers")
    assert row == {"state": "draft", "compares": "false"}


async def test_a_connection_from_before_is_told_until_its_next_test(scene: ConnectionScene) -> None:
    scene.directory.context = MFA
    provider = await scene.active(requested_contexts=[MFA])
    scene.people.change("update upstream_providers set saml = saml - 'compares_contexts'")
    scene.directory.context = PASSWORD_CONTEXT
    tabs = scene.browser()
    await scene.arrive(tabs, provider)
    assert tabs.session is not None
    told = await newest(scene, provider)
    check = next(one for one in told["checks"] if one["name"] == "authentication")
    assert (told["succeeded"], check["expected"], "tested again" in check["words"]) == (True, MFA, True), check
    scene.directory.context = MFA
    assert b"All checks passed" in (await scene.test(provider)).body
    scene.directory.context = PASSWORD_CONTEXT
    assert (await scene.arrive(scene.browser(), provider)).status == 502
