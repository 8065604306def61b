"""Writes the guides of `docs/guides/start`: a page for each framework whose program we test, and one for all others. Their lines are those
that the console shows and the tests run, so nobody edits these pages: `.venv/bin/python -m ops.starts.guides`.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from entrypoints.http.console.organization.applications.making import (
    CHOSEN,
    LOCAL,
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


_CLAIMS: Final = "[Claims and scopes](../claims-and-scopes.md) lists the other claims that it can receive."
_PAGES: Final[Mapping[str, _Page]] = {
    "nextjs": _Page(
        "A Next.js application with NextAuth (Auth.js)",
        "Node.js 20.9 or later",
        "[Auth.js](../applications/auth-js.md) covers roles and sign-outs; [guards](../apis/guards.md) protect pages and an API.",
    ),
    "react": _Page(
        "A React single-page application (SPA) with Vite and oidc-client-ts",
        "Node.js 20.19 or later",
        "Its API validates the access token: [guards](../apis/guards.md).",
    ),
    "vue": _Page(
        "A Vue single-page application (SPA) with Vite and oidc-client-ts",
        "Node.js 20.19 or later",
        "Its API validates the access token: [guards](../apis/guards.md).",
    ),
    "fastapi": _Page(
        "A FastAPI application with Authlib",
        "Python 3.11 or later",
        "An API validates access tokens with a [guard](../apis/guards.md).",
    ),
    "django": _Page(
        "A Django project with django-allauth",
        "Python 3.11 or later",
        "[django-allauth](../applications/django-allauth.md) covers roles and sign-outs; [guards](../apis/guards.md) protect an API.",
    ),
    "flask": _Page(
        "A Flask application with Authlib",
        "Python 3.11 or later",
        "[Protect your app](../protect-your-app.md) continues with an API and back-channel logout.",
    ),
    "express": _Page(
        "An Express application with express-openid-connect",
        "Node.js 20 or later",
        "[express-openid-connect](../applications/express-openid-connect.md) covers roles and sign-outs.",
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
    yield f"In this guide you build {page.what[0].lower()}{page.what[1:]} that signs users in and out.\n"
    yield "**Tested**: `tests/e2e/starts` runs exactly this code and signs a user in.\n"
    yield "## Prerequisites\n"
    yield f"- {page.needs}"
    yield "- Postern: [`make run`](../../../README.md#60-seconds) starts it at `http://127.0.0.1:8000`\n"
    yield "## 1. Create the application\n"
    yield f"In the console of your organization, open **Applications** and choose **Create application**. Select **{framework.name}**"
    yield f"and enter a name. The redirect URI is filled in: `{framework.address}`."
    yield f"So is the initiate login URI, where **Open** starts the sign-in: `{LOCAL}{framework.initiates_at}`."
    yield "The next page shows the code of this guide with your own values, and **Copy all** copies it as one command.\n"
    yield "## 2. Install\n"
    yield "Run this in an empty directory. The variables contain the credentials of the application:\n"
    for place in ("environment", "install"):
        yield from _fenced(next(one for one in program if one.place == place))
    yield "## 3. Add the code\n"
    for one in program:
        if one.file:
            yield f"`{one.file}`:\n"
            yield from _fenced(one)
    yield "## 4. Run\n"
    yield from _fenced(next(one for one in program if one.place == "run"))
    yield "## 5. Verify\n"
    yield f"Open <{given.opens}> and choose **Sign in**. Postern redirects you back, and the page greets you by name.\n"
    yield "If the page after **Create application** is open in the same browser, it shows this first sign-in for up to ten minutes:"
    yield "the user, and the claims that the application received. If the sign-in fails, it shows the error.\n"
    yield "## Next steps\n"
    yield "- **Use `sub` as the key of your own data.** It is the permanent ID of the user; an email address can change."
    yield f"- {page.onward}"
    yield f"- {_CLAIMS}"
    yield "- If the application has another URL, change both URIs in the console, and set `APP_URL` if the code reads it."
    yield ""


def _untested() -> Iterator[str]:
    others = [one for one in CHOSEN.values() if not one.tested]
    yield "# Quickstarts for Spring, Rails, Laravel, Go, ASP.NET, Android and iOS\n"
    yield "**Untested**: no test has run this code, so review it before you use it. It follows the documentation of each library."
    yield "Any OpenID Connect library works: it needs the issuer, the client ID, the client secret and the redirect URI."
    yield "The console shows the code with your own values. For React Native and Flutter, the AppAuth libraries"
    yield "use the same values as Android and iOS below.\n"
    yield "Tested quickstarts: " + ", ".join(f"[{one.name}]({one.key}.md)" for one in TESTED) + ".\n"
    for one in others:
        yield f"## {one.name}\n"
        yield f"Untested. Redirect URI: `{one.address or 'com.example.app:/callback'}`.\n"
        for block in shown(one).program:
            told = {"environment": "Set in your shell:", "install": "Install:", "run": "Run:"}.get(block.place, f"`{block.place}`:")
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
