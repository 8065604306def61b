"""Evidence of who has heard of the end of a person's access: a file that a browser stores."""

from typing import Final, cast

from core.domain.tenancy.members import Member
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.declaring import console
from entrypoints.http.console.kit.many import attachment
from entrypoints.http.console.kit.visit import Head, Page, PageVisit
from entrypoints.http.console.organization.organization_tabs import AUDIT_LOG, AUDIT_LOG_TAB, LOGS_ENTRY, position
from entrypoints.http.console.organization.settings.entry_receivers import EVIDENCE, OFFBOARDING
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.routes.record.entry_receivers import OffboardingPath
from entrypoints.http.routes.record.evidence import create_offboarding_evidence


@console.get(EVIDENCE, of=create_offboarding_evidence)
async def ask_for_offboarding_evidence(call: Call[None, None, OffboardingPath, Member], postern: Postern) -> Page:
    """See what signed evidence contains, and create it"""
    visit = PageVisit(call, postern)
    of_person = visit.here(OFFBOARDING, user_id=call.path.user_id)
    head = Head(
        title=visit.text("console.evidence.title"),
        crumbs=(
            (visit.text("console.audit_log.title"), visit.here(AUDIT_LOG)),
            (visit.text("console.entry_receivers.offboarding"), of_person),
        ),
        curl=visit.curl(create_offboarding_evidence),
    )
    page = visit.show(
        "organization/settings/evidence.html",
        position(LOGS_ENTRY, AUDIT_LOG_TAB),
        head,
        person_id=str(call.path.user_id),
        action=visit.here(EVIDENCE, user_id=call.path.user_id),
    )
    return Answer(page, 200)


@console.post(EVIDENCE, of=create_offboarding_evidence)
async def store_offboarding_evidence(call: Call[BoundForm, None, OffboardingPath, Member], postern: Postern) -> Page:
    """Create signed evidence of who received the end of a person's access"""
    visit = PageVisit(call, postern)
    made = await visit.ask(create_offboarding_evidence)
    return cast("Page", Answer(made.file.encode(), 200, attachment(visit, f"offboarding-{call.path.user_id}.jwt", "application/jwt")))


PAGES: Final = (ask_for_offboarding_evidence, store_offboarding_evidence)
