"""What developers of an application copy: lines for frameworks, its values, and the redirect addresses of MCP clients.

Lines for frameworks: what an application needs to sign people in, with the values of the application filled in.

Each framework has a file in `framework_lines`: blocks, each below a line `== ` with what it is. A block `environment` names the variables
that the program reads, `install` and `run` are for a shell, `access token validation` is for the API, and every other one is the
content of the file that its line names. A tested framework has a whole program: tests/starts runs it as it stands, and the guides of
docs/guides/start show the same blocks.

The redirect addresses of MCP clients that name themselves by no metadata document: each client's own, exactly as it publishes and sends
them. An application with these is public and installed on people's devices, so the ports of addresses on the device itself do not count.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from core.domain.federation.oauth.oidc import AUTHORIZATION_ENDPOINT, END_SESSION_ENDPOINT, JWKS, TOKEN_ALIAS, USERINFO_ENDPOINT
from core.domain.identity.sessions import Context
from core.frozen import Frozen
from entrypoints.http.console.kit.cells import Cell
from entrypoints.http.console.kit.visit import PageVisit

_HEAD: Final = "== "
_EXAMPLE: Final = "https://app.example.com"
LOCAL: Final = "http://localhost:3000"
"""Where a framework's program runs on the developer's machine. It is not the host of a Postern there, so that cookies stay apart."""
CHECKS: Final = "access token validation"


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
    initiates_at: str = ""
    """The path at which these lines begin a sign-in when somebody asks for it elsewhere."""
    tested: bool = False
    """Whether a test runs the lines as they stand. Others say that they are untested."""

    @property
    def address(self) -> str:
        """The sign-in address of its program on the developer's machine. Empty if the lines use whichever is registered."""
        return f"{LOCAL}{self.comes_back_to}" if self.comes_back_to else ""

    @property
    def kind(self) -> ApplicationKind:
        return min(self.kinds, key=list(ApplicationKind).index)

    @property
    def untested(self) -> bool:
        """Whether the lines owe a test. Those for whoever has no framework at all name endpoints and addresses, not a program; those of
        proxies are the guides' own, which a test runs.
        """
        return not self.tested and self.key not in {"device", "machine", "saml", "mcp"} and self.kinds != _PROXY


class LinesBlock(NamedTuple):
    place: str
    """`environment`, `install`, `run`, or the name of a file."""
    code: str

    @property
    def file(self) -> str:
        """The name of the file that the block is. Empty for what a shell runs, and for what belongs to another program."""
        return "" if self.place in {"environment", "install", "run", "shell"} or " " in self.place else self.place


class FrameworkLines(NamedTuple):
    framework: Framework
    blocks: Sequence[LinesBlock]
    unregistered: str
    """The sign-in address that these lines use and the application lacks. Empty if it has it, or if they use the registered one."""
    opens: str
    """The address where one sees the program once it runs."""

    @property
    def program(self) -> Sequence[LinesBlock]:
        """The blocks that make the program, without access token validation, which runs elsewhere."""
        return [one for one in self.blocks if not one.place.startswith(CHECKS)]


_WEB: Final = frozenset({ApplicationKind.WEB})
_SPA: Final = frozenset({ApplicationKind.SPA})
_EXAMPLE_HOST: Final = "wiki.example.com"
_PROXY: Final = frozenset({ApplicationKind.PROXY})
FRAMEWORKS: Final = (
    Framework("nextjs", "Next.js", _WEB, "/api/auth/callback/postern", "/sign-in", tested=True),
    Framework("express", "Express", _WEB, "/callback", "/login", tested=True),
    Framework("flask", "Flask", _WEB, "/callback", "/sign-in", tested=True),
    Framework("fastapi", "FastAPI", _WEB, "/callback", "/sign-in", tested=True),
    Framework("django", "Django", _WEB, "/accounts/oidc/postern/login/callback/", "/accounts/oidc/postern/login/", tested=True),
    Framework("react", "React", _SPA, "/callback", "/sign-in", tested=True),
    Framework("vue", "Vue", _SPA, "/callback", "/sign-in", tested=True),
    Framework("spring", "Spring Boot", _WEB, "/login/oauth2/code/postern"),
    Framework("rails", "Rails", _WEB, "/auth/postern/callback"),
    Framework("laravel", "Laravel", _WEB, "/auth/callback"),
    Framework("go", "Go", _WEB, "/callback"),
    Framework("dotnet", "ASP.NET Core", _WEB, "/signin-oidc"),
    Framework("spa", "oidc-client-ts", _SPA),
    Framework("android", "Android (AppAuth)", frozenset({ApplicationKind.MOBILE})),
    Framework("ios", "iOS (AppAuth)", frozenset({ApplicationKind.MOBILE, ApplicationKind.DESKTOP})),
    Framework("device", "curl", frozenset({ApplicationKind.DEVICE, ApplicationKind.DESKTOP})),
    Framework("machine", "curl", frozenset({ApplicationKind.MACHINE})),
    Framework("saml", "SAML", frozenset({ApplicationKind.SAML})),
    Framework("caddy", "Caddy", _PROXY),
    Framework("nginx", "nginx", _PROXY),
    Framework("traefik", "Traefik", _PROXY),
    Framework("mcp", "Cursor, VS Code, Gemini CLI", frozenset({ApplicationKind.MCP})),
)
CHOSEN: Final[Mapping[str, Framework]] = {
    one.key: one for one in FRAMEWORKS if one.key not in list(ApplicationKind) and one.kinds != _PROXY
}
"""The frameworks that one names when one makes an application. Each answers what the application is, and where people come back to."""


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
    session_secret: str = ""
    """A new secret of the application's own, which signs its sessions. We keep it nowhere."""

    @property
    def origin(self) -> str:
        """The address of the application itself."""
        parts = urlsplit(next(iter(self.redirect_uris), ""))
        return f"{parts.scheme}://{parts.netloc}" if parts.scheme in {"https", "http"} else ""

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables of the application's environment. All our lines and guides call them so."""
        return {
            "OIDC_ISSUER": self.issuer,
            "OIDC_CLIENT_ID": self.client_id,
            "OIDC_CLIENT_SECRET": self.client_secret,
            "APP_URL": self.origin or _EXAMPLE,
            "SESSION_SECRET": self.session_secret,
        }

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


def lines(kind: ApplicationKind, values: ApplicationValues, chosen: str = "") -> Sequence[FrameworkLines]:
    """Those of the chosen framework first."""
    return [_lines(one, values) for one in sorted(FRAMEWORKS, key=lambda one: one.key != chosen) if kind in one.kinds]


def _lines(framework: Framework, values: ApplicationValues) -> FrameworkLines:
    first = values.redirect_uris[0] if values.redirect_uris else f"{_EXAMPLE}{framework.comes_back_to or '/callback'}"
    parts = urlsplit(first)
    origin = values.origin or _EXAMPLE
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
        "@HOST@": urlsplit(values.origin).netloc or _EXAMPLE_HOST,
        # Whatever stands before an application at https leads to this port.
        "@PORT@": str((parts.scheme == "http" and parts.port) or urlsplit(LOCAL).port),
    }
    blocks = [LinesBlock(one.place, _filled(one, values.environment, filled)) for one in _blocks(framework.key)]
    expected = f"{origin}{framework.comes_back_to}" if framework.comes_back_to else ""
    return FrameworkLines(framework, blocks, "" if expected in {"", *values.redirect_uris} else expected, origin)


def _filled(block: LinesBlock, environment: Mapping[str, str], filled: Mapping[str, str]) -> str:
    if block.place == "environment":
        return "\n".join(f"export {name}={environment[name]}" for name in block.code.split())
    code = block.code
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


def client_values(visit: PageVisit, values: ApplicationValues) -> Sequence[tuple[str, Cell]]:
    """For OpenID Connect."""
    issuer = values.issuer
    named = (
        ("client_id", values.client_id),
        ("issuer", issuer),
        ("discovery", f"{issuer}/.well-known/openid-configuration"),
    )
    return [(visit.text(f"console.application.{name}"), Cell("copy", value)) for name, value in named]


def token_values(visit: PageVisit, values: ApplicationValues) -> Sequence[tuple[str, Cell]]:
    """What a program that checks access tokens has to be told."""
    named = (
        ("issuer", values.issuer),
        ("audience", values.audience),
        ("own_audience", values.own_audience),
        ("algorithm", values.access_token_alg),
        ("jwks", f"{values.issuer}{JWKS}"),
    )
    return [(visit.text(f"console.application.{name}"), Cell("copy", value)) for name, value in named]


def endpoint_values(visit: PageVisit, values: ApplicationValues) -> Sequence[tuple[str, Cell]]:
    """The addresses that a library finds in the discovery document by itself."""
    issuer = values.issuer
    named = (
        ("authorization_endpoint", f"{issuer}{AUTHORIZATION_ENDPOINT}"),
        ("token_endpoint", f"{issuer}{TOKEN_ALIAS}"),
        ("userinfo_endpoint", f"{issuer}{USERINFO_ENDPOINT}"),
        ("jwks", f"{issuer}{JWKS}"),
        ("end_session_endpoint", f"{issuer}{END_SESSION_ENDPOINT}"),
    )
    return [(visit.text(f"console.application.{name}"), Cell("copy", value)) for name, value in named]


PUBLISHED_REDIRECTS: Final[Mapping[str, Sequence[str]]] = {
    "Cursor": (
        "cursor://anysphere.cursor-mcp/oauth/callback",
        "https://www.cursor.com/agents/mcp/oauth/callback",
        "http://localhost:8787/callback",
    ),
    "VS Code": (
        "https://vscode.dev/redirect",
        "https://insiders.vscode.dev/redirect",
        "http://127.0.0.1:33418/",
        "http://127.0.0.1/",
    ),
    "Gemini CLI": ("http://localhost:7777/oauth/callback",),
    "mcp-remote": ("http://localhost:3334/oauth/callback",),
    # Its pages, and its command line.
    "MCP Inspector": ("http://localhost:6274/oauth/callback", "http://127.0.0.1:6276/oauth/callback"),
    "FastMCP": ("http://localhost/callback",),
}
REDIRECT_URIS: Final = tuple(address for addresses in PUBLISHED_REDIRECTS.values() for address in addresses)
