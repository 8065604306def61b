"""Argon2 on one core: the installed build against the published wheel, in turns in one run, because a machine's speed varies.

`python -m ops.bench.alone.argon2`. The wheel comes with its hash from requirements.lock into a directory of its own.
"""

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from adapters.crypto.password_digests import DISTRIBUTION, binding
from ops.build_argon2 import LOCK, pinned

ROUNDS: Final = 7
SECONDS: Final = 0.4
LEAST_RATIO: Final = 1.6

# With a directory, the worker loads the bindings from there; without one, the installed bindings. It answers each line with a figure.
_WORKER: Final = """
import sys
sys.path[:0] = sys.argv[2:]
from adapters.crypto.passwords import rate
rate(0.1)
for _ in sys.stdin:
    print(rate(float(sys.argv[1])), flush=True)
"""


@dataclass(frozen=True, slots=True)
class Figures:
    """Verifications a second on one core, by CPU time: the median of the rounds."""

    in_force: float
    wheel: float

    @property
    def ratio(self) -> float:
        return self.in_force / self.wheel


def measure(rounds: int = ROUNDS, seconds: float = SECONDS) -> Figures:
    with tempfile.TemporaryDirectory(prefix="postern-wheel-") as directory:
        _install_wheel(Path(directory))
        with _worker(seconds) as in_force, _worker(seconds, directory) as wheel:
            pairs = [(_ask(in_force), _ask(wheel)) for _ in range(rounds)]
    return Figures(statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs))


def _install_wheel(directory: Path) -> None:
    requirements = directory / "requirements.txt"
    requirements.write_text(pinned(LOCK.read_text(encoding="utf-8"), DISTRIBUTION), encoding="utf-8")
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--quiet", "--no-cache-dir", "--no-deps"]
    command += ["--require-hashes", "--only-binary", ":all:", "--target", str(directory), "-r", str(requirements)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)


@contextmanager
def _worker(seconds: float, *path: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", _WORKER, str(seconds), *path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
        try:
            yield worker
        finally:
            worker.kill()


def _ask(worker: subprocess.Popen[str]) -> float:
    if worker.stdin is None or worker.stdout is None:
        raise RuntimeError("the worker has no pipes")
    worker.stdin.write("\n")
    worker.stdin.flush()
    return float(worker.stdout.readline())


def main() -> int:
    figures = measure()
    print(f"in force ({binding()}): {figures.in_force:.1f} verifications/s a core")
    print(f"the wheel: {figures.wheel:.1f} verifications/s a core")
    print(f"ratio: {figures.ratio:.2f} (to hold: {LEAST_RATIO})")
    return 0 if figures.ratio >= LEAST_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
