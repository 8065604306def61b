"""All nouns, by area, and the tables that hold none."""

from typing import Final

from tests.house.declaring import Noun
from tests.house.nouns.federation import FEDERATION
from tests.house.nouns.foundation import FOUNDATION
from tests.house.nouns.identity import IDENTITY
from tests.house.nouns.platform import PLATFORM
from tests.house.nouns.services import SERVICES
from tests.house.nouns.tenancy import TENANCY

__all__ = ["FOUNDATION", "NOUNS"]

NOUNS: Final[tuple[Noun, ...]] = (*PLATFORM, *FEDERATION, *SERVICES, *TENANCY, *IDENTITY)
