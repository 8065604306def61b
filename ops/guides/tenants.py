"""A Postern for one trial: an organization, its owner Ada, who has a name and a user name, and its member Bob, who has a name alone."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx

from ops.guides.pages import POSTERN, Page
from ops.show import POSTERN as COMMAND
from ops.show import Installation, installation

PASSWORD: Final = "three wet matches"  # noqa: S105 - of made-up people
# Products answer at loopback addresses here, and Postern notifies them of sign-outs.
_SETTINGS: Final = {"POSTERN_OUTBOUND_NETWORKS": "127.0.0.1/32", "POSTERN_ORG_AUTO_APPROVE": "on"}
_PATIENCE: Final = 60.0


class Person:
    def __init__(self, email: str, client: httpx.Client) -> None:
        self.email = email
        self.id = ""
        self._client = client
        self._token = ""

    def ask(self, method: str, path: str, body: object = None) -> Any:
        bearer = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        answer = self._client.request(method, path, json=body, headers=bearer)
        if answer.is_error:
            raise SystemExit(f"{method} {path}: {answer.status_code} {answer.text}")
        return answer.json() if answer.content else None

    def sign_in(self) -> None:
        self._token = self.ask("POST", "/api/auth/login", {"email": self.email, "password": PASSWORD})["access_token"]
        self.id = self.ask("GET", "/api/user")["id"]

    def take(self, answer: Mapping[str, Any]) -> None:
        """Goes on with the token of this answer."""
        self._token = answer["access_token"]

    @property
    def token(self) -> str:
        return self._token


class Tenant:
    """The organization `acme`, and the installation that it is in."""

    def __init__(self, server: Installation, ada: Person, bob: Person) -> None:
        self.server = server
        self.ada = ada
        self.bob = bob

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    def here(self, text: str, addresses: Mapping[str, str]) -> str:
        """The text of a guide with the addresses of this trial in place of those on the page."""
        for written, here in {POSTERN: self.issuer, **addresses}.items():
            text = text.replace(written, here)
        return text

    def follow(self, page: Page, addresses: Mapping[str, str]) -> dict[str, str]:
        """Pastes the page's shell lines, and returns the variables that they export."""
        given = {name: value for name, value in os.environ.items() if not name.startswith("POSTERN_")}
        given |= {"TOKEN": self.ada.token, "BOB_ID": self.bob.id}
        program = f"import json, os; print(json.dumps(dict(os.environ)), file=open({str(self.server.place / 'exported')!r}, 'w'))"
        told = f'{self.here(page.shell(), addresses)}\n"{sys.executable}" -c "$SHOW_EXPORTED"\n'
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", told],
            env={**given, "SHOW_EXPORTED": program},
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"The shell lines of {page.name} fail:\n{done.stdout}{done.stderr}")
        exported: dict[str, str] = json.loads((self.server.place / "exported").read_text())
        return {name: value for name, value in exported.items() if given.get(name) != value and name != "SHOW_EXPORTED"}


@contextmanager
def tenant(within: Sequence[str] = (), **settings: str) -> Iterator[Tenant]:
    """`within` is a command that runs the server."""
    with (
        installation(within=within, **_SETTINGS, **settings) as server,
        httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=_PATIENCE) as client,
    ):
        ada, bob = (_registered(server, client, email) for email in ("ada@example.org", "bob@example.org"))
        ada.take(ada.ask("POST", "/api/organizations", {"slug": "acme", "name": "Acme"}))
        ada.ask("POST", "/api/organizations/acme/invitations", {"email": bob.email, "role": "member"})
        link = _mailed(server, bob.email, "Invitation")
        bob.ask("POST", "/api/invitations/accept", {"token": link.partition("token=")[2]})
        ada.ask("PATCH", "/api/user", {"name": "Ada Lovelace", "given_name": "Ada", "family_name": "Lovelace", "username": "ada"})
        bob.ask("PATCH", "/api/user", {"name": "Bob Byte"})
        yield Tenant(server, ada, bob)


def _registered(server: Installation, client: httpx.Client, email: str) -> Person:
    person = Person(email, client)
    person.ask("POST", "/api/auth/register", {"email": email, "password": PASSWORD})
    link = _mailed(server, email, "Verify your email address")
    client.get("/auth/verify-email", params={"token": link.partition("token=")[2]})
    person.sign_in()
    return person


def _mailed(server: Installation, email: str, subject: str) -> str:
    command = [*COMMAND, "mail", "show", "--link", "--wait", "20", "--to", email, "--subject", subject]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], env=server.environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()
