"""Profiles: what people say of themselves. All of it is optional. The person writes it; a provider of the installation may fill what is
empty at the first sign-in. Organizations, their keys, directories and providers keep data of their own, and never write a profile.
"""

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final

from core.domain.changes import UNCHANGED, Unchanged
from core.domain.identifiers import PictureId, UserId
from core.domain.identity.profile.usernames import WrongField, username
from core.domain.languages import Language
from core.domain.record.events import Actor, Event, Target
from core.frozen import Frozen, replace

LONGEST_NAME: Final = 200
LONGEST_ZONE: Final = 64
# Characters that open a stretch of text in another direction, each with the character that closes the stretch (UAX #9, section 2).
_OPENING: Final[Mapping[str, str]] = {
    **dict.fromkeys("\u202a\u202b\u202d\u202e", "\u202c"),
    **dict.fromkeys("\u2066\u2067\u2068", "\u2069"),
}
_CLOSING: Final = frozenset(_OPENING.values())


class OwnProfile(Frozen, kw_only=True):
    """The language is no part of it: the account has it."""

    name: str | None = None
    given_name: str | None = None
    family_name: str | None = None
    username: str | None = None
    zoneinfo: str | None = None
    """The name of a time zone in the IANA database."""
    picture: PictureId | None = None
    updated_at: datetime | None = None

    @property
    def shown_name(self) -> str | None:
        return shown_name(self.name, self.given_name, self.family_name)


def shown_name(name: str | None, given_name: str | None, family_name: str | None) -> str | None:
    """The name by which pages and lists show a person: the name, or else the first and the last name. None when there is none of them."""
    return name or " ".join(filter(None, (given_name, family_name))) or None


NO_PROFILE: Final = OwnProfile()


class HeldProfile(Frozen):
    """The profile of an account that is held, and its language."""

    profile: OwnProfile
    language: Language | None


class StatedProfile(Frozen, kw_only=True):
    """What one of the installation's providers tells of a person, as far as a profile can hold it."""

    name: str | None = None
    given_name: str | None = None
    family_name: str | None = None
    zoneinfo: str | None = None
    language: Language | None = None


NOTHING_STATED: Final = StatedProfile()


class OwnProfileChange(Frozen, kw_only=True):
    """Fields that are left out stay as they are; None empties a field."""

    name: str | Unchanged | None = UNCHANGED
    given_name: str | Unchanged | None = UNCHANGED
    family_name: str | Unchanged | None = UNCHANGED
    username: str | Unchanged | None = UNCHANGED
    zoneinfo: str | Unchanged | None = UNCHANGED
    language: Language | Unchanged | None = UNCHANGED

    @property
    def is_empty(self) -> bool:
        return self == NO_CHANGE

    def checked(self, is_zone: Callable[[str], bool]) -> "OwnProfileChange":
        """The change with the texts as they are stored. Raises `BadRequest`."""
        return replace(
            self,
            name=_name("name", self.name),
            given_name=_name("given_name", self.given_name),
            family_name=_name("family_name", self.family_name),
            username=username(self.username) if isinstance(self.username, str) else self.username,
            zoneinfo=_zone(self.zoneinfo, is_zone),
        )

    def applied(self, held: HeldProfile, at: datetime) -> tuple[HeldProfile, Sequence[str]]:
        """The profile after the change, and the names of the fields that differ."""
        before = {**{field: getattr(held.profile, field) for field in _FIELDS}, "language": held.language}
        wanted = {field: getattr(self, field) for field in before}
        changed = [field for field, was in before.items() if wanted[field] is not UNCHANGED and wanted[field] != was]
        if not changed:
            return held, ()
        after = replace(held.profile, updated_at=at, **{field: wanted[field] for field in changed if field in _FIELDS})
        return HeldProfile(after, held.language if self.language is UNCHANGED else self.language), changed


NO_CHANGE: Final = OwnProfileChange()
_FIELDS: Final = ("name", "given_name", "family_name", "username", "zoneinfo")


def stated_profile(claims: Mapping[str, object]) -> StatedProfile:
    """The standard claims of a provider (OpenID Connect Core, section 5.1) that a profile can hold. Others are left out, because a claim
    must not stop a sign-in.
    """
    locale, zone = claims.get("locale"), claims.get("zoneinfo")
    return StatedProfile(
        name=_stated("name", claims),
        given_name=_stated("given_name", claims),
        family_name=_stated("family_name", claims),
        zoneinfo=zone if isinstance(zone, str) and len(zone) <= LONGEST_ZONE else None,
        language=Language.of(locale.replace("_", "-")) if isinstance(locale, str) else None,
    )


def filled(held: HeldProfile, told: StatedProfile, is_zone: Callable[[str], bool]) -> OwnProfileChange:
    """The change that fills what is empty, and nothing else. A name in parts that stands is not completed by another's."""
    zone = told.zoneinfo if held.profile.zoneinfo is None and told.zoneinfo is not None and is_zone(told.zoneinfo) else UNCHANGED
    named = held.profile.name is not None or held.profile.given_name is not None or held.profile.family_name is not None
    return OwnProfileChange(
        name=UNCHANGED if named or told.name is None else told.name,
        given_name=UNCHANGED if named or told.given_name is None else told.given_name,
        family_name=UNCHANGED if named or told.family_name is None else told.family_name,
        zoneinfo=zone,
        language=UNCHANGED if held.language is not None or told.language is None else told.language,
    )


def profile_updated(user: UserId, changed: Sequence[str], actor: Actor, *, provider: str = "") -> Event:
    """The names of the changed fields, and never their values. `provider` is set when a provider's word has filled them."""
    told = {"provider": provider} if provider else {}
    return Event("user.profile.updated", actor, Target("user", str(user)), details={"changed": list(changed), **told})


def _name(field: str, text: str | Unchanged | None) -> str | Unchanged | None:
    if not isinstance(text, str):
        return text
    name = text.strip()
    if not any(map(_is_visible, name)):
        raise WrongField(field, "must not be empty; null removes it", words="name_missing")
    if len(name) > LONGEST_NAME:
        raise WrongField(field, f"must have at most {LONGEST_NAME} characters", words="name_too_long", values={"longest": LONGEST_NAME})
    if not _is_one_line(name):
        raise WrongField(field, "must not contain control characters", words="name_unprintable")
    if not _closes_directions(name):
        raise WrongField(field, "must close every direction of text that it opens", words="name_unprintable")
    return name


def _stated(field: str, claims: Mapping[str, object]) -> str | None:
    given = claims.get(field)
    try:
        name = _name(field, given) if isinstance(given, str) and len(given) <= 2 * LONGEST_NAME else None
    except WrongField:
        return None
    return name if isinstance(name, str) else None


def _zone(text: str | Unchanged | None, is_zone: Callable[[str], bool]) -> str | Unchanged | None:
    if not isinstance(text, str):
        return text
    zone = text.strip()
    if len(zone) > LONGEST_ZONE or not is_zone(zone):
        raise WrongField("zoneinfo", "must be the name of an IANA time zone, such as Europe/Vienna", words="zone_unknown")
    return zone


def _is_visible(letter: str) -> bool:
    return unicodedata.category(letter)[0] not in "CMZ"


def _is_one_line(text: str) -> bool:
    return all(unicodedata.category(letter) not in _CONTROLS for letter in text)


_CONTROLS: Final = frozenset(("Cc", "Cs", "Zl", "Zp"))


def _closes_directions(text: str) -> bool:
    open_until: list[str] = []
    for letter in text:
        if letter in _OPENING:
            open_until.append(_OPENING[letter])
        elif letter in _CLOSING and (not open_until or open_until.pop() != letter):
            return False
    return not open_until
