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
    and None means the wheel. `missing` names the instructions that the build needs and this processor lacks.
    """

    version: str
    baseline: str | None
    processor: str
    missing: tuple[str, ...]

    def __str__(self) -> str:
        if self.baseline is None:
            return f"{DISTRIBUTION} {self.version}, the wheel, for any processor"
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
        return Argon2Binding(installed.version, None, "", ())
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
