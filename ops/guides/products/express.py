"""express-openid-connect."""

from ops.guides.products import Product
from ops.guides.trying import Trial, require


def _attempt(trial: Trial) -> None:
    trial.set_up("https://orders.example.org")
    print(f"express-openid-connect {trial.node_version('express-openid-connect')}")
    trial.start("node", "server.mjs", ready="/login", PORT=str(trial.port))
    for person, name, is_admin in ((trial.tenant.ada, "Ada Lovelace", True), (trial.tenant.bob, "Bob Byte", False)):
        theirs = trial.browser(person)
        # The answer of Postern comes as a form that posts itself, or as an address.
        came = theirs.arrive(f"{trial.at}/", f"{trial.at}/callback")
        shown = theirs.client.get(came, follow_redirects=True).json()
        require(shown["hello"] == name, f"the application says hello to {shown['hello']}")
        require(shown["id"] == person.id, f"the id is {shown['id']}, which is the sub of the person")
        require(shown["isAdministrator"] is is_admin, f"{person.email} is {'an' if is_admin else 'no'} administrator")
        status = theirs.client.get(f"{trial.at}/admin").status_code
        require((status == 200) is is_admin, f"{person.email} gets {status} for the page of administrators")
        left = theirs.arrive(f"{trial.at}/logout", trial.at)
        require(left.rstrip("/") == trial.at, "the sign-out leads through Postern, and back")


PRODUCT = Product(name="express", page="express-openid-connect", attempt=_attempt, node=("express", "express-openid-connect"))
