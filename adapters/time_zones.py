"""The names of time zones, from the IANA database of the operating system."""

import re
from typing import Final
from zoneinfo import ZoneInfo

# Directories of the database have further files, such as `posix/Europe/Vienna` and `localtime`. Their names begin with small letters.
_NAME: Final = re.compile(r"[A-Z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+){0,2}")
_NO_PLACE: Final = "Factory"


def is_time_zone(name: str) -> bool:
    """Whether the database has the zone. Reads one small file, and only the first time."""
    if not _NAME.fullmatch(name) or name == _NO_PLACE:
        return False
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):  # no such zone is a KeyError; a directory is an OSError
        return False
    return True
