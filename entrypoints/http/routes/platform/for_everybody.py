"""The terms and the custom texts of the installation."""

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
    """Get the terms of service of the installation

    Return the current version and all earlier versions, each with the user who set it and the number of people who have accepted it.
    """
    return terms_record(await postern.tenancy.terms.list(None))


@endpoint.put(_TERMS, caller=PLATFORM_OWNER, limit=UNLIMITED, step_up=StepUp.ACCOUNT, refuses=(BadRequest,), tags=_TAGS)
async def set_installation_terms(call: Call[TermsBody], postern: Postern) -> TermsRecord:
    """Set the terms of service of the installation

    People are asked to accept the version when they register, and at their next sign-in. They can continue without accepting until the
    date. From then on, requests respond with `TERMS_REQUIRED` until the person accepts. A person's account, its export, its deletion, the
    sign-out and the acceptance itself are exempt. Platform owners must accept, too. Requires a recent sign-in or reauthentication.
    """
    await postern.tenancy.terms.set_for_installation(call.caller, change_of_terms(call.body), call.actor)
    return terms_record(await postern.tenancy.terms.list(None))


@endpoint.delete(_TERMS, caller=PLATFORM_OWNER, limit=UNLIMITED, step_up=StepUp.ACCOUNT, refuses=(NotFound,), status=204, tags=_TAGS)
async def end_installation_terms(call: Call, postern: Postern) -> NoBody:
    """Withdraw the terms of service of the installation

    All versions are kept, and so is the record of who accepted them.
    """
    await postern.tenancy.terms.withdraw_for_installation(call.caller, call.actor)
    return NO_BODY


_INSTALLATION_TEXT_TAGS = ("installation-texts",)
_TEXTS = "/api/platform/texts"


@endpoint.get(_TEXTS, caller=PLATFORM_OWNER, tags=_INSTALLATION_TEXT_TAGS)
async def list_installation_texts(call: Call[None, TextsQuery], postern: Postern) -> TextsRecord:
    """List the custom texts of the installation

    Custom texts of the installation take precedence over the default texts. Custom texts of an organization take precedence over both.
    """
    return texts_record(await postern.tenancy.own_texts.list(None, call.query.language, call.query.place), call.query)


@endpoint.get(f"{_TEXTS}/preview", caller=PLATFORM_OWNER, tags=_INSTALLATION_TEXT_TAGS)
async def preview_installation_texts(call: Call[None, TextPreviewQuery], postern: Postern) -> TextPreview:
    """Preview a page or email of the installation

    Send the name of an email, a page or a text, as for an organization. The preview uses the installation's texts, and no organization's
    branding.
    """
    return preview_of(call.query, call.caller, POSTERN, postern)


@endpoint.patch(
    _TEXTS, caller=PLATFORM_OWNER, limit=UNLIMITED, step_up=StepUp.ACCOUNT, refuses=(BadRequest, Conflict), tags=_INSTALLATION_TEXT_TAGS
)
async def change_installation_texts(call: Call[TextsPatch], postern: Postern) -> TextsVersion:
    """Change custom texts of the installation

    The rules are those for the texts of an organization. Links must be https URLs in the domains of `POSTERN_TEXT_HOSTS`. Requires a recent
    sign-in or reauthentication.
    """
    return TextsVersion(version=await postern.tenancy.own_texts.change_for_installation(change_of_texts(call.body), call.actor))


@endpoint.put(_TEXTS, caller=PLATFORM_OWNER, limit=UNLIMITED, step_up=StepUp.ACCOUNT, refuses=(BadRequest,), tags=_INSTALLATION_TEXT_TAGS)
async def replace_installation_texts(call: Call[WholeTextsBody], postern: Postern) -> TextsVersion:
    """Replace the custom texts of the installation

    In each language of the body, omitted texts are reset to the default. Configuration files use this endpoint. Requires a recent sign-in
    or reauthentication.
    """
    return TextsVersion(version=await postern.tenancy.own_texts.change_for_installation(whole_of(call.body), call.actor))
