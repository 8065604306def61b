"""Dovecot, from Debian, and an application that hands it the access tokens of people. Only root may fetch Debian's packages."""

import base64
import hashlib
import imaplib
import shutil
from typing import Final
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx

from ops.guides.products import Product
from ops.guides.tenants import Person
from ops.guides.trying import Trial, require

# Of the trial alone: where it runs. Debian's package is unpacked and not installed, and its users are not there.
_SERVER: Final = """
base_dir = {place}/run
state_dir = {place}/run
log_path = {place}/log
default_internal_user = nobody
default_internal_group = nogroup
default_login_user = nobody
protocols = imap
listen = 127.0.0.1
ssl = no
mail_location = maildir:{place}/mail/%u
userdb {{
  driver = static
  args = uid=nobody gid=nogroup home={place}/mail/%u
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {port}
  }}
  inet_listener imaps {{
    port = 0
  }}
}}
service anvil {{
  chroot =
}}
service stats {{
  chroot =
}}
!include /etc/dovecot/conf.d/auth-oauth2.conf.ext
"""
_CALLBACK: Final = "/index.php/login/oauth"


def _attempt(trial: Trial) -> None:
    trial.set_up("https://mail.example.org")
    print(f"Dovecot {trial.debian_version('dovecot-core')}")
    _serve(trial)
    ada, bob = trial.tenant.ada, trial.tenant.bob
    webmail = ("webmail", trial.exported["OIDC_CLIENT_ID"], trial.exported["OIDC_CLIENT_SECRET"])
    tokens = {}
    for person in (ada, bob):
        tokens[person] = token = _signed_in(trial, person, *webmail)
        for mechanism in ("XOAUTH2", "OAUTHBEARER"):
            require(_opens(trial, mechanism, person.email, token), f"{person.email} opens the mailbox by {mechanism}")
    require((trial.place / "mail" / ada.email).exists(), "the name of the mailbox is the address")
    require(not _opens(trial, "XOAUTH2", ada.email, tokens[bob]), "a token of another person opens nothing")
    require(not _opens(trial, "XOAUTH2", ada.email, tokens[ada][:-4] + "AAAA"), "nor does an altered token")
    elsewhere = _signed_in(trial, ada, *_another(trial))
    require(not _opens(trial, "XOAUTH2", ada.email, elsewhere), "nor does a token of another application of the organization")
    httpx.post(f"{trial.tenant.issuer}/oauth/revoke", data={"token": tokens[ada]}, auth=webmail[1:]).raise_for_status()
    require(not _opens(trial, "XOAUTH2", ada.email, tokens[ada]), "nor does the token of a session that has ended")


def _serve(trial: Trial) -> None:
    (trial.place / "mail").mkdir()
    shutil.chown(trial.place / "mail", "nobody")
    # The processes that open mailboxes run as another user, who has to find them.
    for folder in (trial.place, trial.place.parent):
        folder.chmod(folder.stat().st_mode | 0o011)
    configuration = trial.place / "etc" / "dovecot" / "dovecot.conf"
    configuration.write_text(_SERVER.format(place=trial.place, port=trial.port))
    trial.start_over_the_machine("dovecot", "-F", answers=lambda: _greeted(trial))


def _greeted(trial: Trial) -> bool:
    try:
        imaplib.IMAP4("127.0.0.1", trial.port, timeout=10).logout()
    except OSError:
        return False
    return True


def _opens(trial: Trial, mechanism: str, address: str, token: str) -> bool:
    said = {
        "XOAUTH2": f"user={address}\1auth=Bearer {token}\1\1",
        "OAUTHBEARER": f"n,a={address},\1auth=Bearer {token}\1\1",
    }[mechanism]
    with imaplib.IMAP4("127.0.0.1", trial.port, timeout=60) as client:
        try:
            client.authenticate(mechanism, lambda _: said.encode())
        except imaplib.IMAP4.error:
            return False
        return client.select("INBOX")[0] == "OK"


def _signed_in(trial: Trial, person: Person, slug: str, client: str, secret: str) -> str:
    """An access token that the person's browser brought to this application."""
    callback = trial.filled(f"https://mail.example.org{_CALLBACK}")
    asked = {"client_id": client, "response_type": "code", "scope": "openid profile email", "redirect_uri": callback, "state": slug}
    verifier = "verifier-of-a-trial-" * 3
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    asked |= {"code_challenge": challenge, "code_challenge_method": "S256"}
    came = trial.browser(person).arrive(f"{trial.tenant.issuer}/oauth/authorize?{urlencode(asked)}", callback)
    (code,) = parse_qs(urlsplit(came).query)["code"]
    given = {"grant_type": "authorization_code", "code": code, "redirect_uri": callback, "code_verifier": verifier}
    answer = httpx.post(f"{trial.tenant.issuer}/oauth/token", data=given, auth=(client, secret))
    return str(answer.raise_for_status().json()["access_token"])


def _another(trial: Trial) -> tuple[str, str, str]:
    """The credentials of an application that has nothing to do with mail."""
    ada, services = trial.tenant.ada, "/api/organizations/acme/services"
    wiki = {"slug": "wiki", "name": "Wiki", "service_type": "web", "redirect_uris": [trial.filled(f"https://mail.example.org{_CALLBACK}")]}
    made = ada.ask("POST", services, wiki)
    return "wiki", made["service"]["client_id"], ada.ask("POST", f"{services}/wiki/client-secrets")["client_secret"]


PRODUCT = Product(name="dovecot", page="dovecot", attempt=_attempt, debian=("dovecot-imapd",))
