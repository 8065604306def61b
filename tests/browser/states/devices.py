"""Pages for a device without a browser: its code, and the decision whether it may act for a person."""

from datetime import timedelta
from typing import Any, Final

from entrypoints.http.pages.kit import shipped_pages
from tests.browser.states import ACME, ENDLESS, FROM_THE_RIGHT, LONG, NOW, State, Words

_ENTER: Final[dict[str, Any]] = {"action": "/ui/activate", "form_token": "token", "user_code": "", "longest": 32, "errors": {}}
_DECISION: Final[dict[str, Any]] = {
    "action": "/ui/activate/decision",
    "flow": "0197f0c8-0000-7000-8000-000000000001",
    "form_token": "token",
    "user_code": "WDJB-MJHT",
    "service": "Living room",
    "logo": shipped_pages().asset_url("postern.svg"),
    "organization": ACME.name,
    "device": "Smart TV",
    "place": "Berlin, DE",
    "is_here": True,
    "asked_at": NOW - timedelta(minutes=2),
    "now": NOW,
    "email": "ada@example.org",
    "person_name": "Ada Lovelace",
    "scopes": ["openid", "email", "offline_access"],
    "resources": [{"name": "Orders", "identifier": "https://api.acme.example/orders", "scopes": ["See your orders", "Order in your name"]}],
}

STATES: Final = (
    State("enter a device's code", "device/enter_code.html", _ENTER),
    State(
        "enter a device's code, wrong",
        "device/enter_code.html",
        {**_ENTER, "user_code": "WDJB-MJHX", "errors": {"user_code": Words("refusals.user_code_unknown")}},
    ),
    State("decide on a device", "device/device_decision.html", _DECISION, ACME),
    State(
        "decide on a device, long",
        "device/device_decision.html",
        {
            **_DECISION,
            "service": "The timesheets of the northern branch",
            "organization": ENDLESS.name,
            "email": LONG,
            "person_name": ENDLESS.name,
            "is_here": False,
            "scopes": [],
            "resources": [],
        },
        ENDLESS,
    ),
    State(
        "decide on a device, from the right",
        "device/device_decision.html",
        {**_DECISION, "organization": FROM_THE_RIGHT.name, "person_name": "ياسمين الفارسي"},
        FROM_THE_RIGHT,
    ),
)
