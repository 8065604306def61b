"""passport-saml, in Express."""

import httpx

from ops.guides.products import Product
from ops.guides.trying import Trial, require


def _attempt(trial: Trial) -> None:
    trial.set_up("https://orders.example.org")
    print(f"@node-saml/passport-saml {trial.node_version('@node-saml/passport-saml')}")
    trial.start("node", "server.mjs", ready="/sign-out", PORT=str(trial.port))
    for person, name, is_admin in ((trial.tenant.ada, "Ada Lovelace", True), (trial.tenant.bob, "Bob Byte", False)):
        theirs = trial.browser(person)
        came = theirs.arrive(f"{trial.at}/sign-in", f"{trial.at}/")
        told = theirs.client.get(came).json()
        require((told["id"], told["name"]) == (person.id, name), f"the application learns {told['id']} and {told['name']}")
        require(told["isAdministrator"] is is_admin, f"{person.email} is {'an' if is_admin else 'no'} administrator")
        theirs.client.get(f"{trial.at}/sign-out")
        require(theirs.client.get(f"{trial.at}/").has_redirect_location, "the sign-out ends the session of the application")
    forged = httpx.post(f"{trial.at}/saml/acs", data={"SAMLResponse": "PHNhbWw+"})
    require(forged.status_code >= 400, f"an answer that nobody has signed gets {forged.status_code}")


PRODUCT = Product(
    name="passport_saml",
    page="saml",
    attempt=_attempt,
    node=("express@5.3.0", "express-session@1.19.0", "passport@0.7.0", "@node-saml/passport-saml@5.1.1"),
)
