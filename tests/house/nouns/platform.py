"""The nouns that platform owners govern, and those of the installation."""

from typing import Final

from core.domain import identifiers as ids
from core.domain.identity.upstream.further import FurtherProvider
from core.domain.platform.searches import ThingKind
from core.domain.tenancy.tiers import Tier
from core.domain.tokens import SigningKey
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
        name="further provider",
        of=FurtherProvider,
        id=ids.FurtherProviderId,
        table="further_providers",
        at="/api/platform/providers",
        page="/ui/platform/providers",
        document="providers",
        events=("platform.provider",),
        most="MOST_FURTHER",
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
