"""Custom providers of the installation: any OpenID Connect provider by its issuer, and any OAuth 2.0 provider by its endpoints."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from core.domain.errors import BadRequest, Conflict
from core.domain.formats import Json, fields_as_json
from core.domain.identifiers import FurtherProviderId
from core.domain.identity.upstream.providers import (
    RESERVED_NAMES,
    SHORT_NAME,
    ClientSecretKind,
    FurtherKind,
    FurtherSettings,
    digest_of_tested,
    profile_place,
)
from core.domain.lines import typed_line
from core.domain.outbound import NotADestination, destination
from core.domain.record.events import Actor, Event, Target, differences
from core.domain.requests import UNCHANGED, Checks, RecordChange, Unchanged, checked
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


class FurtherState(StrEnum):
    """The state of a custom provider."""

    DRAFT = "draft"
    """Nobody signs in through it, and nobody but platform owners knows of it."""
    ACTIVE = "active"


class FurtherTest(StrEnum):
    """Whether a platform owner has tested the provider's current settings."""

    NONE = "untested"
    PASSED = "passed"
    """A test of the settings as they are now has succeeded."""
    BEFORE_CHANGE = "before_change"
    """A test has succeeded before what it was about was changed."""


Namings = Mapping[str, tuple[str, str]]
"""By the issuer that people are known by: the address of the profile without its version, and the path of the id in it."""
_NONE_BEFORE: Final[Namings] = MappingProxyType({})


class ProviderPreset(Frozen, kw_only=True):
    """What is known of a provider that many people use: enough to add it with a client alone."""

    key: str
    """The short name that the preset has, and that a provider made from it gets."""
    name: str
    """The provider's display name."""
    settings: FurtherSettings
    guide: str
    """Where client registration is documented at the provider."""


class FurtherProvider(Frozen, kw_only=True):
    """The provider without our client's secret, which is opened only for use.

    A custom provider neither verifies nor asserts an email address: it identifies who returns, by its name and the subject alone.
    """

    id: FurtherProviderId
    key: str
    """The short name in `/auth/{provider}`, and in the identities of people. It never changes."""
    preset: str
    """The key of the preset that it was made from. Empty for any other provider."""
    name: str
    settings: FurtherSettings
    client_id: str
    state: FurtherState = FurtherState.ACTIVE
    enabled: bool
    """Whether people can sign in through the provider. A draft is never enabled."""
    position: int
    """The position of the button."""
    organizations: tuple[str, ...] | None = None
    """The slugs of the organizations on whose pages it is offered. None when it is offered everywhere."""
    logo_digest: str | None = None
    """The digest of the uploaded logo. None when there is none."""
    secret_set_at: datetime
    tested_digest: bytes | None = None
    """The settings that the last successful test was about."""
    tested_at: datetime | None = None
    namings: Namings = _NONE_BEFORE
    """What ids meant under issuers of before, of those at which people are connected."""
    created_at: datetime
    updated_at: datetime

    @property
    def digest(self) -> bytes:
        """The settings of this moment, as `tested_digest` has those that were tested."""
        return digest_of_tested(self.settings, self.client_id, self.secret_set_at)

    @property
    def test(self) -> FurtherTest:
        if self.tested_digest is None:
            return FurtherTest.NONE
        return FurtherTest.PASSED if self.tested_digest == self.digest else FurtherTest.BEFORE_CHANGE

    def naming_under(self, issuer: str) -> tuple[str, str] | None:
        """Where the ids of people who are known by this issuer are read. None when nobody knows."""
        if issuer == self.settings.identity_issuer:
            return profile_place(self.settings.profile_url), self.settings.subject
        return self.namings.get(issuer)

    def with_logo(self, digest: str | None, now: datetime) -> "FurtherProvider":
        return self if digest == self.logo_digest else replace(self, logo_digest=digest, updated_at=now)


class FurtherChange(RecordChange, kw_only=True):
    """Fields that are left out stay as they are."""

    name: str | Unchanged = UNCHANGED
    active: bool | Unchanged = UNCHANGED
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
        after = _turned(replace(provider, settings=settings, **own), provider, active=self.active, enabled=self.enabled)
        if isinstance(self.client_secret, str):
            after = replace(after, secret_set_at=now)
        elif settings.place != provider.settings.place:
            raise BadRequest("client_secret: send it again, because it would be sent to another URL", words="secret_anew")
        return after if after == provider else replace(after, updated_at=now)


def is_known(provider: FurtherProvider | None) -> bool:
    """Whether anybody but platform owners may know that the provider is there."""
    return provider is not None and provider.state is FurtherState.ACTIVE


_OWN: Final = ("name", "client_id", "position", "organizations")


def _turned(after: FurtherProvider, before: FurtherProvider, *, active: bool | Unchanged, enabled: bool | Unchanged) -> FurtherProvider:
    """The provider with the state that a request names. A draft that becomes active is on, unless the request says otherwise."""
    begins = before.state is FurtherState.DRAFT
    if active is False or (begins and active is not True):
        if enabled is True:
            raise BadRequest("enabled: the provider is a draft: test and activate it, or send active: true", words="provider_is_draft")
        return replace(after, state=FurtherState.DRAFT, enabled=False)
    is_on = before.enabled or begins if isinstance(enabled, Unchanged) else enabled
    return replace(after, state=FurtherState.ACTIVE, enabled=is_on)


def after_test(provider: FurtherProvider, digest: bytes, now: datetime) -> FurtherProvider:
    """The provider after a successful test of the settings with this digest. Settings that have changed meanwhile stay untested."""
    return provider if digest != provider.digest else replace(provider, tested_digest=digest, tested_at=now)


def activated(provider: FurtherProvider, now: datetime) -> FurtherProvider:
    """The draft that a platform owner makes active. Raises `BadRequest` unless its settings were tested successfully as they are now."""
    if provider.state is FurtherState.ACTIVE:
        return provider
    if provider.test is not FurtherTest.PASSED:
        raise BadRequest("The provider has not been tested successfully as it is now: test it first", words="connection_untested")
    return replace(provider, state=FurtherState.ACTIVE, enabled=True, updated_at=now)


def renamed(before: FurtherProvider, after: FurtherProvider, people: Mapping[str, int]) -> FurtherProvider:
    """The provider after a change of what says who an external id is. `people` are those who are connected, by the issuer that they are
    known by. Under another issuer, all of them are newcomers. Under one at which people are connected, ids mean what they meant for them:
    otherwise one person's id would be another's. Raises `Conflict`.
    """
    settings, was = after.settings, before.settings
    if settings.naming == was.naming:
        return after
    issuer, former = settings.identity_issuer, was.identity_issuer
    hanging = people.get(issuer, 0)
    if hanging and before.naming_under(issuer) != after.naming_under(issuer):
        field = "issuer" if issuer != former else "subject" if settings.subject != was.subject else "profile_url"
        raise Conflict(
            f"{field}: people are linked by the former IDs ({hanging}), and such an ID may belong to another person: create another "
            "provider",
            words="provider_people_connected",
            values={"count": hanging},
        )
    kept = {one: naming for one, naming in before.namings.items() if one != issuer}
    if former != issuer and people.get(former, 0):
        kept[former] = (profile_place(was.profile_url), was.subject)
    return replace(after, namings=kept)


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
            f"{field}: names of members, separated by dots, at most {LONGEST_PATH} characters",
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
            f"There can be at most {MOST_FURTHER} additional providers: delete one first",
            words="limit_reached",
            values={"most": MOST_FURTHER},
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


def further_activated(provider: FurtherProvider, actor: Actor, *, by_request: bool) -> Event:
    """`by_request`: a request or a document has said so (`active: true`). Otherwise, a test has succeeded before."""
    facts: dict[str, Json] = {"key": provider.key, "how": "request" if by_request else "test", "test": provider.test.value}
    facts["digest"] = provider.digest.hex()
    return _event("platform.provider.activated", provider, actor, {"name": provider.name, **facts})


def further_tested(provider: FurtherProvider, actor: Actor, *, succeeded: bool) -> Event:
    return _event("platform.provider.tested", provider, actor, {"name": provider.name, "succeeded": succeeded})


def further_deleted(provider: FurtherProvider, people: int, actor: Actor) -> Event:
    return _event("platform.provider.deleted", provider, actor, {**_facts(provider), "people": people})


_IN_EVENTS: Final = ("name", "key", "client_id", "state", "enabled", "position", "organizations")


def _facts(provider: FurtherProvider) -> Mapping[str, Json]:
    return {**fields_as_json(provider, _IN_EVENTS), **provider.settings.stored()}


def _event(name: str, provider: FurtherProvider, actor: Actor, details: Mapping[str, Json]) -> Event:
    return Event(name, actor, Target("provider", str(provider.id)), details=details)
