"""Pages that lead to an application by themselves. Their addresses lead nowhere, so a test sees the pages before they leave."""

from typing import Final

from tests.browser.states import ACME, ENDLESS, State, Words

STATES: Final = (
    State(
        "leaving",
        "leave.html",
        {"title": Words("leaving.title_to", {"service": "Timesheets"}), "label": Words("common.continue"), "address": "#"},
        ACME,
    ),
    State(
        "leaving for the provider",
        "leave.html",
        {
            "title": Words("providers.title_at", {"provider": "The single sign-on of the northern branch"}),
            "label": Words("common.continue"),
            "address": "#",
        },
        ENDLESS,
    ),
    State(
        "asked before leaving for the provider",
        "ask_to_leave.html",
        {"title": Words("providers.title_at", {"provider": "The single sign-on of the northern branch"}), "address": "#"},
        ACME,
    ),
    State(
        "signed out, while applications hear of it",
        "saml/signing_out.html",
        {"frames": ["about:blank", "about:blank"], "seconds": 2, "address": "#"},
    ),
    State(
        "leaving by a form",
        "leave_form.html",
        {"title": Words("leaving.title"), "label": Words("common.continue"), "action": "#", "hidden": {"code": "x"}},
    ),
)
