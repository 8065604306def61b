"""The states of the page of a test."""

from typing import Final

from core.domain.identity.upstream.connection_tests import CheckState, TestedCheck, TestResult
from tests.browser.states import ENDLESS, State

_PASSED: Final = TestedCheck(name="signature", state=CheckState.PASSED, told="The assertion is signed by a known certificate.")
_FAILED: Final = TestedCheck(
    name="audience",
    state=CheckState.FAILED,
    told="The assertion is for another service provider.",
    came="https://another.example",
    expected="https://id.example.org",
    mend="Set Postern's entity ID as the audience at the identity provider.",
)
_LATER: Final = TestedCheck(name="times", state=CheckState.NOT_REACHED)
_WARNED: Final = TestedCheck(
    name="ldap_addresses",
    state=CheckState.PASSED,
    told="No email domain is verified. No one can sign in through this identity provider until one is.",
    mend="Add the email domain of your people to your organization, and verify it.",
)
_AT_FIELD: Final = TestedCheck(
    name="ldap_bind",
    state=CheckState.FAILED,
    told="The directory rejected the bind account.",
    mend="Compare the bind DN with the directory, and enter the bind password again.",
)
_TEST: Final = "directory/test.html"
_LINKS: Final = {"back": "#", "fields": {"ldap_bind": "#bind_dn"}, "new_domain": "#"}

_OF_FAILED: Final = TestResult(checks=[_PASSED, _FAILED, _LATER])

_PASSWORD: Final = "directory/password.html"
_AWAY: Final = "The provider of your organization does not answer as it should. Try again later, and"
_ASKED: Final = {
    "name": "Acme directory",
    "is_test": False,
    "typed": "ada",
    "errors": {},
    "action": "#",
    "cancel": "#",
    "flow": "x",
    "form_token": "x",
    "longest": 1024,
    "longest_name": 256,
}

STATES: Final = (
    State("asked before a test", _TEST, {"name": "Acme directory", "result": None, "action": "#", "flow": "x", "form_token": "x"}),
    State("a test that passed", _TEST, {"name": "Acme directory", "result": TestResult(checks=[_PASSED]), **_LINKS}),
    State("a test that passed with a warning", _TEST, {"name": "OpenLDAP", "result": TestResult(checks=[_PASSED, _WARNED]), **_LINKS}),
    State("a test that failed at a field", _TEST, {"name": "OpenLDAP", "result": TestResult(checks=[_AT_FIELD]), **_LINKS}),
    State(
        "a test that failed",
        _TEST,
        {"name": "Acme directory", "result": _OF_FAILED, **_LINKS},
        ENDLESS,
    ),
    State("asked for a directory's password", _PASSWORD, _ASKED, ENDLESS),
    State("asked for a directory's password in a test", _PASSWORD, {**_ASKED, "is_test": True, "typed": ""}),
    State("asked for a directory's password and a name", _PASSWORD, {**_ASKED, "typed": ""}),
    *(
        State(f"a directory's password that {why}", _PASSWORD, {**_ASKED, "errors": {"": said}}, *more)
        for why, said, *more in (
            ("was wrong", "The directory did not accept this name and password"),
            ("has expired there", "Your directory password has expired. Change it in the directory first."),
            ("we stopped", "Too many attempts in a short time. Try again in 30 minutes."),
            ("reached nobody", f"{_AWAY} give your administrator this reference: 0193-7ab2", ENDLESS),
        )
    ),
    State(
        "a directory's password that failed a test",
        _PASSWORD,
        {**_ASKED, "is_test": True, "errors": {"": "The directory did not accept this name and password"}},
    ),
)
