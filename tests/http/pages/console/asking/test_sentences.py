"""Ask answers sentences: sixty, written before the code that answers them. Half were asked only when it was done, and 24 of these 30 were
right at once; words for the other six came afterwards.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from html import unescape
from pathlib import Path
from typing import Any, Final

import pytest

from core.domain.tenancy.roles import Capability
from tests.http.browsing import Tab
from tests.http.pages.console.asking.test_why_and_who import found
from tests.http.pages.console.conftest import HOME, ConsoleScene

FIRST: Final = 3
LEAST_RIGHT: Final = 27
_FOLDER: Final = Path(__file__).parent
_PEOPLE: Final = {"priya": "Priya Natarajan", "tom": "Tom Becker", "marie": "Marie Dupont"}
_ADDRESSES: Final = {"priya": "priya@acme.example", "tom": "tom.becker@acme.example", "marie": "marie@acme.example"}
_APPLICATIONS: Final = {"shop": "Shop", "board": "Board", "timetracker": "Time Tracker"}


def sentences(file: str) -> Sequence[Mapping[str, Any]]:
    listed: Sequence[Mapping[str, Any]] = tomllib.loads((_FOLDER / file).read_text(encoding="utf-8"))["sentence"]
    return listed


def filled(console: ConsoleScene) -> dict[str, Any]:
    """Three people and three applications: the ids of the people."""
    ids: dict[str, Any] = {}
    for key, name in _PEOPLE.items():
        person = console.people.add(_ADDRESSES[key])
        console.tenants.join(person, console.acme)
        console.people.change("update users set name = %s where id = %s", name, person.user)
        ids[key] = person.user
    for slug, name in _APPLICATIONS.items():
        console.tenants.service(console.acme, slug)
        console.people.change("update all_services set name = %s where slug = %s", name, slug)
    return ids


async def suggested(console: ConsoleScene, text: str, tab: Tab | None = None) -> list[str]:
    """The addresses of the list while somebody types."""
    page = await (tab or console.tab).open(HOME)
    token = next(one.fields["form_token"] for one in page.page.forms if one.action == f"{HOME}/search")
    answer = await page.tabs.request("POST", f"{HOME}/search/suggestions", {"form_token": token, "q": text})
    assert answer.status == 200
    return re.findall(r'(?:href|action)="([^"]+)"', answer.body.decode())


@pytest.mark.parametrize("file", ["sentences.toml", "kept_sentences.toml"])
async def test_sentences_are_answered_among_the_first_three(console: ConsoleScene, file: str) -> None:
    ids = filled(console)
    missed = []
    for one in sentences(file):
        console.tabs.language = one["language"]
        wanted = [at if at.startswith("/docs") else f"{HOME}/{at}".rstrip("/").format(**ids) for at in one["wanted"]]
        page, list_ = found(await console.asks(one["asked"])), await suggested(console, one["asked"])
        for where, links in (("page", page), ("list", list_)):
            first = list(dict.fromkeys(links))[:FIRST]
            if not any(fnmatch(link, at) for link in first for at in wanted):
                missed.append(f"{where}: {one['asked']}: {first}")
    assert len(sentences(file)) == 30
    assert max(sum(one.startswith(where) for one in missed) for where in ("page", "list")) <= 30 - LEAST_RIGHT, "\n".join(missed)


_OF_TOM: Final = ("why", "role", "end-sessions", "second-factor")


@pytest.mark.parametrize(
    "asked",
    ["tom quux fnord blurb", "does tom like cheese", "the webhook of tom fails", "tom.becker@acme.example", "Tom hat heute Geburtstag"],
)
async def test_whoever_is_named_is_shown_with_what_one_does_most_whatever_else_is_said(console: ConsoleScene, asked: str) -> None:
    tom = filled(console)["tom"]
    for links in (found(await console.asks(asked)), await suggested(console, asked)):
        assert f"{HOME}/people/{tom}" in links[:2], links
        assert {*(f"{HOME}/people/{tom}/{act}" for act in _OF_TOM), f"{HOME}/people/users/{tom}/opens"} <= set(links), links


async def test_an_application_that_is_named_is_shown_with_what_one_does_most_and_what_else_is_said(console: ConsoleScene) -> None:
    filled(console)
    for asked in ("quux of shop fnord", "shop"):
        for links in (found(await console.asks(asked)), await suggested(console, asked)):
            assert {f"{HOME}/applications/shop{end}" for end in ("", "/sign-in", "/access", "/secrets/~new", "/who", "/refusals")} <= set(
                links
            )
    assert (await suggested(console, "claims of shop"))[0] == f"{HOME}/applications/shop/claims"


async def test_of_several_of_one_name_one_chooses_first(console: ConsoleScene) -> None:
    tom = filled(console)["tom"]
    other = console.people.add("tom.smith@acme.example")
    console.tenants.join(other, console.acme)
    both = {f"{HOME}/people/{tom}", f"{HOME}/people/{other.user}"}
    assert set((await suggested(console, "tom"))[:2]) == both
    assert set((await suggested(console, "lock tom"))[:2]) == {f"{one}/lock" for one in both}
    assert both.isdisjoint(await suggested(console, "to"))


async def test_what_weakens_or_ends_something_answers_whoever_asks_for_that(console: ConsoleScene) -> None:
    for asked, never in (
        ("require mfa for admins", "Reset MFA"),
        ("my webhook is broken", "Delete webhook"),
        ("a team for sales", "Delete team"),
        ("client secret", "Delete client secret"),
    ):
        tab = await console.asks(asked)
        assert never not in tab.page.text, asked
    for asked, once in (("delete a webhook", "Delete webhook"), ("disable mfa", "Reset MFA"), ("team löschen", "Team löschen")):
        console.tabs.language = "de" if "ö" in asked else "en"
        assert once in (await console.asks(asked)).page.text, asked


async def test_a_name_that_nobody_has_leaves_the_question(console: ConsoleScene) -> None:
    filled(console)
    for asked, said in (
        ("who can open the wiki", "See who can access …"),
        ("what can zoe open", "See what … can access, and why"),
        ("lock zoe", "Lock …"),
        ("why can zoe not sign in", "Why can a person not sign in?"),
    ):
        content = (await console.asks(asked)).shown.body.decode().partition('<main id="content">')[2]
        assert said in unescape(content.partition("<h3>")[2].partition("</h3>")[0]), asked


async def test_a_word_of_the_console_that_is_a_name_too_comes_after_the_pages(console: ConsoleScene) -> None:
    will = console.people.add("webhook@acme.example")
    console.tenants.join(will, console.acme)
    links = await suggested(console, "webhook")
    assert links[0] == f"{HOME}/events"
    assert f"{HOME}/people/{will.user}" in links


async def test_members_without_rights_and_listed_people_are_named_as_far_as_they_are_listed(console: ConsoleScene) -> None:
    ids = filled(console)
    console.people.change("update memberships set own_since = null where user_id = %s", ids["tom"])
    assert await suggested(console, "natarajan")
    assert not [one for one in await suggested(console, "becker quux") if str(ids["tom"]) in one and "Becker" in one]
    body = (await console.asks("tom.becker@acme.example")).shown.body.decode()
    assert str(ids["tom"]) in body
    assert "Tom Becker" not in body.partition("<main")[2]
    auditor = console.people.add("auditor@acme.example")
    console.tenants.join(auditor, console.acme, console.tenants.role(console.acme, "auditor", [Capability.AUDIT_LOGS_VIEW]))
    tab = console.browser(auditor).tab()
    for asked in ("priya", "shop secret", "priya@acme.example"):
        links = await suggested(console, asked, tab)
        assert not [one for one in links if str(ids["priya"]) in one or "/applications/shop" in one], asked
