"""The texts of pages and mails: one catalogue for each language. Each is read when it is first spoken.

Mails, and pages that share their texts, have one file a language beside this module. A page of the console has its texts in all languages
beside it, in its folder `texts`. English says what there is; tests see to it that the other languages of the console have the same keys and
placeholders. Further languages have one file each and no texts of the console, and tell in English what they lack.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from adapters.texts.catalogue import Catalogue
from adapters.texts.reading import OverEnglish, shipped
from core.domain.languages import CONSOLE_LANGUAGES, DEFAULT, Language

# As `paragraph` of the mails' `parts.html` has it.
PARAGRAPH_OF_MAIL: Final = "margin:0 0 16px;font-size:16px;line-height:25px;color:#22272b;"


class ShippedTexts:
    """Implements `ports.texts.Texts`. `beside` is the folder of the pages whose texts stand beside them."""

    def __init__(self, beside: Path | None = None) -> None:
        self._beside: Final = beside

    def of(self, language: Language) -> Catalogue:
        return _catalogue(language, self._beside, html=False)

    def html(self, language: Language) -> Catalogue:
        """The texts of mails, whose programs know no style sheet."""
        return _catalogue(language, self._beside, html=True, between=f'</p>\n<p style="{PARAGRAPH_OF_MAIL}">')

    def written(self, language: Language) -> Mapping[str, str]:
        """Implements `ports.texts.ShippedWords`."""
        english = _texts(DEFAULT, self._beside)
        return _texts(language, self._beside) if language in CONSOLE_LANGUAGES else OverEnglish(_texts(language, None), english)

    def on_page(self, language: Language, *, html: bool) -> Catalogue:
        """The texts of pages, whose lines never end within "e-mail"."""
        return _catalogue(language, self._beside, html=html, on_page=True, between="</p>\n<p>" if html else "\n\n")


@cache
def _catalogue(language: Language, beside: Path | None, *, html: bool, on_page: bool = False, between: str = "\n\n") -> Catalogue:
    english = None if language is DEFAULT else _catalogue(DEFAULT, beside, html=html, on_page=on_page, between=between)
    # Nothing of a further language stands beside pages, so mails and pages share its file.
    texts = _texts(language, beside if language in CONSOLE_LANGUAGES else None)
    return Catalogue(language, texts, html=html, on_page=on_page, between=between, english=english)


_texts = cache(shipped)
