"""The guides work as written: their shell blocks run in one shell, against the real server."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from entrypoints.http.routes import ROUTES
from ops.check_tokens import PAGE as CHECK_TOKENS
from ops.free_ports import free_port
from ops.guides.pages import POSTERN, pages
from tests.e2e.conftest import Installation
from tests.e2e.postern import Postern, copy, environment
from tests.places import ROOT
from tests.tools import needs

_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
GUIDES = ROOT / "docs" / "guides"
FIRST_SIGN_IN = GUIDES / "first-sign-in.md"
FIRST_ORGANIZATION = GUIDES / "first-organization.md"
MANAGEMENT_KEYS = GUIDES / "management-keys.md"
SERVICE_INTERFACE = GUIDES / "service-interface.md"
CLAIMS = GUIDES / "claims-and-scopes.md"


def blocks(guide: Path) -> list[str]:
    return _BLOCK.findall(guide.read_text())


@contextmanager
def served(name: str, installation: Installation, directory: Path, **settings: str) -> Iterator[Postern]:
    """A server on a copy of the installation, stopped in good order afterwards."""
    server = Postern(copy(installation.data_dir, directory / name), settings={"POSTERN_BIND": f"127.0.0.1:{free_port()}", **settings})
    try:
        server.start()
        yield server
        assert server.stop() == 0
    finally:
        server.close()


def paste(told: str, server: Postern, directory: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs the blocks in one shell; the first command that fails ends the run."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-euc", told],
        env=environment(server.data_dir, {"POSTERN": f"http://127.0.0.1:{server.port}", "PATH": path, **variables}),
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def follow(guide: Path, installation: Installation, directory: Path, **variables: str) -> tuple[str, str]:
    """The output of the guide's blocks, and the server's log meanwhile."""
    with served(guide.stem, installation, directory) as server:
        # The last number told is that of the block that failed.
        told = "\n".join(f"echo --- block {number} >&2\n{block}" for number, block in enumerate(blocks(guide), 1))
        done = paste(told, server, directory, **variables)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "error: 429" not in done.stderr, done.stderr  # a reader who follows it once meets no limit
    return done.stdout, server.err.read_text()


@needs("oathtool", "jq")
def test_a_first_sign_in_goes_as_its_guide_says(installation: Installation, e2e_directory: Path) -> None:
    shown, log = follow(FIRST_SIGN_IN, installation, e2e_directory)
    for part in ("access_token", "backup_codes", "device_trust_token", '"token_type": "Bearer"', '"is_current": true'):
        assert part in shown
    codes = re.findall(r'"([A-Z2-9]{4}-[A-Z2-9]{4})"', shown)  # Whole strings only, since an id may have such a part.
    assert codes
    for secret in ("three wet matches", "nine dry candles", *codes):
        assert secret not in log


@needs("jq")
def test_automating_goes_as_its_guide_says(installation: Installation, e2e_directory: Path) -> None:
    shown, log = follow(MANAGEMENT_KEYS, installation, e2e_directory)
    assert '"shop"' in shown
    assert '"adopted_at": "' in shown
    assert [line for line in shown.splitlines() if line in {"401", "403"}] == ["403", "403", "401"]
    assert not re.search(r"pto_[a-z0-9]{6}_", log)


@needs("jq")
def test_a_first_organization_goes_as_its_guide_says(installation: Installation, e2e_directory: Path) -> None:
    password = installation.owner_password
    shown, log = follow(FIRST_ORGANIZATION, installation, e2e_directory, OWNER_PASSWORD=password)
    for part in ('"status": "pending"', '"role": "auditor"', "301 http://127.0.0.1", '"new_role": "admin"', '"action": "user.joined"'):
        assert part in shown
    assert re.search(r"ok +acme-\d+ +\d+ entries, head \d+:\w+", shown)
    # The invitation's token, and not the digest that stands beside it.
    token = re.search(r'^ {2}"token": "([\w-]+)"', shown, re.MULTILINE)
    assert token is not None
    assert not re.fullmatch("[0-9a-f]{64}", token[1])
    for secret in (password, token[1], "three wet matches", "nine dry candles", "@example.org"):
        assert secret not in log


@needs("jq")
def test_the_service_interface_answers_as_its_guide_says(installation: Installation, e2e_directory: Path) -> None:
    shown, log = follow(SERVICE_INTERFACE, installation, e2e_directory)
    for part in ('"default_plan": "Free"', '"name": "Acme Shop"', '"plan": "Pro"', '"status": "cancelled"', '"total_users": 2'):
        assert part in shown
    for secret in ("three wet matches", "nine dry candles", "@example.org"):
        assert secret not in log
    assert not re.search(r"(sk|acme)_[a-z0-9]{6}_", shown + log)
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    answered = {(line["method"], line["route"]) for line in lines if line["event"] == "request" and line["status"] < 300}
    stated = {(one.method, one.path) for one in ROUTES if {"service-interface", "api-keys"} & set(one.tags)}
    # The search for resources is always refused.
    stated -= {("POST", "/access/v1/search/resource")}
    assert len(stated) == 29
    assert stated <= answered


@needs("jq")
def test_claims_and_scopes_are_as_their_page_says(installation: Installation, e2e_directory: Path) -> None:
    shown, log = follow(CLAIMS, installation, e2e_directory)
    for part in ('"may_sign_in": true', '"rule": "policy_members"', 'id_token      cost_center = "4711" (organization_field cost_center)'):
        assert part in shown
    for secret in ("three wet matches", "@example.org"):
        assert secret not in log


@needs("jq", "openssl")
def test_postern_does_its_part_of_every_guide_to_an_application(installation: Installation, e2e_directory: Path) -> None:
    """The products themselves are tried by `python -m ops.guides`, and the libraries by `python -m ops.check_tokens`."""
    settings = {"POSTERN_RATE_LIMITS": "off", "POSTERN_ORG_AUTO_APPROVE": "on"}
    with served("applications", installation, e2e_directory, **settings) as server:
        credentials = {"email": "owner@postern.local", "password": installation.owner_password}
        token = server.post("/api/auth/login", credentials).json()["access_token"]
        followed = [*pages(), CHECK_TOKENS]
        for number, page in enumerate(followed):
            # Two guides may call their applications alike.
            slug = f"acme-{number}"
            own = server.post("/api/organizations", {"slug": slug, "name": "Acme"}, token=token).json()
            told = (
                page.shell().replace(POSTERN, f"http://127.0.0.1:{server.port}").replace("/organizations/acme/", f"/organizations/{slug}/")
            )
            # An application that speaks SAML alone has no use for its id.
            ended = "\ntest ${#OIDC_CLIENT_ID} -gt 9 -o ${#OAUTH_CLIENT_ID} -gt 9" if "CLIENT_ID=" in told else ""
            person = {"TOKEN": own["access_token"], "BOB_ID": own["owner"]["id"]}
            done = paste(f"OIDC_CLIENT_ID= OAUTH_CLIENT_ID=\n{told}{ended}", server, e2e_directory, **person)
            assert done.returncode == 0, f"{page.name}: {done.stdout}{done.stderr}"
    assert len(followed) == 19


def test_a_guide_that_is_repeated_at_once_waits_and_says_so(installation: Installation, e2e_directory: Path) -> None:
    """By the function that all of them have: the limit that is over soonest stands for those that let nobody in for minutes."""
    functions = {
        block for guide in (FIRST_SIGN_IN, FIRST_ORGANIZATION, SERVICE_INTERFACE) for block in blocks(guide) if "call() {" in block
    }
    assert len(functions) == 1
    # The limit lets three through at once, and one more for each second that the tries take.
    tries = """
        said=$(mktemp)
        for each in $(seq 60); do
            call "$POSTERN/api/auth/mfa/verify" -H "Authorization: Bearer none" --json '{"code": "000000"}' 2>> "$said" || true
            if grep -q "Will retry" "$said"; then break; fi
        done
        cat "$said" >&2
        call "$POSTERN/health"
    """
    with served("limits", installation, e2e_directory) as server:
        done = paste(functions.pop() + tries, server, e2e_directory)
    assert done.returncode == 0, done.stderr
    assert re.search(r"429\n.*Will retry in 1 second", done.stderr)
    assert '"healthy"' in done.stdout


def test_a_mail_that_does_not_come_ends_a_guide_with_a_sentence(installation: Installation, e2e_directory: Path) -> None:
    (function,) = [block for block in blocks(FIRST_SIGN_IN) if "mailed() {" in block]
    with served("no-mail", installation, e2e_directory) as server:
        done = paste(f"EMAIL=eve@example.org\n{function.replace('--wait 20', '--wait 1')}\nmailed Anything", server, e2e_directory)
    assert done.returncode != 0
    assert done.stderr == "postern: Email not found yet; `postern mail list` shows all\n"
