"""Who comes by a provider that proves nothing: the address, the code; and a platform owner's test of such a provider."""

from typing import Any, Final

from tests.browser.states import ACME, ENDLESS, FROM_THE_RIGHT, LONG, State, Words

_FORM: Final[dict[str, Any]] = {"flow": "0197f0c8-0000-7000-8000-000000000001", "form_token": "token", "errors": {}}
_ADDRESS: Final[dict[str, Any]] = {
    **_FORM,
    "action": "/ui/provider-address",
    "provider": "Discord",
    "email": "ada@example.org",
    "is_stated": True,
    "sign_in": "/ui/sign-in",
}
_CODE: Final[dict[str, Any]] = {
    **_FORM,
    "action": "/ui/provider-address/code",
    "email": "ada@example.org",
    "longest": 20,
    "again": "/ui/provider-address",
}
_TEST: Final[dict[str, Any]] = {
    "name": "Discord",
    "came": None,
    "action": "/ui/test-provider/discord",
    "form_token": "token",
    "back": "/ui/platform/providers/discord",
}
_CAME: Final = {
    "issuer": "https://id.example",
    "subject": "80351110224678912",
    "email": LONG,
    "called": ENDLESS.name,
    "at": "",
    "account": LONG,
    "next": "active",
}
_OUTCOMES: Final = ("signs_in", "deactivated", "taken", "asked")

STATES: Final = (
    State("address of a newcomer", "newcomers/newcomer.html", _ADDRESS),
    State("address of a newcomer, not stated", "newcomers/newcomer.html", {**_ADDRESS, "email": "", "is_stated": False}, ACME),
    State(
        "address of a newcomer, wrong",
        "newcomers/newcomer.html",
        {**_ADDRESS, "provider": FROM_THE_RIGHT.name, "errors": {"email": Words("sign_in.no_address")}},
        FROM_THE_RIGHT,
    ),
    State("code of a newcomer", "newcomers/newcomer_code.html", _CODE),
    State(
        "code of a newcomer, wrong",
        "newcomers/newcomer_code.html",
        {**_CODE, "email": LONG, "errors": {"code": Words("refusals.mailed_code_refused")}},
        ENDLESS,
    ),
    State("test of a provider", "newcomers/provider_test.html", _TEST),
    State(
        "test of a provider, to make active",
        "newcomers/provider_test.html",
        {**_TEST, "came": {**_CAME, "outcome": "asked", "next": "activate"}},
    ),
    State("test of a provider, failed", "newcomers/provider_test.html", {**_TEST, "came": {"outcome": "failed", "reason": "No answer"}}),
    *(
        State(f"test of a provider, {outcome}", "newcomers/provider_test.html", {**_TEST, "came": {**_CAME, "outcome": outcome}})
        for outcome in _OUTCOMES
    ),
    *(
        State(
            f"test of a provider, then {step}",
            "newcomers/provider_test.html",
            {**_TEST, "came": {**_CAME, "outcome": "asked", "account": "", "next": step}},
        )
        for step in ("activate", "again")
    ),
)
