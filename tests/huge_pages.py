"""What the system says of the huge pages of a process."""

import re
from pathlib import Path


def huge_kilobytes(process: int | str = "self") -> int:
    found = re.search(r"^AnonHugePages: +(\d+) kB$", Path(f"/proc/{process}/smaps_rollup").read_text(), re.MULTILINE)
    return 0 if found is None else int(found[1])
