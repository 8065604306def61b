"""The texts that the installation puts in place of ours."""

from core.domain.branding import POSTERN
from core.domain.errors import BadRequest, Conflict
from core.domain.identity.proofs import StepUp
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import PLATFORM_OWNER
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.limits import UNLIMITED
from entrypoints.http.routes.tenancy.texts.previews import TextPreview, TextPreviewQuery, preview_of
from entrypoints.http.routes.tenancy.texts.texts import (
    TextsPatch,
    TextsQuery,
    TextsRecord,
    TextsVersion,
    WholeTextsBody,
    change_of,
    texts_record,
    whole_of,
)

_TAGS = ("installation-texts",)
_TEXTS = "/api/platform/texts"


@endpoint.get(_TEXTS, caller=PLATFORM_OWNER, tags=_TAGS)
async def list_installation_texts(call: Call[None, TextsQuery], postern: Postern) -> TextsRecord:
    """List the texts of the installation

    They stand over ours, and below those of organizations.
    """
    return texts_record(await postern.tenancy.own_texts.list(None, call.query.language, call.query.place), call.query)


@endpoint.get(f"{_TEXTS}/preview", caller=PLATFORM_OWNER, tags=_TAGS)
async def preview_installation_texts(call: Call[None, TextPreviewQuery], postern: Postern) -> TextPreview:
    """Look at a page or mail of the installation

    As for an organization: name a mail, a page or a text. It has the installation's texts, and no organization's looks.
    """
    return preview_of(call.query, call.caller, POSTERN, postern)


@endpoint.patch(_TEXTS, caller=PLATFORM_OWNER, limit=UNLIMITED, step_up=StepUp.ACCOUNT, refuses=(BadRequest, Conflict), tags=_TAGS)
async def change_installation_texts(call: Call[TextsPatch], postern: Postern) -> TextsVersion:
    """Change texts of the installation

    As for an organization. Links lead to the domains that `POSTERN_TEXT_HOSTS` lists. You need a recent proof of
    who you are.
    """
    return TextsVersion(version=await postern.tenancy.own_texts.change_for_installation(change_of(call.body), call.actor))


@endpoint.put(_TEXTS, caller=PLATFORM_OWNER, limit=UNLIMITED, step_up=StepUp.ACCOUNT, refuses=(BadRequest,), tags=_TAGS)
async def replace_installation_texts(call: Call[WholeTextsBody], postern: Postern) -> TextsVersion:
    """Replace the texts of languages of the installation

    Of the languages that the body names, each text that it leaves out is ours again. Configuration documents do this.
    You need a recent proof of who you are.
    """
    return TextsVersion(version=await postern.tenancy.own_texts.change_for_installation(whole_of(call.body), call.actor))
