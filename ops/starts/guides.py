"""Writes the guides of `docs/guides/start`: a page for each framework whose program we test, and one for all others. Their lines are those
that the console shows and the tests run, so nobody edits these pages: `.venv/bin/python -m ops.starts.guides`.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from entrypoints.http.pages.console.organization.applications.making import (
    CHOSEN,
    ApplicationValues,
    Framework,
    FrameworkLines,
    LinesBlock,
    lines,
)

ROOT: Final = Path(__file__).resolve().parent.parent.parent
GUIDES: Final = ROOT / "docs" / "guides" / "start"
UNTESTED: Final = "untested"
TESTED: Final = [CHOSEN[key] for key in ("nextjs", "react", "vue", "fastapi", "django", "flask", "express")]
"""In the order of the site's start page."""
_LANGUAGES: Final = {"mjs": "js", "jsx": "jsx", "js": "js", "py": "python", "vue": "html", "html": "html"}


class _Page(NamedTuple):
    what: str
    needs: str
    onward: str


_CLAIMS: Final = "[Claims and scopes](../claims-and-scopes.md) says what else it learns of people."
_PAGES: Final[Mapping[str, _Page]] = {
    "nextjs": _Page(
        "A Next.js application with NextAuth (Auth.js)",
        "Node.js 20.9 or later",
        "[Auth.js](../applications/auth-js.md) has roles and sign-outs; [guards](../apis/guards.md) protect pages and an API.",
    ),
    "react": _Page(
        "A React application without a server of its own, with Vite and oidc-client-ts",
        "Node.js 20.19 or later",
        "Its own API checks the access token: [guards](../apis/guards.md).",
    ),
    "vue": _Page(
        "A Vue application without a server of its own, with Vite and oidc-client-ts",
        "Node.js 20.19 or later",
        "Its own API checks the access token: [guards](../apis/guards.md).",
    ),
    "fastapi": _Page(
        "A FastAPI application with Authlib",
        "Python 3.11 or later",
        "An API that checks access tokens has a [guard](../apis/guards.md).",
    ),
    "django": _Page(
        "A Django project with django-allauth",
        "Python 3.11 or later",
        "[django-allauth](../applications/django-allauth.md) has roles and sign-outs; [guards](../apis/guards.md) protect an API.",
    ),
    "flask": _Page(
        "A Flask application with Authlib",
        "Python 3.11 or later",
        "[Protect your app](../protect-your-app.md) goes on with an API and with sign-outs that come from elsewhere.",
    ),
    "express": _Page(
        "An Express application with express-openid-connect",
        "Node.js 20 or later",
        "[express-openid-connect](../applications/express-openid-connect.md) has roles and sign-outs.",
    ),
}


def pages() -> Mapping[str, str]:
    """The text of each page, by its name."""
    return {**{one.key: "\n".join(_guide(one)) for one in TESTED}, UNTESTED: "\n".join(_untested())}


def shown(framework: Framework) -> FrameworkLines:
    """The lines with the values that the guides have."""
    values = ApplicationValues(
        issuer="http://127.0.0.1:8000",
        organization="acme",
        service="board",
        client_id="YOUR-CLIENT-ID",
        redirect_uris=[framework.address] if framework.address else [],
        client_secret="YOUR-CLIENT-SECRET",  # noqa: S106 - a word that stands for it
        access_token_alg="ES256",  # noqa: S106 - an algorithm
        session_secret="$(openssl rand -hex 32)",  # noqa: S106 - a command that makes it
    )
    return next(one for one in lines(framework.kind, values) if one.framework == framework)


def _guide(framework: Framework) -> Iterator[str]:
    page, given = _PAGES[framework.key], shown(framework)
    program = given.program
    yield f"# Sign in with {framework.name} in five minutes\n"
    yield f"{page.what} that signs people in and out. You need {page.needs}, and a Postern:"
    yield "[`make run`](../../../README.md#60-seconds) starts one at `http://127.0.0.1:8000`.\n"
    yield "**Tested**: `tests/e2e/starts` runs these lines as they stand and signs a person in.\n"
    yield "## 1. Add the application\n"
    yield f"In the console of your organization, under Applications, add an application: choose **{framework.name}** and give it"
    yield f"a name. Its address is filled in: `{framework.address}`. The page behind it shows the lines"
    yield "of this guide with your own values, and **Copy all** makes one paste of them.\n"
    yield "## 2. Install\n"
    yield "In an empty folder. The variables tell the program who it is:\n"
    for place in ("environment", "install"):
        yield from _fenced(next(one for one in program if one.place == place))
    yield "## 3. Paste\n"
    for one in program:
        if one.file:
            yield f"`{one.file}`:\n"
            yield from _fenced(one)
    yield "## 4. Run\n"
    yield from _fenced(next(one for one in program if one.place == "run"))
    yield "## 5. See\n"
    yield f"Open <{given.opens}> and press **Sign in**. You come back from Postern, and the page greets you by name.\n"
    yield "The page behind **Add the application**, open in the same browser for up to ten minutes, shows this first sign-in by"
    yield "itself: the person, and the claims that the program learned. Until then it shows what went wrong.\n"
    yield "## Go on\n"
    yield "- **Keep your own data by `sub`**, the person's id. An address can change."
    yield f"- {page.onward}"
    yield f"- {_CLAIMS}"
    yield "- At another address, register that one in the console, and set `APP_URL` if the program reads it."
    yield ""


def _untested() -> Iterator[str]:
    others = [one for one in CHOSEN.values() if not one.tested]
    yield "# Lines for Spring, Rails, Laravel, Go, ASP.NET, Android and iOS\n"
    yield "**Untested**: nobody has run these lines here, so read them before you use them. They follow the documentation of each"
    yield "library. Any library for OpenID Connect works: it needs the issuer, the client id, the client secret and the address"
    yield "that people come back to. The console shows the lines with your own values. For React Native and Flutter, the libraries of"
    yield "AppAuth take the same values as Android and iOS below.\n"
    yield "Programs that a test runs: " + ", ".join(f"[{one.name}]({one.key}.md)" for one in TESTED) + ".\n"
    for one in others:
        yield f"## {one.name}\n"
        yield f"Untested. People come back to `{one.address or 'com.example.app:/callback'}`.\n"
        for block in shown(one).program:
            told = {"environment": "In your shell:", "install": "Install:", "run": "Run it:"}.get(block.place, f"`{block.place}`:")
            yield f"{told}\n"
            yield from _fenced(block)


def _fenced(block: LinesBlock) -> Iterator[str]:
    language = _LANGUAGES.get(block.file.rpartition(".")[2], "text") if block.file else "sh"
    yield f"```{language}\n{block.code}\n```\n"


def main() -> None:
    GUIDES.mkdir(exist_ok=True)
    for name, text in pages().items():
        (GUIDES / f"{name}.md").write_text(text)


if __name__ == "__main__":
    main()
