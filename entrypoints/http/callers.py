"""Who may call. A rule lets a request in as somebody or refuses it; every endpoint declares one.

A further kind of caller (a member with a capability, an API key, a SCIM token) is one more object of this shape.
"""

from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

from core.domain.errors import Forbidden, Refusal, TokenExpired, TokenInvalid, Unauthorized
from core.domain.sessions import Caller
from entrypoints.http.calls import Request, RequestServices


@dataclass(frozen=True, slots=True)
class SecurityScheme:
    """How OpenAPI says it."""

    name: str
    definition: dict[str, Any]


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
    refuses: tuple[type[Refusal], ...] = (Unauthorized, TokenExpired, TokenInvalid)

    async def admit(self, request: Request, services: RequestServices) -> Caller:
        request.caller = caller = await services.callers.resolve(bearer_token(request))
        return caller


class _PlatformOwner(_User):
    name = "platform_owner"
    refuses = (*_User.refuses, Forbidden)

    async def admit(self, request: Request, services: RequestServices) -> Caller:
        caller = await super().admit(request, services)
        if not caller.is_platform_owner:
            raise Forbidden
        return caller


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
PLATFORM_OWNER: Final[CallerRule] = _PlatformOwner()
