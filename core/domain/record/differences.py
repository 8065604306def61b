"""What an event says of a change: the facts that differ, before and after."""

from collections.abc import Mapping

from core.domain.json import Json


def differences(old: Mapping[str, Json], new: Mapping[str, Json]) -> dict[str, Json]:
    """The same facts of both. First the earlier values, then the new ones."""
    changed = [name for name in new if old[name] != new[name]]
    return {f"old_{name}": old[name] for name in changed} | {f"new_{name}": new[name] for name in changed}
