"""Builds argon2-cffi-bindings for a processor, from the source that requirements.lock pins. Hashing costs more than anything else in
Postern, and the published wheel is made for processors of 2003.

`make run` calls this script inside the virtual environment. The script never fails the set-up: if anything is missing, the wheel stays, and
one line says why. Beside a build, the script writes a record of the processor features that the build needs.
`adapters/crypto/password_digests.py` reads the record before it loads the build. An image names its baseline:
`build_argon2.py --baseline x86-64-v3`.
"""

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Final

DISTRIBUTION: Final = "argon2-cffi-bindings"
ROOT: Final = Path(__file__).resolve().parent.parent
LOCK: Final = ROOT / "requirements.lock"
CMAKE_LOCK: Final = ROOT / "ops" / "requirements-cmake.lock"
OLDEST_CMAKE: Final = (3, 20)
RECORD: Final = "argon2-build.json"
PATIENCE: Final = 300

# The compiler uses these features for plain C by itself. Others (AES, RDRAND, …) need explicit calls, and Argon2 makes none.
_USED: Final = re.compile(r"__(SSE3|SSSE3|SSE4_1|SSE4_2|POPCNT|LZCNT|BMI2?|MOVBE|ADX|FMA|FMA4|XOP|F16C|GFNI|SHA|AVX\w*|VAES|VPCLMULQDQ)__")
# The kernel calls these features by another name than the compiler. For all others, the names are the same in small letters.
_KERNEL_WORDS: Final = {
    "SSE3": "pni",
    "LZCNT": "abm",
    "BMI": "bmi1",
    "SHA": "sha_ni",
    **{f"AVX512{name}": f"avx512_{name.lower()}" for name in ("VBMI2", "VNNI", "BITALG", "VPOPCNTDQ", "BF16", "FP16", "VP2INTERSECT")},
    "AVXVNNI": "avx_vnni",
}
# x86-64-v2 to v4 in the kernel's words. The record holds these words, and others only if this machine's kernel names them: with a word that
# no kernel uses, a good build would look foreign everywhere.
_LEVELS: Final = frozenset(
    {
        *("pni", "ssse3", "sse4_1", "sse4_2", "popcnt"),
        *("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"),
        *("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
    }
)

# From libargon2's own tests: Argon2id, version 19, t=2, m=256 KiB, p=1.
_SELF_TEST: Final = """
from argon2.low_level import Type, hash_secret_raw
digest = hash_secret_raw(b"password", b"somesalt", time_cost=2, memory_cost=256, parallelism=1, hash_len=32, type=Type.ID)
assert digest.hex() == "9dfeb910e80bad0311fee20f9c0e2b12c17987b4cac90c2ef54d5b3021c68bfe", digest.hex()
"""


class StayWithTheWheel(Exception):
    """The message says why there is no build. It is the end of a sentence."""


@dataclass(frozen=True, slots=True)
class Processor:
    name: str
    features: frozenset[str]


def main() -> None:
    arguments = argparse.ArgumentParser(description="Build argon2-cffi-bindings for a processor, if that can be done here.")
    arguments.add_argument("--baseline", default="native", metavar="NAME", help="as the compiler's -march takes it; default: native")
    baseline: str = arguments.parse_args().baseline
    started = time.monotonic()
    try:
        processor = this_processor()
        if build(baseline, processor):
            built_for = processor.name if baseline == "native" else baseline
            print(f"Argon2: built for {built_for} in {time.monotonic() - started:.1f} s.")
    except (StayWithTheWheel, OSError, subprocess.SubprocessError) as error:
        reason = str(error) if isinstance(error, StayWithTheWheel) else f"of {type(error).__name__}: {error}"
        print(f"Argon2: not built for this processor, because {reason}. Sign-ins work all the same, at twice the cost.")


def build(baseline: str, processor: Processor) -> bool:
    """Returns whether there was something to build."""
    try:
        compiler = _compiler()
        needs = needed_features(compiler, baseline) & (processor.features | _LEVELS)
        wanted = {"version": _installed_version(), "baseline": baseline, "processor": processor.name, "needs": sorted(needs)}
        if _is_in_force(wanted):
            return False
        with _requirements() as requirements:
            environment = {name: value for name, value in os.environ.items() if not name.startswith("ARGON2_CFFI_")}
            environment["CC"] = compiler
            environment["CFLAGS"] = f"-O3 -march={baseline}"
            environment["PATH"] = os.pathsep.join([*_cmake_path(requirements.parent), environment.get("PATH", os.defpath)])
            _pip(["--no-binary", DISTRIBUTION, "--no-build-isolation", "-r", str(requirements)], environment, "its build failed")
        if needs <= processor.features:
            _require_self_test()
    except (StayWithTheWheel, OSError, subprocess.SubprocessError):
        _leave_no_foreign_build(processor)
        raise
    _write_record(wanted | {"module": _module_digest()})
    return True


def this_processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> Processor:
    if platform.machine() not in {"x86_64", "AMD64"} or not cpuinfo.exists():
        raise StayWithTheWheel("only on Linux and x86-64 is there anything to gain from a build")
    fields: dict[str, str] = {}
    for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
        name, separator, value = line.partition(":")
        if separator:
            fields.setdefault(name.strip(), value.strip())
    return Processor(" ".join(fields.get("model name", "this processor").split()), frozenset(fields.get("flags", "").split()))


def needed_features(compiler: str, baseline: str) -> frozenset[str]:
    """The processor features that the compiler uses under this baseline, in the kernel's words."""
    command = [*compiler.split(), f"-march={baseline}", "-dM", "-E", "-x", "c", os.devnull]
    shown = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE)
    if shown.returncode != 0:
        raise StayWithTheWheel(f"{compiler} does not know -march={baseline}")
    return frozenset(_KERNEL_WORDS.get(name, name.lower()) for name in _USED.findall(shown.stdout))


def pinned(lock: str, name: str) -> str:
    """The lock's lines for this requirement, with the hashes."""
    found = re.search(rf"^{re.escape(name)}==.*(?:\n[ \t].*)*", lock, re.MULTILINE)
    if found is None:
        raise StayWithTheWheel(f"{LOCK.name} does not name {name}")
    return found[0] + "\n"


def _compiler() -> str:
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not compiler:
        raise StayWithTheWheel("there is no C compiler")
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        raise StayWithTheWheel("Python's header files are not installed (Debian's python3-dev)")
    return compiler


def _installed_version() -> str:
    try:
        return distribution(DISTRIBUTION).version
    except PackageNotFoundError:
        raise StayWithTheWheel(f"{DISTRIBUTION} is not installed in {sys.prefix}") from None


def _cmake_path(directory: Path) -> list[str]:
    """The folders that PATH must name first, so that a CMake is found. The list is empty if the machine has a new enough CMake."""
    own = shutil.which("cmake")
    if own is not None:
        shown = subprocess.run([own, "--version"], check=False, capture_output=True, text=True, timeout=PATIENCE)
        found = re.search(r"version (\d+)\.(\d+)", shown.stdout)
        if found is not None and (int(found[1]), int(found[2])) >= OLDEST_CMAKE:
            return []
    if not CMAKE_LOCK.exists():
        raise StayWithTheWheel("there is no CMake")
    target = directory / "cmake"
    _pip(["--only-binary", ":all:", "--target", str(target), "-r", str(CMAKE_LOCK)], os.environ, "there is no CMake, and none to be had")
    return [str(target / "cmake" / "data" / "bin")]


def _pip(arguments: list[str], environment: Mapping[str, str], otherwise: str) -> None:
    # No cache: pip would keep the build in the home directory and take it from there. Machines of another kind may share that directory.
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--quiet", "--no-cache-dir", "--force-reinstall"]
    command += ["--no-deps", "--require-hashes", *arguments]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, env=dict(environment), timeout=PATIENCE)
    if ended.returncode != 0:
        # The compiler's error comes before pip's summary.
        said = [line.strip() for line in ended.stderr.splitlines() if re.search(r"error|not found", line, re.IGNORECASE)]
        raise StayWithTheWheel(f"{otherwise} ({said[0]})" if said else otherwise)


def _require_self_test() -> None:
    if subprocess.run([sys.executable, "-c", _SELF_TEST], check=False, capture_output=True, timeout=PATIENCE).returncode != 0:
        _put_the_wheel_back()
        raise StayWithTheWheel("what was built does not compute what it should")


def _put_the_wheel_back() -> None:
    with _requirements() as requirements:
        _pip(["--only-binary", ":all:", "-r", str(requirements)], os.environ, "not even the wheel can be installed")


@contextmanager
def _requirements() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="postern-argon2-") as directory:
        path = Path(directory) / "requirements.txt"
        path.write_text(pinned(LOCK.read_text(encoding="utf-8"), DISTRIBUTION), encoding="utf-8")
        yield path


def _is_in_force(wanted: Mapping[str, Any]) -> bool:
    record = _read_record()
    return {name: record.get(name) for name in wanted} == dict(wanted) and record.get("module") == _module_digest()


def _leave_no_foreign_build(processor: Processor) -> None:
    """Replaces a build by the wheel if it came with a copied environment and would crash the process here."""
    record = _read_record()
    if record.get("module") != _module_digest() or processor.features.issuperset(record.get("needs", ())):
        return
    _put_the_wheel_back()


def _read_record() -> dict[str, Any]:
    try:
        record = json.loads((Path(sys.prefix) / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _write_record(record: Mapping[str, Any]) -> None:
    path = Path(sys.prefix) / RECORD
    unfinished = path.with_suffix(".new")
    unfinished.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    unfinished.replace(path)


def _module_digest() -> str:
    files = distribution(DISTRIBUTION).files or ()
    module = next((Path(str(file.locate())) for file in files if file.name.startswith("_ffi.")), None)
    return hashlib.sha256(module.read_bytes()).hexdigest() if module is not None else ""


if __name__ == "__main__":
    main()
