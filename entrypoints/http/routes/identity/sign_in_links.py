"""Sign-in links by mail."""

from typing import Annotated

import msgspec

from core.domain.errors import BadRequest
from core.domain.identity.account_mails import AccountMail, Onward
from core.domain.identity.guards.puzzles import PuzzlePurpose
from core.domain.identity.sign_in import service_named
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Message
from entrypoints.http.machinery.callers import ANYONE
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import EmailText, Slug, email_field, example
from entrypoints.http.machinery.limits import AUTH, FORGOT_PASSWORD
from entrypoints.http.routes.identity.program_puzzles import PUZZLE_HEADERS, solvable


class MagicLinkRequest(msgspec.Struct, frozen=True):
    """The address of an account, and the destination of the link."""

    email: EmailText
    """The account's address."""
    org_slug: Annotated[Slug, example("acme")] | None = None
    """The organization whose branding the mail gets."""
    service_slug: Annotated[Slug, example("shop")] | None = None
    """A service of this organization. The link leads there once the person is signed in; without a service, to the account pages."""
    redirect_uri: Annotated[str, msgspec.Meta(max_length=2000), example("https://shop.example/callback")] | None = None
    """One of the service's redirect URIs; the first one by default. The authorization code goes there."""
    state: Annotated[str, msgspec.Meta(max_length=1000), example("af0ifjsldkj")] | None = None
    """A text that the redirect URI gets back with the code."""


@endpoint.post(
    "/api/auth/magic-link",
    caller=ANYONE,
    limit=(AUTH, FORGOT_PASSWORD),
    refuses=(BadRequest,),
    reads=PUZZLE_HEADERS,
    tags=("sign-in",),
)
async def request_magic_link(call: Call[MagicLinkRequest], postern: Postern) -> Message:
    """Ask for a mail with a link to sign in with

    The link works once, within 15 minutes, in any browser. The link opens a page whose button signs the person in, and asks for the second
    factor if there is one. The answer is always the same. No mail is sent if the address has no account, if nobody has verified the address
    yet, or if one of the account's organizations has turned sign-in links off. A link can lead only to a service that has a client secret
    or keys, because the codes of other services need a code challenge.
    """
    body = call.body
    email = email_field(body.email, postern.foundation.email_syntax)
    # A malformed redirect URI is refused here, where the caller gets the answer. Only the mail's job looks the service up.
    service_named(body.org_slug or "", body.service_slug or "")
    onward = Onward(service=body.service_slug or "", redirect_uri=body.redirect_uri or "", state=body.state or "")
    async with solvable(call, postern, PuzzlePurpose.LINK, email) as solved:
        await postern.identity.accounts.ask_as_stranger(
            AccountMail.SIGN_IN_LINK, email, body.org_slug or "", call.request.sender, onward, may_wait=solved, solved=solved
        )
    return Message("If there is an account with this address that may sign in by a link, a mail with one is on its way.")
