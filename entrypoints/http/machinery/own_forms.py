"""Makes sure that a form comes from our own page, and that no other site has sent it in somebody's name.

These forms have the secret of a mailed link, which no other site knows. So besides the secret it is enough to check the origin that the
browser names. A page for people with a session in their browser needs more: a token in its form that is bound to the session. The caller
rule that reads the cookie checks this token.
"""

from core.domain.errors import Forbidden
from entrypoints.http.machinery.calls import Request


def require_own_form(request: Request, origin: str) -> None:
    """Browsers say where a form comes from: in `Sec-Fetch-Site`, at least over https, and in `Origin`, which our referrer policy turns into
    `null`. Where they send neither, the form's token, which only the mail has, must be enough.
    """
    site = request.header(b"sec-fetch-site")
    given = request.header(b"origin")
    own = given in {None, b"null", origin.encode()} if site is None else site == b"same-origin"
    if not own:
        raise Forbidden("This form was not sent from our own page", words="foreign_form")


def is_of_another_origin(request: Request, origin: str) -> bool:
    """Whether a page of another site has sent the request. Its browser ignores the cookies of our answer."""
    return request.header(b"origin") not in {None, origin.encode()}
