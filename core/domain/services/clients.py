"""Client IDs and redirect URIs of applications, as clients of OAuth."""

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final

from core.domain.errors import BadRequest
from core.domain.identifiers import ClientId, OrganizationId

LONGEST_CLIENT_ID: Final = 80
_OWN: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_KEPT: Final = re.compile(rf"[A-Za-z0-9._~-]{{8,{LONGEST_CLIENT_ID}}}")
# Whatever reads as a UUID is the id of some service here, or of one that will be made.
_UUID: Final = re.compile(r"-*(?:[0-9A-Fa-f]-*){32}")
_WEB: Final = "https://"
# A colon, which no kept client id has.
OPEN_CLIENT_IDS: Final = "open:"
LONGEST_OPEN_ID: Final = 1024
_PLACE: Final = "#"


def read_client_id(text: str) -> ClientId | None:
    """None for a text that no client id has. Of the spellings of a UUID, only the usual one counts."""
    return ClientId(text) if _OWN.fullmatch(text) or _may_be_kept(text) else None


def kept_client_id(text: str) -> ClientId:
    """Validates a client ID that an application keeps from another system, because its clients are configured with it. Every other
    application has a UUID of its own. Raises `BadRequest`.
    """
    if not _may_be_kept(text):
        raise BadRequest(f"client_id: must have 8 to {LONGEST_CLIENT_ID} letters, digits and . _ ~ -, and be no UUID")
    return ClientId(text)


def is_address(text: str) -> bool:
    """Whether a client id wants to be the address of a document."""
    return text.startswith(_WEB)


def is_open(text: str) -> bool:
    """Whether a client id wants to be that of an open client."""
    return text.startswith(OPEN_CLIENT_IDS)


def describes_itself(text: str) -> bool:
    """Whether a client id wants to be that of a metadata client."""
    return is_address(text) or is_open(text)


def placed(address: str, organization: OrganizationId) -> ClientId:
    """Returns the client ID of the application that a metadata client is in one organization. The client ID of a metadata client is the
    https URL of its document, or all that the client has stated about itself, signed by us (an open client,
    `core/domain/federation/open_registrations.py`). The same client is another application in each organization, so the application is
    stored under the client ID together with the organization's ID. Nobody can send this form, because no such client ID has a `#`: whoever
    names the client has to name an API, a code or a token, and that tells which organization it is.
    """
    return ClientId(f"{address}{_PLACE}{organization}")


def place_of(client: ClientId) -> str:
    """The organization's id in a placed client id, as a text."""
    return client.partition(_PLACE)[2]


def shown(client: ClientId) -> ClientId:
    """The client id as the client knows it, and as tokens name it."""
    return ClientId(client.partition(_PLACE)[0])


def document_host(client: ClientId) -> str | None:
    """The host of the document, with its port if it has one. None for a client without a document."""
    return client.split("/", 3)[2] if is_address(client) else None


def _may_be_kept(text: str) -> bool:
    return _KEPT.fullmatch(text) is not None and _UUID.fullmatch(text) is None


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
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
"""The hosts that are this very machine, whichever machine that is. Plain http is for them alone, and for no other spelling of them."""
LOOPBACK_ORIGIN: Final = rf"http://(?:{'|'.join(map(re.escape, sorted(LOOPBACK)))})"
"""A pattern: such an address up to its port."""
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
    """Validates a redirect URI, and returns it unchanged: it is compared byte for byte, so it is registered only if every browser reads it
    exactly as it is written. Its scheme must be https, http on this very machine, or with `private_use` a scheme of the application's own.
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
            f"{field}: has a character that a URI cannot have (RFC 3986), or a *: wildcards are not supported", words="uri_character"
        )
    found = _URI.fullmatch(text)
    if found is None:
        raise BadRequest(f"{field}: must begin with a lowercase scheme, such as https:", words="scheme_missing")
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
    if scheme == "http" and host not in LOOPBACK:
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
