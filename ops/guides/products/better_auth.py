"""better-auth with Express."""

from typing import Final

import httpx

from ops.guides.products import Product
from ops.guides.trying import Trial, require

_AUTH: Final = "/api/auth"


def _attempt(trial: Trial) -> None:
    trial.set_up("https://notes.example.org")
    print(f"better-auth {trial.node_version('better-auth')}")
    trial.start("node", "server.mjs", PORT=str(trial.port))
    for person, name, is_admin in ((trial.tenant.ada, "Ada Lovelace", True), (trial.tenant.bob, "Bob Byte", False)):
        theirs = trial.browser(person)

        def call(path: str, body: object, client: httpx.Client = theirs.client) -> httpx.Response:
            return client.post(f"{trial.at}{_AUTH}{path}", json=body, headers={"Origin": trial.at})

        led = call("/sign-in/social", {"provider": "postern", "callbackURL": "/"}).json()
        came = theirs.arrive(led["url"], f"{trial.at}{_AUTH}/callback/postern")
        shown = theirs.client.get(came, follow_redirects=True).json()
        require(shown["hello"] == name, f"user.name is {shown['hello']}")
        require(shown["id"] == person.id, f"session.sub is {shown['id']}, which is the sub of the person")
        require(shown["isAdministrator"] is is_admin, f"{person.email} is {'an' if is_admin else 'no'} administrator")
        refused = [call(path, {"roles": ["admin"]}).status_code for path in ("/update-session", "/update-user")]
        kept = theirs.client.get(trial.at).json()["isAdministrator"]
        require(refused == [400, 400] and kept is is_admin, f"{person.email} cannot write roles: {refused}")
        left = call("/sign-out", {"callbackURL": "/"}).json()
        gone, asked = theirs.arrive(left["url"], trial.at), list(theirs.pages)
        require(gone == f"{trial.at}/" and not asked, "the sign-out leads through Postern, without a question, and back")
        require(theirs.client.get(trial.at).text == "Please sign in", "and the session of the application has ended")


PRODUCT = Product(name="better_auth", page="better-auth", attempt=_attempt, node=("better-auth@1.7.25", "jose@6.2.18", "express@5.3.0"))
