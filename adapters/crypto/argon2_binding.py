"""Which build of Argon2 is in use: the published wheel, or a build that `ops/build_argon2.py` made for this machine's processor.

A processor without the instructions of a build ends the process (SIGILL), and people copy virtual environments and images between machines.
So each build has a record beside it, and the build is loaded only after its record has been compared with this processor.
"""

import hashlib
import json
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Final

from core.frozen import Frozen

DISTRIBUTION: Final = "argon2-cffi-bindings"
RECORD: Final = "argon2-build.json"
_PROCESSOR: Final = Path("/proc/cpuinfo")


class BuiltForAnotherProcessor(Exception):
    """The build in use would end the process. The sentence says what to do."""


class Argon2Binding(Frozen):
    """`baseline` is the compiler's name of the processor that the build is for. `native` means the processor of the machine that built it,
    and None means that no record says. `missing` names the instructions that the build needs and this processor lacks. A published wheel is
    for any processor, and slow.
    """

    version: str
    baseline: str | None
    processor: str
    missing: tuple[str, ...]
    is_published: bool = False

    @property
    def mend(self) -> str:
        """The command that builds the same version for this processor. It needs a C compiler."""
        flags = "CFLAGS='-O3 -march=native'"
        return f"{flags} pip install --force-reinstall --no-deps --no-binary {DISTRIBUTION} {DISTRIBUTION}=={self.version}"

    def __str__(self) -> str:
        if self.is_published:
            return f"{DISTRIBUTION} {self.version}, the wheel, for any processor"
        if self.baseline is None:
            return f"{DISTRIBUTION} {self.version}, built by hand"
        built = f"{DISTRIBUTION} {self.version}, built for {self.processor if self.baseline == 'native' else self.baseline}"
        return f"{built}, which has {', '.join(self.missing)}; this processor has not" if self.missing else built


def binding(prefix: Path | None = None, processor: Path = _PROCESSOR) -> Argon2Binding:
    """The installed build. This function only reads files: it does not load the build."""
    installed = distribution(DISTRIBUTION)
    record = _record((prefix or Path(sys.prefix)) / RECORD)
    module = next((Path(str(file.locate())) for file in installed.files or () if file.name.startswith("_ffi.")), None)
    # pip may have put the wheel back over a build, and then the build's record is still there. The digest shows whether both belong
    # together.
    if record is None or module is None or record.get("module") != _digest(module):
        return Argon2Binding(installed.version, None, "", (), is_published=_is_published(installed.read_text("WHEEL") or ""))
    present = processor_features(processor)
    missing = tuple(sorted(set(record.get("needs", ())) - present)) if present else ()
    return Argon2Binding(installed.version, str(record.get("baseline")), str(record.get("processor")), missing)


def require_runnable() -> None:
    """Raises `BuiltForAnotherProcessor` instead of the SIGILL that would follow."""
    try:
        found = binding()
    except PackageNotFoundError:
        return  # The import after this call raises its own error.
    if found.missing:
        raise BuiltForAnotherProcessor(
            f"{found}. Run ops/build_argon2.py in this environment, or reinstall {DISTRIBUTION}, before anything here can hash a password"
        )


def processor_features(processor: Path = _PROCESSOR) -> frozenset[str]:
    """The features of the processor, by the kernel's names. Empty when the system does not list them; then there is nothing to compare."""
    try:
        text = processor.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    line = next((line for line in text.splitlines() if line.startswith("flags")), "")
    return frozenset(line.partition(":")[2].split())


def _is_published(wheel: str) -> bool:
    """By the tags of the wheel: only a registry's wheel is for many systems."""
    return any(system in wheel for system in ("manylinux", "musllinux", "macosx"))


def _record(path: Path) -> Mapping[str, Any] | None:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""
