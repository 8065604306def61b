"""The health of the installation, as `postern doctor` says it."""

from collections.abc import Mapping
from typing import Final

from entrypoints import checks
from entrypoints.bootstrap import Postern
from entrypoints.checks import Verdict
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.callers import PLATFORM_OWNER
from entrypoints.http.machinery.limits import CREDENTIALS, PAGE_LOADS
from entrypoints.http.pages.console.cells import Tone
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.handlers import stated
from entrypoints.http.pages.console.platform.platform_tabs import HEALTH, HEALTH_TAB, OVERVIEW_ENTRY, position
from entrypoints.http.pages.console.visit import AnyCall, Head, Page, PageVisit

_VERDICTS: Final[Mapping[Verdict, tuple[str, Tone]]] = {
    Verdict.OK: ("console.state.in_order", Tone.GOOD),
    Verdict.WARN: ("console.state.attention", Tone.WARN),
    Verdict.SOON: ("console.state.attention", Tone.BAD),
    Verdict.FAIL: ("console.state.broken", Tone.BAD),
}


async def _show_health(call: AnyCall, postern: Postern) -> Page:
    visit = PageVisit(call, postern)
    findings = []
    for subject, finding in await checks.of_running(postern):
        key, tone = _VERDICTS[finding.verdict]
        findings.append((subject, visit.text(key), tone, finding.text))
    title = visit.text("console.health.title")
    return Answer(
        visit.show("platform/overview/health.html", position(OVERVIEW_ENTRY, HEALTH_TAB), Head(title=title), findings=findings), 200
    )


# Each look opens connections to the database and to the mail server.
PAGES: Final = (
    console.get(HEALTH, of=PLATFORM_OWNER, limit=(PAGE_LOADS, CREDENTIALS))(stated(_show_health, "show_health_of_installation", HEALTH)),
)
