"""Five thousand ways to ask for a guarded path, and what others would read in them: nginx, servers with scripts (PATH_INFO), Rails, and
frameworks that take a path from the heads of IIS. None of them reaches a path for which the check has asked less than its rule.

The four readings are written from the documents of those who read so, and know nothing of how the product reads.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes, urlsplit

import trio

from core.domain.services.proxies import demands_of, parsed_rule
from entrypoints.http.machinery.calls import Request, headers_by_name
from entrypoints.http.proxied_requests import proxied
from ops.free_ports import free_port
from tests.ops.moving.programs import running
from tests.patience import PATIENCE
from tests.tools import needs, place_of

FORMS: Final = 5000
HOST: Final = "wiki.acme.example"
# What stands on the left guards what stands below it. None names an ending: such a rule means that file.
RULES: Final[Sequence[Mapping[str, str]]] = (
    {"/": "open", "/admin": "role boss"},
    {"/": "signed_in", "/admin": "role boss", "/admin/help": "open", "/public": "open"},
    {"/": "open", "/admin": "role boss", "/cloud": "signed_in", "/cloud/admin": "role chief", "/remote.php": "open", "/static": "open"},
    {"/": "open", "/admin/users": "permission people", "/admin": "signed_in", "/x/admin": "role other"},
)
_OTHER_PATHS: Final = ("X-Original-URL", "X-Rewrite-URL", "X-Original-Uri", "X-Forwarded-Path", "X-Waws-Unencoded-Url")
_PREFIXES: Final = ("X-Script-Name", "X-Forwarded-Prefix")
_HEADS: Final = (
    *(
        "",
        "",
        "",
        "/index.php",
        "/INDEX.PHP5",
        "/a.php/b.php",
        "/a.php",
        "/cloud/index.php",
        "/cloud",
        "/remote.php",
        "/static/jquery-3.6.0",
    ),
    *(
        "/cgi-bin/app.cgi",
        "/%69ndex%2ephp",
        "/index%e2%80%a4php",
        "/index.php;x",
        "/public/..",
        "/.",
        "/",
        "/public/%2e%2e",
        "/index.php/..",
    ),
    *(
        "/v1.0",
        "/public/..;",
        "/public%2f..",
        "/public\\..",
        "/index.php/x/..",
        "/x",
        "/%2e",
        "/public/.%2E",
        "/index.php/",
        "/cloud/./a.php",
    ),
)
_TAILS: Final = (
    *(
        "",
        "",
        "",
        "/",
        "/x",
        "/users",
        "/users/7",
        "/help",
        ".json",
        ".JSON",
        "/users.json",
        "/help.html",
        "/x.js",
        ".tar.gz",
        ";x=1",
        "/.",
    ),
    *("%00", "%20", ".", "?x=/public", "#x", "%3fx", "/users/", "//users", "/%75sers", "/help/../users", "/help/%2e%2e/users", ".php/x"),
    *("/users.json?x", "\\users", "%2fusers", "/us\u00e9rs", "/USERS.xml", ".json/", "?r=x,y"),
)


class PathForm(NamedTuple):
    """What a client asks for: the request's own path, and a header that may name another one."""

    own: str
    heads: Sequence[tuple[str, str]] = ()


# nginx matches a location against a normalized URI: it decodes `%XX`, resolves `.` and `..`, and makes one slash of several
# (ngx_http_core_module, `location` and `merge_slashes`).
def nginx(target: str) -> str | None:
    """The path of which nginx looks for a location, and names a file. None for what it answers by 400."""
    raw = re.split(r"[?#]", target, maxsplit=1)[0]
    if not raw.startswith("/") or re.search(r"%(?![0-9A-Fa-f]{2})", raw):
        return None
    plain = unquote_to_bytes(raw.encode())
    if b"\0" in plain:
        return None
    kept: list[str] = []
    segments = plain.decode("utf-8", "replace").split("/")[1:]
    for at, segment in enumerate(segments):
        ends = at == len(segments) - 1
        if segment == "..":
            if not kept:
                return None
            kept.pop()
        elif segment not in {"", "."}:
            kept.append(segment)
            continue
        if ends:
            return "/" + "".join(f"{one}/" for one in kept)
    return "/" + "/".join(kept)


# `fastcgi_split_path_info ^(.+?\.php)(/.*)$` (ngx_http_fastcgi_module), and RFC 3875 section 4.1.5: what follows the script in the path is
# the resource that the script is asked for. Symfony's `Request::getBasePath` takes the script's directory for the application's own place.
_SCRIPT: Final = r"(?i)^({}\.(?:php[0-9]?|phtml|cgi|fcgi|pl|py|aspx|cfm|do|jsp))(/.*)$"


def path_info(path: str) -> list[tuple[str, str]]:
    """What a script in the path is asked for, alone and below the script's directory, each with the directory."""
    found = []
    for some in (".+?", ".+"):
        split = re.match(_SCRIPT.format(some), path)
        if split is not None:
            directory = split[1].rpartition("/")[0]
            found += [(split[2], ""), (directory + split[2], directory)]
    return found


# Rails: `resources :photos` makes `/photos(.:format)`, and the router drops one slash at the end (Rails Guides, "Rails Routing", and
# ActionDispatch::Journey::Router::Utils.normalize_path).
def rails(path: str) -> str:
    """The path of which Rails looks for a route."""
    return re.sub(r"(/[^/.]+)\.[^/]+$", r"\1", "/" + re.sub("/+", "/", path).strip("/"))


# IIS URL Rewrite and Application Request Routing name the request's first path so, and Symfony, Laminas, Yii and others took it for the
# request's own: the whole value, or that of an address, or one of a list (RFC 9110 section 5.3). Windows knows no case.
def iis(asked: PathForm) -> list[str]:
    """The targets that a framework may take for the request's own."""
    found: list[str] = []
    for name in _OTHER_PATHS:
        values = [value for one, value in asked.heads if one == name]
        each = (*values, *(part.strip() for one in values for part in one.split(",")))
        found += [urlsplit(value).path if "://" in value else value for value in each]
    prefixes = [prefix for name, value in asked.heads if name in _PREFIXES for prefix in (value, *value.split(", "))]
    found += ["/" + asked.own.removeprefix(prefix).lstrip("/") for prefix in prefixes]
    return [one for one in found if one.startswith("/")]


def _read(asked: PathForm) -> Iterator[tuple[str, str | None]]:
    """The paths that somebody reads, and the directory below which a script reads one."""
    for target in (asked.own, *iis(asked)):
        path = nginx(target)
        if path is None:
            continue
        for one in (path, path.lower()):
            yield one, None
            yield rails(one), None
            for behind, directory in path_info(one):
                yield behind, directory
                yield rails(behind), directory


def _rule(rules: Mapping[str, str], path: str, directory: str | None = None) -> str:
    """What a rule asks of a plain path. Behind a script, only rules below its directory count: the others have judged the whole path."""
    fitting = [one for one in rules if _is_at(path, one) and (directory is None or not _is_at(directory or "/", one))]
    return rules[max(fitting, key=len)] if fitting else "signed_in" if directory is None else "open"


def _is_at(path: str, rule: str) -> bool:
    return rule in {"/", path} or path.startswith(f"{rule}/")


def _checked(rules: Mapping[str, str], asked: PathForm) -> set[str]:
    """What the check asks for, as the product reads the request."""
    said = [("x-forwarded-host", HOST), ("x-forwarded-uri", asked.own), *((name.lower(), value) for name, value in asked.heads)]
    headers = headers_by_name([(name.encode(), value.encode()) for name, value in said])
    target = proxied(Request("GET", "/proxy/check", b"", headers)).target
    return {str(one) for one in demands_of([parsed_rule(f"{path} {demand}") for path, demand in rules.items()], target).demands}


def _is_met(wanted: str, demands: set[str]) -> bool:
    if wanted == "open":
        return True
    return demands != {"open"} if wanted == "signed_in" else wanted in demands


def _letters(draw: Random, word: str) -> str:
    kind = draw.randrange(4)
    if kind < 2:
        return word
    return "".join(draw.choice([one, one.upper(), f"%{ord(one):02x}", f"%{ord(one.upper()):02X}"]) if one != "/" else one for one in word)


def _path(draw: Random) -> str:
    return f"{draw.choice(_HEADS)}/{_letters(draw, draw.choice(['admin', 'admin', 'cloud/admin', 'public', 'x']))}{draw.choice(_TAILS)}"


def _form(draw: Random) -> PathForm:
    own = _path(draw)
    kind = draw.randrange(8)
    if kind < 4:
        return PathForm(own)
    other = _path(draw)
    if kind == 4:
        prefix = draw.choice(["/x", "/public", "/index.php", "", "/", own[: draw.randrange(len(own))]])
        return PathForm(f"{prefix.rstrip('/')}{other}", [(draw.choice(_PREFIXES), prefix)])
    own = draw.choice(["/", "/x", "/public", "/7", other[draw.randrange(len(other)) :], own])
    host = draw.choice([HOST, HOST, "evil.example", f"{HOST}:8443"])
    value = draw.choice(
        [
            *(other, f"{other}?{own}", f"{other}{own}", f"{other}/{own}", f"{own}, {other}", f"{other},{own}", f"{own},{other}", own, ""),
            *(f"https://{host}{other}", f"https://{host}{own}", f"http://{host}{other}?{own}", f"https://{host}{own}, {other}"),
        ]
    )
    heads = [(draw.choice(_OTHER_PATHS), value)]
    return PathForm(own, heads + ([(heads[0][0], draw.choice([own, other, ""]))] if kind == 7 else []))


def _forms() -> list[PathForm]:
    draw = Random(77)  # noqa: S311 - the same every time
    return [_form(draw) for _ in range(FORMS)]


def test_none_of_five_thousand_forms_goes_round_what_others_read() -> None:
    round_it, judged = [], Counter[str]()
    for asked in _forms():
        for rules in RULES:
            demands = _checked(rules, asked)
            for path, directory in _read(asked):
                wanted = _rule(rules, path, directory)
                judged[wanted if directory is None else f"behind {wanted}"] += 1
                if not _is_met(wanted, demands):
                    round_it.append((asked, path, wanted, demands))
    assert round_it == [], (len(round_it), round_it[:10])
    # The forms reach what is guarded, each in many ways.
    for wanted in ("role boss", "behind role boss", "role chief", "behind role chief", "permission people", "behind permission people"):
        assert judged[wanted] > 200, judged


def test_the_forms_ask_no_more_than_they_must_of_plain_paths() -> None:
    """Else a check that refuses all would pass."""
    for rules in RULES[:3]:
        for path in ("/", "/x", "/x/y.js", "/public", "/public/a.css", "/page?x=/admin", "/administrator"):
            for heads in ((), [("X-Original-URL", path)], [("X-Forwarded-Path", f"https://{HOST}{path}")], [("X-Script-Name", "")]):
                assert _checked(rules, PathForm(path, heads)) == {_rule(rules, path.partition("?")[0])}, (path, heads)
    assert _checked(RULES[2], PathForm("/remote.php/dav/x")) == {"open"}
    assert _checked(RULES[2], PathForm("/static/jquery-3.6.0/x.js")) == {"open"}


_TELLING: Final = (
    "<?php header('Content-Type: application/json'); echo json_encode([$_SERVER['SCRIPT_NAME'], $_SERVER['PATH_INFO'] ?? '']);"
)
_SCRIPTS: Final = ("index.php", "a.php", "remote.php", "cloud/index.php", "cloud/a.php")


@needs("php")
async def test_none_goes_round_what_php_itself_reads(tmp_path: Path) -> None:
    """PHP's own server, with scripts at the places that the forms name."""
    for one in _SCRIPTS:
        script_file = tmp_path / "site" / one
        script_file.parent.mkdir(parents=True, exist_ok=True)
        script_file.write_text(_TELLING)
    judged, round_it, port = Counter[str](), [], free_port()
    command = (place_of("php"), "-n", "-S", f"127.0.0.1:{port}", "-t", str(tmp_path / "site"))
    async with running(*command, port=port, log=tmp_path / "log"):
        for own in sorted({asked.own for asked in _forms()}):
            told = await _told_by_php(port, own)
            if told is None:
                continue
            script, info = told
            directory = script.rpartition("/")[0]
            # Of a path without a script, PHP asks the `index.php` of the directory: that reads it as it stands.
            is_named = (nginx(own) or "").startswith(f"{script}/")
            below = [(info, ""), (directory + info, directory)] if is_named else [(directory + info, None)]
            read = [(one, of) for path, of in below for one in (path, rails(path))] if info else []
            for rules in RULES:
                demands = _checked(rules, PathForm(own))
                for path, of in read:
                    wanted = _rule(rules, path, of)
                    judged[wanted] += 1
                    if not _is_met(wanted, demands):
                        round_it.append((own, script, info, wanted, demands))
    assert round_it == [], (len(round_it), round_it[:10])
    assert judged["role boss"] > 200, judged
    assert judged["role chief"] > 50, judged


async def _told_by_php(port: int, target: str) -> tuple[str, str] | None:
    """The script and its PATH_INFO. None where PHP answers by itself, and for a target that no proxy takes."""
    if not target.isascii() or not target.isprintable() or " " in target:
        return None
    answer = b""
    with trio.fail_after(PATIENCE):
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(f"GET {target} HTTP/1.0\r\nHost: {HOST}\r\n\r\n".encode())
            while more := await stream.receive_some(65_536):
                answer += more
    head, _, body = answer.partition(b"\r\n\r\n")
    if b" 200 " not in head.partition(b"\r\n")[0]:
        return None
    script, info = json.loads(body)
    return script, info
