"""Apache Superset, with the OAuth of Flask-AppBuilder."""

from ops.guides.products import Product
from ops.guides.trying import Trial, require


def _attempt(trial: Trial) -> None:
    trial.set_up("https://superset.example.org")
    print(f"Superset {trial.version('apache-superset')}")
    # Of the trial alone: Superset does not start without a secret of its own.
    own = {
        "SUPERSET_SECRET_KEY": "of a trial, and nothing depends on it",
        "SUPERSET_CONFIG_PATH": str(trial.place / "superset_config.py"),
        "SUPERSET_HOME": str(trial.place),
        "FLASK_APP": "superset.app:create_app()",
    }
    trial.run(trial.program("superset"), "db", "upgrade", **own)
    trial.run(trial.program("superset"), "init", **own)
    trial.start(trial.program("superset"), "run", "--host", "127.0.0.1", "--port", str(trial.port), ready="/health", **own)
    for person, names, role in ((trial.tenant.ada, ("Ada", "Lovelace"), "Admin"), (trial.tenant.bob, ("Bob Byte", ""), "Alpha")):
        client, _ = trial.sign_in(person, "/login/postern", "/oauth-authorized/postern")
        shown = client.get(f"{trial.at}/api/v1/me/roles/").json()["result"]
        told = client.get(f"{trial.at}/api/v1/me/").json()["result"]
        require(told["username"] == person.id, f"{person.email} is the user {told['username']}, which is the sub of the person")
        seen = (told["first_name"], told["last_name"])
        require(seen == names, f"Superset says hello to {seen}")
        require({*shown["roles"]} == {role, "Gamma"}, f"{person.email} has the roles {[*shown['roles']]}")
        left = client.get(f"{trial.at}/logout/", follow_redirects=True)
        require(str(left.url).startswith(trial.tenant.issuer), f"the sign-out leads to {left.url.path} of Postern")


# Superset 6.1 needs `cachetools` and `rich` without naming them, and does not start with a newer Flask-Caching.
_PACKAGES = ("apache-superset", "authlib", "cachetools", "rich", "flask-caching==2.3.1")
PRODUCT = Product(name="superset", page="superset", attempt=_attempt, python=_PACKAGES)
