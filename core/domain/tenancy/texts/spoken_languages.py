"""The languages that an organization speaks on its pages and in its mails, the first one first."""

from collections.abc import Sequence
from typing import Final

from core.domain.errors import BadRequest
from core.domain.identifiers import OrganizationId
from core.domain.languages import Language
from core.domain.record.events import Actor, Event, Target
from core.frozen import Frozen

MOST_LANGUAGES: Final = len(Language)


class SpokenLanguages(Frozen):
    languages: tuple[Language, ...] = ()
    """None: all of ours, and English to a reader of none of them."""


def spoken_languages(codes: Sequence[str]) -> SpokenLanguages:
    """What an organization chooses, in its order. Raises `BadRequest`."""
    chosen = list[Language]()
    for place, code in enumerate(codes):
        language = next((one for one in Language if one.value == code), None)
        if language is None:
            ours = ", ".join(Language)
            said = f"languages[{place}]: {code[:40]!r} is a language that is not on: there are {ours}"
            raise BadRequest(said, words="language_not_on", values={"known": ours})
        if language in chosen:
            raise BadRequest(
                f"languages[{place}]: {code} stands in the list twice", words="language_twice", values={"language": language.own_name}
            )
        chosen.append(language)
    return SpokenLanguages(tuple(chosen))


def languages_updated(organization: OrganizationId, before: SpokenLanguages, after: SpokenLanguages, actor: Actor) -> Event:
    details = {"old_languages": list(map(str, before.languages)), "new_languages": list(map(str, after.languages))}
    return Event("languages.updated", actor, Target("organization", str(organization)), organization, {"changed": ["languages"], **details})
