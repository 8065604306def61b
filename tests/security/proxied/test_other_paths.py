"""Headers that lead an application to another path than the proxy has asked about: a second path, and a prefix that is cut off."""

from typing import Final

import pytest

from core.domain.errors import BadRequest
from core.domain.services.proxies import parsed_header
from tests.http.federation.proxied.behind_proxies import HOST, Proxied
from tests.security.proxied.behind import guide

OTHER_PATHS: Final = ("X-Original-URL", "X-Rewrite-URL", "X-Original-Uri", "X-Forwarded-Path", "X-Waws-Unencoded-Url")
PREFIXES: Final = ("X-Script-Name", "X-Forwarded-Prefix")
RULES: Final = ("/ open", "/admin role admin")
GUARDED: Final = ("/admin", "/admin/", "/admin/users/7", "/ADMIN/x", "/admin.json", "/admin?x=1", "/index.php/admin")
OWN: Final = ("/", "/x", "/7", "/public", "/public?x=1", "/x,y")


@pytest.mark.parametrize("name", OTHER_PATHS)
async def test_no_suffix_of_a_guarded_path_goes_round_its_rule(wiki: Proxied, name: str) -> None:
    secret = await wiki.wiki(rules=RULES)
    cookie = await wiki.cookie_of(secret, wiki.ada)
    tried = 0
    for guarded in GUARDED:
        suffixes = {guarded[at:] for at in range(1, len(guarded))}
        pairs = [(suffix, guarded) for suffix in suffixes]
        pairs += [(own, f"{guarded}{between}{own}") for own in OWN for between in ("", "?", "/", "#", ";", "%20", "?x=")]
        for own, value in pairs:
            for shown in ("", cookie):
                status = (await wiki.ask(secret, own, cookie=shown, headers=[(name, value)])).status
                assert status == (403 if shown else 401), (own, value, status)
                tried += 1
    assert tried > 600


@pytest.mark.parametrize("name", OTHER_PATHS)
async def test_a_second_path_is_the_requests_own_byte_for_byte_or_another(wiki: Proxied, name: str) -> None:
    secret = await wiki.wiki(rules=RULES)
    own = "/public/x?y=%41&z=1"

    async def ask(*values: str, uri: str = own, host: str = HOST) -> int:
        return (await wiki.ask(secret, uri, host=host, headers=[(name, value) for value in values])).status

    for value in (own, f"https://{HOST}{own}", f"http://{HOST}{own}"):
        assert await ask(value) == 200, value
    # The host as the proxy sent it: its letters, and its port.
    written = f"{HOST.title()}:8443"
    for value in (f"https://{written}{own}", f"https://{HOST.title()}{own}"):
        assert await ask(value, host=written) == 200, value
    for value in (f"https://{HOST}:8443{own}", f"https://{HOST.title()}:9443{own}", f"https://{HOST.title()}:{own}"):
        assert await ask(value, host=written) == 401, value
    for value in (
        *(
            "",
            own.upper(),
            own.replace("%41", "A"),
            own.partition("?")[0],
            f"{own}&",
            f"/{own}",
            own.removeprefix("/"),
            f"{own}#x",
            f"x{own}",
        ),
        *(f"{own}, /admin", f"/admin, {own}", f"{own},{own}", f"{own},", f", {own}", f"https://{HOST}{own}, https://{HOST}{own}"),
        *(f"https://evil.example{own}", f"HTTPS://{HOST}{own}", f"ftp://{HOST}{own}", f"//{HOST}{own}", f"{HOST}{own}", f"https:{own}"),
        *(
            f"https://x@{HOST}{own}",
            f"https://{HOST}@evil.example{own}",
            f"https://{HOST}/{own}",
            f"https://{HOST}{own}?",
            f"https://{HOST}/admin?{own}",
        ),
        *(f"https://{HOST}:443{own}", f"https://{HOST}.{own}", f"https://{HOST}", f"https://{HOST}/admin"),
    ):
        assert await ask(value) == 401, value
    for values in ((own, own), (own, "/admin"), ("/admin", own), ("", own), (own, ""), ("", "")):
        assert await ask(*values) == 401, values
    # A reader of lists would take a part of it.
    assert await ask(uri="/public,/admin") == 200
    assert await ask("/public,/admin", uri="/public,/admin") == 401
    # Without a path of its own, a request has none that another could equal.
    assert await ask("", uri="") == 401
    # Beside a good one, another one of another name.
    (other,) = [one for one in OTHER_PATHS if one != name][:1]
    answer = await wiki.ask(secret, own, headers=[(name, own), (other, "/admin")])
    assert answer.status == 401


@pytest.mark.parametrize("name", PREFIXES)
async def test_a_prefix_that_an_application_would_cut_off_meets_every_rule(wiki: Proxied, name: str) -> None:
    secret = await wiki.wiki(rules=RULES)
    cookie = await wiki.cookie_of(secret, wiki.ada)
    for value in ("/x", "/", "x", "/x, /y", "https://evil.example/x"):
        for own in ("/x/admin", "/", "/public"):
            assert (await wiki.ask(secret, own, headers=[(name, value)])).status == 401, (own, value)
            assert (await wiki.ask(secret, own, cookie=cookie, headers=[(name, value)])).status == 403, (own, value)
    assert (await wiki.ask(secret, "/x/admin", headers=[(name, "")])).status == 200
    await wiki.give(wiki.ada, "admin")
    assert (await wiki.ask(secret, "/x/admin", cookie=cookie, headers=[(name, "/x")])).status == 200


@pytest.mark.parametrize("name", [*OTHER_PATHS, *PREFIXES])
async def test_a_header_that_means_a_path_tells_nobody_and_is_smuggled_in_no_form(wiki: Proxied, name: str) -> None:
    for written in (name, name.lower(), name.upper()):
        with pytest.raises(BadRequest, match="has a meaning for proxies"):
            parsed_header(f"{written} email")
    secret = await wiki.wiki(rules=RULES)
    refused = await wiki.set_proxy(headers=[f"{name} email"])
    assert refused.status == 400
    for mark in "_.~":
        for form in (name.replace("-", mark), name[::-1].replace("-", mark, 1)[::-1]):
            assert (await wiki.ask(secret, "/public", headers=[(form, "/public")])).status == 403, form


async def test_an_application_that_is_told_something_in_such_a_header_already_still_answers(wiki: Proxied) -> None:
    """Its line was taken before the name meant a path. A row that cannot be read would shut the whole application."""
    secret = await wiki.wiki(headers=["X-Waws-Url email", "Remote-User email"])
    wiki.people.change(
        "update proxies set headers = array['X-Script-Name email', 'Remote-User email'] where service_id = %s", wiki.service.id
    )
    answer = await wiki.ask(secret, "/page", cookie=await wiki.cookie_of(secret, wiki.ada))
    assert (answer.status, answer.header("remote-user")) == (200, "ada@acme.example")
    assert (await wiki.set_proxy(rules=["/ open"])).status == 400
    (await wiki.set_proxy(rules=["/ open"], headers=["Remote-User email"])).ok()


@pytest.mark.parametrize("kind", ["caddy", "nginx", "haproxy", "traefik"])
def test_each_guide_clears_them_all_behind_the_check(kind: str) -> None:
    """Traefik is not in Debian, so its lines are read."""
    lines = "\n".join(guide(kind)).lower()
    for name in (*OTHER_PATHS, *PREFIXES):
        assert name.lower() in lines, name
    if kind == "traefik":
        clean = lines.partition("postern-clean:")[2].partition("postern-own:")[0]
        assert all(f'{name.lower()}: ""' in clean for name in (*OTHER_PATHS, *PREFIXES))
        assert "[postern-proxy, postern-check, postern-clean]" in lines
