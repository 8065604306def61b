"""Redirects: the answer to an authorization request goes to an address that the service has registered, or nowhere."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final
from urllib.parse import urlencode

from core.frozen import Frozen

# RFC 8252 section 7.3. RFC 9700 section 2.1 treats `localhost` like the loopback addresses.
_LOOPBACK: Final = re.compile(r"(?P<host>http://(?:localhost|127\.0\.0\.1|\[::1\]))(?::(?P<port>[1-9][0-9]{0,4}))?(?P<rest>(?:[/?].*)?)")
_LARGEST_PORT: Final = 65_535
_WEB: Final = "https://"


class ResponseMode(StrEnum):
    """The way in which an answer travels (OAuth 2.0 Multiple Response Type Encoding Practices, and Form Post Response Mode)."""

    QUERY = "query"
    FORM_POST = "form_post"
    CODE_IN_FRAGMENT = "code_fragment"
    """A code in the fragment, which browsers send to no server. Applications ask for it as `fragment`, and must use PKCE: any script of
    the page can read a fragment.
    """
    FRAGMENT = "fragment"
    """The fragment has the tokens themselves. Only for direct requests to a provider, and never as an authorization request asks."""


ASKED_MODES: Final[Mapping[str, ResponseMode]] = {
    "query": ResponseMode.QUERY,
    "form_post": ResponseMode.FORM_POST,
    "fragment": ResponseMode.CODE_IN_FRAGMENT,
}
"""The words of authorization requests."""


class Recipient(Frozen):
    """The receiver of the answer to a request, and how the answer travels. The service has registered the address."""

    redirect_uri: str
    response_mode: ResponseMode = ResponseMode.QUERY
    state: str | None = None

    def answered(self, issuer: str, fields: Mapping[str, str]) -> "Answered":
        """Every answer carries the issuer (RFC 9207), so that a client with several providers notices when two are mixed up."""
        state = {} if self.state is None else {"state": self.state}
        return Answered(self.redirect_uri, self.response_mode, {**fields, **state, "iss": issuer})


class Answered(Frozen):
    """An answer on its way to the client."""

    redirect_uri: str
    response_mode: ResponseMode
    fields: Mapping[str, str]
    recorded_as: str = ""
    """Of a refusal: the reason that it names for those who look after the application."""

    @property
    def url(self) -> str:
        """The address with the answer in its fragment, or in its query, after the query that was registered."""
        if self.response_mode in {ResponseMode.FRAGMENT, ResponseMode.CODE_IN_FRAGMENT}:
            return f"{self.redirect_uri}#{urlencode(self.fields)}"
        return with_query(self.redirect_uri, self.fields)


def with_query(uri: str, fields: Mapping[str, str]) -> str:
    """The registered address, with the fields added to its query."""
    if not fields:
        return uri
    separator = "" if uri.endswith(("?", "&")) else "&" if "?" in uri else "?"
    return f"{uri}{separator}{urlencode(fields)}"


def is_registered(uri: str, registered: Sequence[str], *, native: bool) -> bool:
    """Whether an address matches a registered one, byte for byte. `native` says that the application is installed on people's devices. Then
    an address on the device itself may have any port: such an application takes a free port (RFC 8252 section 7.3). An application without
    any other address is installed on the device, too, whatever it says.
    """
    any_port = native or all(map(_LOOPBACK.fullmatch, registered))
    return any(uri == one or (any_port and _differ_in_port(uri, one)) for one in registered)


def without_port(uri: str) -> str:
    """The address without its port, if it lies on the device itself: there, any port is as good. Any other address is unchanged."""
    here = _LOOPBACK.fullmatch(uri)
    return uri if here is None else here["host"] + here["rest"]


def proves_nothing(redirect_uri: str) -> bool:
    """Whether any program on the person's device could receive answers at this address. Then the application may be another one than it
    says (RFC 8252 section 8.6). An https address proves its owner.
    """
    return not redirect_uri.startswith(_WEB)


def destination(redirect_uri: str) -> str:
    """The target of the redirect, for people: the host, or the scheme of an application on the device."""
    scheme, _, rest = redirect_uri.partition(":")
    if not rest.startswith("//"):
        return scheme
    host = re.split(r"[/?]", rest[2:], maxsplit=1)[0]
    return host if scheme in {"https", "http"} else f"{scheme}://{host}"


def after_logout(post_logout: Sequence[str], redirect_uris: Sequence[str]) -> Sequence[str]:
    """The addresses to which a service may send people after they have signed out. A service that registers none may
    use its redirect URIs.
    """
    return post_logout or redirect_uris


def _differ_in_port(given: str, registered: str) -> bool:
    """Whether both addresses lie on the device itself and differ at most in the port. The host must be the same: `localhost` may resolve to
    something else than `127.0.0.1`.
    """
    here, there = _LOOPBACK.fullmatch(given), _LOOPBACK.fullmatch(registered)
    if here is None or there is None or (here["host"], here["rest"]) != (there["host"], there["rest"]):
        return False
    return here["port"] is None or int(here["port"]) <= _LARGEST_PORT
