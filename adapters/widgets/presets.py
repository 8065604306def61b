"""The widgets that `presets.toml` describes."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.domain.identity.guards.puzzles import WidgetPreset


def widget_presets() -> Mapping[str, WidgetPreset]:
    """By their names."""
    told = tomllib.loads((Path(__file__).parent / "presets.toml").read_text("utf-8"))
    return {name: WidgetPreset(name=name, **{key: _frozen(value) for key, value in one.items()}) for name, one in told.items()}


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple(value.items())
    return tuple(value) if isinstance(value, list) else value
