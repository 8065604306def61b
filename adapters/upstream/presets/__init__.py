"""Presets of further providers: one file each, as the provider's published documents have it on the day that the file names."""

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from core.domain.identity.upstream.further import ProviderPreset, examined
from core.domain.identity.upstream.providers import ClientSecretKind, FurtherKind, FurtherSettings

_HERE: Final = Path(__file__).parent
# What a preset of a kind of secret lacks until somebody gives it.
_GIVEN_LATER: Final = {"team_id": "A" * 10, "key_id": "A" * 10}


class ShippedPresets:
    """Implements `ports.identity.upstream.ProviderPresets`."""

    def all(self) -> Sequence[ProviderPreset]:
        return _presets()

    def find(self, key: str) -> ProviderPreset | None:
        return next((one for one in _presets() if one.key == key), None)


@cache
def _presets() -> Sequence[ProviderPreset]:
    read = [_read(path.stem, tomllib.loads(path.read_text(encoding="utf-8"))) for path in _HERE.glob("*.toml")]
    return sorted(read, key=lambda one: one.name)


def _read(key: str, written: Mapping[str, Any]) -> ProviderPreset:
    given = {**written["settings"]}
    given["kind"] = FurtherKind(given["kind"])
    given["secret_kind"] = ClientSecretKind(given.get("secret_kind", "text"))
    given["scopes"] = tuple(given["scopes"])
    settings = FurtherSettings(**given)
    examined(FurtherSettings(**{**given, **_GIVEN_LATER}))
    return ProviderPreset(key=key, name=written["name"], settings=settings, guide=written["guide"])
