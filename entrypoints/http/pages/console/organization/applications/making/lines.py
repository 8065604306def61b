"""FrameworkLines for frameworks: what an application needs to sign people in, with the values of the application filled in.

Each framework has a file in `framework_lines`: blocks, each below a line `== ` with the file that it belongs into.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from core.domain.identity.sessions import Context
from core.frozen import Frozen

_HEAD: Final = "== "
_EXAMPLE: Final = "https://app.example.com"


class ApplicationKind(StrEnum):
    """What an application is, as people say it."""

    WEB = "web"
    """It has a server, which keeps a secret."""
    SPA = "spa"
    """It runs in the browser alone."""
    MOBILE = "mobile"
    DESKTOP = "desktop"
    DEVICE = "device"
    """It has no browser of its own, as a television has none."""
    MACHINE = "machine"
    """Nobody signs in: a program calls other programs."""
    SAML = "saml"
    PROXY = "proxy"
    """It signs nobody in itself: a reverse proxy in front of it asks us."""
    MCP = "mcp"
    """Clients of the Model Context Protocol, whose addresses are known."""

    @property
    def comes_back(self) -> bool:
        """Whether people come back to an address, which has to be known before anybody can sign in."""
        return self in {ApplicationKind.WEB, ApplicationKind.SPA, ApplicationKind.MOBILE, ApplicationKind.DESKTOP}


class Framework(Frozen):
    key: str
    name: str
    kinds: frozenset[ApplicationKind]
    comes_back_to: str = ""
    """The path of the sign-in address that the framework, or these lines, expect."""
    guide: str = ""
    """The name of the guide in `docs/guides/applications` that the lines follow."""


class LinesBlock(NamedTuple):
    place: str
    code: str


class FrameworkLines(NamedTuple):
    framework: Framework
    blocks: Sequence[LinesBlock]
    unregistered: str
    """The sign-in address that these lines use and the application lacks. Empty if it has it, or if they use the registered one."""


_WEB: Final = frozenset({ApplicationKind.WEB})
FRAMEWORKS: Final = (
    Framework("nextjs", "Next.js (Auth.js)", _WEB, "/api/auth/callback/postern", "auth-js"),
    Framework("django", "Django (allauth)", _WEB, "/accounts/oidc/postern/login/callback/", "django-allauth"),
    Framework("flask", "Flask (Authlib)", _WEB, "/callback"),
    Framework("fastapi", "FastAPI (Authlib)", _WEB, "/callback"),
    Framework("express", "Express", _WEB, "/callback", "express-openid-connect"),
    Framework("spring", "Spring Boot", _WEB, "/login/oauth2/code/postern"),
    Framework("rails", "Rails (OmniAuth)", _WEB, "/auth/postern/callback"),
    Framework("laravel", "Laravel (Socialite)", _WEB, "/auth/callback"),
    Framework("go", "Go (go-oidc)", _WEB, "/callback"),
    Framework("dotnet", "ASP.NET Core", _WEB, "/signin-oidc"),
    Framework("spa", "oidc-client-ts", frozenset({ApplicationKind.SPA})),
    Framework("android", "Android (AppAuth)", frozenset({ApplicationKind.MOBILE})),
    Framework("ios", "iOS (AppAuth)", frozenset({ApplicationKind.MOBILE, ApplicationKind.DESKTOP})),
    Framework("device", "curl", frozenset({ApplicationKind.DEVICE, ApplicationKind.DESKTOP})),
    Framework("machine", "curl", frozenset({ApplicationKind.MACHINE})),
    Framework("saml", "SAML", frozenset({ApplicationKind.SAML})),
    Framework("caddy", "Caddy", frozenset({ApplicationKind.PROXY})),
    Framework("nginx", "nginx", frozenset({ApplicationKind.PROXY})),
    Framework("mcp", "Cursor, VS Code, Gemini CLI", frozenset({ApplicationKind.MCP})),
)


class ApplicationValues(Frozen, kw_only=True):
    """The values of an application."""

    issuer: str
    organization: str
    service: str
    client_id: str
    redirect_uris: Sequence[str]
    client_secret: str
    """The secret right after it was made; later a word that stands for it."""
    access_token_alg: str

    @property
    def audience(self) -> str:
        """The audience of access tokens that stand for a person."""
        return Context(organization_slug=self.organization, service_slug=self.service).audience

    @property
    def own_audience(self) -> str:
        """The audience of access tokens that the application gets for itself."""
        return f"services:{self.organization}"

    @property
    def saml(self) -> str:
        """Our entity id for the application."""
        return f"{self.issuer}/saml/{self.organization}/{self.service}"


def lines(kind: ApplicationKind, values: ApplicationValues) -> Sequence[FrameworkLines]:
    return [_lines(framework, values) for framework in FRAMEWORKS if kind in framework.kinds]


def _lines(framework: Framework, values: ApplicationValues) -> FrameworkLines:
    first = values.redirect_uris[0] if values.redirect_uris else f"{_EXAMPLE}{framework.comes_back_to or '/callback'}"
    parts = urlsplit(first)
    origin = f"{parts.scheme}://{parts.netloc}" if parts.scheme in {"https", "http"} else _EXAMPLE
    filled: Mapping[str, str] = {
        "@ISSUER@": values.issuer,
        "@CLIENT_ID@": values.client_id,
        "@CLIENT_SECRET@": values.client_secret,
        "@SAML@": values.saml,
        "@SERVICE@": values.service,
        "@AUDIENCE@": values.audience,
        "@OWN_AUDIENCE@": values.own_audience,
        "@ALGORITHM@": values.access_token_alg,
        "@REDIRECT@": first,
        "@SCHEME@": parts.scheme,
        "@APP@": origin,
    }
    blocks = [LinesBlock(one.place, _filled(one.code, filled)) for one in _blocks(framework.key)]
    expected = f"{origin}{framework.comes_back_to}" if framework.comes_back_to else ""
    return FrameworkLines(framework, blocks, "" if expected in {"", *values.redirect_uris} else expected)


def _filled(code: str, filled: Mapping[str, str]) -> str:
    for name, value in filled.items():
        code = code.replace(name, value)
    return code


@cache
def _blocks(key: str) -> Sequence[LinesBlock]:
    source = files(f"{__package__}.framework_lines").joinpath(f"{key}.txt").read_text(encoding="utf-8")
    blocks = []
    for one in f"\n{source}".split(f"\n{_HEAD}")[1:]:
        place, _, code = one.partition("\n")
        blocks.append(LinesBlock(place, code.rstrip()))
    return blocks
