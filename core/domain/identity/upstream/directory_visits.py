"""What a session remembers of a sign-in at an organization's identity provider: the SAML session, and the second factor."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

from core.domain.errors import BadRequest
from core.domain.formats import Json
from core.domain.identifiers import UpstreamProviderId
from core.domain.identity.upstream.providers import Upstream
from core.domain.identity.upstream.saml.assertions import DirectoryAssertion
from core.frozen import Frozen

MOST_FACTOR_VALUES: Final = 20
LONGEST_FACTOR_VALUE: Final = 300
# What an answer says beyond this is not read.
_MOST_READ: Final = 50
# Microsoft's directories say in this attribute how a person signed in, where others say it in the context.
METHODS_OF_MICROSOFT: Final = "http://schemas.microsoft.com/claims/authnmethodsreferences"
# These say that the person has shown a password, or nothing of how they signed in.
_OF_ONE_FACTOR: Final = frozenset(
    (
        *("pwd", "pin", "user", "fed", "unspecified"),
        *(
            f"urn:oasis:names:tc:SAML:2.0:ac:classes:{name}"
            for name in ("unspecified", "Password", "PasswordProtectedTransport", "PreviousSession")
        ),
        *(
            f"http://schemas.microsoft.com/ws/2008/06/identity/authenticationmethod/{name}"
            for name in ("password", "unspecified", "windows")
        ),
        *(f"urn:oasis:names:tc:SAML:1.0:am:{name}" for name in ("password", "unspecified")),
        "urn:federation:authentication:windows",
        "https://refeds.org/profile/sfa",
    )
)
# Our own contexts: a directory that states one of them states nothing.
_OURS: Final = ("urn:postern:", "http://schemas.openid.net/pape/policies/")


class DirectoryFactor(Frozen):
    """A second factor that an organization's own provider has required, as the session stores it. It counts for the organization's rule if
    an owner has chosen which of the provider's values assert it, and for nothing else: it is no factor of ours.
    """

    provider: UUID
    stated: str
    """The value by which the provider has stated it."""


def second_factor_values(given: Sequence[str]) -> tuple[str, ...]:
    """The values that count. Raises `BadRequest`, also for one that says a password alone."""
    if len(given) > MOST_FACTOR_VALUES or not all(_is_value(one) for one in given):
        raise BadRequest(
            f"second_factor_values: at most {MOST_FACTOR_VALUES}, of at most {LONGEST_FACTOR_VALUE} visible characters each",
            words="contexts_malformed",
            values={"count": MOST_FACTOR_VALUES, "most": LONGEST_FACTOR_VALUE},
        )
    for one in given:
        if one in _OF_ONE_FACTOR or one.startswith(_OURS):
            raise BadRequest(f"second_factor_values: {one} does not indicate a second factor", words="factor_value", values={"value": one})
    return tuple(dict.fromkeys(given))


def stated_factor(upstream: Upstream, stated: Iterable[str]) -> DirectoryFactor | None:
    """What a session keeps. None where the provider is none of an organization's own, and where none of its values counts."""
    if upstream.organization is None:
        return None
    counting = next((one for one in upstream.second_factor_values if one in stated), None)
    return None if counting is None else DirectoryFactor(UUID(upstream.key), counting)


def methods_of_token(claims: Mapping[str, Any]) -> tuple[str, ...]:
    """How the person signed in at a provider of OpenID Connect, by `amr` and `acr` of its ID token. User info says nothing of it."""
    amr = claims.get("amr")
    return _read((*(amr if isinstance(amr, list | tuple) else ()), claims.get("acr")))


def methods_of_assertion(assertion: DirectoryAssertion) -> tuple[str, ...]:
    """How the person signed in at a directory by SAML."""
    return _read((assertion.context_class, *assertion.values(METHODS_OF_MICROSOFT)))


def _read(values: Iterable[object]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one for one in values if isinstance(one, str) and _is_value(one)))[:_MOST_READ]


def _is_value(text: str) -> bool:
    return 0 < len(text) <= LONGEST_FACTOR_VALUE and text.isascii() and text.isprintable() and " " not in text


class DirectoryVisit(Frozen, kw_only=True):
    """A user's session at an identity provider by SAML, as far as the session that it opens has to remember it."""

    provider: UpstreamProviderId
    name_digest: bytes
    """The digest of the person's name there: a sign-out names the person by it. Empty for a provider of OpenID Connect, whose visit only
    says when it ends.
    """
    session_index: str = ""
    context_class: str = ""
    """How the person has proved there who they are. It counts in the services of the directory's organization alone."""
    issued_at: datetime | None = None
    """When the directory made its assertion, by its own clock. A sign-out that it asked for earlier does not concern this visit."""
    ends_at: datetime | None = None
    """When the directory wants the sessions that this visit opens to end (`SessionNotOnOrAfter`, `session_expiry`)."""

    @property
    def can_be_named(self) -> bool:
        """Whether a sign-out at the directory can name the sessions of this visit."""
        return self.name_digest != b""

    def stored(self) -> Mapping[str, Json]:
        return {
            "provider": str(self.provider),
            "name_digest": self.name_digest.hex(),
            "session_index": self.session_index,
            "context_class": self.context_class,
            "issued_at": None if self.issued_at is None else self.issued_at.isoformat(),
            "ends_at": None if self.ends_at is None else self.ends_at.isoformat(),
        }


def ending_visit(provider: UpstreamProviderId, ends_at: datetime | None) -> DirectoryVisit | None:
    """The visit to a provider of OpenID Connect that says when it ends. None when it does not say."""
    return None if ends_at is None else DirectoryVisit(provider=provider, name_digest=b"", ends_at=ends_at)


def restored_visit(kept: Mapping[str, Any]) -> DirectoryVisit:
    return DirectoryVisit(
        provider=UpstreamProviderId(UUID(kept["provider"])),
        name_digest=bytes.fromhex(kept["name_digest"]),
        session_index=kept["session_index"],
        context_class=kept["context_class"],
        issued_at=_moment(kept.get("issued_at")),
        ends_at=_moment(kept.get("ends_at")),
    )


def _moment(kept: str | None) -> datetime | None:
    return None if kept is None else datetime.fromisoformat(kept)


def name_digest(provider: UpstreamProviderId, name: str) -> bytes:
    """The digest of a name, which a sign-out repeats. Its qualifiers are left out, since directories do not always repeat them."""
    return sha256(f"{provider} {name}".encode("utf-8", "surrogatepass")).digest()
