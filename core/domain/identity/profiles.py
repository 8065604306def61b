"""User profiles: names, username, time zone, language and picture, all of them optional."""

import hmac
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Final

from core.domain.errors import BadRequest, PayloadTooLarge
from core.domain.identifiers import PictureId, UserId
from core.domain.images import BrokenImage, image_of, without_metadata
from core.domain.languages import Language
from core.domain.mail import Email
from core.domain.rate_limits import RateLimit
from core.domain.record.events import Actor, Event, Target
from core.domain.requests import UNCHANGED, Unchanged
from core.frozen import Frozen, replace

USED_USERNAMES: Final = "used_usernames"
"""The purpose of the server's secret. A digest under it outlives the account, and says nothing without the secret."""
USERNAME_PATTERN: Final = r"^[a-z0-9][a-z0-9._-]{1,38}[a-z0-9]$"
# Each change uses a name up for good, and each refusal says whether a name was ever used.
USERNAME_CHANGES: Final = RateLimit("username_changes", burst=5, seconds_per_request=3600)
_USERNAME: Final = re.compile(USERNAME_PATTERN)
# Names of mailboxes that must exist (RFC 2142), of roles, and of things. Applications show user names to others, or build addresses and
# paths from them, so nobody may speak as one of these.
RESERVED_USERNAMES: Final = frozenset(
    [
        "abuse",
        "account",
        "accounts",
        "admin",
        "administrator",
        "administrators",
        "admins",
        "all",
        "anonymous",
        "api",
        "apps",
        "auth",
        "authenticated",
        "billing",
        "bot",
        "bots",
        "channel",
        "config",
        "console",
        "contact",
        "daemon",
        "default",
        "demo",
        "dev",
        "developer",
        "developers",
        "everybody",
        "everyone",
        "false",
        "ftp",
        "group",
        "groups",
        "guest",
        "guests",
        "health",
        "help",
        "here",
        "hostmaster",
        "info",
        "internal",
        "invalid",
        "login",
        "logout",
        "mail",
        "mailer-daemon",
        "member",
        "members",
        "metrics",
        "mod",
        "moderator",
        "moderators",
        "news",
        "no-reply",
        "nobody",
        "none",
        "noreply",
        "noc",
        "null",
        "oauth",
        "official",
        "operator",
        "operators",
        "org",
        "organization",
        "organizations",
        "owner",
        "owners",
        "platform",
        "postern",
        "postmaster",
        "public",
        "robot",
        "root",
        "saml",
        "scim",
        "security",
        "self",
        "service",
        "services",
        "settings",
        "signin",
        "signup",
        "staff",
        "static",
        "status",
        "sudo",
        "superuser",
        "support",
        "sys",
        "sysadmin",
        "system",
        "team",
        "teams",
        "test",
        "tester",
        "true",
        "trouble",
        "undefined",
        "unknown",
        "user",
        "username",
        "users",
        "usenet",
        "uucp",
        "webhooks",
        "webmaster",
        "well-known",
        "www",
        "you",
    ]
)


class WrongField(BadRequest):
    """A value that a field of the profile does not take. `field` names the field."""

    def __init__(self, field: str, message: str, *, words: str, values: Mapping[str, object] = MappingProxyType({})) -> None:
        super().__init__(f"{field}: {message}", words=words, values=values)
        self.field = field


def username(text: str) -> str:
    """Returns the username that a user asks for. A username is a claim for applications, and nobody signs in with it. It is unique, and
    never issued twice. Raises `BadRequest`.
    """
    name = text.strip()
    if not _USERNAME.fullmatch(name):
        raise WrongField(
            "username",
            "3 to 40 small letters, digits, dots, hyphens and underscores, with a letter or digit at both ends",
            words="username_malformed",
        )
    if name in RESERVED_USERNAMES:
        raise WrongField("username", "this name is reserved", words="username_reserved")
    return name


def username_digest(name: str, key: bytes) -> bytes:
    return hmac.digest(key, name.encode(), "sha256")


LONGEST_NAME: Final = 200
LONGEST_ZONE: Final = 64
# Characters that open a stretch of text in another direction, each with the character that closes the stretch (UAX #9, section 2).
_OPENING: Final[Mapping[str, str]] = {
    **dict.fromkeys("\u202a\u202b\u202d\u202e", "\u202c"),
    **dict.fromkeys("\u2066\u2067\u2068", "\u2069"),
}
_CLOSING: Final = frozenset(_OPENING.values())


class OwnProfile(Frozen, kw_only=True):
    """What users state about themselves. The user edits it; an identity provider of the installation may fill empty fields at the first
    sign-in. Organizations, their keys, directories and providers keep data of their own, and never write a profile. The language is not
    part of it: the account has it.
    """

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


LARGEST_PICTURE: Final = 256 << 10
MOST_PIXELS: Final = 2048
PICTURE_TYPES: Final = ("image/png", "image/jpeg", "image/webp")


class Picture(Frozen):
    media_type: str
    content: bytes


def picture_of(content: bytes, declared: str = "") -> Picture:
    """The picture without its metadata. `declared` is the media type that the sender stated, if they did. Raises `BadRequest` and
    `PayloadTooLarge`.
    """
    if len(content) > LARGEST_PICTURE:
        raise PayloadTooLarge(f"The picture must not exceed {LARGEST_PICTURE >> 10} KiB", words="picture_large")
    image = image_of(content)
    if image is None or image.media_type not in PICTURE_TYPES:
        raise BadRequest("The file is not a PNG, JPEG or WebP image", words="picture_unknown")
    if declared and declared != image.media_type:
        raise BadRequest(f"The picture is {image.media_type}, and not {declared}", words="picture_unknown")
    if not image.fits(MOST_PIXELS):
        raise _wrong_size()
    try:
        kept = without_metadata(image.media_type, content)
    except BrokenImage:
        raise BadRequest("The picture is broken", words="picture_broken") from None
    # Browsers get these bytes, and what was left out may have hidden their size.
    drawn = image_of(kept)
    if drawn is None or not drawn.fits(MOST_PIXELS):
        raise _wrong_size()
    return Picture(image.media_type, kept)


def _wrong_size() -> BadRequest:
    return BadRequest(f"The picture must have 1 to {MOST_PIXELS} pixels on a side", words="picture_size", values={"most": MOST_PIXELS})


class Portrait(Frozen):
    """What pages show of a person who is named: the picture, or initials on the person's colour."""

    picture: str
    """The path of the picture. Empty when there is none."""
    initials: str
    shade: int
    """The number of the person's colour. The stylesheet has as many colours as `SHADES`."""


SHADES: Final = 8


def portrait(user: UserId, profile: OwnProfile, email: Email) -> Portrait:
    """The colour comes from the id, so it stays when the name changes."""
    words = (profile.shown_name or email.address).split()
    letters = [next((letter for letter in word if letter.isalnum()), "") for word in (words[0], *words[1:][-1:])]
    path = "" if profile.picture is None else picture_path(profile.picture)
    return Portrait(path, "".join(letters).upper()[:2], user.int % SHADES)


def picture_path(picture: PictureId) -> str:
    """Returns the path of a picture. It reveals nothing about the user, and anyone who has it may see the picture. Each picture has a new
    path, so browsers may cache it.
    """
    return f"/pictures/{picture}"


def picture_set(user: UserId, actor: Actor) -> Event:
    return Event("user.picture.set", actor, Target("user", str(user)))


def picture_removed(user: UserId, actor: Actor) -> Event:
    return Event("user.picture.removed", actor, Target("user", str(user)))
