"""Auth.js with Express."""

from urllib.parse import quote

from ops.guides.products import Product
from ops.guides.trying import Trial, require


def _attempt(trial: Trial) -> None:
    trial.set_up("https://shop.example.org")
    print(f"@auth/express {trial.node_version('@auth/express')}, @auth/core {trial.node_version('@auth/core')}")
    trial.start("node", "server.mjs", ready="/auth/csrf", PORT=str(trial.port))
    for person, name, is_admin in ((trial.tenant.ada, "Ada Lovelace", True), (trial.tenant.bob, "Bob Byte", False)):
        theirs = trial.browser(person)
        token = theirs.client.get(f"{trial.at}/auth/csrf").json()["csrfToken"]
        led = theirs.client.post(f"{trial.at}/auth/signin/postern", data={"csrfToken": token, "callbackUrl": trial.at})
        came = theirs.arrive(led.headers["Location"], f"{trial.at}/auth/callback/postern")
        shown = theirs.client.get(came, follow_redirects=True).json()
        require(shown["hello"] == name, f"user.name is {shown['hello']}")
        require(shown["id"] == person.id, f"user.id is {shown['id']}, which is the sub of the person")
        require(shown["isAdministrator"] is is_admin, f"{person.email} is {'an' if is_admin else 'no'} administrator")
        ending = (
            f"{trial.tenant.issuer}/oauth/logout?client_id={trial.exported['OIDC_CLIENT_ID']}&post_logout_redirect_uri={quote(trial.at)}/"
        )
        left = theirs.client.post(f"{trial.at}/auth/signout", data={"csrfToken": token, "callbackUrl": ending}, follow_redirects=True)
        require(left.url.path == "/oauth/logout", f"the sign-out leads to {left.url.path} of Postern")
        require(theirs.client.get(f"{trial.at}/auth/session").json() is None, "and the session of the application has ended")


PRODUCT = Product(name="authjs", page="auth-js", attempt=_attempt, node=("express", "@auth/express"))
