"""Texts of an organization's own, in place of ours. The installation may have some, too: an organization's stand over them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from core.domain.languages import Language
from core.frozen import Frozen


class OwnTexts(Frozen):
    """`digest` tells these texts from all others; texts with the same digest are the same."""

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
