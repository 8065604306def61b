"""Apache with mod_auth_mellon, both from Debian. Only root may fetch Debian's packages."""

from typing import Final

from ops.browser.signing import SigningBrowser
from ops.guides.products import Product
from ops.guides.tenants import Person
from ops.guides.trying import Trial, require

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
MellonLockFile "{place}/lock"
Header set X-Shown "expr=%{{REMOTE_USER}}|%{{reqenv:MELLON_name}}|%{{reqenv:MELLON_role}}"
Include "{place}/mellon.conf"
"""
_MODULES: Final = ("mpm_event", "authn_core", "authz_core", "authz_user", "headers", "auth_mellon")


def _attempt(trial: Trial) -> None:
    trial.set_up("https://intranet.example.org")
    print(f"mod_auth_mellon {trial.debian_version('libapache2-mod-auth-mellon')}")
    trial.run("bash", "-eu", "prepare.sh")
    for name in ("index", "admin/index", "signed-out"):
        page = trial.place / "site" / f"{name}.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(name)
    modules = "\n".join(f'LoadModule {name}_module "{trial.installed}/usr/lib/apache2/modules/mod_{name}.so"' for name in _MODULES)
    configuration = trial.place / "server.conf"
    configuration.write_text(_SERVER.format(place=trial.place, port=trial.port, modules=modules))
    beside = trial.installed / "usr" / "lib"
    libraries = ":".join(map(str, (beside, *sorted(beside.glob("*-linux-gnu")))))
    server = trial.installed / "usr" / "sbin" / "apache2"
    trial.start(server, "-f", configuration, "-D", "FOREGROUND", ready="/signed-out.html", LD_LIBRARY_PATH=libraries)
    trial.run("bash", "-eu", "introduce.sh", TOKEN=trial.tenant.ada.token)
    ada, bob = trial.tenant.ada, trial.tenant.bob
    for person, shown, is_admin in ((ada, "Ada Lovelace|owner", True), (bob, "Bob Byte|member", False)):
        theirs = _signed_in(trial, person)
        seen = theirs.client.get(f"{trial.at}/index.html").headers["X-Shown"]
        require(seen == f"{person.id}|{shown}", f"the site learns {seen}")
        status = theirs.client.get(f"{trial.at}/admin/index.html").status_code
        require((status == 200) is is_admin, f"{person.email} gets {status} for the page of administrators")
        ended = theirs.arrive(f"{trial.at}/mellon/logout?ReturnTo={trial.at}/signed-out.html", f"{trial.at}/signed-out.html")
        require(ended, "the sign-out leads through Postern, and back")
        theirs.arrive(f"{trial.at}/index.html", f"{trial.at}/index.html")
        require(theirs.pages, "the next sign-in asks for the password again, so the session has ended in Postern, too")


def _signed_in(trial: Trial, person: Person) -> SigningBrowser:
    theirs = trial.browser(person)
    theirs.arrive(f"{trial.at}/index.html", f"{trial.at}/index.html")
    return theirs


PRODUCT = Product(name="mellon", page="saml", attempt=_attempt, debian=("apache2-bin", "libapache2-mod-auth-mellon"))
