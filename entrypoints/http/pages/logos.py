"""The logos of organizations and of providers, for pages and mails: our own copies, served from our address."""

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
    """The logo with this digest. We know the type from its bytes, and tell browsers not to guess another."""
    found = await postern.tenancy.branding.logo(call.path.digest)
    return Answer(found.content, 200, ((b"content-type", found.media_type.encode()),))
