"""What a connection asks for is compared with what the directory answers."""

from typing import Any, Final

from tests.http.connections.fake_directory import PASSWORD_CONTEXT
from tests.http.connections.scene import PATH, ConnectionScene

MFA: Final = "https://refeds.org/profile/mfa"
KERBEROS: Final = "urn:oasis:names:tc:SAML:2.0:ac:classes:Kerberos"


async def newest(house: ConnectionScene, provider: str) -> dict[str, Any]:
    await house.keep_recorded()
    listed: list[dict[str, Any]] = (await house.request("GET", f"{PATH}/{provider}/exchanges")).ok()["exchanges"]
    return listed[0]


async def test_another_context_signs_nobody_in(house: ConnectionScene) -> None:
    house.directory.context = MFA
    provider = await house.active(requested_contexts=[MFA])
    house.directory.context = PASSWORD_CONTEXT
    tabs = house.browser()
    assert (await house.arrive(tabs, provider)).status == 502
    told = await newest(house, provider)
    assert (told["succeeded"], told["fault"]) == (False, "other_context")
    house.directory.context = MFA
    await house.arrive(tabs, provider)
    assert tabs.session is not None


async def test_two_factors_are_enough_for_whatever_is_asked(house: ConnectionScene) -> None:
    house.directory.context = KERBEROS
    provider = await house.active(requested_contexts=[KERBEROS])
    house.directory.context = MFA
    tabs = house.browser()
    await house.arrive(tabs, provider)
    assert tabs.session is not None


async def test_a_test_fails_with_another_context(house: ConnectionScene) -> None:
    provider = await house.draft(requested_contexts=[MFA])
    assert b"All checks passed" not in (await house.test(provider)).body
    (row,) = house.people.rows("select state, saml ->> 'compares_contexts' as compares from upstream_providers")
    assert row == {"state": "draft", "compares": "false"}


async def test_a_connection_from_before_is_told_until_its_next_test(house: ConnectionScene) -> None:
    house.directory.context = MFA
    provider = await house.active(requested_contexts=[MFA])
    house.people.change("update upstream_providers set saml = saml - 'compares_contexts'")
    house.directory.context = PASSWORD_CONTEXT
    tabs = house.browser()
    await house.arrive(tabs, provider)
    assert tabs.session is not None
    told = await newest(house, provider)
    check = next(one for one in told["checks"] if one["name"] == "authentication")
    assert (told["succeeded"], check["expected"], "tested again" in check["words"]) == (True, MFA, True), check
    house.directory.context = MFA
    assert b"All checks passed" in (await house.test(provider)).body
    house.directory.context = PASSWORD_CONTEXT
    assert (await house.arrive(house.browser(), provider)).status == 502
