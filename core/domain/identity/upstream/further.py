"""Further providers of the installation, besides the three: any provider of OpenID Connect by its issuer, and any of OAuth 2.0 by its
addresses. None of them proves or vouches for an address: it says who comes back, by its name and the subject alone.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from core.domain.changes import UNCHANGED, Checks, RecordChange, Unchanged, checked
from core.domain.errors import BadRequest
from core.domain.identifiers import FurtherProviderId
from core.domain.identity.upstream.further_settings import ClientSecretKind, FurtherKind, FurtherSettings
from core.domain.identity.upstream.providers import RESERVED_NAMES, SHORT_NAME
from core.domain.json import Json
from core.domain.lines import typed_line
from core.domain.outbound.destinations import NotADestination, destination
from core.domain.record.differences import differences
from core.domain.record.events import Actor, Event, Target
from core.frozen import Frozen, replace

# Each is a button on the sign-in page.
MOST_FURTHER: Final = 20
MOST_SCOPES: Final = 20
MOST_OFFERED: Final = 200
LONGEST_SHORT_NAME: Final = 30
LONGEST_NAME: Final = 100
LONGEST_ADDRESS: Final = 500
LONGEST_PATH: Final = 200
LONGEST_SCOPE: Final = 200
LONGEST_CLIENT: Final = 500
LONGEST_SECRET: Final = 4000
# RFC 6749 section 3.3.
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
# A member of a JSON object, or one below it: `data.user.id`.
_PATH: Final = re.compile(r"[A-Za-z0-9_:@-]+(?:\.[A-Za-z0-9_:@-]+)*")
# Apple gives ids of ten characters to teams and keys.
_APPLE_ID: Final = re.compile(r"[A-Z0-9]{10}")


class ProviderPreset(Frozen, kw_only=True):
    """What is known of a provider that many people use: enough to add it with a client alone."""

    key: str
    """The short name that the preset has, and that a provider made from it gets."""
    name: str
    """The provider's name for people."""
    settings: FurtherSettings
    guide: str
    """Where the provider says how a client is registered."""


class FurtherProvider(Frozen, kw_only=True):
    """The provider without our client's secret, which is opened only for use."""

    id: FurtherProviderId
    key: str
    """The short name in `/auth/{provider}`, and in the identities of people. It never changes."""
    preset: str
    """The key of the preset that it was made from. Empty for any other provider."""
    name: str
    settings: FurtherSettings
    client_id: str
    enabled: bool
    position: int
    """Buttons stand in this order."""
    organizations: tuple[str, ...] | None = None
    """The slugs of the organizations on whose pages it is offered. None when it is offered everywhere."""
    logo_digest: str | None = None
    """The digest of the uploaded logo. None when there is none."""
    secret_set_at: datetime
    created_at: datetime
    updated_at: datetime

    def with_logo(self, digest: str | None, now: datetime) -> "FurtherProvider":
        return self if digest == self.logo_digest else replace(self, logo_digest=digest, updated_at=now)


class FurtherChange(RecordChange, kw_only=True):
    """Fields that are left out stay as they are."""

    name: str | Unchanged = UNCHANGED
    client_id: str | Unchanged = UNCHANGED
    client_secret: str | Unchanged = UNCHANGED
    enabled: bool | Unchanged = UNCHANGED
    position: int | Unchanged = UNCHANGED
    organizations: Sequence[str] | Unchanged | None = UNCHANGED
    issuer: str | Unchanged = UNCHANGED
    authorization_url: str | Unchanged = UNCHANGED
    token_url: str | Unchanged = UNCHANGED
    profile_url: str | Unchanged = UNCHANGED
    scopes: Sequence[str] | Unchanged = UNCHANGED
    subject: str | Unchanged = UNCHANGED
    email: str | Unchanged = UNCHANGED
    verified: str | Unchanged = UNCHANGED
    full_name: str | Unchanged = UNCHANGED
    posts_answer: bool | Unchanged = UNCHANGED
    repeats_nonce: bool | Unchanged = UNCHANGED
    team_id: str | Unchanged = UNCHANGED
    key_id: str | Unchanged = UNCHANGED

    def applied(self, provider: FurtherProvider, now: datetime) -> FurtherProvider:
        """The provider after the change. Raises `BadRequest`."""
        stored = checked(self.said, _CHECKS)
        own = {name: stored.pop(name) for name in _OWN if name in stored}
        settings = examined(replace(provider.settings, **stored))
        after = replace(provider, settings=settings, **own)
        if isinstance(self.client_secret, str):
            after = replace(after, secret_set_at=now)
        elif settings.place != provider.settings.place:
            raise BadRequest("client_secret: give it anew, since it would go to another address", words="secret_anew")
        return after if after == provider else replace(after, updated_at=now)


_OWN: Final = ("name", "client_id", "enabled", "position", "organizations")


def short_name(text: str) -> str:
    """A name that stands in `/auth/{provider}`. Raises `BadRequest`."""
    if not SHORT_NAME.fullmatch(text):
        raise BadRequest("key: 2 to 30 lower-case letters, digits and single hyphens, a letter first", words="provider_short_name")
    if text in RESERVED_NAMES:
        raise BadRequest("key: this name is reserved", words="provider_name_reserved")
    return text


def client_secret(text: str) -> str:
    """Raises `BadRequest` for what cannot be a secret or a key in PEM."""
    given = text.strip()
    if not 1 <= len(given) <= LONGEST_SECRET or not given.isascii() or not given.replace("\n", "").replace("\r", "").isprintable():
        raise BadRequest(
            f"client_secret: 1 to {LONGEST_SECRET} visible ASCII characters", words="ascii_length", values={"most": LONGEST_SECRET}
        )
    return given


def examined(settings: FurtherSettings) -> FurtherSettings:
    """The settings without what their kind does not have. Raises `BadRequest` for what it needs."""
    if settings.kind is FurtherKind.OPENID:
        _need(settings, "issuer")
        settings = replace(settings, authorization_url="", token_url="", profile_url="", subject="", email="", verified="", full_name="")
        if "openid" not in settings.scopes:
            settings = replace(settings, scopes=("openid", *settings.scopes))
    else:
        _need(settings, "authorization_url", "token_url", "profile_url", "subject")
        settings = replace(settings, posts_answer=False, repeats_nonce=True)
    if settings.secret_kind is ClientSecretKind.SIGNING_KEY:
        for name in ("team_id", "key_id"):
            if not _APPLE_ID.fullmatch(getattr(settings, name)):
                raise BadRequest(f"{name}: ten capital letters and digits", words="provider_apple_id")
    return settings


def _need(settings: FurtherSettings, *names: str) -> None:
    missing = next((name for name in names if not getattr(settings, name)), None)
    if missing is not None:
        raise BadRequest(f"{missing}: needed for this kind of provider", words="provider_setting_missing")


def _name(text: str) -> str:
    name = typed_line("name", text)
    if not 1 <= len(name) <= LONGEST_NAME:
        raise BadRequest(f"name: 1 to {LONGEST_NAME} characters", words="field_length", values={"least": 1, "most": LONGEST_NAME})
    return name


def _client_id(text: str) -> str:
    given = text.strip()
    if not 1 <= len(given) <= LONGEST_CLIENT or not given.isascii() or not given.isprintable():
        raise BadRequest(
            f"client_id: 1 to {LONGEST_CLIENT} visible ASCII characters", words="ascii_length", values={"most": LONGEST_CLIENT}
        )
    return given


def _address(field: str, text: str) -> str:
    """An address, byte for byte as the provider has it. Empty where the kind needs none."""
    if text:
        try:
            destination(text)
        except NotADestination as refusal:
            raise BadRequest(f"{field}: {refusal}", words="web_address") from None
    if len(text) > LONGEST_ADDRESS:
        raise BadRequest(
            f"{field}: a URL of at most {LONGEST_ADDRESS} characters", words="issuer_malformed", values={"most": LONGEST_ADDRESS}
        )
    return text


def _path(field: str, text: str) -> str:
    if text and (len(text) > LONGEST_PATH or not _PATH.fullmatch(text)):
        raise BadRequest(
            f"{field}: names of members, with dots between them, at most {LONGEST_PATH} characters",
            words="attribute_name",
            values={"most": LONGEST_PATH},
        )
    return text


def _scopes(texts: Sequence[str]) -> tuple[str, ...]:
    if len(texts) > MOST_SCOPES or not all(len(one) <= LONGEST_SCOPE and _SCOPE.fullmatch(one) for one in texts):
        raise BadRequest(
            f"scopes: at most {MOST_SCOPES}, of at most {LONGEST_SCOPE} visible characters each, without quotes",
            words="scopes_malformed",
            values={"count": MOST_SCOPES, "most": LONGEST_SCOPE},
        )
    return tuple(dict.fromkeys(texts))


def _position(number: int) -> int:
    if not 0 <= number <= MOST_OFFERED:
        raise BadRequest(f"position: 0 to {MOST_OFFERED}", words="not_as_declared")
    return number


def _organizations(given: Sequence[str] | None) -> tuple[str, ...] | None:
    if given is not None and len(given) > MOST_OFFERED:
        raise BadRequest(f"organizations: at most {MOST_OFFERED}", words="field_list", values={"most": MOST_OFFERED})
    return None if given is None else tuple(sorted(set(given)))


def _issuer(text: str) -> str:
    if "?" in text:
        raise BadRequest("issuer: a URL without a query", words="issuer_malformed", values={"most": LONGEST_ADDRESS})
    return _address("issuer", text)


_CHECKS: Final[Checks] = {
    "name": _name,
    "client_id": _client_id,
    "enabled": bool,
    "position": _position,
    "organizations": _organizations,
    "issuer": _issuer,
    "authorization_url": lambda text: _address("authorization_url", text),
    "token_url": lambda text: _address("token_url", text),
    "profile_url": lambda text: _address("profile_url", text),
    "scopes": _scopes,
    "subject": lambda text: _path("subject", text),
    "email": lambda text: _path("email", text),
    "verified": lambda text: _path("verified", text),
    "full_name": lambda text: _path("full_name", text),
    "posts_answer": bool,
    "repeats_nonce": bool,
    "team_id": str.strip,
    "key_id": str.strip,
}


def require_room(count: int) -> None:
    if count >= MOST_FURTHER:
        raise BadRequest(
            f"There are at most {MOST_FURTHER} further providers: delete one first", words="limit_reached", values={"most": MOST_FURTHER}
        )


def sealing_context(provider: FurtherProviderId) -> str:
    return f"further_providers.sealed_client_secret:{provider}"


def further_created(provider: FurtherProvider, actor: Actor) -> Event:
    return _event("platform.provider.created", provider, actor, _facts(provider))


def further_updated(before: FurtherProvider, after: FurtherProvider, actor: Actor) -> Event:
    """The event says what changed, with the earlier values."""
    details: dict[str, Json] = {"name": after.name, **differences(_facts(before), _facts(after))}
    if after.secret_set_at != before.secret_set_at:
        details["secret_changed"] = True
    if after.logo_digest != before.logo_digest:
        details["logo_changed"] = True
    return _event("platform.provider.updated", after, actor, details)


def further_deleted(provider: FurtherProvider, people: int, actor: Actor) -> Event:
    return _event("platform.provider.deleted", provider, actor, {**_facts(provider), "people": people})


def _facts(provider: FurtherProvider) -> Mapping[str, Json]:
    offered = None if provider.organizations is None else list(provider.organizations)
    return {
        "name": provider.name,
        "key": provider.key,
        "client_id": provider.client_id,
        "enabled": provider.enabled,
        "position": provider.position,
        "organizations": offered,
        **provider.settings.stored(),
    }


def _event(name: str, provider: FurtherProvider, actor: Actor, details: Mapping[str, Json]) -> Event:
    return Event(name, actor, Target("provider", str(provider.id)), details=details)
