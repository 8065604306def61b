"""Makes the image of a wheel, without a daemon: `make image`, or

    python -m ops.image dist/postern-VERSION-py3-none-any.whl

writes an OCI image layout, its SBOM, its licences and its digest beside the wheel. The digest is the same on every machine.
"""

import argparse
import platform
import sys
from pathlib import Path
from typing import Final

from ops.image import debian, libraries
from ops.image.debian import LIST, NotMade, PackageList
from ops.image.making import ROOT, Image, make

CACHE: Final = ROOT / ".venv" / "image"


def build(wheel: Path, target: Path, *, packages: PackageList | None = None, mirror: str | None = None) -> Image:
    """Downloads what is missing, and makes the image. Raises `NotMade`."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise NotMade("it needs Linux on x86-64, because the image's own Python makes a part of it")
    packages = packages or PackageList.read()
    debs, wheels = CACHE / "debian", CACHE / "libraries"
    debian.download(packages, debs, mirror)
    return make(wheel, packages, debs, libraries.download(ROOT / "requirements.lock", wheels), target)


def main() -> int:
    parser = argparse.ArgumentParser(description="Make the image of a wheel")
    parser.add_argument("wheel", type=Path, help="as `make dist` builds it")
    parser.add_argument("--packages", type=Path, default=LIST, help="another list of Debian's packages")
    parser.add_argument("--mirror", help="where Debian is, such as https://mirror.example.org/{archive}; otherwise, where apt finds it")
    given = parser.parse_args()
    try:
        made = build(given.wheel, given.wheel.parent, packages=PackageList.read(given.packages), mirror=given.mirror)
    except NotMade as reason:
        print(f"No image was made: {reason}")
        return 1
    for file in made.files:
        print(file)
    print(f"{made.digest}, {made.unpacked / 1e6:.0f} MB unpacked")
    return 0


if __name__ == "__main__":
    sys.exit(main())
