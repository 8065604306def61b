"""Ask leads to the pages of why somebody cannot sign in, of who can open an application, and of what somebody can open."""

import re
from typing import Final

import pytest

from core.domain.tenancy.roles import Capability
from tests.http.browsing import Tab
from tests.http.pages.console.conftest import HOME, ConsoleScene

WHY: Final = "{home}/people/{person}/why"
WHO: Final = "{home}/applications/board/who"
OPENS: Final = "{home}/people/users/{person}/opens"
_PAGES: Final = ("/why", "/who", "/opens")


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
        ("Who can sign in to Board?", WHO),
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
        assert not [one for one in tab.page.links if one.endswith(_PAGES)], asked


_ASKED: Final = ("why can't ada sign in", "why can somebody not sign in", "who can open board", "what can ada open")
_VERDICTS: Final = (Capability.SERVICES_MANAGE, Capability.SERVICES_VIEW)
_PEOPLE: Final = (Capability.MEMBERS_VIEW, Capability.END_USERS_VIEW)


@pytest.mark.parametrize(
    ("capabilities", "ends"),
    [
        ([*_VERDICTS, *_PEOPLE], {"/who", "/opens"}),
        ([*_VERDICTS, *_PEOPLE, Capability.AUDIT_LOGS_VIEW], {"/why", "/who", "/opens"}),
        ([*_VERDICTS, Capability.MEMBERS_VIEW, Capability.AUDIT_LOGS_VIEW], set()),
        ([*_PEOPLE, Capability.AUDIT_LOGS_VIEW], set()),
    ],
    ids=["verdicts without the log", "verdicts and the log", "verdicts without end users", "the log without verdicts"],
)
async def test_a_role_is_led_to_what_it_opens_and_to_nothing_else(
    console: ConsoleScene, capabilities: list[Capability], ends: set[str]
) -> None:
    console.tenants.service(console.acme, "board")
    console.people.change("update users set name = 'Ada' where id = %s", console.ada.user)
    person = console.people.add()
    console.tenants.join(person, console.acme, console.tenants.role(console.acme, "asking", capabilities))
    reader = console.browser(person).tab()
    led = set[str]()
    for asked in _ASKED:
        tab = await console.asks(asked, reader)
        assert tab.status == 200, asked
        led |= {one for one in tab.page.links if one.endswith(_PAGES)}
    for at in ("sign-ins", "applications/board/access", f"people/{console.ada.user}", f"people/users/{console.ada.user}"):
        led |= {one for one in (await reader.open(f"{HOME}/{at}")).page.links if one.endswith(_PAGES)}
    assert {f"/{one.rpartition('/')[2]}" for one in led} == ends
    for one in led:
        assert (await reader.open(one)).status == 200, one
    # What nobody is led to refuses whoever types its address.
    for template in (f"{HOME}/people/why", WHY, WHO, OPENS):
        at = template.format(home=HOME, person=console.ada.user)
        assert (await reader.open(at)).status == (200 if at.endswith(tuple(ends)) else 403), at


async def test_without_a_name_the_question_leads_to_the_page_that_asks_for_one(console: ConsoleScene) -> None:
    tab = await console.asks("why can somebody not sign in")
    assert f"{HOME}/people/why" in tab.page.links
