"""The account pages: empty, full, with long names and with names from right to left."""

from datetime import datetime, timedelta
from types import SimpleNamespace as Thing
from typing import Any, Final

from markupsafe import Markup

from core.domain.identity.accounts import StartedApplication
from core.domain.identity.login_events import LoginFailure
from core.domain.identity.profiles import NO_PROFILE, OwnProfile, Portrait
from core.domain.identity.risk import RiskFactor
from core.domain.identity.upstream.providers import NAMES
from core.domain.languages import Language
from core.domain.tenancy.join_requests import OwnJoinRequest
from entrypoints.http.pages.account.devices import NAMED_FAILURES, failure
from entrypoints.http.pages.kit import shipped_pages
from tests.browser.states import CONTROLS, ENDLESS, FROM_THE_RIGHT, LISTED, LONG, LONG_ROLE, NOW, ORDINARY, TERMS, TERMS_OVER, State, Words

_SECTIONS: Final = [
    (heading, [(address, Words("start.title" if name == "overview" else f"{name}.page")) for address, name in group])
    for heading, group in (
        ("", (("/ui", "overview"), ("/ui/profile", "profile"))),
        (
            Words("account.signing_in"),
            (
                ("/ui/password", "own_password"),
                ("/ui/second-factor", "two_step"),
                ("/ui/passkeys", "passkeys"),
                ("/ui/settings/connections", "connections"),
            ),
        ),
        (
            Words("account.activity"),
            (("/ui/devices", "devices"), ("/ui/sessions", "sessions"), ("/ui/sign-ins", "sign_ins"), ("/ui/lock", "lock_own")),
        ),
        (
            Words("account.access"),
            (("/ui/organizations", "organizations"), ("/ui/applications", "applications"), ("/ui/requests", "afar_requests")),
        ),
    )
]
_PORTRAIT: Final = Portrait("", "AL", 0)
_FRAME: Final[dict[str, Any]] = {
    "sections": _SECTIONS,
    "person": "ada@example.org",
    "person_name": "",
    "person_portrait": _PORTRAIT,
    "form_token": "token",
    "now": NOW,
    "errors": {},
    "done": "",
    "impersonating": False,
    "scheme": "",
    "at_place": "/ui",
    "issuer": "https://id.example.org",
}
_PLACES: Final = Thing(
    applications=[
        StartedApplication("Billing", "Acme", NOW - timedelta(hours=26), "https://billing.example.org/"),
        StartedApplication("Board", "Acme", None, "https://board.example.org/", "https://board.example.org/sign-in"),
        StartedApplication(ENDLESS.name, FROM_THE_RIGHT.name, None, "https://a.example.org/"),
        StartedApplication(ENDLESS.name, FROM_THE_RIGHT.name, None, ""),
    ],
    organizations=[Thing(slug="acme", name="Acme", waits=False), Thing(slug="endless", name=ENDLESS.name, waits=True)],
)
_NOWHERE_YET: Final = Thing(applications=[], organizations=[])
_START: Final[dict[str, Any]] = {"places": _PLACES, "platform": "", "unproved": False}
_PROVIDERS: Final = [("codehost", "GitHub", ""), ("websuite", "Google", ""), ("officesuite", "Microsoft", "")]
_ADA, _LONG = Thing(address=ORDINARY), Thing(address=LONG)
_YESTERDAY, _LAST_YEAR, _TOMORROW = NOW - timedelta(hours=26), NOW - timedelta(days=400), NOW + timedelta(hours=26)
_BERLIN, _NOWHERE = Thing(country="DE", city="Berlin"), None


def _account(state: str, template: str, here: str, /, **values: Any) -> State:
    return State(state, f"account/{template}", {**_FRAME, "here": here, **values})


def _summary(**values: Any) -> Thing:
    usual: dict[str, Any] = {
        "email": _ADA,
        "pending_email": None,
        "password_changed_at": _LAST_YEAR,
        "has_password": True,
        "second_factor_since": _YESTERDAY,
        "has_authenticator": True,
        "passkeys": 0,
        "connections": 0,
        "backup_codes": 10,
        "has_few_backup_codes": False,
        "devices": 2,
        "sessions": 3,
        "organizations": 1,
        "invitations": 0,
        "failed_sign_ins": 0,
        "created_at": _LAST_YEAR,
        "must_set_up": False,
        "unmet": [],
        "has_fields": False,
    }
    return Thing(**{**usual, **values})


def _device(number: int, name: str, **values: Any) -> Thing:
    usual = {
        "id": number,
        "name": name,
        "last_used_at": _YESTERDAY,
        "last_location": _BERLIN,
        "last_address": "192.0.2.17",
        "created_at": _LAST_YEAR,
        "trusted_until": NOW + timedelta(days=20),
        "is_trusted": lambda _now: number == 1,
        "agent": Thing(browser="Firefox", browser_version="142", os="Linux", os_version=""),
    }
    return Thing(**{**usual, **values})


_DEVICES: Final = [
    _device(1, "Firefox on Linux"),
    _device(2, "The old laptop that stands in the kitchen, with a sticker on it", last_location=_NOWHERE),
    _device(3, "هاتف ياسمين", last_used_at=_LAST_YEAR),
]
_DEVICE: Final[dict[str, Any]] = {
    "action": "/ui/devices/1",
    "revoke": "/ui/devices/1/revoke",
    "back": "/ui/devices",
    "name": "Firefox on Linux",
    "longest": 100,
    "current": False,
}


def _session(number: int, **values: Any) -> Thing:
    usual = {
        "id": number,
        "impersonated": False,
        "service": "",
        "organization": "",
        "device_name": "Firefox on Linux",
        "location": _BERLIN,
        "last_seen_at": NOW - timedelta(minutes=3),
        "created_at": _YESTERDAY,
        "opened_here": False,
        "is_bound": False,
    }
    return Thing(**{**usual, **values})


_SESSIONS: Final = [
    _session(1, is_bound=True),
    _session(2, service="Timesheets", organization="Acme Metals", opened_here=True),
    _session(3, organization=ENDLESS.name, device_name="", location=_NOWHERE),
    _session(4, service="الفواتير", organization=FROM_THE_RIGHT.name),
    _session(5, impersonated=True),
]


def _login(**values: Any) -> Thing:
    event = {
        "failure": None,
        "flagged": False,
        "created_at": _YESTERDAY,
        "country": "DE",
        "city": "Berlin",
        "address": "192.0.2.17",
        "provider": "password",
    }
    return Thing(event=Thing(**{**event, **values}), device_name="Firefox on Linux", service="", organization="")


_LOGINS: Final = [
    _login(),
    _login(flagged=True, country="", city="", address=None),
    *(_login(provider=one) for one in (*NAMED_FAILURES, *NAMES)),
    *(_login(failure=one) for one in LoginFailure if one is not LoginFailure.UNKNOWN_ACCOUNT),
    Thing(**{**vars(_login()), "device_name": "", "service": "Timesheets", "organization": "Acme Metals"}),
]


def _organization(
    name: str,
    role: str = "member",
    role_name: str = "",
    status: str = "active",
    second_factor_due: datetime | None = None,
    *,
    is_own: bool = True,
    unconfirmed: bool = False,
) -> Thing:
    return Thing(
        is_unconfirmed_owner=unconfirmed,
        organization=Thing(id=1, slug=name[:8].lower(), name=name, is_active=status == "active", status=Thing(value=status)),
        membership=Thing(role=role, created_at=_LAST_YEAR, is_own=is_own),
        member_count=4,
        service_count=2,
        second_factor_due=second_factor_due,
        role_name=role_name,
    )


def _invitation(number: int, organization: str, email: Thing, role: str, role_name: str = "") -> Thing:
    until = NOW + timedelta(days=6)
    return Thing(id=number, organization_name=organization, email=email, role=role, role_name=role_name, expires_at=until)


_INVITATION: Final = _invitation(1, "Acme Metals", _ADA, "admin")
_LONG_INVITATION: Final = _invitation(2, ENDLESS.name, _LONG, "revision", LONG_ROLE)


def _application(name: str, organization: str, scopes: list[str], granted_at: Any = _LAST_YEAR, **more: Any) -> Thing:
    return Thing(
        service=1,
        name=name,
        organization_name=organization,
        scopes=scopes,
        granted_at=granted_at,
        sessions=2,
        last_used_at=_YESTERDAY,
        **{"saml_entity_id": "", "resources": [], "document_host": "", "is_open": False, "agent": None, "logo": None, **more},
    )


def _held(name: str, application: str, **facts: Any) -> Thing:
    known = {"made_by_service": False, "is_open": False, "last_used_at": None, "expires_at": None, **facts}
    return Thing(
        id=name.partition(" ")[0],
        name=name,
        prefix="acme_a1b2c3",
        service_slug="shop",
        service_name=application,
        organization_slug="acme",
        organization_name="Acme Metals",
        created_at=_LAST_YEAR,
        **known,
    )


_REQUESTS: Final = [
    Thing(
        id=1,
        service_name="Assistant",
        organization_name="Acme Metals",
        is_agent=True,
        scopes=(),
        identifier="https://api.acme.example/orders",
        api="Orders",
        says=["See your orders", "Order in your name"],
        binding_message="Invoice 4711 for the northern branch",
        created_at=_YESTERDAY,
        expires_at=_TOMORROW,
    ),
    Thing(
        id=2,
        service_name=ENDLESS.name,
        organization_name=FROM_THE_RIGHT.name,
        is_agent=False,
        scopes=("openid", "email"),
        identifier=None,
        api="",
        says=[],
        binding_message=None,
        created_at=_YESTERDAY,
        expires_at=_TOMORROW,
    ),
]
_BLOCKED: Final = [Thing(service=3, service_name="The louder assistant", organization_name=ENDLESS.name, blocked_at=_YESTERDAY)]
_ASKED_APIS: Final = [
    (
        Thing(name="Orders", identifier="https://api.acme.example/orders"),
        [
            ("1 orders:read", Thing(name="orders:read", description="See your orders", demand=Thing(second_factor=False, max_age=None))),
            ("1 orders:write", Thing(name="orders:write", description="Order in your name", demand=Thing(second_factor=True, max_age=60))),
        ],
    )
]
_APPLICATIONS: Final = [
    _application(
        "Timesheets",
        "Acme Metals",
        ["openid", "profile", "email", "offline_access", "organization"],
        logo=shipped_pages().asset_url("postern.svg"),
    ),
    _application("The timesheets of the northern branch, with receipts", ENDLESS.name, ["openid"]),
    _application(
        "Assistant",
        "Acme Metals",
        ["openid"],
        resources=[
            Thing(id=2, name="Orders", identifier="https://api.acme.example/orders", scopes=["See your orders", "Order in your name"]),
            Thing(id=3, name="", identifier="https://api.northern-branch.acme-metals.example/a-very-long-name-of-an-api", scopes=[]),
        ],
        document_host="assistant.example.com",
    ),
    _application(
        "Errands",
        "Acme Metals",
        [],
        agent="errands",
        resources=[
            Thing(
                id=4,
                name="Orders",
                identifier="https://api.acme.example/orders",
                scopes=["See your orders"],
                expires_at=NOW + timedelta(days=30),
                last_used_at=_YESTERDAY,
            ),
            Thing(
                id=5,
                name="",
                identifier="https://api.northern-branch.acme-metals.example/a-very-long-name-of-an-api",
                scopes=[],
                expires_at=NOW + timedelta(days=1),
                last_used_at=None,
            ),
        ],
    ),
    _application("الفواتير", FROM_THE_RIGHT.name, [], None),
    _application("Receipts", "Acme Metals", [], saml_entity_id="https://receipts.northern-branch.acme-metals.example/saml/metadata"),
]
_TWO_STEP: Final[dict[str, Any]] = {
    "action": "/ui/second-factor",
    "renew": "/ui/second-factor/renew",
    "turn_off": "/ui/second-factor/off",
    "by_passkeys": "/ui/second-factor/passkeys",
    "hidden": {},
}
_REQUIRING: Final = [
    Thing(name=ENDLESS.name, due=_YESTERDAY),
    Thing(name="Acme Metals", due=NOW + timedelta(days=6)),
    Thing(name=FROM_THE_RIGHT.name, due=NOW + timedelta(days=13)),
]
_PASSWORD: Final[dict[str, Any]] = {"action": "/ui/password", "has_password": True, "changed_at": _LAST_YEAR, "shortest": 8, "longest": 128}
_QR: Final = Markup(
    '<svg width="180" height="180" viewBox="0 0 45 45"><path fill="#000" d="M4 4h7v7H4zM34 4h7v7h-7zM4 34h7v7H4zM16 16h9v9h-9z"/></svg>'
)
_SET_UP: Final[dict[str, Any]] = {
    "action": "/ui/second-factor/set-up",
    "back": "/ui/second-factor",
    "hidden": {"form": "form"},
    "qr_code": _QR,
    "secret": "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP",
    "uri": "otpauth://totp/Postern:ada",
    "longest": 32,
}
_CONFIRM: Final[dict[str, Any]] = {
    "action": "/ui/sessions/2/end",
    "back": "/ui/sessions",
    "ends": [],
    "hidden": {},
    "kind": "final",
    "afterwards": "",
}
_MAILED: Final[dict[str, Any]] = {
    "action": "/ui/prove",
    "mail": "/ui/prove/mail",
    "hidden": {"to": "/ui/password", "need": "account"},
    "email": LONG,
    "again": "/ui/sign-in?again=yes",
    "longest": 32,
}
_PROVE: Final[dict[str, Any]] = {
    "forgotten": "",
    "action": "/ui/prove",
    "hidden": {},
    "by_code": False,
    "by_app": True,
    "by_passkey": False,
    "possible": True,
    "explained": "prove.by_password",
    "passkey": "/ui/prove/passkey",
    "again": "",
    "longest": 128,
}


def _passkey(number: int, name: str, **values: Any) -> Thing:
    usual = {
        "id": number,
        "name": name,
        "created_at": _LAST_YEAR,
        "last_used_at": _YESTERDAY,
        "backup_eligible": False,
        "backed_up": False,
        "made_on": "Firefox on Linux",
        "second_factor_since": None,
    }
    return Thing(**{**usual, **values})


_PASSKEYS: Final = [
    _passkey(1, "Firefox on Linux", second_factor_since=_YESTERDAY),
    _passkey(2, "The security key that hangs with the keys of the bicycle", backup_eligible=True, second_factor_since=_YESTERDAY),
    _passkey(3, "هاتف ياسمين", last_used_at=None, backup_eligible=True, backed_up=True, made_on=None),
]
_MAKERS: Final = {1: "", 2: "Google Password Manager", 3: "YubiKey"}
_NEW_PASSKEY: Final[dict[str, Any]] = {
    "obstacle": "",
    "action": "/ui/passkeys/add",
    "options": "/ui/passkeys/add/options",
    "back": "/ui/passkeys",
    "name": "",
    "longest": 100,
}
_PASSKEY: Final[dict[str, Any]] = {
    "maker": "Google Password Manager",
    "action": "/ui/passkeys/1",
    "remove": "/ui/passkeys/1/remove",
    "back": "/ui/passkeys",
    "name": "Firefox on Linux",
    "longest": 100,
}
_ONE_PAGE: Final[dict[str, Any]] = {"number": 1, "pages": 1}

_LANGUAGE: Final[dict[str, Any]] = {
    "change": "/ui/profile/email",
    "choose": "/ui/profile/language",
    "languages": tuple(Language),
    "chosen": "de",
    "profile": NO_PROFILE,
    "details": "/ui/profile/details",
    "picture": "/ui/profile/picture",
    "signals": [],
}
_NAMED: Final = OwnProfile(name="Ada Lovelace", given_name="Ada", family_name="Lovelace", username="ada.lovelace", zoneinfo="Europe/Vienna")
_DETAILS: Final[dict[str, Any]] = {"action": "/ui/profile/details", "back": "/ui/profile", "longest": 200}
_GIVEN: Final = ("name", "given_name", "family_name", "username", "zoneinfo")
_ENDLESS, _FROM_THE_RIGHT = ENDLESS.name, FROM_THE_RIGHT.name
_PICTURE: Final[dict[str, Any]] = {
    "action": "/ui/profile/picture",
    "remove": "/ui/profile/picture/remove",
    "back": "/ui/profile",
    "types": "image/png",
    "largest": 256,
    "most": 2048,
}

_STEPS: Final = [
    (Thing(done=True, at="/ui/password"), "first_steps.password"),
    (Thing(done=False, at="/ui/second-factor"), "first_steps.two_step"),
    (Thing(done=False, at="/ui/organizations/~new"), "first_steps.organization"),
    (Thing(done=False, at=""), "first_steps.application"),
    (Thing(done=False, at=""), "first_steps.mail"),
]
_FIRST_STEPS: Final[dict[str, Any]] = {"founding": "/ui/organizations/~new", "errors": {}}
_FOUNDING: Final[dict[str, Any]] = {"action": "/ui/organizations/~new", "longest_name": 100, "longest_slug": 50}

STATES: Final = (
    _account("account, overview", "overview.html", "/ui", summary=_summary(connections=2), has_passkeys=True, **_START),
    _account(
        "account, overview, without passkeys",
        "overview.html",
        "/ui",
        summary=_summary(second_factor_since=None),
        has_passkeys=False,
        **_START,
    ),
    _account(
        "account, overview, of a platform owner",
        "overview.html",
        "/ui",
        summary=_summary(),
        has_passkeys=True,
        places=_NOWHERE_YET,
        platform="/ui/platform",
        unproved=False,
    ),
    _account(
        "account, overview, belongs to nothing",
        "overview.html",
        "/ui",
        summary=_summary(organizations=0),
        has_passkeys=True,
        places=_NOWHERE_YET,
        platform="",
        unproved=True,
    ),
    _account(
        "account, overview, somebody acts", "overview.html", "/ui", summary=_summary(), has_passkeys=True, **_START, impersonating=True
    ),
    _account("account, confirm the address", "confirm_address.html", "/ui", action="/ui/confirm-address"),
    _account(
        "account, confirm the address, sent",
        "confirm_address.html",
        "/ui",
        action="/ui/confirm-address",
        person=LONG,
        done=Words("confirm_address.sent"),
    ),
    _account("account, first steps", "first_steps.html", "/ui", steps=_STEPS, left=4, **_FIRST_STEPS, embedded=True, mail="/dev/mail"),
    _account("account, first steps, done", "first_steps.html", "/ui", steps=_STEPS[:1], left=0, **_FIRST_STEPS, embedded=False, mail=""),
    _account("account, new organization", "organizations/new.html", "/ui/organizations", **_FOUNDING, name="", slug="", approves=True),
    _account(
        "account, new organization, taken",
        "organizations/new.html",
        "/ui/organizations",
        **_FOUNDING,
        name="Acme",
        slug="acme",
        approves=False,
        errors={"slug": Words("refusals.slug_taken")},
    ),
    _account(
        "account, overview, much to see to",
        "overview.html",
        "/ui",
        has_passkeys=True,
        person=LONG,
        **_START,
        summary=_summary(
            email=_LONG,
            pending_email=_LONG,
            password_changed_at=None,
            second_factor_since=None,
            backup_codes=1,
            has_few_backup_codes=True,
            invitations=2,
            failed_sign_ins=7,
            must_set_up=True,
            unmet=_REQUIRING,
        ),
    ),
    _account("account, profile", "profile.html", "/ui/profile", **_LANGUAGE, summary=_summary(), done=Words("profile.done_mailed")),
    _account(
        "account, profile, address changes",
        "profile.html",
        "/ui/profile",
        **_LANGUAGE,
        summary=_summary(pending_email=_LONG),
    ),
    _account(
        "account, profile, full",
        "profile.html",
        "/ui/profile",
        **{**_LANGUAGE, "profile": _NAMED},
        summary=_summary(has_fields=True),
        person_name="Ada Lovelace",
        done=Words("profile.done_details"),
    ),
    _account(
        "account, profile, long names",
        "profile.html",
        "/ui/profile",
        **{**_LANGUAGE, "profile": OwnProfile(name=_ENDLESS, given_name=_FROM_THE_RIGHT, family_name=_ENDLESS, username="x" * 40)},
        summary=_summary(email=_LONG),
        person=LONG,
        person_name=_ENDLESS,
    ),
    _account("account, profile, details", "names.html", "/ui/profile", **_DETAILS, given=Thing(**dict.fromkeys(_GIVEN, ""))),
    _account(
        "account, profile, details wrong",
        "names.html",
        "/ui/profile",
        **_DETAILS,
        given=Thing(**{**dict.fromkeys(_GIVEN, _FROM_THE_RIGHT), "username": "Ada", "zoneinfo": "Mars"}),
        errors={"username": Words("refusals.username_taken")},
    ),
    _account("account, profile, picture", "picture.html", "/ui/profile", **_PICTURE),
    _account(
        "account, profile, picture wrong",
        "picture.html",
        "/ui/profile",
        **_PICTURE,
        errors={"picture": Words("refusals.picture_unknown")},
    ),
    _account("account, e-mail address", "email.html", "/ui/profile", action="/ui/profile/email", back="/ui/profile", email="", longest=320),
    _account(
        "account, e-mail address wrong",
        "email.html",
        "/ui/profile",
        action="/ui/profile/email",
        back="/ui/profile",
        email="ada",
        longest=320,
        errors={"email": Words("sign_in.no_address")},
    ),
    _account("account, password", "password.html", "/ui/password", **_PASSWORD, done=Words("own_password.done_changed")),
    _account("account, password wrong", "password.html", "/ui/password", **_PASSWORD, errors={"current": Words("refusals.wrong_password")}),
    _account("account, first password", "password.html", "/ui/password", **{**_PASSWORD, "has_password": False, "changed_at": None}),
    _account(
        "account, two-step sign-in off",
        "factors/two_step.html",
        "/ui/second-factor",
        **_TWO_STEP,
        summary=_summary(second_factor_since=None),
    ),
    _account(
        "account, two-step sign-in required",
        "factors/two_step.html",
        "/ui/second-factor",
        **_TWO_STEP,
        summary=_summary(second_factor_since=None, must_set_up=True, unmet=_REQUIRING),
    ),
    _account(
        "account, passkey required",
        "factors/two_step.html",
        "/ui/second-factor",
        **_TWO_STEP,
        summary=_summary(must_set_up=True, unmet=_REQUIRING),
    ),
    _account("account, two-step sign-in on", "factors/two_step.html", "/ui/second-factor", **_TWO_STEP, summary=_summary()),
    _account(
        "account, two-step sign-in, few codes",
        "factors/two_step.html",
        "/ui/second-factor",
        **_TWO_STEP,
        summary=_summary(backup_codes=1, has_few_backup_codes=True),
    ),
    _account("account, set up", "factors/set_up.html", "/ui/second-factor", **_SET_UP),
    _account(
        "account, set up, code wrong", "factors/set_up.html", "/ui/second-factor", **_SET_UP, errors={"code": Words("refusals.wrong_code")}
    ),
    _account(
        "account, backup codes",
        "factors/backup_codes.html",
        "/ui/second-factor",
        codes=[f"{number}a3f-9c{number}e" for number in range(10)],
        onward="/ui/second-factor",
    ),
    _account(
        "account, backup codes, shown before",
        "factors/backup_codes_shown.html",
        "/ui/second-factor",
        renew="/ui/second-factor/backup-codes/renew",
        onward="/ui/second-factor",
    ),
    _account("account, devices, none", "devices/devices.html", "/ui/devices", devices=[], tag=None, current=None, **_ONE_PAGE),
    _account(
        "account, devices",
        "devices/devices.html",
        "/ui/devices",
        devices=_DEVICES,
        tag=lambda device: ("", "", "devices.risk_raised", "devices.risk_high")[device.id],
        current=1,
        number=2,
        pages=3,
    ),
    _account(
        "account, device",
        "devices/device.html",
        "/ui/devices",
        **_DEVICE,
        device=_DEVICES[0],
        risk="own_device.risk_high",
        is_usual=False,
        reasons=[f"own_device.reason.{factor.value}" for factor in RiskFactor],
    ),
    _account(
        "account, this device, long",
        "devices/device.html",
        "/ui/devices",
        **{**_DEVICE, "current": True, "name": ""},
        device=_DEVICES[1],
        risk="own_device.risk_low",
        is_usual=True,
        reasons=[],
        errors={"name": Words("refusals.bad_request")},
    ),
    _account(
        "account, sessions",
        "devices/sessions.html",
        "/ui/sessions",
        sessions=_SESSIONS,
        current=1,
        others=3,
        end_others="/ui/sessions/end-others",
        **_ONE_PAGE,
    ),
    _account(
        "account, sessions, beyond the last",
        "devices/sessions.html",
        "/ui/sessions",
        sessions=[],
        current=1,
        others=0,
        end_others="/",
        number=9,
        pages=1,
    ),
    _account(
        "account, ending sessions",
        "confirm.html",
        "/ui/sessions",
        **{**_CONFIRM, "ends": ["Timesheets, Firefox on Linux", ENDLESS.name, FROM_THE_RIGHT.name]},
        title=Words("session_end.title"),
        explained=Words("session_end.text"),
        label=Words("session_end.button"),
    ),
    _account(
        "account, locking it",
        "confirm.html",
        "/ui/lock",
        **{
            **_CONFIRM,
            "ends": [Words(f"lock_own.ends.{one}") for one in ("sessions", "keys", "password")],
            "afterwards": Words("lock_own.stays"),
        },
        title=Words("lock_own.title"),
        explained=Words("lock_own.text"),
        label=Words("lock_own.button"),
    ),
    _account(
        "account, turning two-step sign-in off where it is required",
        "confirm.html",
        "/ui/second-factor",
        **{**_CONFIRM, "ends": ["Acme Metals", ENDLESS.name, FROM_THE_RIGHT.name]},
        title=Words("two_step_off_closing.title"),
        explained=Words("two_step_off_closing.text"),
        label=Words("two_step_off.button"),
    ),
    _account(
        "account, sign-ins, none",
        "devices/sign_ins.html",
        "/ui/sign-ins",
        logins=[],
        failure=None,
        named={},
        providers={},
        older="",
        newest="",
    ),
    _account(
        "account, sign-ins",
        "devices/sign_ins.html",
        "/ui/sign-ins",
        logins=_LOGINS,
        failure=failure,
        named=NAMED_FAILURES,
        providers=NAMES,
        older="/ui/sign-ins?before=1",
        newest="/ui/sign-ins",
    ),
    _account(
        "account, organizations, none",
        "organizations/organizations.html",
        "/ui/organizations",
        organizations=[],
        status=None,
        invitations="/",
        requests="/",
        **_ONE_PAGE,
    ),
    _account(
        "account, organizations",
        "organizations/organizations.html",
        "/ui/organizations",
        organizations=[
            _organization("Acme Metals", "owner"),
            _organization(ENDLESS.name, "revision", LONG_ROLE, "suspended"),
            _organization(FROM_THE_RIGHT.name, "auditor", "محاسب", is_own=False),
            _organization("Globex", "owner", is_own=False, unconfirmed=True),
        ],
        status=lambda one: f"organizations.status.{one.organization.status.value}",
        opened="acme met",
        invitations="/ui/organizations/invitations",
        requests="/ui/join-requests",
        **_ONE_PAGE,
    ),
    _account(
        "account, organization",
        "organizations/organization.html",
        "/ui/organizations",
        one=_organization("Acme Metals", second_factor_due=NOW + timedelta(days=6)),
        set_up="/ui/second-factor",
        not_active="",
        applications=_PLACES.applications,
        back="/ui/organizations",
    ),
    *(
        _account(
            f"account, owner of {one.organization.slug}",
            "organizations/ownership.html",
            "/ui/organizations",
            one=one,
            action="/",
            back="/",
        )
        for one in (
            _organization("Acme Metals", "owner"),
            _organization(ENDLESS.name, "owner"),
            _organization(FROM_THE_RIGHT.name, "owner"),
        )
    ),
    *(
        _account(
            f"account, rules that refuse, {name}",
            "organizations/risk_rules.html",
            "/ui/organizations",
            one=_organization("Acme Metals", "owner"),
            has_link=has_link,
            is_owner=is_owner,
            lifts=lifts,
            token="",
            action="/",
            back="/",
        )
        for name, has_link, is_owner, lifts in (
            ("a member", False, False, []),
            ("before the mail", False, True, []),
            ("by the link", True, True, ["Only from the office", ENDLESS.name, FROM_THE_RIGHT.name]),
        )
    ),
    _account(
        "account, organization that lists you",
        "organizations/organization.html",
        "/ui/organizations",
        one=_organization("Acme Metals", "owner", is_own=False, unconfirmed=True),
        set_up="",
        not_active="",
        applications=_PLACES.applications,
        back="/ui/organizations",
    ),
    *(
        _account(
            f"account, listed by {one.organization_slug[:7]}",
            "organizations/membership.html",
            "/ui/organizations",
            one=one,
            action="/",
            back="/",
        )
        for one in LISTED
    ),
    _account(
        "account, organization suspended",
        "organizations/organization.html",
        "/ui/organizations",
        one=_organization(ENDLESS.name, "revision", LONG_ROLE, "suspended"),
        not_active="organization.not_active.suspended",
        set_up="",
        applications=[],
        back="/",
    ),
    _account("account, requests to join, none", "organizations/join_requests.html", "/ui/organizations", requests=[], back="/"),
    _account(
        "account, requests to join",
        "organizations/join_requests.html",
        "/ui/organizations",
        requests=[OwnJoinRequest(one, NOW - timedelta(days=2)) for one in ("Acme Metals", ENDLESS.name, FROM_THE_RIGHT.name)],
        back="/",
    ),
    _account(
        "account, invitations, none",
        "organizations/invitations.html",
        "/ui/organizations",
        invitations=[],
        place="/",
        back="/",
        **_ONE_PAGE,
    ),
    _account(
        "account, invitations",
        "organizations/invitations.html",
        "/ui/organizations",
        invitations=[_INVITATION, _LONG_INVITATION],
        place="/",
        back="/",
        **_ONE_PAGE,
    ),
    _account(
        "account, invitation",
        "organizations/invitation.html",
        "/ui/organizations",
        invitation=_INVITATION,
        token="token",
        action="/",
        back="/",
    ),
    _account("account, terms, none", "terms/own_terms.html", "/ui/terms", own=Thing(pending=[], accepted=[]), place="", hidden={}),
    _account(
        "account, terms",
        "terms/own_terms.html",
        "/ui/terms",
        own=Thing(pending=TERMS_OVER, accepted=TERMS),
        place="/ui/o/acme",
        hidden={},
    ),
    _account(
        "account, applications, none",
        "connections/applications.html",
        "/ui/applications",
        applications=[],
        allowed=None,
        keys=[],
        **_ONE_PAGE,
    ),
    _account(
        "account, applications",
        "connections/applications.html",
        "/ui/applications",
        applications=_APPLICATIONS,
        allowed="consent.scope.{}".format,
        keys=[],
        **_ONE_PAGE,
    ),
    _account(
        "account, applications, keys",
        "connections/applications.html",
        "/ui/applications",
        applications=_APPLICATIONS[:1],
        allowed="consent.scope.{}".format,
        keys=[
            _held("Laptop", "Timesheets", last_used_at=_YESTERDAY, is_open=True),
            _held("The nightly run of the northern branch, with receipts", ENDLESS.name, made_by_service=True, expires_at=_TOMORROW),
        ],
        **_ONE_PAGE,
    ),
    *(
        _account(
            f"account, keys of an application, {name}",
            "connections/user_keys.html",
            "/ui/applications",
            place=Thing(service_name=ENDLESS.name),
            keys=keys,
            address="/ui/keys/acme/shop",
            obstacle=obstacle,
        )
        for name, keys, obstacle in (
            ("none", [], ""),
            ("off", [], "refusals.user_keys_off"),
            (
                "some",
                [
                    Thing(id="1", name="Laptop", prefix="acme_a1b2c3", scopes=["orders:read"], last_used_at=_YESTERDAY, expires_at=None),
                    Thing(id="2", name=ENDLESS.name, prefix="acme_d4e5f6", scopes=[], last_used_at=None, expires_at=_YESTERDAY),
                ],
                "",
            ),
        )
    ),
    *(
        _account(
            f"account, a new key of an application, {name}",
            "connections/user_key_new.html",
            "/ui/applications",
            place=Thing(
                service_name="Shop",
                offered=[Thing(name="orders:read", description="See your orders")],
                settings=Thing(longest_days=30),
            ),
            name="",
            scopes=["orders:read"],
            days="",
            action="/",
            back="/",
            longest=100,
            obstacle=obstacle,
        )
        for name, obstacle in (("form", ""), ("off", "refusals.user_keys_off"))
    ),
    _account(
        "account, a new key of an application, shown once",
        "connections/user_key_made.html",
        "/ui/applications",
        place=Thing(service_name="Shop"),
        secret=f"acme_a1b2c3_{'Zk8v' * 10}abc",
        back="/",
    ),
    _account("account, requests, none", "connections/afar_requests.html", "/ui/requests", waiting=[], blocked=[]),
    _account("account, requests", "connections/afar_requests.html", "/ui/requests", waiting=_REQUESTS, blocked=_BLOCKED),
    *(
        _account(
            f"account, a request, {name}",
            "connections/afar_request.html",
            "/ui/requests",
            waiting=waiting,
            scopes=scopes,
            resources=resources,
            has_second_factor=False,
            days=days,
            allowed="consent.scope.{}".format,
            action="/",
            back="/",
            email="ada@example.org",
        )
        for name, waiting, scopes, resources, days in (
            ("of an agent", _REQUESTS[0], (), _ASKED_APIS, [(1, _TOMORROW, False), (30, _TOMORROW, True)]),
            ("of an application", _REQUESTS[1], ("openid", "email"), [], ()),
        )
    ),
    _account(
        "account, connections, none", "connections/connections.html", "/ui/settings/connections", connected=[], offers=_PROVIDERS, logos={}
    ),
    _account(
        "account, connections",
        "connections/connections.html",
        "/ui/settings/connections",
        connected=[
            (Thing(provider="codehost", email="ada@example.org", linked_at=_LAST_YEAR), "GitHub"),
            (Thing(provider="0199d3a0-0000-7000-8000-000000000009", email=LONG, linked_at=_YESTERDAY), "تسجيل الدخول"),
            (Thing(provider="websuite", email="", linked_at=_YESTERDAY), ENDLESS.name),
        ],
        offers=_PROVIDERS[2:],
        logos={"codehost": shipped_pages().asset_url("postern.svg")},
        done="Account connected.",
    ),
    _account(
        "account, connections, refused",
        "connections/connections.html",
        "/ui/settings/connections",
        connected=[],
        offers=[],
        logos={},
        errors={"": Words("refusals.provider_taken")},
    ),
    _account(
        "account, connect",
        "connections/connect.html",
        "/ui/settings/connections",
        title=Words("connect.title", {"provider": "GitHub"}),
        explained=Words("connect.text", {"provider": "GitHub"}),
        action="/",
        back="/",
    ),
    _account("account, prove by password", "factors/prove.html", "", **{**_PROVE, "forgotten": "/ui/prove/forgotten"}),
    _account("account, prove by password or passkey", "factors/prove.html", "", **{**_PROVE, "by_passkey": True}),
    _account(
        "account, prove by backup code or passkey",
        "factors/prove.html",
        "",
        **{**_PROVE, "by_code": True, "by_app": False, "by_passkey": True, "explained": "prove.by_backup_code"},
        errors={"": Words("refusals.passkey_refused")},
    ),
    _account(
        "account, prove by passkey",
        "factors/prove.html",
        "",
        **{**_PROVE, "by_passkey": True, "possible": False, "explained": "prove.by_passkey", "again": "/ui/sign-in?again=yes"},
    ),
    _account("account, prove by mail", "factors/prove_by_mail.html", "", **_MAILED, mailed=False),
    _account("account, prove by mail, code", "factors/prove_by_mail.html", "", **_MAILED, mailed=True),
    _account(
        "account, prove by mail, wrong code",
        "factors/prove_by_mail.html",
        "",
        **_MAILED,
        mailed=True,
        errors={"mailed_code": Words("refusals.mailed_code_refused")},
    ),
    _account("account, prove in vain", "factors/prove_in_vain.html", "", again="/ui/sign-in?again=yes"),
    _account(
        "account, passkeys, none",
        "factors/passkeys.html",
        "/ui/passkeys",
        passkeys=[],
        signals=[],
        makers={},
        obstacle="",
        add="/ui/passkeys/add",
    ),
    _account(
        "account, passkeys, not possible",
        "factors/passkeys.html",
        "/ui/passkeys",
        passkeys=[],
        signals=[],
        makers={},
        obstacle="refusals.passkeys_address",
        add="/ui/passkeys/add",
    ),
    _account(
        "account, passkeys",
        "factors/passkeys.html",
        "/ui/passkeys",
        passkeys=_PASSKEYS,
        signals=[],
        makers=_MAKERS,
        obstacle="",
        add="/ui/passkeys/add",
        done=Words("passkeys.done_added"),
    ),
    _account("account, new passkey", "factors/new_passkey.html", "/ui/passkeys", **_NEW_PASSKEY),
    _account(
        "account, new passkey, unfit",
        "factors/new_passkey.html",
        "/ui/passkeys",
        **_NEW_PASSKEY,
        errors={"": Words("refusals.passkey_unfit")},
    ),
    _account(
        "account, new passkey, not possible",
        "factors/new_passkey.html",
        "/ui/passkeys",
        **{**_NEW_PASSKEY, "obstacle": "refusals.passkeys_insecure"},
    ),
    _account("account, passkey", "factors/passkey.html", "/ui/passkeys", **_PASSKEY, passkey=_PASSKEYS[1]),
    _account(
        "account, passkey, name wrong",
        "factors/passkey.html",
        "/ui/passkeys",
        **_PASSKEY,
        passkey=_PASSKEYS[2],
        errors={"name": Words("refusals.name_missing")},
    ),
    _account(
        "account, two-step sign-in by passkeys",
        "factors/two_step.html",
        "/ui/second-factor",
        **_TWO_STEP,
        summary=_summary(has_authenticator=False, passkeys=2),
    ),
    _account(
        "account, two-step sign-in off, with a passkey",
        "factors/two_step.html",
        "/ui/second-factor",
        **_TWO_STEP,
        summary=_summary(second_factor_since=None, passkeys=1),
    ),
    _account("account, nothing kept", "details/details.html", "/ui/details", action="/ui/details", keepers=[]),
    _account(
        "account, fields",
        "details/details.html",
        "/ui/details",
        action="/ui/details",
        errors={"field-1-2": Words("refusals.field_number")},
        labels={"field-1-2": "Grade"},
        keepers=[
            Thing(name="", controls=[], others=[("Motto", "Count"), ("Grade", "")]),
            Thing(name=ENDLESS.name, controls=CONTROLS, others=[(LONG_ROLE, LONG)]),
        ],
    ),
    _account(
        "account, prove by code, wrong",
        "factors/prove.html",
        "",
        **{**_PROVE, "by_code": True, "explained": "prove.by_code"},
        errors={"code": Words("refusals.wrong_code")},
    ),
    _account(
        "account, prove by code, too many",
        "factors/prove.html",
        "",
        **{**_PROVE, "by_code": True, "explained": "prove.by_code", "again": "/ui/sign-in?again=yes"},
        errors={"code": Words("refusals.rate_limit_exceeded")},
    ),
)
