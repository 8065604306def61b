"""The pictures of people, and the logos of organizations and providers: our own copies, served from our address."""

from typing import Annotated
from uuid import UUID

import msgspec

from core.domain.identifiers import PictureId
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.callers import ANYONE
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import Line
from entrypoints.http.machinery.limits import PAGE_LOADS
from entrypoints.http.pages.kit import FOREVER


class LogoPath(msgspec.Struct, frozen=True):
    digest: Line


@endpoint.get("/logos/{digest}", caller=ANYONE, limit=PAGE_LOADS, cache=FOREVER)
async def logo(call: Call[None, None, LogoPath], postern: Postern) -> Answer[bytes]:
    """The logo with this digest. We know the type from its bytes, and tell browsers not to guess another."""
    found = await postern.tenancy.branding.logo(call.path.digest)
    return Answer(found.content, 200, ((b"content-type", found.media_type.encode()),))


class PicturePath(msgspec.Struct, frozen=True):
    picture_id: Annotated[UUID, msgspec.Meta(description="The picture's id, from its address.")]


@endpoint.get("/pictures/{picture_id}", caller=ANYONE, limit=PAGE_LOADS, cache=FOREVER)
async def picture(call: Call[None, None, PicturePath], postern: Postern) -> Answer[bytes]:
    """The picture with this id. We know the type from its bytes, and tell browsers not to guess another."""
    found = await postern.identity.pictures.get(PictureId(call.path.picture_id))
    return Answer(found.content, 200, ((b"content-type", found.media_type.encode()),))
