"""The logos of organizations, as their pages and mails show them: our copies, from our address."""

import msgspec

from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.callers import ANYONE
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.limits import PAGE_LOADS
from entrypoints.http.pages import FOREVER


class LogoPath(msgspec.Struct, frozen=True):
    digest: str


@endpoint.get("/logos/{digest}", caller=ANYONE, limit=PAGE_LOADS, cache=FOREVER)
async def logo(call: Call[None, None, LogoPath], postern: Postern) -> Answer[bytes]:
    """The logo with this digest. Its bytes have said what it is, and browsers are told not to look further."""
    found = await postern.tenancy.branding.logo(call.path.digest)
    return Answer(found.content, 200, ((b"content-type", found.media_type.encode()),))
