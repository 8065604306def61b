"""The texts of pages and mails: one catalogue for each language. Each is read when it is first spoken.

Mails, and pages that share their texts, have one file a language beside this module. A page of the console has its texts in all languages
beside it, in its folder `texts`. English says what there is; tests see to it that the other languages of the console have the same keys and
placeholders. Further languages have one file each and no texts of the console, and tell in English what they lack.
"""

from functools import cache
from pathlib import Path
from typing import Final

from adapters.texts.catalogue import Catalogue
from adapters.texts.reading import shipped
from core.domain.languages import CONSOLE_LANGUAGES, DEFAULT, Language


class ShippedTexts:
    """Implements `ports.texts.Texts`. `beside` is the folder of the pages whose texts stand beside them."""

    def __init__(self, beside: Path | None = None) -> None:
        self._beside: Final = beside

    def of(self, language: Language) -> Catalogue:
        return _catalogue(language, self._beside, html=False)

    def html(self, language: Language) -> Catalogue:
        return _catalogue(language, self._beside, html=True)

    def on_page(self, language: Language, *, html: bool) -> Catalogue:
        """The texts of pages, whose lines never end within "e-mail"."""
        return _catalogue(language, self._beside, html=html, on_page=True)


@cache
def _catalogue(language: Language, beside: Path | None, *, html: bool, on_page: bool = False) -> Catalogue:
    english = None if language is DEFAULT else _catalogue(DEFAULT, beside, html=html, on_page=on_page)
    # Nothing of a further language stands beside pages, so mails and pages share its file.
    texts = _texts(language, beside if language in CONSOLE_LANGUAGES else None)
    return Catalogue(language, texts, html=html, on_page=on_page, english=english)


_texts = cache(shipped)
