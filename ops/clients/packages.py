"""The packages of the clients, as people install them: the same bytes wherever they are made."""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from ops.clients.build import write_clients
from ops.packaging.one_root import write_wheel
from ops.release.archives import archive


def pack(target: Path, version: str) -> None:
    """Makes `postern_client-….whl` for pip, and `postern-client-….tgz` for npm."""
    with tempfile.TemporaryDirectory(prefix="postern-clients-") as place:
        python, typescript = write_clients(Path(place), version)
        _pack_wheel(python, target)
        # The folder in the archive is the one that npm expects.
        archive(typescript, target / f"postern-client-{version}.tgz", root="package")


def _pack_wheel(package: Path, target: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="postern-wheel-") as place:
        pip = [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--disable-pip-version-check",
            "--quiet",
            "--no-deps",
            "--no-build-isolation",
            "--no-index",
        ]
        subprocess.run([*pip, "--wheel-dir", place, package], check=True)
        (made,) = Path(place).glob("*.whl")
        # setuptools writes dates and modes of this machine.
        with zipfile.ZipFile(made) as built:
            files = {info.filename: built.read(info) for info in built.infolist() if not info.is_dir()}
        write_wheel(target / made.name, {name: content for name, content in files.items() if not name.endswith("/RECORD")})
