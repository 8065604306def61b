"""The health of the installation: what `postern doctor` finds, with what needs somebody first."""

from collections.abc import Mapping
from typing import Final

from entrypoints import checks
from entrypoints.bootstrap import Postern
from entrypoints.checks import Verdict
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.callers import PLATFORM_OWNER
from entrypoints.http.machinery.limits import CREDENTIALS, PAGE_LOADS
from entrypoints.http.pages.console.cells import Tone, code, number, plain, rows_of, when
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.handlers import stated
from entrypoints.http.pages.console.platform.platform_tabs import (
    EXPIRIES,
    HEALTH,
    HEALTH_TAB,
    JOBS,
    OVERVIEW_ENTRY,
    PROVIDERS,
    SETTINGS,
    SIGNING_KEYS,
    position,
)
from entrypoints.http.pages.console.visit import AnyCall, Head, Page, PageVisit

_QUEUES: Final = (code("kind"), number("waiting"), number("dead"), when("oldest_due"))
_PROVIDERS: Final = (
    plain("provider", "console.field.provider"),
    plain("organization", "console.field.organization"),
    when("failed_at"),
)
_PROCESSES: Final = (code("version"), code("host", "console.field.comes_from"), when("since"))
_VERSIONS: Final = (code("version", "console.field.this_version"), code("schema"))
_PROBLEMS: Final[Mapping[Verdict, tuple[str, Tone]]] = {
    Verdict.WARN: ("console.state.attention", Tone.WARN),
    Verdict.SOON: ("console.state.attention", Tone.BAD),
    Verdict.FAIL: ("console.state.broken", Tone.BAD),
}
# The worst first.
_ORDER: Final = (Verdict.FAIL, Verdict.SOON, Verdict.WARN, Verdict.OK)
_THERE: Final[Mapping[str, str]] = {
    **dict.fromkeys(("base URL", "trusted proxies", "rate limits", "mail", "billing", "connections"), SETTINGS),
    "keys": SIGNING_KEYS,
    "SAML certificates": EXPIRIES,
    "jobs": JOBS,
    "providers": PROVIDERS,
}
"""The page that has what a check is about."""


def subject_key(subject: str) -> str:
    """The text key of what a check is about."""
    return f"console.health.subject_{_key(subject)}"


def mend_key(subject: str) -> str:
    """The text key of what mends it."""
    return f"console.health.mend_{_key(subject)}"


def _key(subject: str) -> str:
    return subject.lower().replace(" ", "_")


async def _show_health(call: AnyCall, postern: Postern) -> Page:
    visit = PageVisit(call, postern)
    found = sorted(await checks.of_running(postern), key=lambda one: _ORDER.index(one[1].verdict))
    problems = [
        (
            visit.text(subject_key(subject)),
            visit.text(_PROBLEMS[finding.verdict][0]),
            _PROBLEMS[finding.verdict][1],
            visit.text(mend_key(subject)),
            finding.text.split("`"),
            _THERE.get(subject, ""),
        )
        for subject, finding in found
        if finding.verdict is not Verdict.OK
    ]
    queues = await postern.foundation.jobs.state()
    state = await postern.platform.installation.state()
    fine = [(visit.text(subject_key(subject)), finding) for subject, finding in found if finding.verdict is Verdict.OK]
    page = visit.show(
        "platform/overview/health.html",
        position(OVERVIEW_ENTRY, HEALTH_TAB),
        Head(title=visit.text("console.health.title")),
        problems=problems,
        in_order=[(subject, finding.text.split("`")) for subject, finding in fine if finding.is_used],
        tables=[
            (
                visit.text(f"console.installation_at_a_glance.{name}"),
                columns,
                rows_of(columns, rows, visit.text, visit.path),
            )
            for name, columns, rows in (
                ("queues", _QUEUES, queues),
                ("outages", _PROVIDERS, state.providers),
                ("processes", _PROCESSES, state.processes),
            )
            if rows
        ],
        versions=[
            (visit.text(_VERSIONS[0].label), code(lambda _: postern.foundation.version, "-").cell(state, visit.text, visit.path)),
            (visit.text(_VERSIONS[1].label), _VERSIONS[1].cell(state, visit.text, visit.path)),
        ],
        unused=[subject for subject, finding in fine if not finding.is_used],
    )
    return Answer(page, 200)


# Each look opens connections to the database and to the mail server.
PAGES: Final = (
    console.get(HEALTH, of=PLATFORM_OWNER, limit=(PAGE_LOADS, CREDENTIALS))(stated(_show_health, "show_health_of_installation", HEALTH)),
)
