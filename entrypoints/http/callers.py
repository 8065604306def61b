"""Who may call. A rule lets a request in as somebody or refuses it; every endpoint declares one.

A further kind of caller (a member with a capability, an API key, a SCIM token) is one more object of this shape.
"""

from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

from core.domain.errors import Forbidden, OrganizationNotActive, Refusal, TokenExpired, TokenInvalid, Unauthorized
from core.domain.events import Actor
from core.domain.identifiers import SessionId
from core.domain.secrets import Token
from core.domain.sessions import Caller, Participation
from entrypoints.http.calls import Request, RequestServices


@dataclass(frozen=True, slots=True)
class SecurityScheme:
    """How OpenAPI says it."""

    name: str
    definition: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Leaving:
    """A session that its holder wants to end, and who that is."""

    session: SessionId
    actor: Actor


@runtime_checkable
class CallerRule(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def scheme(self) -> SecurityScheme | None:
        """None: nothing has to be presented."""

    @property
    def refuses(self) -> tuple[type[Refusal], ...]: ...

    async def admit(self, request: Request, services: RequestServices) -> Any:
        """Whoever calls, as the type that the handler's `Call` names; None when the rule asks for nobody. Raises one of `refuses`."""


BEARER: Final = SecurityScheme("bearer", {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"})
# An access token of ours is well below; beyond it nothing is worth hashing or parsing.
_LONGEST_TOKEN = 8192


class _Anyone:
    name = "anyone"
    scheme = None
    refuses: tuple[type[Refusal], ...] = ()

    async def admit(self, request: Request, services: RequestServices) -> None:
        """Nobody is asked."""


class _User:
    name = "user"
    scheme = BEARER
    refuses: tuple[type[Refusal], ...] = (Unauthorized, TokenExpired, TokenInvalid, Forbidden, OrganizationNotActive)
    participation = Participation.ACTIVE

    async def admit(self, request: Request, services: RequestServices) -> Caller:
        request.caller = caller = await services.callers.resolve(bearer_token(request), self.participation)
        if caller.impersonator is not None:
            await services.impersonations.witness(caller, request.method, request.path, request.actor)
        return caller


class _UserOfInactive(_User):
    """For what members may still see of an organization that is suspended or pending."""

    name = "user_of_inactive"
    refuses = tuple(refusal for refusal in _User.refuses if refusal is not OrganizationNotActive)
    participation = Participation.MEMBER


class _OwnUser(_User):
    """For what only the person may do: whoever acts in their name is refused."""

    name = "own_user"

    async def admit(self, request: Request, services: RequestServices) -> Caller:
        caller = await super().admit(request, services)
        if caller.impersonator is not None:
            raise Forbidden("This cannot be done while impersonating")
        return caller


class _PlatformOwner(_User):
    name = "platform_owner"

    async def admit(self, request: Request, services: RequestServices) -> Caller:
        caller = await super().admit(request, services)
        if not caller.is_platform_owner:
            raise Forbidden
        return caller


class _Leaving:
    """For who wants to end a session: the token must be one of ours and name it, but the session may have ended already, so that saying it
    twice is no error, and its organization does not matter.
    """

    name = "leaving"
    scheme = BEARER
    refuses: tuple[type[Refusal], ...] = (Unauthorized, TokenExpired, TokenInvalid)

    async def admit(self, request: Request, services: RequestServices) -> Leaving:
        session, user, impersonator = await services.callers.signed(bearer_token(request))
        return Leaving(session, request.client.actor(user, impersonator))


class _Preauthenticated:
    """For who has shown a password and owes a second factor. The token may also come in the body, which is read later: then the handler
    passes that one on. None: there is none in the header.
    """

    name = "preauthenticated"
    scheme = SecurityScheme(
        "preauth", {"type": "http", "scheme": "bearer", "description": "The pre-auth token that signing in answers with."}
    )
    refuses: tuple[type[Refusal], ...] = (Unauthorized, TokenExpired, TokenInvalid)

    async def admit(self, request: Request, services: RequestServices) -> Token | None:
        if request.header(b"authorization") is None:
            return None
        token = Token(bearer_token(request))
        await services.sign_in.require_preauthentication(token)
        return token


def bearer_token(request: Request) -> str:
    header = request.header(b"authorization")
    if header is None:
        raise Unauthorized
    scheme, _, token = header.partition(b" ")
    if scheme.lower() != b"bearer":
        raise Unauthorized
    token = token.strip()
    if not token.isascii() or not 0 < len(token) <= _LONGEST_TOKEN:
        raise TokenInvalid
    return token.decode("ascii")


ANYONE: Final[CallerRule] = _Anyone()
USER: Final[CallerRule] = _User()
USER_OF_INACTIVE: Final[CallerRule] = _UserOfInactive()
LEAVING: Final[CallerRule] = _Leaving()
PREAUTHENTICATED: Final[CallerRule] = _Preauthenticated()
OWN_USER: Final[CallerRule] = _OwnUser()
PLATFORM_OWNER: Final[CallerRule] = _PlatformOwner()
