"""Texts of an organization's own, in place of ours. The installation may have some, too: an organization's stand over them."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from core.domain.languages import Language
from core.domain.texts.open_texts import is_open
from core.frozen import Frozen

# Rings after the installation's texts, or the rules for approvals, have changed: every process reads them again.
INSTALLATION_TEXTS_TOPIC: Final = "installation.texts"

# Control characters besides the end of a line, characters that nobody sees, and those that turn the direction of what follows. Joiners
# may stand where the rules for own texts let them: between letters of scripts that need them.
_UNSEEN: Final = re.compile(
    r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
    r"|(?<![^\x00-\x7f\u200c\u200d])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f\u200c\u200d])",
)


class OwnTexts(Frozen, weakref=True):
    """`digest` tells these texts from all others; texts with the same digest are the same. What is made of them for showing is kept as long
    as they are.
    """

    digest: str = ""
    by_language: Mapping[Language, Mapping[str, str]] = MappingProxyType({})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OwnTexts) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def of(self, language: Language) -> Mapping[str, str]:
        """By key. What is not there is ours."""
        return self.by_language.get(language, _NOTHING)


_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
NO_OWN_TEXTS: Final = OwnTexts()


class ApprovalRules(Frozen):
    """Where texts of organizations wait for a platform owner's yes."""

    mails: bool = True
    pages: bool = False

    def show_on_pages(self, *, approved: bool) -> bool:
        return approved or not self.pages

    def carry_in_mails(self, *, approved: bool, is_own: bool) -> bool:
        """Whether a mail has own texts of the organization that brands it. `is_own`: the organization's own server sends the mail, or the
        mail goes to somebody with an own tie to the organization. Anybody may found an organization: without this rule, they could have
        the installation's server write in their words to whomever they like.
        """
        return is_own or approved or not self.mails


class InstallationWords(Frozen):
    """What the installation itself says about own texts."""

    texts: OwnTexts = NO_OWN_TEXTS
    rules: ApprovalRules = ApprovalRules()

    def over_ours(self, own: OwnTexts, *, may_show: bool) -> list[OwnTexts]:
        """What stands over our texts, the nearest first: an organization's `own` ones, where they may be shown, over the installation's."""
        return [texts for texts in (own if may_show else NO_OWN_TEXTS, self.texts) if texts is not NO_OWN_TEXTS]


def shown_texts(own: Mapping[str, str]) -> Mapping[str, str]:
    """The stored texts of a language that may be shown. What was stored under older rules, or past them, must be harmless all the same: a
    key that is closed, or is no longer there, and a text with characters that nobody sees, are as if they were not stored.
    """
    return {key: text for key, text in own.items() if is_open(key) and not has_unseen(text)}


def has_unseen(text: str) -> bool:
    """Whether the text has characters that no shown text has."""
    return _UNSEEN.search(text) is not None
