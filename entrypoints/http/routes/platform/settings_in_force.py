"""The settings in force, for platform owners, with secrets masked, as `postern config` prints them."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import PLATFORM_OWNER
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import example
from entrypoints.settings import in_force_by_group


class SettingRecord(msgspec.Struct, frozen=True):
    """A setting, and its value in force."""

    name: Annotated[str, example("POSTERN_POOL_SIZE")]
    """The setting's name."""
    group: Annotated[str, example("Database")]
    """The chapter of the documentation that describes the setting."""
    value: Annotated[str, example("10")]
    """The value, as text; empty if none is set, and `***` for a secret."""


class SettingList(msgspec.Struct, frozen=True):
    """The settings of the process that answers."""

    settings: Sequence[SettingRecord]
    """All settings, in the order of the documentation."""


@endpoint.get("/api/platform/settings", caller=PLATFORM_OWNER, tags=("installation",))
def list_settings(_call: Call, postern: Postern) -> SettingList:
    """List the settings in force, without secrets

    The operator sets them, where the process is started.
    """
    return SettingList(
        [SettingRecord(one.name, group, value) for group, settings in in_force_by_group(postern.settings) for one, value in settings]
    )
