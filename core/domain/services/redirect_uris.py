"""Redirect URIs: the addresses to which a service may send its users back. They are compared byte for byte. So an address is registered
only if every browser reads it exactly as it is written.
"""

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final

from core.domain.errors import BadRequest

LONGEST_URI: Final = 2000

# RFC 3986 section 2, without the characters that look like wildcards. We have no wildcards.
_CHARACTERS: Final = re.compile(r"(?:[A-Za-z0-9._~!$&'()+,;=:@/?\[\]-]|%[0-9A-Fa-f]{2})*")
_URI: Final = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*):(?://(?P<authority>[^/?]*))?(?P<path>[^?]*)(?P<query>\?.*)?")
_AUTHORITY: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::(?P<port>[1-9][0-9]{0,4}))?")
_NAME: Final = re.compile(
    r"(?=.{1,253}\Z)[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*"
)
# Browsers read a host name with such an end as an IPv4 address in an odd notation (WHATWG URL, "ends in a number").
_LIKE_A_NUMBER: Final = re.compile(r"(?:.*\.)?(?:[0-9]+|0[xX][0-9A-Fa-f]*)")
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_LARGEST_PORT: Final = 65_535
_ENCODED_CONTROL: Final = re.compile(r"%(?:[01][0-9A-Fa-f]|7[Ff])")
_DOT_SEGMENT: Final = re.compile(r"(?:\.|%2[Ee]){1,2}")
# The reversed domain name of the application's maker (RFC 8252 section 7.1), or a short name such as `cursor`. A short name has no owner
# (section 8.4), but applications that nobody changes any more have one.
_PRIVATE_USE: Final = re.compile(r"[a-z][a-z0-9+-]{2,}|[a-z][a-z0-9+-]*(?:\.[a-z0-9+-]+)+")
# What browsers and operating systems themselves open: these run a script, read a file, send a message, or install a program. The second
# pattern is that of their families.
_TAKEN: Final = frozenset(
    (
        *(
            "about",
            "app",
            "blob",
            "data",
            "file",
            "filesystem",
            "javascript",
            "vbscript",
            "livescript",
            "mocha",
            "jar",
            "wyciwyg",
            "view-source",
        ),
        *("ftp", "ftps", "sftp", "gopher", "ldap", "ldaps", "imap", "pop", "nntp", "news", "snews", "telnet", "rlogin", "tn3270", "dict"),
        *("ssh", "git", "svn", "nfs", "smb", "cifs", "afp", "webdav", "dav", "vnc", "rdp", "wss", "ipp", "ipps", "rtsp", "rtmp", "mms"),
        *("mailto", "tel", "sms", "smsto", "mmsto", "callto", "sip", "sips", "facetime", "facetime-audio", "xmpp", "irc", "ircs", "im"),
        *("urn", "tag", "cid", "mid", "geo", "maps", "market", "intent", "content", "package", "android-app", "ios-app", "magnet", "feed"),
        *("itms", "itms-apps", "itms-services", "shortcuts", "workflow", "prefs", "app-settings", "app-prefs", "shell", "search", "hcp"),
        *("help", "res", "resource", "local", "onenote", "outlook", "calculator", "bingmaps", "webcal", "acrobat", "steam", "applescript"),
    )
)
_OF_SYSTEMS: Final = re.compile(r"(?:ms-|x-apple|chrome|moz-|microsoft-|windows|web\+|search-).*|[^.]*(?:script|extension)")


def redirect_uri(text: str, field: str, *, private_use: bool) -> str:
    """The address, unchanged. Its scheme must be https, http on this very machine, or with `private_use` a scheme of the application's own.
    Raises `BadRequest`, which names the field.
    """
    scheme, authority, path = _parts(text, field)
    if scheme in {"https", "http"}:
        _require_web(scheme, authority, path, field)
    elif not private_use:
        raise BadRequest(
            f"{field}: must begin with https://, or with http:// on localhost, 127.0.0.1 or [::1]{_ELSE if _is_own(scheme) else ''}",
            words="redirect_https",
        )
    elif not _is_own(scheme):
        raise BadRequest(
            f"{field}: an application's own scheme is a name that no system has, best as in com.example.app:/callback", words="own_scheme"
        )
    elif not path.startswith("/") and not authority:
        raise BadRequest(f"{field}: a path must follow the scheme, as in com.example.app:/callback", words="scheme_path")
    elif authority and not _AUTHORITY.fullmatch(authority):
        raise BadRequest(f"{field}: the host is not valid", words="web_address")
    return text


def _is_own(scheme: str) -> bool:
    return _PRIVATE_USE.fullmatch(scheme) is not None and scheme not in _TAKEN and not _OF_SYSTEMS.fullmatch(scheme)


_ELSE: Final = "; applications with a scheme of their own are of the type mobile or desktop"


def web_page(text: str, field: str) -> str:
    """The address, unchanged. Its scheme must be https, or http on this very machine. Raises `BadRequest`, which names the field."""
    return redirect_uri(text, field, private_use=False)


def _parts(text: str, field: str) -> tuple[str, str | None, str]:
    """Scheme, authority and path. The authority is None when there is none."""
    if len(text) > LONGEST_URI:
        raise BadRequest(f"{field}: at most {LONGEST_URI} characters", words="text_too_long", values={"most": LONGEST_URI})
    if "#" in text:
        raise BadRequest(f"{field}: must not have a fragment", words="no_fragment")
    if not _CHARACTERS.fullmatch(text) or _ENCODED_CONTROL.search(text):
        raise BadRequest(
            f"{field}: has a character that a URI cannot have (RFC 3986), or a *, which is no wildcard here", words="uri_character"
        )
    found = _URI.fullmatch(text)
    if found is None:
        raise BadRequest(f"{field}: must begin with a scheme in lower case, such as https:", words="scheme_missing")
    authority, path = found["authority"], found["path"]
    if authority is not None and "@" in authority:
        raise BadRequest(f"{field}: must not contain a user name or password", words="no_password_in_address")
    if "[" in path or "]" in path or any(map(_DOT_SEGMENT.fullmatch, path.split("/"))):
        raise BadRequest(f"{field}: the path must not contain brackets, or segments of one or two dots", words="web_address")
    return found["scheme"], authority, path


def _require_web(scheme: str, authority: str | None, path: str, field: str) -> None:
    found = _AUTHORITY.fullmatch(authority or "")
    if found is None or (path and not path.startswith("/")):
        raise BadRequest(f"{field}: before the path there must be a host, a port if needed, and nothing else", words="web_address")
    host, port = found["host"], found["port"]
    if port is not None and int(port) > _LARGEST_PORT:
        raise BadRequest(f"{field}: the port must be at most {_LARGEST_PORT}", words="web_address")
    if scheme == "http" and host not in _LOOPBACK:
        raise BadRequest(f"{field}: http is only for localhost, 127.0.0.1 and [::1]", words="http_local_only")
    if not _is_host(host):
        raise BadRequest(f"{field}: the host is not valid", words="web_address")


def _is_host(host: str) -> bool:
    try:
        if host.startswith("["):
            IPv6Address(host[1:-1])
        elif _LIKE_A_NUMBER.fullmatch(host):
            IPv4Address(host)
    except AddressValueError:
        return False
    return host.startswith("[") or _NAME.fullmatch(host) is not None
