"""The texts of pages and mails: one catalogue for each language, in the files beside this one. Each is read when it is first spoken.

The file for English says what there is. The other languages have the same keys and placeholders; tests see to that. So an engineer writes
English, and a translator needs nothing but the file.
"""

from functools import cache

from adapters.texts.catalogue import Catalogue
from adapters.texts.reading import shipped
from core.domain.languages import DEFAULT, Language


class ShippedTexts:
    """Implements `ports.texts.Texts`."""

    def of(self, language: Language) -> Catalogue:
        return _catalogue(language, html=False)

    def html(self, language: Language) -> Catalogue:
        return _catalogue(language, html=True)

    def on_page(self, language: Language, *, html: bool) -> Catalogue:
        """The texts of pages, whose lines never end within "e-mail"."""
        return _catalogue(language, html=html, on_page=True)


@cache
def _catalogue(language: Language, *, html: bool, on_page: bool = False) -> Catalogue:
    return Catalogue(language, _texts(language), html=html, on_page=on_page)


@cache
def _texts(language: Language) -> dict[str, str]:
    """What a language lacks is told in English."""
    return shipped(language) if language is DEFAULT else {**_texts(DEFAULT), **shipped(language)}
