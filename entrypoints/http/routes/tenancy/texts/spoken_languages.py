"""The languages of an organization."""

from typing import Annotated, Final

import msgspec

from core.domain.errors import BadRequest
from core.domain.languages import Language
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.texts import MOST_LANGUAGES, SpokenLanguages
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import MEMBER, able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import OrganizationPath
from entrypoints.http.machinery.limits import CREDENTIALS

_TAGS: Final = ("settings",)
_LANGUAGES: Final = "/api/organizations/{org_slug}/languages"

# Any text is decoded, so that a language that we do not have is refused in words.
_Code = Annotated[str, msgspec.Meta(extra_json_schema={"enum": [one.value for one in Language]}, examples=["de"])]


class LanguagesPatch(msgspec.Struct, frozen=True, kw_only=True):
    """The languages of an organization."""

    languages: Annotated[list[_Code], msgspec.Meta(extra_json_schema={"maxItems": MOST_LANGUAGES}, examples=[["de", "en"]])] | None
    """The first one first: who reads none of them gets this one. An empty list, or null, means all of ours, and English to everybody else.
    """


class LanguagesRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The languages of an organization."""

    languages: Annotated[list[Language], msgspec.Meta(examples=[["de", "en"]])]
    """The first one first. An empty list means all of ours."""


@endpoint.patch(
    _LANGUAGES,
    caller=able(Capability.SETTINGS_MANAGE, impersonated=True),
    keys=True,
    limit=CREDENTIALS,
    refuses=(BadRequest,),
    tags=_TAGS,
)
async def change_languages(call: Call[LanguagesPatch, None, OrganizationPath, Member], postern: Postern) -> LanguagesRecord:
    """Change the languages of an organization

    Pages and mails that have the organization's branding speak these languages and no other.
    """
    return _recorded(await postern.tenancy.spoken_languages.change(call.caller, call.body.languages or (), call.actor))


@endpoint.get(_LANGUAGES, caller=MEMBER, keys=True, tags=_TAGS)
async def get_languages(call: Call[None, None, OrganizationPath, Member], postern: Postern) -> LanguagesRecord:
    """Get the languages of an organization

    The pages and mails that have its branding speak these languages.
    """
    return _recorded(await postern.tenancy.spoken_languages.get(call.caller))


def _recorded(spoken: SpokenLanguages) -> LanguagesRecord:
    return LanguagesRecord(languages=list(spoken.languages))
