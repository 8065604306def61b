"""Debian's packages of the image: the pinned list, the mirrors that have them, and their files."""

import fnmatch
import hashlib
import json
import re
import subprocess
import tarfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).resolve().parent
LIST: Final = FOLDER / "packages.json"
WANTED: Final[Mapping[str, Any]] = tomllib.loads((FOLDER / "wanted.toml").read_text())
# The image is of this kind, and so is the machine that makes it: it runs the image's own Python.
ARCHITECTURE: Final = "amd64"
# Debian's archives, by the last part of their addresses. A mirror has both.
ARCHIVES: Final = ("debian", "debian-security")


class NotMade(Exception):
    """There is no image. The message is a sentence for the person who asked for one."""


@dataclass(frozen=True, slots=True)
class Package:
    name: str
    version: str
    archive: str
    file: str
    sha256: str

    def path(self, folder: Path) -> Path:
        return folder / Path(self.file).name


@dataclass(frozen=True, slots=True)
class PackageList:
    """`moment` is when the list was made. It is the time of every file in the image."""

    moment: str
    packages: Sequence[Package]

    @classmethod
    def read(cls, file: Path = LIST) -> "PackageList":
        loaded = json.loads(file.read_text())
        return cls(loaded["moment"], [Package(**one) for one in loaded["packages"]])

    def write(self, file: Path = LIST) -> None:
        packages = ",\n".join(f"    {json.dumps(asdict(one))}" for one in self.packages)
        file.write_text(f'{{\n  "moment": "{self.moment}",\n  "packages": [\n{packages}\n  ]\n}}\n')


def mirrors() -> Mapping[str, str]:
    """The addresses of Debian's archives that apt has on this machine. The first counts: a later one may be of others, by the same name."""
    asked = output("apt-get", "update", "--print-uris")
    found = re.findall(rf"^'(\S*/({'|'.join(ARCHIVES)}))/+dists/", asked, re.MULTILINE)
    return {archive: address for address, archive in reversed(found)}


def download(given: PackageList, folder: Path, mirror: str | None = None) -> None:
    """Brings the packages into the folder, where it has not got them. `mirror` may have the places `{archive}` and `{moment}`; without one,
    apt's own mirrors count. Raises `NotMade`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    places = {name: mirror.format(archive=name, moment=given.moment) for name in ARCHIVES} if mirror else mirrors()
    asked = [
        [f"{places[one.archive]}/{one.file}", str(one.path(folder)), f"SHA256:{one.sha256}"]
        for one in given.packages
        if one.archive in places and not _is_whole(one, folder)
    ]
    if asked:
        helper = ["/usr/lib/apt/apt-helper", "-oAPT::Sandbox::User=root", "-oAcquire::Retries=1", "download-file"]
        subprocess.run([*helper, *(word for words in asked for word in words)], capture_output=True, check=False)
    gone = [one for one in given.packages if not _is_whole(one, folder)]
    if gone:
        names = ", ".join(f"{one.name} {one.version}" for one in gone)
        raise NotMade(
            f"No mirror has {names}: renew the list with `python -m ops.image.packages`, or name an archive that keeps every version with"
            " --mirror https://…/{archive}/{moment}"
        )


def _is_whole(one: Package, folder: Path) -> bool:
    file = one.path(folder)
    return file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest() == one.sha256


def unpack(packages: Iterable[Package], source: Path, target: Path) -> None:
    """The files of the packages, and the few that their installation would make."""
    # This package has the folders that are links, such as `bin` to `usr/bin`.
    for one in sorted(packages, key=lambda one: one.name != "base-files"):
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", one.path(source)], stdout=subprocess.PIPE) as reading:
            assert reading.stdout is not None  # noqa: S101 - it is a pipe
            with tarfile.open(fileobj=reading.stdout, mode="r|") as files:
                for member in files:
                    if not is_left_out(member.name.removeprefix("./")):
                        files.extract(member, target, filter="tar")
            reading.stdout.read()  # blocks that fill the archive up: nobody may close the pipe on dpkg-deb
        if reading.returncode != 0:
            raise NotMade(f"{one.name} cannot be unpacked")
    authorities = sorted((target / "usr" / "share" / "ca-certificates").rglob("*.crt"))
    write(target / "etc/ssl/certs/ca-certificates.crt", "".join(one.read_text() for one in authorities))
    write(target / "etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")
    stanzas = [f"{output('dpkg-deb', '--field', str(one.path(source)))}Status: install ok installed\n" for one in packages]
    # Scanners read it.
    write(target / "var/lib/dpkg/status", "\n".join(stanzas))


def is_left_out(name: str) -> bool:
    if name.startswith("usr/share/doc/") and name.count("/") > 3 and not name.endswith("/copyright"):
        return True
    return any(fnmatch.fnmatch(name, pattern) for pattern in WANTED["files-left-out"])


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def output(*command: str) -> str:
    """What a program says. Raises `NotMade`."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except FileNotFoundError:
        raise NotMade(f"{command[0]} is missing: the image is made on Debian or Ubuntu, whose programs unpack the packages") from None
    except subprocess.CalledProcessError as failed:
        raise NotMade(f"{' '.join(command)}: {failed.stderr.strip()}") from None


def stanzas(text: str) -> Iterator[Mapping[str, str]]:
    """The fields of each package in the output of apt-cache. Fields of several lines lose all but the first."""
    for part in re.split(r"\n\n+", text.strip()):
        yield dict(re.findall(r"^([\w-]+): (.*)$", part, re.MULTILINE))
