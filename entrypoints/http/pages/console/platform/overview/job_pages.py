"""Dead jobs: background work that was given up, and the button that takes it up again."""

from contextlib import suppress
from typing import Final

from core.domain.errors import NotFound
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.pages.console.cells import code, number, plain, rows_of, when
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.handlers import stated
from entrypoints.http.pages.console.platform.platform_tabs import JOBS, JOBS_TAB, OVERVIEW_ENTRY, position
from entrypoints.http.pages.console.visit import AnyCall, DoneLink, Head, Page, PageVisit, button
from entrypoints.http.routes.platform.dead_jobs import list_dead_jobs, retry_job

_REVIVED: Final = button("console.jobs.revive")

_REVIVE: Final = f"{JOBS}/{{job_id}}/revive"
_COLUMNS: Final = (code("kind"), plain("last_error"), number("attempts"), when("created_at"), when("died_at"))


async def _show_jobs(call: AnyCall, postern: Postern) -> Page:
    visit = PageVisit(call, postern)
    jobs = (await visit.ask(list_dead_jobs)).jobs
    rows = rows_of(_COLUMNS, jobs, visit.text, visit.path)
    page = visit.show(
        "platform/overview/jobs.html",
        position(OVERVIEW_ENTRY, JOBS_TAB),
        Head(title=visit.text("console.jobs.title"), curl=visit.curl(list_dead_jobs), done=call.query.done),
        columns=_COLUMNS,
        rows=[(cells, visit.here(_REVIVE, job_id=job.id)) for cells, job in zip(rows, jobs, strict=True)],
    )
    return Answer(page, 200)


async def _revive_job(call: AnyCall, postern: Postern) -> Page:
    visit = PageVisit(call, postern)
    # A job that somebody else has taken up meanwhile, or the same form sent twice, needs nothing more.
    with suppress(NotFound):
        await visit.ask(retry_job)
    return redirect(f"{JOBS}?done={_REVIVED}")


PAGES: Final = (
    console.get(JOBS, of=list_dead_jobs)(stated(_show_jobs, "show_dead_jobs", JOBS, query=DoneLink)),
    console.post(_REVIVE, of=retry_job)(stated(_revive_job, "revive_job", _REVIVE, body=BoundForm)),
)
