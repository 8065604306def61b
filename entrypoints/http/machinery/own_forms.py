"""Make sure that a form comes from a page of Postern, and that no other site has sent the form in a person's name.

Some forms carry the secret of a mailed link, which no other site knows. For these forms, a check of the origin that the browser names is
enough. A page for people with a session in their browser needs more: its form has a token that is bound to the session. The dispatcher
checks this token with the secret that the caller rule reads from the cookie.
"""

from core.domain.errors import Forbidden
from entrypoints.http.machinery.calls import Request


def require_own_form(request: Request, origin: str) -> None:
    """Raises `Forbidden` when a page of another site has sent the form. Browsers name the form's origin in `Sec-Fetch-Site`, at least over
    https, and in `Origin`, which Postern's referrer policy turns into `null`. Without both headers, the form's token must be enough.
    """
    site = request.header(b"sec-fetch-site")
    given = request.header(b"origin")
    own = given in {None, b"null", origin.encode()} if site is None else site == b"same-origin"
    if not own:
        raise Forbidden("This form was not sent from our own page", words="foreign_form")


def is_of_another_origin(request: Request, origin: str) -> bool:
    """Whether a page of another site has sent the request. The browser then ignores the cookies of the answer."""
    return request.header(b"origin") not in {None, origin.encode()}
