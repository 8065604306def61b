"""Renews the list of Debian's packages in packages.json: `python -m ops.image.packages`.

apt reads Debian's signed lists from the mirrors of this machine, and changes nothing there. A package that one of ours depends on must be
in wanted.toml, and in a version that suffices.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ops.image.debian import ARCHITECTURE, ARCHIVES, LIST, WANTED, NotMade, Package, PackageList, mirrors, output, stanzas

KEYRING: Final = "/usr/share/keyrings/debian-archive-keyring.gpg"
Fields = Mapping[str, str]


def renewed(mirror: str | None = None) -> PackageList:
    """The newest versions that Debian has. Raises `NotMade`."""
    own = {name: mirror.format(archive=name) for name in ARCHIVES} if mirror else mirrors()
    if set(own) != set(ARCHIVES):
        raise NotMade("apt has no mirror of Debian and of its security archive on this machine: name one with --mirror")
    stable, following = WANTED["suite"], WANTED["next"]
    found = [
        *_asked(
            WANTED["packages"],
            [(own["debian"], stable), (own["debian"], f"{stable}-updates"), (own["debian-security"], f"{stable}-security")],
        ),
        *_asked(WANTED["packages-of-next"], [(own["debian"], following)]),
    ]
    _require_whole(found)
    return PackageList(f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}", sorted((_package(one) for one in found), key=lambda one: one.name))


def _asked(names: Sequence[str], suites: Sequence[tuple[str, str]]) -> Sequence[Fields]:
    with tempfile.TemporaryDirectory() as folder:
        sources = Path(folder, "debian.list")
        sources.write_text("".join(f"deb [arch={ARCHITECTURE} signed-by={KEYRING}] {address} {suite} main\n" for address, suite in suites))
        (Path(folder) / "lists" / "partial").mkdir(parents=True)
        own = {
            "APT::Architecture": ARCHITECTURE,
            "APT::Sandbox::User": "root",
            "Acquire::Languages": "none",
            "Dir::Cache": folder,
            "Dir::Etc::SourceList": str(sources),
            "Dir::Etc::SourceParts": "/dev/null",
            "Dir::Etc::PreferencesParts": "/dev/null",
            "Dir::State::Lists": f"{folder}/lists",
            "Dir::State::status": "/dev/null",
        }
        options = [f"-o{name}={value}" for name, value in own.items()]
        output("apt-get", *options, "--quiet", "-oAPT::Update::Error-Mode=any", "update")
        return list(stanzas(output("apt-cache", *options, "show", "--no-all-versions", *names)))


def _package(one: Fields) -> Package:
    archive = "debian-security" if one["Filename"].startswith("pool/updates/") else "debian"
    return Package(one["Package"], one["Version"], archive, one["Filename"], one["SHA256"])


def _require_whole(found: Sequence[Fields]) -> None:
    versions = {one["Package"]: one["Version"] for one in found}
    wanted = {*WANTED["packages"], *WANTED["packages-of-next"]}
    if set(versions) != wanted:
        raise NotMade(f"Debian has no {', '.join(sorted(wanted - set(versions)))}")
    for one in found:
        for group in filter(None, re.split(r",\s*", f"{one.get('Pre-Depends', '')}, {one.get('Depends', '')}")):
            if not any(_is_there(alternative, versions) for alternative in group.split("|")):
                raise NotMade(f"{one['Package']} depends on {group}: put it into wanted.toml, or say there why it is left out")


def _is_there(alternative: str, versions: Mapping[str, str]) -> bool:
    found = re.fullmatch(r"\s*([a-z0-9.+-]+)(?::\w+)?(?:\s*\((\S+)\s+(\S+)\))?\s*", alternative)
    if found is None:
        raise NotMade(f"This dependency is of an unknown form: {alternative}")
    name, relation, version = found.groups()
    if name in WANTED["packages-left-out"]:
        return True
    if name not in versions:
        return False
    compare = ["dpkg", "--compare-versions", versions[name], relation or "ge", version or "0"]
    return subprocess.run(compare, check=False).returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Renew the list of Debian's packages in the image")
    parser.add_argument("--mirror", help="where Debian is, such as https://mirror.example.org/{archive}; otherwise, where apt finds it")
    given = parser.parse_args()
    before = {one.name: one.version for one in PackageList.read().packages} if LIST.exists() else {}
    try:
        made = renewed(given.mirror)
    except NotMade as reason:
        print(f"The list stays as it is: {reason}")
        return 1
    changes = [one for one in made.packages if before.get(one.name) != one.version]
    for one in changes:
        print(f"{one.name}: {before.get(one.name, 'new')} → {one.version}")
    if changes or set(before) != {one.name for one in made.packages}:
        made.write()
    print(f"{len(changes)} of {len(made.packages)} packages are new.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
