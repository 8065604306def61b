"""What the installation says for everybody: its terms, and its texts in place of ours."""

from core.domain.branding import POSTERN
from core.domain.errors import BadRequest, Conflict, NotFound
from core.domain.identity.proofs import StepUp
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import PLATFORM_OWNER
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.limits import UNLIMITED
from entrypoints.http.routes.tenancy.terms import TermsBody, TermsRecord, change_of_terms, terms_record
from entrypoints.http.routes.tenancy.texts import (
    TextPreview,
    TextPreviewQuery,
    TextsPatch,
    TextsQuery,
    TextsRecord,
    TextsVersion,
    WholeTextsBody,
    change_of_texts,
    preview_of,
    texts_record,
    whole_of,
)

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
    """Set the terms of service of the installation

    People are asked when they register, and at the next sign-in on the pages, and may continue without accepting until the date. From then
    on, everything but the person's account, its export, its deletion, the sign-out and the acceptance itself answers `TERMS_REQUIRED`.
    Platform owners accept as everyone does. Requires a recent sign-in or reauthentication.
    """
    await postern.tenancy.terms.set_for_installation(call.caller, change_of_terms(call.body), call.actor)
    return terms_record(await postern.tenancy.terms.list(None))


@endpoint.delete(_TERMS, caller=PLATFORM_OWNER, limit=UNLIMITED, step_up=StepUp.ACCOUNT, refuses=(NotFound,), status=204, tags=_TAGS)
async def end_installation_terms(call: Call, postern: Postern) -> NoBody:
    """Withdraw the terms of service of the installation

    What people have accepted stays, and so does each version.
    """
    await postern.tenancy.terms.withdraw_for_installation(call.caller, call.actor)
    return NO_BODY


_INSTALLATION_TEXT_TAGS = ("installation-texts",)
_TEXTS = "/api/platform/texts"


@endpoint.get(_TEXTS, caller=PLATFORM_OWNER, tags=_INSTALLATION_TEXT_TAGS)
async def list_installation_texts(call: Call[None, TextsQuery], postern: Postern) -> TextsRecord:
    """List the custom texts of the installation

    They take precedence over the default texts. Organizations' custom texts take precedence over them.
    """
    return texts_record(await postern.tenancy.own_texts.list(None, call.query.language, call.query.place), call.query)


@endpoint.get(f"{_TEXTS}/preview", caller=PLATFORM_OWNER, tags=_INSTALLATION_TEXT_TAGS)
async def preview_installation_texts(call: Call[None, TextPreviewQuery], postern: Postern) -> TextPreview:
    """Preview a page or email of the installation

    As for an organization: name an email, a page or a text. It uses the installation's texts, and no organization's branding.
    """
    return preview_of(call.query, call.caller, POSTERN, postern)


@endpoint.patch(
    _TEXTS, caller=PLATFORM_OWNER, limit=UNLIMITED, step_up=StepUp.ACCOUNT, refuses=(BadRequest, Conflict), tags=_INSTALLATION_TEXT_TAGS
)
async def change_installation_texts(call: Call[TextsPatch], postern: Postern) -> TextsVersion:
    """Change custom texts of the installation

    As for an organization. Links lead to the domains that `POSTERN_TEXT_HOSTS` lists. Requires a recent sign-in or reauthentication.
    """
    return TextsVersion(version=await postern.tenancy.own_texts.change_for_installation(change_of_texts(call.body), call.actor))


@endpoint.put(_TEXTS, caller=PLATFORM_OWNER, limit=UNLIMITED, step_up=StepUp.ACCOUNT, refuses=(BadRequest,), tags=_INSTALLATION_TEXT_TAGS)
async def replace_installation_texts(call: Call[WholeTextsBody], postern: Postern) -> TextsVersion:
    """Replace the custom texts of languages of the installation

    In the languages of the body, each omitted text is reset to the default. Configuration files use this endpoint. Requires a recent
    sign-in or reauthentication.
    """
    return TextsVersion(version=await postern.tenancy.own_texts.change_for_installation(whole_of(call.body), call.actor))
