"""What a release carries: the wheel, its image, the clients, the documents as a site, the changes, and the digests of all of it."""

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from ops.clients.packages import pack
from ops.image import __main__ as image
from ops.release.archives import archive
from ops.release.version import changes
from ops.site import __main__ as site

DIGESTS: Final = "SHA256SUMS"


def make(tree: Path, version: str, target: Path) -> list[Path]:
    target.mkdir(parents=True, exist_ok=True)
    for former in target.iterdir():
        if former.is_file():
            former.unlink()
    image.build(wheel(tree, target), target)
    with tempfile.TemporaryDirectory() as folder:
        site.build_site(Path(folder))
        archive(Path(folder), target / f"postern-{version}-site.tar.gz", root=f"postern-{version}-site")
    pack(target, version)
    (target / "CHANGES.md").write_text(changes(tree, version))
    write_digests(target)
    return sorted(file for file in target.iterdir() if file.is_file())


def wheel(tree: Path, target: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "wheel", "--disable-pip-version-check", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", target, tree], check=True)
    (made,) = target.glob("postern-*.whl")
    return made


def digest_of_image(tree: Path) -> str:
    with tempfile.TemporaryDirectory() as folder:
        return image.build(wheel(tree, Path(folder)), Path(folder)).digest


def write_digests(folder: Path) -> None:
    """In the form that `sha256sum --check` reads."""
    files = sorted(file for file in folder.iterdir() if file.is_file() and file.name != DIGESTS)
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (folder / DIGESTS).write_text("".join(lines))
