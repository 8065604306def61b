"""Custom texts of an organization, the preview of its mails, its notice above the sign-in, and its languages."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Final

from core.domain.branding import Look
from core.domain.errors import BadRequest, Conflict, NotFound
from core.domain.formats import Json
from core.domain.identifiers import OrganizationId, OwnTextId
from core.domain.languages import Language
from core.domain.outbound import destination
from core.domain.record.events import Actor, Event, Target
from core.domain.texts.own_texts import OPEN_TEXTS, OpenText, TextPlace, is_open
from core.domain.texts.rules import OwnText, TextRules, checked_texts, is_below, links
from core.frozen import Frozen, replace

# Of the texts that changed, an entry of the audit log and an event name so many. All of them stand in the answer to `GET`.
MOST_NAMED: Final = 20


class KeptText(Frozen, kw_only=True):
    """A custom text as it is stored. `key` and `language` may be of another release: such a text is shown nowhere, and can be removed."""

    id: OwnTextId
    organization: OrganizationId | None
    """None: the installation's."""
    key: str
    language: str
    text: str
    based_on: str
    """Our text, as it was when this one was set. Empty where we had none."""
    unlinked: bool = False
    """Whether the proof of a domain is gone to which one of its links leads. Only the words of its links are shown then."""
    updated_at: datetime

    @property
    def is_shown(self) -> bool:
        return is_open(self.key) and Language.of(self.language) is not None

    def is_outdated(self, rules: TextRules) -> bool:
        """Returns whether the default text in the same language means something else now."""
        language = Language.of(self.language)
        return self.is_shown and language is not None and not rules.is_current(self.key, language, self.based_on)

    @property
    def place(self) -> tuple[str, str]:
        return self.language, self.key


Changes = Mapping[tuple[str, str], str | None]
"""By language and key: the new text, or None for ours."""


def languages_of(changes: Changes) -> set[Language]:
    """Those whose rules a change needs."""
    return {language for language in Language if any(named == language.value for named, _ in changes)}


class TextsChange(Frozen):
    """A change of the texts of one language. What it does not name stays as it is. Texts of any language can be taken back."""

    language: str
    texts: Mapping[str, str | None]
    version: str | None = None

    def changes(self, _kept: Sequence[KeptText]) -> Changes:
        if not self.texts:
            raise BadRequest("texts: name at least one", words="nothing_to_change")
        return {(self.language, key): text for key, text in self.texts.items()}


class WholeTexts(Frozen):
    """All own texts of some languages, in place of those that were there. A text that stays as it is is not checked again, so that one
    which was good once does not stop the others, and says nothing about a change of ours.
    """

    texts: Mapping[Language, Mapping[str, str]]
    version: str | None = None

    def changes(self, kept: Sequence[KeptText]) -> Changes:
        wanted = {(language.value, key): text for language, texts in self.texts.items() for key, text in texts.items()}
        standing = {one.place: one.text for one in kept if one.language in self.texts}
        changed = {place: text for place, text in wanted.items() if standing.get(place) != text}
        return {**{place: None for place in standing if place not in wanted}, **changed}


class Revision(Frozen):
    """What a change makes of the texts that are kept."""

    put: Sequence[OwnText]
    removed: Sequence[KeptText]

    @property
    def changes_nothing(self) -> bool:
        return not self.put and not self.removed


def require_version(version: str | None, digest: str | None) -> None:
    """Raises `Conflict` when the texts are others than those that somebody has seen. Without a version, each text counts by itself."""
    if version is not None and version != (digest or ""):
        raise Conflict("version: these texts were changed in the meantime: read them again", words="own_texts_changed")


def revision(changes: Changes, kept: Sequence[KeptText], rules: TextRules) -> Revision:
    """A text that is sent again as it is says that it fits ours of now. Raises `TextsRefused` with all that is wrong, and `BadRequest` for
    a language that is not on.
    """
    before = {one.place: one for one in kept}
    wanted = [OwnText(key, spoken(language), text) for (language, key), text in changes.items() if text is not None]
    put = [one for one in checked_texts(wanted, rules) if not _stands(one, before, rules)]
    return Revision(put, [before[place] for place, text in changes.items() if text is None and place in before])


def _stands(one: OwnText, before: Mapping[tuple[str, str], KeptText], rules: TextRules) -> bool:
    kept = before.get((one.language.value, one.key))
    return kept is not None and kept.text == one.text and not kept.unlinked and rules.is_current(one.key, one.language, kept.based_on)


def spoken(language: str) -> Language:
    """Raises `BadRequest`."""
    found = next((one for one in Language if one.value == language), None)
    if found is None:
        listed = ", ".join(Language)
        raise BadRequest(
            f"language: {language} is not turned on; available languages: {listed}", words="own_text_language", values={"listed": listed}
        )
    return found


def following(kept: Iterable[KeptText], domain: str, proved: Collection[str]) -> Sequence[KeptText]:
    """The texts that change when the proof of a domain comes or goes: those with a link there lose their links while one leads nowhere that
    is proved, and have them again afterwards.
    """
    changed = []
    for one in kept:
        hosts = [destination(link.address).host for link in links(one.text)]
        if any(is_below(host, [domain]) for host in hosts):
            unlinked = not all(is_below(host, proved) for host in hosts)
            if unlinked is not one.unlinked:
                changed.append(replace(one, unlinked=unlinked))
    return changed


def digest_of(kept: Iterable[KeptText]) -> str | None:
    """Tells these texts from all others. None when there are none."""
    texts = sorted([one.language, one.key, one.text, one.unlinked] for one in kept)
    return sha256(json.dumps(texts, ensure_ascii=False, separators=(",", ":")).encode()).hexdigest() if texts else None


def version_of(ours: Mapping[str, str]) -> str:
    """Tells our open texts of one language from those of another release."""
    texts = [[key, ours.get(key, "")] for key in sorted(OPEN_TEXTS)]
    return sha256(json.dumps(texts, ensure_ascii=False).encode()).hexdigest()[:16]


class ListedText(Frozen, kw_only=True):
    """An open text in one language: ours, the own one, and whether ours has changed beneath it."""

    open: OpenText
    language: Language
    ours: str
    most: int
    placeholders: Sequence[str]
    own: str | None
    was_ours: str | None
    """Ours, as it was when the own text was set. None unless ours has changed since."""
    unlinked: bool


class OwnCount(Frozen):
    """How many texts of a place are own ones in a language."""

    place: TextPlace
    language: Language
    count: int


class TextListing(Frozen):
    """All that somebody sees who looks after own texts."""

    digest: str | None
    listed: Sequence[ListedText]
    counts: Sequence[OwnCount]
    """Of all places and languages in which there are own texts."""
    outdated: Sequence[KeptText]
    """Custom texts, in all languages, whose default text has changed since."""
    gone: Sequence[KeptText]
    """Own texts for which no place is left: of a key that a release has taken away, or of a language that this one does not speak."""


def listed_texts(kept: Sequence[KeptText], rules: TextRules, language: Language, place: TextPlace | None) -> TextListing:
    by_key = {one.key: one for one in kept if one.language == language.value}
    listed = []
    for key, opened in OPEN_TEXTS.items():
        if rules.is_open(opened) and (place is None or opened.place is place):
            own, ours = by_key.get(key), rules.ours_of(key, language)
            listed.append(
                ListedText(
                    open=opened,
                    language=language,
                    ours=ours,
                    most=rules.most(key, language),
                    placeholders=rules.placeholders(key),
                    own=None if own is None else own.text,
                    was_ours=None if own is None or rules.is_current(key, language, own.based_on) else own.based_on,
                    unlinked=own is not None and own.unlinked,
                )
            )
    shown = [one for one in kept if one.is_shown]
    counted = Counter((OPEN_TEXTS[one.key].place, Language(one.language)) for one in shown)
    return TextListing(
        digest_of(kept),
        listed,
        [OwnCount(at, spoken, count) for (at, spoken), count in sorted(counted.items())],
        [one for one in shown if one.is_outdated(rules)],
        [one for one in kept if not one.is_shown],
    )


def texts_updated(organization: OrganizationId | None, change: Revision, before: Sequence[KeptText], actor: Actor) -> Event:
    """Names the texts by language and key, and what they were and are."""
    was = {one.place: one.text for one in before}
    changed = [(one.language.value, one.key, one.text) for one in change.put] + [(*one.place, None) for one in change.removed]
    named: list[Json] = [
        {"language": language, "key": key, "before": was.get((language, key)), "after": text}
        for language, key, text in sorted(changed, key=lambda one: one[:2])[:MOST_NAMED]
    ]
    target = Target("texts", "installation") if organization is None else Target("organization", str(organization))
    return Event("texts.updated", actor, target, organization, {"count": len(changed), "texts": named})


# By name, as the templates have them: the mails in which own texts can stand.
MAILS: Final = frozenset(text.page for text in OPEN_TEXTS.values() if text.place.is_mail)
_CODE: Final = "12345678"
_EXAMPLE: Final = "Example"
_OPEN_FOR: Final = timedelta(days=7)


def require_mail(name: str) -> str:
    """Raises `NotFound`."""
    if name not in MAILS:
        raise NotFound(f"Unknown email; the emails are {', '.join(sorted(MAILS))}", words="mail_unknown")
    return name


def values_of(name: str, reader: str, link: str, now: datetime) -> dict[str, str | datetime]:
    """Returns the values of the placeholders in a preview: a mail in the organization's own words, with its own values, and with a link
    that does nothing. The reader is the user who looks, also where the mail names an inviter.
    """
    match name:
        case "invitation":
            return {"link": link, "inviter": reader, "until": now + _OPEN_FOR, "application": "", "application_logo": ""}
        case "newcomer_code":
            return {"code": _CODE, "provider": _EXAMPLE}
        case _:
            return {"link": link}


class NoticeTimes(Frozen):
    """From when until when an organization's notice is shown above the sign-in. Its text is one of the custom texts."""

    begins_at: datetime | None = None
    """None: from the moment that there is a text."""
    ends_at: datetime | None = None
    """None: until the text is taken away."""

    def checked(self) -> "NoticeTimes":
        """In UTC. Raises `BadRequest`."""
        if self.begins_at is not None and self.ends_at is not None and self.ends_at <= self.begins_at:
            raise BadRequest("ends_at: must be after begins_at", words="notice_times")
        return NoticeTimes(_in_utc("begins_at", self.begins_at), _in_utc("ends_at", self.ends_at))

    @classmethod
    def of(cls, look: Look) -> "NoticeTimes":
        return cls(_read(look.notice_from), _read(look.notice_until))

    def stored(self) -> tuple[str | None, str | None]:
        """As `Look` has them."""
        return _written(self.begins_at), _written(self.ends_at)


def notice_updated(organization: OrganizationId, before: NoticeTimes, after: NoticeTimes, actor: Actor) -> Event:
    details = {"before": _facts(before), "after": _facts(after)}
    return Event("notice.updated", actor, Target("organization", str(organization)), organization, details)


def _facts(times: NoticeTimes) -> Json:
    begins, ends = times.stored()
    return {"begins_at": begins, "ends_at": ends}


def _in_utc(field: str, at: datetime | None) -> datetime | None:
    try:
        return None if at is None else at.astimezone(UTC)
    except OverflowError:
        # Of the first or the last day that there is, in a zone far from ours.
        raise BadRequest(f"{field}: is out of range", words="field_date") from None


def _read(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _written(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


MOST_LANGUAGES: Final = len(Language)


class SpokenLanguages(Frozen):
    """The languages of an organization's pages and mails, the first one first."""

    languages: tuple[Language, ...] = ()
    """None: all of ours, and English to a reader of none of them."""


def spoken_languages(codes: Sequence[str]) -> SpokenLanguages:
    """What an organization chooses, in its order. Raises `BadRequest`."""
    chosen = list[Language]()
    for place, code in enumerate(codes):
        language = next((one for one in Language if one.value == code), None)
        if language is None:
            ours = ", ".join(Language)
            said = f"languages[{place}]: {code[:40]!r} is not turned on; available languages: {ours}"
            raise BadRequest(said, words="language_not_on", values={"known": ours})
        if language in chosen:
            raise BadRequest(f"languages[{place}]: {code} is listed twice", words="language_twice", values={"language": language.own_name})
        chosen.append(language)
    return SpokenLanguages(tuple(chosen))


def languages_updated(organization: OrganizationId, before: SpokenLanguages, after: SpokenLanguages, actor: Actor) -> Event:
    details = {"old_languages": list(map(str, before.languages)), "new_languages": list(map(str, after.languages))}
    return Event("languages.updated", actor, Target("organization", str(organization)), organization, {"changed": ["languages"], **details})
