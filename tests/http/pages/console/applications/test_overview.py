"""The first page of an application: who signed in comes first, then the values, then the lines of one framework alone."""

import re
from pathlib import Path

from entrypoints.http.console.organization.applications.making import FRAMEWORKS, ApplicationKind
from tests.http.pages.console.applications.conftest import AT, made
from tests.http.pages.console.conftest import ConsoleScene

LINES = Path("entrypoints/http/console/organization/applications/making/framework_lines")


def order(console: ConsoleScene) -> list[str]:
    return re.findall(r'<h2 id="([a-z_]+)"', console.tab.shown.body.decode())


def shown(console: ConsoleScene) -> list[str]:
    return re.findall(r'<pre class="copyable" id="lines-([a-z]+)-', console.tab.shown.body.decode())


async def test_sign_ins_come_first_and_the_chosen_framework_alone_is_open(console: ConsoleScene) -> None:
    await made(console, kind="flask", addresses="")
    onward = next(link for link in console.tab.page.links if "built_with" in link)
    await console.tab.open(onward)
    assert console.tab.status == 200
    assert order(console)[:3] == ["sign_ins", "values", "lines"]
    assert set(shown(console)) == {"flask"}
    for framework in FRAMEWORKS:
        if ApplicationKind.WEB in framework.kinds and framework.key != "flask":
            assert f"/ui/o/acme{AT}/billing?built_with={framework.key}#lines" in console.tab.page.links


async def test_without_a_choice_the_address_tells_the_framework_or_none_is_open(console: ConsoleScene) -> None:
    django = await made(console, "Django", kind="django", addresses="")
    await console.at(django)
    assert set(shown(console)) == {"django"}
    # Several come back to /callback.
    plain = await made(console)
    for asked in (plain, f"{plain}?built_with=nonsense", f"{plain}?built_with=nginx"):
        await console.at(asked)
        assert (console.tab.status, shown(console)) == (200, [])
        assert "Choose the application\u2019s framework" in console.tab.page.text
    await console.at(f"{plain}?built_with=nextjs")
    assert set(shown(console)) == {"nextjs"}


async def test_behind_a_proxy_the_first_card_shows_what_a_proxy_uses(console: ConsoleScene) -> None:
    console.people.change("update users set is_platform_owner = true where id = %s", console.ada.user)
    wiki = await made(console, "Wiki", kind="proxy", addresses="wiki.acme.example")
    await console.at(f"{wiki}/proxy/change")
    await console.submit(f"{wiki}/proxy/change", rules=["/public", "open", ""])
    await console.at(wiki)
    page = console.tab.page.text
    assert order(console)[:3] == ["sign_ins", "values", "lines"]
    for words in (
        "Proxy settings",
        "wiki.acme.example",
        "/proxy/check",
        "/public: None (public)",
        "Remote-User: Email address",
    ):
        assert words in page, words
    for words in ("Client ID", "Discovery URL", "Issuer", "Audience"):
        assert words not in page, words
    for key in ("caddy", "nginx", "traefik"):
        await console.at(f"{wiki}?built_with={key}")
        assert set(shown(console)) == {key}
        assert "wiki.acme.example" in console.tab.shown.body.decode().partition('id="lines-')[2]
    assert "/docs/guides/proxies" in console.tab.page.links


async def test_a_proxy_without_a_host_says_so(console: ConsoleScene) -> None:
    wiki = await made(console, "Wiki", kind="proxy", addresses="")
    await console.at(wiki)
    assert "No host is configured for the reverse proxy" in console.tab.page.text
    assert f"/ui/o/acme{wiki}/proxy" in console.tab.page.links


def test_the_lines_for_traefik_are_those_of_its_guide() -> None:
    guide = Path("docs/guides/proxies/traefik.md").read_text()
    lines = (LINES / "traefik.txt").read_text().partition("\n")[2]
    for mark, example in (("@HOST@", "wiki.example.com"), ("@CLIENT_SECRET@", "cs_your_secret"), ("@ISSUER@", "https://id.example.com")):
        lines = lines.replace(mark, example)
    assert lines in guide


async def test_each_page_below_a_tab_is_a_row_that_says_its_state(console: ConsoleScene) -> None:
    billing = await made(console)
    for tab, places in (
        ("sign-in", ("sessions", "saml", "claims", "token-preview", "first-sign-in", "refusals", "logout-notices")),
        ("access", ("who", "assignments", "roles", "permissions", "people-there", "signals", "plans")),
        ("tokens", ("secrets", "public-keys", "api-keys", "user-keys")),
    ):
        await console.at(f"{billing}/{tab}")
        body = console.tab.shown.body.decode()
        rows = body.partition('<ul class="setting-rows"')[2].partition("</ul>")[0]
        assert rows.count("<li>") == rows.count('<span class="soft" dir="auto">') == len(places)
        for place in places:
            assert f'<li><a href="/ui/o/acme{billing}/{place}">' in rows
    text = console.tab.page.text
    assert "API keys No API keys" in text


async def test_a_row_names_the_first_things_and_says_how_many_more_there_are(console: ConsoleScene) -> None:
    billing = await made(console)
    for name in ("a", "b", "c", "d", "e"):
        await console.at(f"{billing}/permissions/~new")
        await console.submit(f"{billing}/permissions/~new", key=f"{name}:read")
        await console.at(f"{billing}/api-keys/~new")
        await console.submit(f"{billing}/api-keys/~new", name=f"Server {name}", permissions=["read:users"])
    assert "Permissions a:read, b:read, c:read +2" in (await console.at(f"{billing}/access")).page.text
    assert "API keys Server e, Server d, Server c +2" in (await console.at(f"{billing}/tokens")).page.text


async def test_an_application_has_one_head_on_each_of_its_tabs(console: ConsoleScene) -> None:
    billing = await made(console)
    member = console.colleague()
    end = f"/ui/o/acme{billing}/settings/end"
    for tab in ("", "/sign-in", "/access", "/tokens", "/settings"):
        page = (await console.at(f"{billing}{tab}")).page
        head = console.tab.shown.body.decode().partition('<div class="head">')[2].partition("<nav")[0]
        assert 'class="sign shade' in head, tab
        assert 'class="state' in head, tab
        assert end in page.links, tab
        # Below a tab, the head says what the record is, and has none of its acts.
    below = (await console.at(f"{billing}/roles")).shown.body.decode()
    assert end not in console.tab.page.links
    assert 'class="sign shade' in below.partition('<div class="head">')[2].partition("<nav")[0]
    for tab in ("", "/sign-in"):
        assert end not in (await member.open(f"/ui/o/acme{billing}{tab}")).page.links
