"""The 38 jobs of an administrator, and how many presses each may take from the overview to the result. A press is a click, a choice or a
key that sends; a field that is typed into is none. Each test that does a job prints its steps: `pytest -s tests/browser/console`.
"""

import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from ops.browser.page import Page
from tests.browser.console.clicking import CountedClicks

ORDINARY: Final = 7
PROVIDER: Final = 8
# Until each check of the test has passed.
LDAP: Final = 10
JOBS: Final[Mapping[str, int]] = {
    # The first 24.
    **dict.fromkeys(
        (
            "thirty people invited at once",
            "why a person cannot sign in",
            "who signed in to an application last week, as a file",
            "the end of one person's sessions",
            "a logo",
            "a person found everywhere",
            "a webhook",
            "a changed setting put back",
            "a second client secret",
            "one entry of the audit log",
            "a token for SCIM",
            "the end of an application",
            "a test sign-in",
            "another owner",
            "what ends soon",
            "passkeys for administrators",
            "a role of an application for a team",
            "a mail domain",
            "a claim of one's own",
            "a key for machines",
            "acting as a person",
            "higher limits",
            "the events of a span sent again",
        ),
        ORDINARY,
    ),
    "Okta by SAML": PROVIDER,
    # Fourteen more.
    **dict.fromkeys(
        (
            "a rule for risk, in shadow with its report",
            "limits of sessions",
            "texts in English and German",
            "colours and corners",
            "terms published, and accepted",
            "texts of an organization approved",
            "mails held back",
            "who signed in, and how",
            "why one cannot, with the attempts",
            "lines for nginx",
            "another account of the same browser",
            "requests from afar",
        ),
        ORDINARY,
    ),
    "any provider of OpenID Connect for everybody": PROVIDER,
    "a directory by LDAP, until all checks pass": LDAP,
}
# What some of them begin with is done beside them: a team, a role of an application.
Job = Callable[[CountedClicks], Awaitable[None]]


def too_long(name: str, clicks: CountedClicks) -> str:
    """What is wrong with the count; empty if it is within the bar. Prints the steps."""
    presses, most = len(clicks.presses), JOBS.get(name, ORDINARY)
    said = f"{name}: {presses} of {most}: {', '.join(clicks.actions)}"
    sys.stdout.write(f"{said}\n")
    return said if presses > most else ""


async def clicked(page: Page, home: str, jobs: Mapping[str, Job]) -> Mapping[str, CountedClicks]:
    """Does each job, from this page on. One that fails does not hide how the others go."""
    counted, failed = {}, []
    for name, done in jobs.items():
        await page.open(home)
        counted[name] = CountedClicks(page)
        try:
            await done(counted[name])
        except AssertionError as error:
            error.add_note(f"{name}, after {', '.join(counted[name].actions)}")
            failed.append(error)
    if failed:
        raise ExceptionGroup("not done", failed)
    return counted
