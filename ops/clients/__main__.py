"""Writes the clients for Python and TypeScript: `python -m ops.clients [FOLDER]`. The folder is dist/clients if none is named."""

import sys
from pathlib import Path

from ops.clients.build import ROOT, write_clients
from ops.release.version import current_version


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist" / "clients"
    for client in write_clients(folder, current_version(ROOT)):
        print(client)
    return 0


if __name__ == "__main__":
    sys.exit(main())
