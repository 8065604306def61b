"""Django, with django-allauth and with mozilla-django-oidc."""

from collections.abc import Callable
from typing import Final

from ops.guides.products import Product
from ops.guides.trying import Trial, require

# Of the trial alone: the project that a reader has already.
_PROJECT: Final = """
from postern_settings import *

SECRET_KEY, DEBUG, ALLOWED_HOSTS, ROOT_URLCONF, USE_TZ = "of a trial", False, ["127.0.0.1"], "urls", True
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "trial.sqlite3"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    *(f"django.contrib.{name}" for name in ("admin", "auth", "contenttypes", "sessions", "messages")), *APPS
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    *MORE_MIDDLEWARE,
]
_PARTS = ("auth.context_processors.auth", "messages.context_processors.messages")
_CONTEXT = ["django.template.context_processors.request", *(f"django.contrib.{part}" for part in _PARTS)]
TEMPLATES = [{
    "BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True, "OPTIONS": {"context_processors": _CONTEXT},
}]
"""
_SEEN: Final = """
import django; django.setup()
from django.contrib.auth import get_user_model
for user in get_user_model().objects.order_by("date_joined"):
    linked = user.socialaccount_set.get().uid if hasattr(user, "socialaccount_set") else user.username
    print(user.email, linked, f"{user.first_name} {user.last_name}".strip(), user.is_superuser, sep="|")
"""


def _attempt(package: str, site: str, *, apps: str, middleware: str, begin: str, callback: str) -> Callable[[Trial], None]:
    def attempt(trial: Trial) -> None:
        trial.set_up(site)
        print(f"{package} {trial.version(package)}, Django {trial.version('django')}")
        (trial.place / "settings.py").write_text(_PROJECT.replace("*APPS", apps).replace("*MORE_MIDDLEWARE", middleware))
        own = {"DJANGO_SETTINGS_MODULE": "settings", "PYTHONPATH": str(trial.place)}
        django = ("-m", "django")
        trial.run(trial.program("python"), *django, "migrate", **own)
        served = ("runserver", f"127.0.0.1:{trial.port}", "--noreload")
        trial.start(trial.program("python"), *django, *served, ready="/admin/login/", **own)
        ada, bob = trial.tenant.ada, trial.tenant.bob
        for person, is_admin in ((ada, True), (bob, False)):
            theirs = trial.browser(person)
            theirs.client.get(theirs.arrive(f"{trial.at}{begin}", f"{trial.at}{callback}"))
            status = theirs.client.get(f"{trial.at}/admin/").status_code
            require((status == 200) is is_admin, f"{person.email} gets {status} for the administration")
        seen = trial.run(trial.program("python"), "-c", _SEEN, **own).splitlines()
        require(seen == [f"{ada.email}|{ada.id}|Ada Lovelace|True", f"{bob.email}|{bob.id}|Bob Byte|False"], f"Django knows {seen}")

    return attempt


ALLAUTH = Product(
    name="allauth",
    page="django-allauth",
    attempt=_attempt(
        "django-allauth",
        "https://wiki.example.org",
        apps="*ALLAUTH_APPS",
        middleware="*ALLAUTH_MIDDLEWARE",
        begin="/accounts/oidc/postern/login/",
        callback="/accounts/oidc/postern/login/callback/",
    ),
    python=("django-allauth[socialaccount]",),
)
MOZILLA = Product(
    name="mozilla",
    page="django-mozilla",
    attempt=_attempt(
        "mozilla-django-oidc",
        "https://handbook.example.org",
        apps='"mozilla_django_oidc"',
        middleware="*()",
        begin="/oidc/authenticate/",
        callback="/oidc/callback/",
    ),
    python=("mozilla-django-oidc",),
)
