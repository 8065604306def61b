"""Further providers that go away meanwhile, or that somebody asks for by what they are not, and forms that say nothing that can be read."""

from typing import Any

import pytest

from ops.browser.page_reader import PageReader
from tests.changed_fields import put
from tests.http.client import refused
from tests.http.upstream.further.preset_providers import FakeApple
from tests.http.upstream.further.scene import PROVIDERS, FurtherScene
from tests.http.upstream.further.test_administration import BAD, PROFILE


class RemovedAfterTheLook:
    """The look-up of the use case. Right after it, another platform owner removes the provider."""

    def __init__(self, lookup: Any, scene: FurtherScene) -> None:
        self._lookup = lookup
        self._scene = scene

    async def find(self, key: str) -> Any:
        found = await self._lookup.find(key)
        self._scene.people.change("delete from further_providers where key = %s", key)
        return found


@pytest.mark.parametrize("change", [{"name": "Chat"}, {"scopes": ["identify"]}, {"client_secret": "another"}])
async def test_a_provider_that_is_removed_meanwhile_is_not_changed(scene: FurtherScene, change: dict[str, Any]) -> None:
    await scene.has("discord")
    use_case: Any = scene.postern.platform.further_providers
    put(use_case, lookup=RemovedAfterTheLook(use_case.lookup, scene))
    changed = await scene.request("PATCH", f"{PROVIDERS}/discord", change, by=scene.root)
    assert changed.status == 404, changed.body
    assert scene.people.rows("select from further_providers") == []
    assert scene.audited("platform.provider.updated") == []


@pytest.mark.parametrize("field", ["name", "client_id"])
async def test_a_provider_of_no_preset_needs_a_name_and_a_client(scene: FurtherScene, field: str) -> None:
    answer = await scene.add({name: value for name, value in PROFILE.items() if name != field})
    assert refused(answer) == BAD
    assert scene.people.rows("select from further_providers") == []


async def test_nobody_leaves_to_test_one_of_the_three(scene: FurtherScene) -> None:
    await scene.has("discord")
    owner = scene.signed_in(scene.root)
    at = "/ui/test-provider/discord"
    asked = PageReader((await owner.request("GET", at)).body)
    form = next(one for one in asked.forms if one.action == at)
    left = await owner.request("POST", "/ui/test-provider/codehost", form.fields)
    assert left.status == 400, left.body
    assert b"This sign-in method does not exist" in left.body
    assert scene.people.rows("select from oauth_states") == []


@pytest.mark.parametrize("stated", ["no json", "[" * 1999, '["Ada"]'])
async def test_a_form_that_says_nothing_readable_of_the_person_fills_nothing(scene: FurtherScene, stated: str) -> None:
    fake = await scene.has("apple")
    assert isinstance(fake, FakeApple)
    tabs = scene.browser()
    back = fake.consent(await scene.leave(tabs, word="apple"))
    fake.posted = {**fake.posted, "user": stated}
    page = await scene.asked(tabs, await tabs.request("GET", await scene.posted(fake, back)))
    assert (await scene.register(tabs, page)).status == 303
    (account,) = scene.people.rows("select given_name, family_name from users where id = %s", await scene.who(tabs))
    assert account == {"given_name": None, "family_name": None}
