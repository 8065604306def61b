"""pgAdmin 4 in server mode."""

import re
import secrets
import shutil

from ops.browser.signing import SigningBrowser
from ops.guides.products import Product
from ops.guides.tenants import Person
from ops.guides.trying import Trial, require


def _attempt(trial: Trial) -> None:
    trial.set_up("https://pgadmin.example.org")
    print(f"pgAdmin {trial.version('pgadmin4')}")
    found = trial.run(trial.program("python"), "-c", "import pgadmin4; print(pgadmin4.__path__[0])")
    # pgAdmin reads the file beside its programs, so the trial has a copy of them.
    program = trial.place / "pgadmin4"
    shutil.copytree(found.strip(), program)
    (program / "config_local.py").write_text(
        f"""{(trial.place / "config_local.py").read_text()}
# Of the trial alone: the address, and where pgAdmin keeps its own data.
DATA_DIR = {str(trial.place / "data")!r}
LOG_FILE = {str(trial.place / "pgadmin4.log")!r}
SQLITE_PATH = {str(trial.place / "data" / "pgadmin4.db")!r}
DEFAULT_SERVER, DEFAULT_SERVER_PORT = "127.0.0.1", {trial.port}
"""
    )
    own = {"PGADMIN_SETUP_EMAIL": "first@example.org", "PGADMIN_SETUP_PASSWORD": secrets.token_hex(8)}
    trial.run(trial.program("python"), program / "setup.py", "setup-db", **own)
    trial.start(trial.program("python"), program / "pgAdmin4.py", ready="/misc/ping", **own)
    ada, bob = trial.tenant.ada, trial.tenant.bob
    shown, theirs = _signed_in(trial, ada)
    require(ada.id in shown, f"{ada.email} is in, under {ada.id}, which is the sub of the person")
    left = theirs.arrive(f"{trial.at}/oauth2/logout", f"{trial.at}/")
    require(left, "the sign-out leads through Postern, and back")
    shown, _ = _signed_in(trial, bob)
    require(bob.id not in shown and "not authorized to login" in shown, f"{bob.email}, who has none of the groups, is not let in")


def _signed_in(trial: Trial, person: Person) -> tuple[str, SigningBrowser]:
    """The page that pgAdmin shows after the sign-in, which begins with a form of pgAdmin."""
    theirs = trial.browser(person)
    page = theirs.client.get(f"{trial.at}/login")
    token = re.search(r"csrfToken'?\"?: ?[\"']([^\"']+)", page.text)
    if token is None:
        raise SystemExit(page.text)
    form = {"csrf_token": token[1], "oauth2_button": "postern"}
    led = theirs.client.post(f"{trial.at}/authenticate/login", data=form)
    came = theirs.arrive(led.headers["Location"], f"{trial.at}/oauth2/authorize")
    answer = theirs.client.get(came, follow_redirects=True)
    told = theirs.client.get(f"{trial.at}/browser/js/utils.js")
    return answer.text + (told.text if told.is_success else ""), theirs


PRODUCT = Product(name="pgadmin", page="pgadmin", attempt=_attempt, python=("pgadmin4",))
