"""How a language separates the things of a list."""

from collections.abc import Mapping
from typing import Final

from core.domain.languages import Language

_USUAL: Final = ", "
COMMA: Final[Mapping[Language, str]] = {
    **dict.fromkeys(Language, _USUAL),
    **dict.fromkeys((Language.JAPANESE, Language.CHINESE), "、"),
    Language.ARABIC: "، ",
}
