"""Apache with mod_auth_openidc, both from Debian. Only root may fetch Debian's packages."""

from typing import Final

from ops.browser.page_reader import PageReader
from ops.browser.signing import SigningBrowser
from ops.guides.products import Product
from ops.guides.tenants import Person
from ops.guides.trying import Trial, require, until

# Of the trial alone: a server with two pages, which tells what a site learns. Debian's packages are unpacked and not installed.
_SERVER: Final = """
ServerRoot "{place}"
ServerName 127.0.0.1
Listen 127.0.0.1:{port}
PidFile "{place}/pid"
ErrorLog "{place}/log"
Mutex default:{place}
DocumentRoot "{place}/site"
{modules}
<Directory "{place}/site">
    Require all granted
</Directory>
Header set X-Shown "expr=%{{REMOTE_USER}}|%{{HTTP:OIDC_CLAIM_name}}|%{{HTTP:OIDC_CLAIM_groups}}"
Include "{place}/postern.conf"
"""
_MODULES: Final = ("mpm_event", "authn_core", "authz_core", "authz_user", "headers", "auth_openidc")


def _attempt(trial: Trial) -> None:
    trial.set_up("https://intranet.example.org")
    print(f"mod_auth_openidc {trial.debian_version('libapache2-mod-auth-openidc')}")
    for name in ("index", "admin/index", "signed-out"):
        page = trial.place / "site" / f"{name}.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(name)
    modules = "\n".join(f'LoadModule {name}_module "{trial.installed}/usr/lib/apache2/modules/mod_{name}.so"' for name in _MODULES)
    configuration = trial.place / "server.conf"
    configuration.write_text(_SERVER.format(place=trial.place, port=trial.port, modules=modules))
    libraries = ":".join(str(one) for one in sorted((trial.installed / "usr" / "lib").glob("*-linux-gnu")))
    server = trial.installed / "usr" / "sbin" / "apache2"
    trial.start(server, "-f", configuration, "-D", "FOREGROUND", ready="/signed-out.html", LD_LIBRARY_PATH=libraries)
    ada, bob = trial.tenant.ada, trial.tenant.bob
    for person, shown, is_admin in ((ada, "Ada Lovelace|acme/owner", True), (bob, "Bob Byte|acme/member", False)):
        theirs = _signed_in(trial, person)
        seen = theirs.client.get(f"{trial.at}/index.html").headers["X-Shown"]
        require(seen == f"{person.id}|{shown}", f"the site learns {seen}")
        status = theirs.client.get(f"{trial.at}/admin/index.html").status_code
        require((status == 200) is is_admin, f"{person.email} gets {status} for the page of administrators")
        ended = theirs.arrive(f"{trial.at}/signed-in?logout={trial.at}/signed-out.html", f"{trial.at}/signed-out.html")
        require(ended, "the sign-out leads through Postern, and back")
    theirs = _signed_in(trial, bob)
    (leaving, *_) = PageReader(theirs.client.get(f"{trial.tenant.issuer}/ui").content).forms
    theirs.client.post(f"{trial.tenant.issuer}{leaving.action}", data=leaving.fields)
    until(lambda: theirs.client.get(f"{trial.at}/index.html").has_redirect_location, "a session that ends in Postern ends at the site")


def _signed_in(trial: Trial, person: Person) -> SigningBrowser:
    theirs = trial.browser(person)
    came = theirs.arrive(f"{trial.at}/index.html", f"{trial.at}/signed-in")
    theirs.client.get(came, follow_redirects=True)
    return theirs


PRODUCT = Product(name="mod_auth_openidc", page="mod-auth-openidc", attempt=_attempt, debian=("apache2-bin", "libapache2-mod-auth-openidc"))
