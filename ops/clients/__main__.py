"""Writes the clients for Python and TypeScript: `python -m ops.clients [FOLDER]`. The folder is dist/clients if none is named."""

import sys
from pathlib import Path

from ops.clients.build import ROOT, ToolMissing, write_clients
from ops.release.version import current_version


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist" / "clients"
    try:
        written = write_clients(folder, current_version(ROOT))
    except ToolMissing as missing:
        print(missing, file=sys.stderr)
        return 1
    for client in written:
        print(client)
    return 0


if __name__ == "__main__":
    sys.exit(main())
