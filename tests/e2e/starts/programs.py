"""The programs that the console shows for a framework, as a newcomer gets them: Ada makes the application on the console's pages, and the
lines of the page behind it run in a folder, in one shell. Only the installing is left out: the libraries are those of our locks.
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote, urljoin

import httpx

from entrypoints.http.console.organization.applications.making import CHOSEN, Framework, LinesBlock
from ops.browser.page_reader import PageReader
from ops.browser.signing import SigningBrowser
from ops.free_ports import free_port
from ops.guides.tenants import PASSWORD, Tenant
from ops.starts.installed import NIGHTLY, QUICK
from ops.starts.pasting import script
from tests.e2e.postern import until
from tests.e2e.starts.shown import shown_on
from tests.patience import PATIENCE
from tests.places import ROOT

_PACKAGES: Final = ROOT / ".venv" / "frameworks"
_SERVICES: Final = "/api/organizations/acme/services"
SIGN_IN: Final = "Sign in"
SIGN_OUT: Final = "Sign out"


@dataclass
class StartedProgram:
    framework: Framework
    at: str
    place: Path

    def log(self) -> str:
        return (self.place / "log").read_text()[-5000:]

    def answers(self) -> bool:
        try:
            return httpx.get(self.at, timeout=PATIENCE, trust_env=False).status_code == 200
        except httpx.TransportError:
            return False


@contextmanager
def console_of(tenant: Tenant) -> Iterator[httpx.Client]:
    """Ada's browser, signed in to the console."""
    with httpx.Client(timeout=PATIENCE, trust_env=False) as client:
        ada = SigningBrowser(client, tenant.ada.email, PASSWORD)
        here = f"{tenant.issuer}/ui/o/acme"
        assert ada.arrive(here, here) == here
        yield client


def blocks_shown(tenant: Tenant, ada: httpx.Client, framework: Framework, at: str) -> Mapping[str, LinesBlock]:
    """Makes the application of a framework on the console's pages, and returns the blocks that the answer shows, by the names of blocks."""
    place = f"{tenant.issuer}/ui/o/acme/applications/~new?kind={framework.key}"
    asked = PageReader(ada.get(place).content)
    (form,) = [one for one in asked.forms if "addresses" in one.fields]
    assert form.fields["kind"] == framework.key
    assert form.fields["addresses"] == framework.address
    address = at + framework.comes_back_to
    sent = {**form.fields, "name": framework.name, "elsewhere": "yes", "addresses": address, "policy": "members"}
    answer = ada.post(urljoin(place, form.action), data=sent)
    assert answer.status_code == 200, PageReader(answer.content).text
    assert at in PageReader(answer.content).links, "the page says where to look"
    return shown_on(answer.text, framework.key)


@contextmanager
def running(tenant: Tenant, ada: httpx.Client, key: str) -> Iterator[StartedProgram]:
    """The program of a framework, in a folder of its own, once it answers."""
    framework = CHOSEN[key]
    # A name other than Postern's, as in a newcomer's browser: cookies know no ports.
    at = f"http://localhost:{free_port()}"
    shown = blocks_shown(tenant, ada, framework, at)
    pasted = script(one for name, one in shown.items() if name != "install")
    with tempfile.TemporaryDirectory(prefix=f"{key}-", dir=_below(key), ignore_cleanup_errors=True) as folder:
        program = StartedProgram(framework, at, Path(folder))
        with (program.place / "log").open("wb") as log:
            process = subprocess.Popen(
                ["bash", "-euc", pasted],
                cwd=folder,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            until(lambda: program.answers() or process.poll() is not None)
            assert process.poll() is None, program.log()
            yield program
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            # A small organization may have three.
            for service in tenant.ada.ask("GET", _SERVICES)["services"]:
                tenant.ada.ask("DELETE", f"{_SERVICES}/{service['slug']}")


def _below(key: str) -> Path | None:
    """Node finds packages in the folders above a program, and Next.js takes no link to them."""
    if key in {"flask", "fastapi", "django"}:
        return None
    return QUICK if key == "express" else NIGHTLY


def _environment() -> Mapping[str, str]:
    # The checkout's own settings, and what measures coverage, are none of the program's business.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("POSTERN_", "COV_", "PYTHON", "OIDC_"))}
    path = os.pathsep.join((str(Path(sys.executable).parent), kept["PATH"]))
    return {**kept, "PATH": path, "PYTHONPATH": str(_PACKAGES), "NEXT_TELEMETRY_DISABLED": "1"}


def signs_in_and_out(program: StartedProgram, email: str) -> None:
    """A person without scripts presses "Sign in", gives address and password to Postern, is greeted by name, and signs out of both."""
    with httpx.Client(timeout=PATIENCE, trust_env=False) as client:
        person = SigningBrowser(client, email, PASSWORD)
        callback = program.at + program.framework.comes_back_to
        came = _press(person, program.at, SIGN_IN, callback)
        assert any(path.startswith("/ui/sign-in") for path in person.pages), person.pages
        home = client.get(came, follow_redirects=True)
        assert "Hello Ada Lovelace" in home.text, home.text + program.log()
        assert PageReader(home.content).text.endswith(SIGN_OUT)
        left = _press(person, program.at, SIGN_OUT, program.at)
        assert left.rstrip("/") == program.at
        assert PageReader(client.get(left, follow_redirects=True).content).text == SIGN_IN, program.log()
        # Signed out of Postern, too: who signs in again is asked for the password.
        _press(person, program.at, SIGN_IN, callback)
        assert person.pages


def opens(tenant: Tenant, program: StartedProgram) -> str:
    """The address to which “Open” leads on the page of a member who is signed in to Postern: the program begins the sign-in there."""
    with console_of(tenant) as client:
        (at,) = [one for one in PageReader(client.get(f"{tenant.issuer}/ui").content).links if one.startswith(program.at)]
    assert at == f"{program.at}{program.framework.initiates_at}?iss={quote(tenant.issuer, safe='')}"
    return at


def begins_the_sign_in(tenant: Tenant, program: StartedProgram) -> None:
    """A person who is signed in to Postern presses nothing but “Open”, and “Allow” as on this machine always."""
    at = opens(tenant, program)
    with console_of(tenant) as client:
        person = SigningBrowser(client, tenant.ada.email, PASSWORD)
        came = person.arrive(at, program.at + program.framework.comes_back_to)
        assert [path for path in person.pages if path.startswith("/ui/sign-in")] == [], person.pages
        assert "Hello Ada Lovelace" in client.get(came, follow_redirects=True).text, program.log()


def _press(person: SigningBrowser, at: str, name: str, until_at: str) -> str:
    """Presses the one link or button of the application's page, and goes on to an address that begins so."""
    page = PageReader(person.client.get(at).content)
    assert page.text.endswith(name), page.text
    person.answer = "yes" if name == SIGN_OUT else "allow"
    if not page.forms:
        return person.arrive(urljoin(at, page.links[-1]), until_at)
    answer = person.client.post(urljoin(at, page.forms[0].action), data=page.forms[0].fields)
    return person.arrive(str(answer.url.join(answer.headers["Location"])), until_at)
