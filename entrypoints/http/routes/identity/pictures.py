"""The picture of one's own account."""

from core.domain.errors import BadRequest, NotFound
from core.domain.identity.profiles import LARGEST_PICTURE, PICTURE_TYPES
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import RawOfTypes
from entrypoints.http.machinery.answers import NO_BODY, NoBody
from entrypoints.http.machinery.callers import OWN_USER
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.decoding import media_type_of
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.limits import CREDENTIALS
from entrypoints.http.routes.identity.accounts import Profile, shown_profile

_TAGS = ("account",)
_PICTURE = "/api/user/picture"


@endpoint.put(
    _PICTURE,
    caller=OWN_USER,
    limit=CREDENTIALS,
    accepts=RawOfTypes(PICTURE_TYPES, LARGEST_PICTURE),
    refuses=(BadRequest, NotFound),
    tags=_TAGS,
)
async def set_picture(call: Call[bytes], postern: Postern) -> Profile:
    """Set your picture

    The body is the image: PNG, JPEG or WebP, at most 256 KiB, and at most 2048 pixels on each side. Postern strips metadata, such as the
    location of a photo. Orientation is metadata, too: rotate the photo before you upload it. Anyone with the `picture_url` can see the
    picture.
    """
    declared = media_type_of(call.request.header(b"content-type") or b"").decode("ascii", "replace")
    held = await postern.identity.pictures.put(call.caller.user, call.body, call.actor, declared=declared)
    return shown_profile(call.caller, postern, held)


@endpoint.delete(_PICTURE, caller=OWN_USER, status=204, limit=CREDENTIALS, tags=_TAGS)
async def delete_picture(call: Call, postern: Postern) -> NoBody:
    """Delete your picture

    The response is the same if there was none. Browsers can still have the picture in their cache.
    """
    await postern.identity.pictures.remove(call.caller.user, call.actor)
    return NO_BODY
