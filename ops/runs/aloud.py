"""Says what a command of the Makefile does, and every few seconds that it still does it: `python ops/runs/aloud.py WHAT COMMAND …`.

pip, npm, a compiler and apt-get may be silent for minutes, and then nobody knows whether they wait, work or hang. This needs nothing but
Python: it runs before anything is installed.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

_EVERY = float(os.environ.get("ALOUD_EVERY", "4"))


def main(arguments: Sequence[str]) -> int:
    what, *command = arguments
    began, ended = time.monotonic(), threading.Event()
    _say(f"{what} …")

    def speak() -> None:
        while not ended.wait(_EVERY):
            _say(f"  … {time.monotonic() - began:.0f} s")

    threading.Thread(target=speak, daemon=True).start()
    try:
        return subprocess.run(command, check=False).returncode
    except KeyboardInterrupt:
        return 130
    finally:
        ended.set()


def _say(line: str) -> None:
    # A whole line in one piece: the command writes to the same place.
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
