"""Ask leads to the pages of why somebody cannot sign in, of who can open an application, and of what somebody can open."""

import re
from typing import Final

import pytest

from tests.http.browsing import Tab
from tests.http.pages.console.conftest import HOME, ConsoleScene

WHY: Final = "{home}/people/{person}/why"
WHO: Final = "{home}/applications/board/who"
OPENS: Final = "{home}/people/users/{person}/opens"


def found(tab: Tab) -> list[str]:
    """The links of the answer, without those of the frame."""
    content = tab.shown.body.decode().partition('<main id="content">')[2].partition("<h2>")[2]
    return re.findall(r'<a (?:class="line" )?href="([^"]+)"', content)


@pytest.mark.parametrize(
    ("asked", "where"),
    [
        ("why can't ada sign in", WHY),
        ("Why can\u2019t Ada sign in?", WHY),
        ("why can ada not sign in", WHY),
        ("who can open board", WHO),
        ("Who can open Board?", WHO),
        ("what can ada open", OPENS),
        ("What can Ada open?", OPENS),
    ],
)
async def test_the_question_leads_to_its_page_first(console: ConsoleScene, asked: str, where: str) -> None:
    console.tenants.service(console.acme, "board")
    console.people.change("update users set name = 'Ada' where id = %s", console.ada.user)
    at = where.format(home=HOME, person=console.ada.user)
    tab = await console.asks(asked)
    assert at in tab.page.links
    assert found(tab)[:1] == [at]
    assert (await console.tab.open(at)).status == 200


async def test_nobody_is_led_to_what_they_may_not_open(console: ConsoleScene) -> None:
    console.tenants.service(console.acme, "board")
    console.people.change("update users set name = 'Ada' where id = %s", console.ada.user)
    member = console.colleague()
    for asked in ("why can't ada sign in", "who can open board", "what can ada open"):
        tab = await console.asks(asked, member)
        assert not [one for one in tab.page.links if one.endswith(("/why", "/who", "/opens"))], asked


async def test_without_a_name_the_question_leads_to_the_page_that_asks_for_one(console: ConsoleScene) -> None:
    tab = await console.asks("why can somebody not sign in")
    assert f"{HOME}/people/why" in tab.page.links
