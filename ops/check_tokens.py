"""Tries the libraries of `docs/guides/programs/check-access-tokens.md` with access tokens of a Postern that is deleted at the end:

.venv/bin/python -m ops.check_tokens
.venv/bin/python -m ops.check_tokens --keep /var/tmp/tokens    keeps the libraries for the next run

The libraries come from where pip and npm are set up to fetch them, so CI does not run this.
"""

import argparse
import secrets
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx

from core.domain.federation.oauth.authorization_codes import code_challenge
from core.domain.secrets import Token
from ops.browser.page_reader import PageReader
from ops.guides.pages import ROOT, Page
from ops.guides.tenants import tenant
from ops.guides.trying import Trial, node_packages, python_packages, require

PAGE: Final = Page("check-access-tokens", ROOT / "docs" / "guides" / "programs")
PYTHON_PACKAGES: Final = ("pyjwt[crypto]==2.15.1", "fastmcp==4.2.3")
NODE_PACKAGES: Final = ("jose@6.2.18",)
TOOLS: Final = "https://tools.example.org"
"""The address of the MCP server on the page."""
_VERIFY: Final = (
    "import asyncio, sys, checking; print(getattr(asyncio.run(checking.auth.verify_token(sys.argv[1])), 'claims', {}).get('sub'))"
)
_CALL: Final = """
import asyncio, sys
from fastmcp import Client

async def call():
    async with Client(sys.argv[1], auth="oauth") as client:
        print((await client.call_tool("who_am_i")).data)

asyncio.run(call())
"""


class Proof:
    """A verifier of RFC 7636, and its challenge."""

    def __init__(self) -> None:
        self.verifier = secrets.token_urlsafe(32)
        self.challenge = {"code_challenge": code_challenge(Token(self.verifier)), "code_challenge_method": "S256"}


def attempt(trial: Trial) -> None:
    trial.set_up(TOOLS)
    ada, python = trial.tenant.ada, trial.program("python")
    print(f"PyJWT {trial.version('pyjwt')}, jose {trial.node_version('jose')}, FastMCP {trial.version('fastmcp')}")
    token = access_token(trial, trial.exported["OIDC_CLIENT_ID"], trial.exported["OIDC_CLIENT_SECRET"])
    other = access_token(trial, *other_service(trial))
    altered = f"{token[:-6]}{'AAAAAA' if token[-6:] != 'AAAAAA' else 'BBBBBB'}"
    for name, command in (("PyJWKClient", (python, "check.py")), ("jose", ("node", "check.mjs"))):
        require(trial.run(*command, token).strip() == ada.id, f"{name} takes the token, and names the person")
        require(refuses(trial, *command, altered), f"{name} refuses a token that was altered")
        require(refuses(trial, *command, other), f"{name} refuses a token that is for another service")
    require(trial.run(python, "-c", _VERIFY, token).strip() == ada.id, "JWTVerifier takes the token, and names the person")
    for told, wrong in (("that was altered", altered), ("that is for another service", other)):
        require(trial.run(python, "-c", _VERIFY, wrong).strip() == "None", f"JWTVerifier refuses a token {told}")
    trial.start(
        *(trial.program("fastmcp"), "run", "signing_in.py", "--transport", "http", "--host", "127.0.0.1", "--port", str(trial.port)),
        ready="/.well-known/oauth-authorization-server",
    )
    require(httpx.post(f"{trial.at}/mcp", json={}).status_code == 401, "OIDCProxy refuses a request without a token")
    require(called_by_fastmcp(trial).strip() == ada.id, "OIDCProxy registers FastMCP's client, and the tool names the person")


def other_service(trial: Trial) -> tuple[str, str]:
    """The client id and client secret of another service of the organization, whose tokens have the same signature."""
    ask, services = trial.tenant.ada.ask, "/api/organizations/acme/services"
    back = [f"{trial.at}/auth/callback"]
    wanted = {"slug": "other", "name": "Other", "service_type": "web", "sign_in_policy": "members", "redirect_uris": back}
    made = ask("POST", services, {**wanted, "access_token_alg": "RS256"})
    return made["service"]["client_id"], ask("POST", f"{services}/other/client-secrets")["client_secret"]


def access_token(trial: Trial, client: str, client_secret: str) -> str:
    """The access token that a service gets for Ada."""
    proof, back = Proof(), f"{trial.at}/auth/callback"
    asked = {"response_type": "code", "client_id": client, "redirect_uri": back, "scope": "openid email", **proof.challenge}
    came = trial.browser(trial.tenant.ada).arrive(f"{trial.tenant.issuer}/oauth/authorize?{urlencode(asked)}", back)
    given = _exchanged(
        f"{trial.tenant.issuer}/oauth/token",
        came,
        redirect_uri=back,
        client_id=client,
        client_secret=client_secret,
        code_verifier=proof.verifier,
    )
    return str(given["access_token"])


def called_by_fastmcp(trial: Trial) -> str:
    """What the tool answers to FastMCP's own client, which registers itself at the MCP server, and through which Ada signs in."""
    theirs = trial.browser(trial.tenant.ada)
    with trial.talking(trial.program("python"), "-c", _CALL, f"{trial.at}/mcp", BROWSER="echo Open %s") as said:
        _, _, address = said.readline().strip().partition("Open ")
        require(address, "FastMCP's client opens a browser")
        consent = theirs.client.get(theirs.arrive(address, f"{trial.at}/consent"))
        form = PageReader(consent.content).forms[0]
        allowed = theirs.client.post(consent.url.join(form.action), data={**form.fields, "action": "approve"})
        back = theirs.arrive(allowed.headers["Location"], f"{trial.at}/auth/callback")
        theirs.client.get(theirs.arrive(back, "http://localhost:"))
        return said.read()


def refuses(trial: Trial, *command: str | Path) -> bool:
    try:
        trial.run(*command)
    except SystemExit:
        return True
    return False


def _exchanged(endpoint: str, came: str, **fields: str) -> dict[str, Any]:
    (code,) = parse_qs(urlsplit(came).query)["code"]
    answer = httpx.post(endpoint, data={"grant_type": "authorization_code", "code": code, **fields})
    require(answer.is_success, f"{urlsplit(endpoint).path} exchanges the code: {answer.status_code}")
    found: dict[str, Any] = answer.json()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="ops.check_tokens", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY", help="where the libraries stay for the next run")
    given = parser.parse_args()
    with ExitStack() as opened:
        temporary = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="postern-tokens-", ignore_cleanup_errors=True)))
        installed = (given.keep or temporary / "packages").resolve()
        python_packages(installed, PYTHON_PACKAGES)
        node_packages(installed, NODE_PACKAGES)
        place = temporary / "programs"
        place.mkdir()
        trial = Trial(PAGE, opened.enter_context(tenant()), installed, place, opened)
        try:
            attempt(trial)
        except BaseException:
            print(trial.log()[-5000:])
            raise
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
