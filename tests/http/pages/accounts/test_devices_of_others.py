"""The page on which a person lets a device in offers another account, in a browser that keeps the first one."""

import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.federation.arriving import is_page
from tests.http.pages.accounts.test_forms_of_other_accounts import SharedSets
from tests.http.people import People
from tests.http.signing_in import PASSWORD, unlimited


@pytest.fixture
def sets(postern: Postern, people: People, log: CapturedLog) -> SharedSets:
    return SharedSets(postern, people, unlimited(postern), log)


async def test_the_other_account_gets_a_page_of_its_own_and_lets_the_device_in(sets: SharedSets) -> None:
    cyn, bob = await sets.person("cyn"), await sets.person("bob")
    tabs = await sets.together(cyn)
    codes = await sets.ask_for_codes(scope="openid email")
    first = await tabs.tab().open("/ui/device")
    await first.send(user_code=codes.user_code)
    assert cyn.email in first.page.text
    tab = await tabs.tab().open(first.place)
    await tab.send(answer="another")
    await tab.send(email=bob.email)
    await tab.send(password=PASSWORD)
    assert (tab.status, tab.place.partition("?")[0]) == (200, "/ui/device/decision"), tab.page.text
    assert bob.email in tab.page.text
    # Cyn's page is Cyn's still.
    await first.send(answer="approve")
    is_page(first.shown, 409, "belongs to another account")
    await tab.send(answer="approve")
    assert [row["user_id"] for row in sets.people.rows("select user_id from device_codes")] == [bob.user]
