"""Synapse, a server of Matrix, and its interface for clients."""

from functools import partial
from typing import Final
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

import httpx

from ops.browser.page_reader import PageReader
from ops.guides.products import Product
from ops.guides.tenants import Person
from ops.guides.trying import Trial, require, until

_CLIENT: Final = "http://client.example.org/back"
_MOST_PAGES: Final = 6
_NAME: Final = "matrix.example.org"
# Of the trial alone: where it listens. SQLite, which is Synapse's own default, is enough for two people.
_LISTENER: Final = """
server_name: {name}
signing_key_path: {place}/signing.key
pid_file: {place}/pid
media_store_path: {place}/media
report_stats: false
trusted_key_servers: []
database:
  name: sqlite3
  args:
    database: {place}/homeserver.db
listeners:
  - port: {port}
    bind_addresses: [127.0.0.1]
    type: http
    resources:
      - names: [client]
sso:
  client_whitelist: ["{client}"]
"""


def _attempt(trial: Trial) -> None:
    trial.set_up("https://matrix.example.org")
    print(f"Synapse {trial.version('matrix-synapse')}")
    (trial.place / "homeserver.yaml").write_text(_LISTENER.format(name=_NAME, place=trial.place, port=trial.port, client=_CLIENT))
    files = ("-c", "homeserver.yaml", "-c", trial.place / "etc" / "matrix-synapse" / "conf.d" / "postern.yaml")
    started = (trial.program("python"), "-m", "synapse.app.homeserver", *files)
    trial.run(*started, "--generate-keys")
    trial.start(*started, ready="/_matrix/client/versions")
    for person, chosen, name in ((trial.tenant.ada, "ada", "Ada Lovelace"), (trial.tenant.bob, "bob.byte", "Bob Byte")):
        browser, token = _signed_in(trial, person, chosen)
        known = _asked(trial, token, "account/whoami").json()["user_id"]
        require(known == f"@{chosen}:{_NAME}", f"{person.email} is {known}")
        shown = _asked(trial, token, f"profile/{known}/displayname").json()["displayname"]
        require(shown == name, f"the name for others is {shown}")
        _, again = _signed_in(trial, person, "nobody-asks-again")
        same = _asked(trial, again, "account/whoami").json()["user_id"]
        require(same == known, f"the next device is {same}, too")
        (leaving, *_) = PageReader(browser.get(f"{trial.tenant.issuer}/ui").content).forms
        browser.post(f"{trial.tenant.issuer}{leaving.action}", data=leaving.fields)
        until(partial(_is_over, trial, token), "a session that ends in Postern ends in Matrix")
        require(_asked(trial, again, "account/whoami").status_code == 200, "and the device of another session goes on")


def _signed_in(trial: Trial, person: Person, chosen: str) -> tuple[httpx.Client, str]:
    """The person's browser, and the token of a client of Matrix that began the sign-in."""
    theirs = trial.browser(person)
    begin = f"{trial.at}/_matrix/client/v3/login/sso/redirect/oidc-postern?{urlencode({'redirectUrl': _CLIENT})}"
    led = theirs.client.get(begin).headers["Location"]
    _relax(theirs.client)
    answer = theirs.client.get(theirs.arrive(led, f"{trial.at}/_synapse/client/oidc/callback"))
    onward = ""
    for _ in range(_MOST_PAGES):
        onward = answer.headers.get("Location", "")
        if onward.startswith(_CLIENT):
            break
        answer = theirs.client.get(urljoin(str(answer.url), onward)) if onward else _chosen(answer, theirs.client, chosen)
    (once,) = parse_qs(urlsplit(onward).query)["loginToken"]
    given = httpx.post(f"{trial.at}/_matrix/client/v3/login", json={"type": "m.login.token", "token": once})
    return theirs.client, str(given.raise_for_status().json()["access_token"])


def _relax(client: httpx.Client) -> None:
    """Browsers send Synapse's cookies, which are for HTTPS, to a loopback address, too."""
    for cookie in client.cookies.jar:
        cookie.secure = False


def _chosen(page: httpx.Response, client: httpx.Client, name: str) -> httpx.Response:
    """What follows the page where a person chooses a name, with its box for the name that others see."""
    require(page.url.path == "/_synapse/client/pick_username/account_details", f"{page.url.path} asks for a name")
    return client.post(str(page.url), data={"username": name, "use_display_name": "true"})


def _is_over(trial: Trial, token: str) -> bool:
    return _asked(trial, token, "account/whoami").status_code == 401


def _asked(trial: Trial, token: str, path: str) -> httpx.Response:
    return httpx.get(f"{trial.at}/_matrix/client/v3/{path}", headers={"Authorization": f"Bearer {token}"})


PRODUCT = Product(name="synapse", page="synapse", attempt=_attempt, python=("matrix-synapse[oidc]==1.163.2",))
