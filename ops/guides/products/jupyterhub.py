"""JupyterHub, with the GenericOAuthenticator of oauthenticator."""

import re

import httpx

from ops.free_ports import free_port
from ops.guides.products import Product
from ops.guides.trying import Trial, require


def _attempt(trial: Trial) -> None:
    trial.set_up("https://hub.example.org")
    print(f"JupyterHub {trial.version('jupyterhub')}, oauthenticator {trial.version('oauthenticator')}")
    (trial.place / "jupyterhub_config.py").open("a").write(
        f"""
# Of the trial alone: the hub's own address, and no two trials share a proxy.
c.JupyterHub.bind_url = "{trial.at}"
c.JupyterHub.hub_bind_url = "http://127.0.0.1:{free_port()}"
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{free_port()}"
"""
    )
    trial.start(trial.program("jupyterhub"), "--config", "jupyterhub_config.py", ready="/hub/health")
    for person, is_admin in ((trial.tenant.ada, True), (trial.tenant.bob, False)):
        client, home = trial.sign_in(person, "/hub/oauth_login", "/hub/oauth_callback")
        shown = _shown(home)
        require(shown == person.id, f"{person.email} is the user {shown}, which is the sub of the person")
        status = client.get(f"{trial.at}/hub/admin").status_code
        require((status == 200) is is_admin, f"{person.email} gets {status} for the page of administrators")
        left = client.get(f"{trial.at}/hub/logout", follow_redirects=True)
        require(str(left.url).startswith(trial.tenant.issuer), f"the sign-out leads to {left.url.path} of Postern")


def _shown(page: httpx.Response) -> str:
    found = re.search(r'user: "([^"]+)"', page.text)
    return "" if found is None else found[1]


PRODUCT = Product(
    name="jupyterhub",
    page="jupyterhub",
    attempt=_attempt,
    python=("jupyterhub", "oauthenticator"),
    node=("configurable-http-proxy",),
)
