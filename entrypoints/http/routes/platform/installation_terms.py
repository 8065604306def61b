"""The terms that the installation asks everybody to accept."""

from core.domain.errors import BadRequest, NotFound
from core.domain.identity.proofs import StepUp
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import PLATFORM_OWNER
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.limits import UNLIMITED
from entrypoints.http.routes.tenancy.terms.terms import TermsBody, TermsRecord, change_of, terms_record

_TAGS = ("installation",)
_TERMS = "/api/platform/terms"


@endpoint.get(_TERMS, caller=PLATFORM_OWNER, tags=_TAGS)
async def get_installation_terms(_call: Call, postern: Postern) -> TermsRecord:
    """Get the terms of the installation

    All versions are kept, with who set them and how many people have accepted each.
    """
    return terms_record(await postern.tenancy.terms.list(None))


@endpoint.put(_TERMS, caller=PLATFORM_OWNER, limit=UNLIMITED, step_up=StepUp.ACCOUNT, refuses=(BadRequest,), tags=_TAGS)
async def set_installation_terms(call: Call[TermsBody], postern: Postern) -> TermsRecord:
    """Ask everybody to accept terms of the installation

    People are asked when they register, and at the next sign-in on the pages, and may go on without accepting until the date. From then on,
    everything but the person's account, its export, its deletion, the sign-out and the acceptance itself answers `TERMS_REQUIRED`. Platform
    owners accept as everybody does. You need a recent proof of who you are.
    """
    await postern.tenancy.terms.set_for_installation(call.caller, change_of(call.body), call.actor)
    return terms_record(await postern.tenancy.terms.list(None))


@endpoint.delete(_TERMS, caller=PLATFORM_OWNER, limit=UNLIMITED, step_up=StepUp.ACCOUNT, refuses=(NotFound,), status=204, tags=_TAGS)
async def end_installation_terms(call: Call, postern: Postern) -> NoBody:
    """Ask nobody to accept terms of the installation any more

    What people have accepted stays, and so does each version.
    """
    await postern.tenancy.terms.withdraw_for_installation(call.caller, call.actor)
    return NO_BODY
