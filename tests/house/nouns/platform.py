"""The nouns that platform owners govern, and those of the installation."""

from typing import Final

from core.domain import identifiers as ids
from core.domain.platform.searches import ThingKind
from core.domain.signing_keys import SigningKey
from core.domain.tenancy.tiers import Tier
from tests.house.declaring import Noun

PLATFORM: Final = (
    Noun(
        name="tier",
        of=Tier,
        id=ids.TierId,
        table="tiers",
        at="/api/platform/tiers",
        page="/ui/platform/tiers",
        search=ThingKind.TIER,
        events=("organization.tier",),
    ),
    Noun(
        name="signing key",
        of=SigningKey,
        id=ids.KeyId,
        table="signing_keys",
        at="/api/platform/signing-keys",
        page="/ui/platform/signing-keys",
        events=("platform.signing_keys",),
    ),
)
