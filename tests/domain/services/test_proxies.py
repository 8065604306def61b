"""What paths of applications behind a proxy ask for: however a path is written, it asks for no less than the plain one."""

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.errors import BadRequest
from core.domain.federation.proxy_checks import header_text, place_to_return
from core.domain.services.proxies import (
    MOST_HOSTS,
    DemandKind,
    PathDemand,
    PathRule,
    ProxySettings,
    checked,
    demands_of,
    domains_above,
    parsed_header,
    parsed_rule,
)
from core.domain.services.proxy_paths import place_of

LINES = ("/ open", "/public open", "/admin role admin", "/admin/help open", "/ädmin role umlaut", "/docs signed_in")
RULES = tuple(map(parsed_rule, LINES))
ADMIN = PathDemand(DemandKind.ROLE, "admin")
_SEGMENTS = st.text(alphabet="abcxyzADMIN019-_~", min_size=1, max_size=8)


@st.composite
def written(draw: st.DrawFn) -> str:
    """Some way to write a path that somebody reads as `/admin/…`, or as what is below it."""
    letters = "".join(
        draw(st.sampled_from([letter, letter.upper(), f"%{ord(letter):02x}", f"%{ord(letter.upper()):02X}"])) for letter in "admin"
    )
    before = draw(st.sampled_from(["/", "//", "/./", "/public/../", "/%2e/", "/public/%2e%2e/", "/public/..;/", "/public\\..\\", "/%2f"]))
    after = draw(
        st.sampled_from(
            ["", "/", "/x", "//x", ";x=1", "/.", "%00", "?x=/public", "%2f", "/x/..", "%20", ".", "#x", "\\x", ".json", "/x.js"]
        )
    )
    return f"{before}{letters}{after}"


@given(written())
def test_however_it_is_written_a_guarded_path_asks_for_its_role(target: str) -> None:
    assert ADMIN in demands_of(RULES, target).demands


def test_an_ending_asks_for_no_less() -> None:
    """Rails, Django REST framework and Laravel's packages take it for a format."""
    for target in ("/admin.json", "/ADMIN.tar.gz", "/admin.json/", "/admin/help.html", "/admin.json?x=1", "/%61dmin%2ejson"):
        assert ADMIN in demands_of(RULES, target).demands, target
    # A name that begins with a dot has no ending, an ending opens nothing, and a rule that names the ending means it.
    for target in ("/.admin", "/style.css", "/"):
        assert demands_of(RULES, target).demands == (PathDemand(DemandKind.OPEN),)
    assert demands_of(RULES, "/docs.html").demands == (PathDemand(DemandKind.SIGNED_IN),)
    named = [parsed_rule("/feed role reader"), parsed_rule("/feed.xml open")]
    assert demands_of(named, "/feed.xml").demands == (PathDemand(DemandKind.OPEN),)
    assert demands_of(named, "/feed.json").demands == (PathDemand(DemandKind.ROLE, "reader"),)


@given(st.text(max_size=60))
def test_any_text_asks_for_something_that_a_rule_says(target: str) -> None:
    found = demands_of(RULES, target)
    assert found.demands
    if found.place is None:
        assert set(found.demands) == {ADMIN, PathDemand(DemandKind.ROLE, "umlaut")}


@given(st.lists(_SEGMENTS, min_size=1, max_size=5))
def test_a_plain_path_is_its_own_place(segments: list[str]) -> None:
    path = "/" + "/".join(segments)
    place = place_of(path)
    assert place is not None
    assert (place.text, place.written) == (path, path)
    assert place_of("/" + "/".join(quote(one) for one in segments)) == place


@given(st.binary(max_size=20))
def test_bytes_that_are_no_utf_8_have_no_place(junk: bytes) -> None:
    escaped = "".join(f"%{one:02x}" for one in junk)
    try:
        junk.decode()
    except UnicodeDecodeError:
        assert place_of(f"/{escaped}") is None


def test_the_longest_rule_counts_and_a_rule_fits_whole_segments() -> None:
    assert demands_of(RULES, "/admin/help/x").demands == (PathDemand(DemandKind.OPEN),)
    assert demands_of(RULES, "/administrator").demands == (PathDemand(DemandKind.OPEN),)
    assert demands_of(RULES, "/%C3%A4dmin").demands == (PathDemand(DemandKind.ROLE, "umlaut"),)
    assert demands_of((), "/anything").demands == (PathDemand(DemandKind.SIGNED_IN),)


def test_another_case_of_an_open_path_is_not_open_where_the_rest_is_closed() -> None:
    rules = (PathRule("/public", "/public", PathDemand(DemandKind.OPEN)),)
    assert demands_of(rules, "/PUBLIC").demands == (PathDemand(DemandKind.SIGNED_IN),)
    assert demands_of(rules, "/%70ublic").demands == (PathDemand(DemandKind.SIGNED_IN),)


NEVER = ["/a//b open", "/a%62 open", "a open", "/a?x open", "/a; open", "/../a open", "/a open now", "", "/x" * 300]
TAKEN = ["Host", "Cookie", "X-Forwarded-For", "Proxy-Authorization", "Transfer-Encoding", "X-Postern-User", "Sec-Fetch-Site"]


@pytest.mark.parametrize("line", NEVER)
def test_a_line_that_never_fits_is_no_rule(line: str) -> None:
    with pytest.raises(BadRequest):
        parsed_rule(line)


@pytest.mark.parametrize("line", ["Remote-User name", "remote-user groups", "X-Webauth-User roles"])
def test_what_an_application_takes_for_an_account_tells_nothing_that_two_may_share(line: str) -> None:
    with pytest.raises(BadRequest, match="two people may share"):
        parsed_header(line)
    assert parsed_header(f"{line.split(maxsplit=1)[0]} username").part == "username"


@pytest.mark.parametrize("name", TAKEN)
def test_headers_that_mean_something_already_tell_nobody(name: str) -> None:
    with pytest.raises(BadRequest):
        parsed_header(f"{name} email")


@given(st.text(max_size=300))
def test_a_header_is_one_line(text: str) -> None:
    told = header_text(text)
    assert told == told.strip()
    assert not any(mark in told for mark in "\r\n\0\t")


@given(st.text(alphabet="/\\.:@?#%ab\t\n ", max_size=20))
def test_the_way_back_stays_on_the_host(text: str) -> None:
    place = place_to_return(text)
    assert place.startswith("/")
    assert not place.startswith(("//", "/\\"))
    assert place.isprintable()
    assert "\\" not in place.partition("?")[0]


def test_the_domains_above_a_host_begin_with_itself() -> None:
    assert domains_above("a.b.example.org") == ("a.b.example.org", "b.example.org", "example.org")


def test_a_permission_meets_the_rule_that_asks_for_it() -> None:
    demand = PathDemand(DemandKind.PERMISSION, "pages:write")
    assert demand.is_met((), ("pages:write",))
    assert not demand.is_met(("pages:write",), ())


@pytest.mark.parametrize("hosts", [[f"h{number}.example" for number in range(MOST_HOSTS + 1)], ["a.example", "A.example"]])
def test_too_many_hosts_and_one_twice_are_refused(hosts: list[str]) -> None:
    with pytest.raises(BadRequest, match="hosts: "):
        checked(ProxySettings(hosts=tuple(hosts)))
