"""Newcomers: what happens or runs out between the mail with the code and the account."""

from typing import Any

import pytest

from core.domain.identity.account_mails import MAILED_CODES
from core.domain.identity.registering import RegistrationPolicy
from core.domain.identity.sign_in import account_key
from core.domain.identity.upstream.further_sign_ins import MOST_CODES
from core.domain.mail import Email
from core.frozen import replace
from ops.browser.page_reader import PageReader
from tests.changed_fields import put
from tests.http.browsing import Tabs
from tests.http.client import Received
from tests.http.federation.arriving import is_page
from tests.http.upstream.further.scene import ADDRESS, CODE, FurtherScene
from tests.http.upstream.scene import ADA
from tests.meanwhile import meanwhile


class Mailed:
    """A newcomer who has got the code, and has not typed it yet."""

    def __init__(self, scene: FurtherScene, tabs: Tabs, asks: PageReader, code: str) -> None:
        self._scene = scene
        self._tabs = tabs
        self._asks = asks
        self._code = code

    async def type(self) -> Received:
        return await self._scene.send(self._tabs, self._asks, CODE, code=self._code)


async def mailed(scene: FurtherScene) -> Mailed:
    await scene.has("discord")
    tabs = scene.browser()
    page = await scene.asked(tabs, await scene.come(tabs, "discord"))
    sent = await scene.send(tabs, page, ADDRESS, email=ADA)
    asks = PageReader((await tabs.request("GET", sent.header("location") or "")).body)
    return Mailed(scene, tabs, asks, await scene.mailed_code())


def nobody_came(scene: FurtherScene) -> bool:
    return scene.identities() == [] and scene.people.rows("select from users where email = %s", ADA) == []


async def test_a_newcomer_gets_no_more_codes_when_the_last_was_sent(scene: FurtherScene) -> None:
    await scene.has("discord")
    tabs = scene.browser()
    page = await scene.asked(tabs, await scene.come(tabs, "discord"))
    scene.people.change("update newcomers set codes = %s", MOST_CODES)
    assert (await scene.send(tabs, page, ADDRESS, email=ADA)).status == 429
    assert await scene.postbox.empty() == []


async def test_codes_are_typed_for_an_address_only_so_often_however_many_are_sent(scene: FurtherScene) -> None:
    newcomer = await mailed(scene)
    for _ in range(MAILED_CODES.burst):
        await scene.postern.identity.newcomers.buckets.take(MAILED_CODES, account_key(Email(ADA)))
    assert (await newcomer.type()).status == 429
    assert nobody_came(scene)


async def test_a_newcomer_whose_word_ends_while_the_code_is_checked(scene: FurtherScene, monkeypatch: pytest.MonkeyPatch) -> None:
    newcomer = await mailed(scene)
    words = scene.postern.identity.newcomers.words
    meanwhile(monkeypatch, words, "get", lambda: scene.people.change("delete from newcomers"))
    is_page(await newcomer.type(), 400)
    assert nobody_came(scene)


async def test_registration_that_closes_after_the_mail_makes_no_account(scene: FurtherScene) -> None:
    newcomer = await mailed(scene)
    registrations = scene.postern.identity.upstream_proofs.registrations
    put(registrations, installation=replace(registrations.installation, policy=RegistrationPolicy.CLOSED))
    is_page(await newcomer.type(), 400)
    assert nobody_came(scene)


async def test_a_newcomer_whose_address_stays_contended_is_told_to_come_back(scene: FurtherScene) -> None:
    newcomer = await mailed(scene)
    proofs: Any = scene.postern.identity.upstream_proofs
    lookup = proofs.lookup

    class Contended:
        def __getattr__(self, name: str) -> Any:
            return getattr(lookup, name)

        async def meet(self, *given: Any, **more: Any) -> Any:
            scene.people.change("delete from users where email = %s", ADA)
            met = await lookup.meet(*given, **more)
            scene.people.change("insert into users (id, email, email_key) values (gen_random_uuid(), %s, %s)", ADA, ADA)
            return met

    put(proofs, lookup=Contended())
    is_page(await newcomer.type(), 503)
    assert scene.identities() == []
