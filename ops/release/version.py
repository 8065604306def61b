"""The version in every place that names it, and the part of the changelog that becomes a version's."""

import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Final

from ops.bench.record import outdated
from ops.pictures import OLD, are_as_pages_are

# It names the image of the release, by version and digest.
KUSTOMIZATION: Final = "ops/kubernetes/release/kustomization.yaml"
# The places besides pyproject.toml, and the text around the version there.
COPIES: Final[Mapping[str, tuple[str, ...]]] = {
    "SECURITY.md": (r"postern-(\d+\.\d+\.\d+)", r"postern:(\d+\.\d+\.\d+)"),
    "README.md": (
        r"^\*\*Where it stands\.\*\* Version (\d+\.\d+\.\d+)",
        r'"version":"(\d+\.\d+\.\d+)"',
        r"postern-(\d+\.\d+\.\d+)",
        r"postern:(\d+\.\d+\.\d+)",
    ),
    "docs/comparison.md": (r"Postern (\d+\.\d+\.\d+) against", r"youngest of the five: version (\d+\.\d+\.\d+)"),
    "docs/guides/running/image.md": (r"postern-(\d+\.\d+\.\d+)", r"postern:(\d+\.\d+\.\d+)"),
    "docs/guides/running/kubernetes.md": (r"/postern:(\d+\.\d+\.\d+)", r"postern-(\d+\.\d+\.\d+)"),
    "docs/operations/install.md": (r"POSTERN_VERSION=(\d+\.\d+\.\d+)",),
    "ops/container/compose.yaml": (r"postern:(\d+\.\d+\.\d+)",),
    "ops/kubernetes/chart/Chart.yaml": (r"^version: (\d+\.\d+\.\d+)", r"^appVersion: (\d+\.\d+\.\d+)"),
    KUSTOMIZATION: (r"newTag: (\d+\.\d+\.\d+)",),
}
_SOURCE: Final = ("pyproject.toml", r'^version = "(\d+\.\d+\.\d+)"')
FIGURES: Final = "docs/benchmarks.md"
_NEXT: Final = "## Unreleased\n"


class NotReleased(Exception):
    """Nothing was changed."""


def release(tree: Path, version: str, today: date, digest_of_image: Callable[[Path], str], due: Callable[[], Sequence[str]]) -> None:
    """Writes the version and the digest of its image, commits, and tags the commit. Raises `NotReleased`. `due` says what ships and has
    changed since its tests were green.
    """
    _require(re.fullmatch(r"\d+\.\d+\.\d+", version), f"{version!r} is no version like 0.2.0")
    current = current_version(tree)
    _require(_numbers(version) > _numbers(current), f"{version} does not come after {current}")
    _require(not _git(tree, "status", "--porcelain"), "there are changes that are not committed")
    _require(not _git(tree, "tag", "--list", tag(version)), f"the tag {tag(version)} is there")
    waiting = ", ".join(due())
    _require(not waiting, f"run make check-all, and commit what it writes: nobody has seen this green as it is now: {waiting}")
    _require(are_as_pages_are(tree), OLD)
    if old := outdated((tree / FIGURES).read_text(encoding="utf-8"), today):
        told = "\n".join(["figures that are older than thirty days:", *old])
        _require(_only_mends(version, current), f"run make bench and what {FIGURES} names, and commit it, for {told}")
        print(f"{FIGURES} has {told}")
    written = {name: _with_version(tree / name, patterns, version) for name, patterns in {**COPIES, _SOURCE[0]: (_SOURCE[1],)}.items()}
    written["CHANGELOG.md"] = _with_part((tree / "CHANGELOG.md").read_text(), f"{version} ({today.isoformat()})")
    for name, text in written.items():
        (tree / name).write_text(text)
    try:
        digest = digest_of_image(tree)
    except BaseException:
        _git(tree, "checkout", "--", *written)
        raise
    (tree / KUSTOMIZATION).write_text(with_digest(written[KUSTOMIZATION], digest))
    _git(tree, "commit", "--quiet", "--message", f"Release {version}\n\nEvery place that names the version names this one.", "--", *written)
    _git(tree, "tag", "--annotate", tag(version), "--message", f"Postern {version}")


def current_version(tree: Path) -> str:
    found = re.search(_SOURCE[1], (tree / _SOURCE[0]).read_text(), re.MULTILINE)
    assert found is not None, "pyproject.toml has a version"  # noqa: S101 - a test holds it
    return found[1]


def tag(version: str) -> str:
    return f"v{version}"


def changes(tree: Path, version: str) -> str:
    """The part of the changelog about the version."""
    text = (tree / "CHANGELOG.md").read_text()
    found = re.search(rf"^## {re.escape(version)} \(.+?\)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    _require(found, f"the changelog has no part for {version}")
    return found[1].strip() + "\n" if found else ""


def _with_version(file: Path, patterns: tuple[str, ...], version: str) -> str:
    text = file.read_text()
    for pattern in patterns:
        text, count = re.subn(pattern, lambda found: found[0].replace(found[1], version), text, flags=re.MULTILINE)
        _require(count, f"{file.name} does not name the version any more: {pattern}")
    return text


def with_digest(kustomization: str, digest: str) -> str:
    return re.sub(r"( *)newTag: (.*)\n(?: *digest: .*\n)?", rf"\1newTag: \2\n\1digest: {digest}\n", kustomization)


def _with_part(changelog: str, heading: str) -> str:
    before, _, after = changelog.partition(_NEXT)
    _require(after.partition("\n## ")[0].strip(), "the changelog has nothing under “Unreleased”")
    return f"{before}{_NEXT}\n## {heading}\n{after}"


def _only_mends(version: str, current: str) -> bool:
    """A patch version: it brings nothing that could be measured anew."""
    return _numbers(version)[:2] == _numbers(current)[:2]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(one) for one in version.split("."))


def _require(fulfilled: object, otherwise: str) -> None:
    if not fulfilled:
        raise NotReleased(otherwise)


def _git(tree: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=tree, check=True, capture_output=True, text=True).stdout.strip()
