"""What follows a segment with a dot is a path of its own to a server that takes the segment for a script: `/index.php/admin` is `/admin`
to Nextcloud, MediaWiki, Laravel and Symfony.
"""

import pytest

from core.domain.services.proxies import DemandKind, PathDemand, demands_of, parsed_rule
from core.domain.services.proxy_paths import place_of

BOSS = PathDemand(DemandKind.ROLE, "boss")
OPEN = PathDemand(DemandKind.OPEN)
SIGNED_IN = PathDemand(DemandKind.SIGNED_IN)


def _asked(target: str, *lines: str) -> set[PathDemand]:
    return set(demands_of([parsed_rule(line) for line in lines], target).demands)


@pytest.mark.parametrize(
    "target",
    [
        *(
            "/index.php/admin",
            "/index.php/admin/",
            "/index.php/admin/users",
            "/index.php/admin?x=1",
            "/a.php/b.php/admin",
            "/INDEX.PHP5/admin",
        ),
        *("/app.php/admin", "/public/index.php/admin", "/cgi-bin/app.cgi/admin", "/a.php/x/b.php/admin/y", "/.hidden/admin", "/v1.0/admin"),
        # Each reading of a path is one of what follows a script.
        *(
            "/index.php/ADMIN",
            "/index.php/%61dmin",
            "/index.php/Admin/x",
            "/index.php/admin.json",
            "/index.php/ADMIN.tar.gz",
            "/index.php/admin.json/",
        ),
        # The dot itself may be written in another way, and some applications fold U+2024 to one.
        *("/index%2ephp/admin", "/index%e2%80%a4php/admin", "/%69ndex.php/%61dmin"),
        # Still no place at all.
        *("/index.php//admin", "/index.php;x/admin", "/index.php/../admin", "/index.php%2fadmin", "/index.php./admin"),
    ],
)
def test_a_guarded_path_behind_a_script_asks_for_its_role(target: str) -> None:
    assert _asked(target, "/ open", "/admin role boss") == {BOSS}
    assert _asked(target, "/admin role boss") == {BOSS}
    assert BOSS in _asked(target, "/ role reader", "/admin role boss")


def test_a_script_that_is_open_stays_open_where_no_rule_names_what_follows() -> None:
    lines = ("/ signed_in", "/remote.php open", "/static open", "/admin role boss")
    for target in ("/remote.php/dav/x", "/remote.php/dav/x/", "/remote.php/", "/static/jquery-3.6.0/x.js", "/static/a.b/c.d/e.f"):
        assert _asked(target, *lines) == {OPEN}, target
    assert _asked("/remote.php/admin", *lines) == {BOSS}
    assert _asked("/static/jquery-3.6.0/admin.js", *lines) == {BOSS}
    # The rule of `/`, and the default without one, count for no rest.
    assert _asked("/remote.php/dav/x", "/ role boss", "/remote.php open") == {OPEN}
    assert _asked("/remote.php/dav/x", "/remote.php open") == {OPEN}
    # The last segment is no script.
    for target in ("/admin.php", "/x.admin", "/x.php/"):
        assert _asked(target, "/ open", "/admin/x role boss") == {OPEN}, target


def test_the_longest_rule_that_fits_the_rest_counts() -> None:
    lines = ("/ open", "/admin role boss", "/admin/help open", "/docs signed_in")
    assert _asked("/index.php/admin/help/x", *lines) == {OPEN}
    assert _asked("/index.php/admin/helpers", *lines) == {BOSS}
    assert _asked("/index.php/docs", *lines) == {SIGNED_IN}
    assert _asked("/index.php/administrator", *lines) == {OPEN}
    # What follows opens nothing.
    assert _asked("/index.php/public", "/ role boss", "/public open") == {BOSS}
    # A rule that names an ending means that file, behind a script, too.
    feeds = ("/ open", "/feed role boss", "/feed.xml open")
    assert _asked("/index.php/feed.xml", *feeds) == {OPEN}
    assert _asked("/index.php/feed.json", *feeds) == {BOSS}
    # Each segment with a dot has its rest, and all have to be met.
    both = ("/ open", "/b.php role reader", "/admin role boss")
    assert _asked("/a.php/b.php/admin", *both) == {BOSS, PathDemand(DemandKind.ROLE, "reader")}


def test_a_script_in_a_directory_stands_for_the_directory() -> None:
    """An application at `/cloud` writes its own addresses without the script, and its rules name them so."""
    lines = ("/ open", "/cloud signed_in", "/cloud/settings role boss", "/cloud/remote.php open")
    for target in (
        "/cloud/index.php/settings",
        "/CLOUD/index.php/settings/x",
        "/cloud/index.php/settings.json",
        "/cloud/index%2ephp/SETTINGS",
    ):
        assert BOSS in _asked(target, *lines), target
    # The rules of the directory, and of what is above it, do not count for what follows.
    assert _asked("/cloud/remote.php/dav/x", *lines) == {OPEN}
    assert _asked("/cloud/index.php/x", *lines) == {SIGNED_IN}


def test_a_path_of_very_many_scripts_meets_every_rule() -> None:
    lines = ("/ open", "/admin role boss")
    assert _asked("/a.b" * 16 + "/c.d", *lines) == {OPEN}
    assert place_of("/a.b" * 17 + "/c") is None
    assert _asked("/a.b" * 17 + "/c", *lines) == {BOSS}
    assert _asked("/a.b" * 2000, *lines) == {BOSS}
    # The last segment may have as many dots as it likes.
    assert _asked("/" + "x." * 100 + "js", *lines) == {OPEN}
