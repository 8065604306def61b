"""The locked libraries and Postern's own wheel, unpacked as an environment for the image's Python."""

import configparser
import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path, PurePosixPath
from typing import Final

from ops.image.debian import NotMade, is_left_out, write

PYTHON: Final = "3.13"
# Where the environment is in the image.
PREFIX: Final = "opt/postern"
PACKAGES: Final = f"{PREFIX}/lib/python{PYTHON}/site-packages"
# From the newest, as pip prefers them. Debian's C library is newer than all of these.
_PLATFORMS: Final = (*(f"manylinux_2_{minor}_x86_64" for minor in range(41, 4, -1)), "manylinux2014_x86_64", "manylinux1_x86_64")


def download(lock: Path, folder: Path) -> list[Path]:
    """The wheels of the lock for the image's Python, by their hashes. Each lock has a folder of its own. Raises `NotMade`."""
    folder /= hashlib.sha256(lock.read_bytes()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    # pip came to its end here before, so nothing is missing.
    whole = folder / "whole"
    if not whole.exists():
        _download(lock, folder)
        whole.touch()
    wheels = sorted(folder.glob("*.whl"))
    for wheel in wheels:
        if f"sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}" not in lock.read_text():
            raise NotMade(f"{wheel} is not what the lock names: delete it, and {whole}")
    return wheels


def _download(lock: Path, folder: Path) -> None:
    target = [word for platform in _PLATFORMS for word in ("--platform", platform)]
    abis = [word for abi in ("cp" + PYTHON.replace(".", ""), "abi3", "none") for word in ("--abi", abi)]
    pip = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--quiet", "--require-hashes", "--no-deps"]
    chosen = ["--only-binary", ":all:", "--implementation", "cp", "--python-version", PYTHON, *abis, *target]
    done = subprocess.run([*pip, *chosen, "--requirement", lock, "--dest", folder], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotMade(f"The libraries cannot be downloaded: {done.stderr.strip()}")


def unpack(wheel: Path, target: Path) -> None:
    with zipfile.ZipFile(wheel) as files:
        for info in files.infolist():
            place = _place(PurePosixPath(info.filename))
            if info.is_dir() or place is None:
                continue
            (target / place).parent.mkdir(parents=True, exist_ok=True)
            (target / place).write_bytes(files.read(info))
            if info.external_attr >> 16 & 0o111:
                (target / place).chmod(0o755)


def _place(name: PurePosixPath) -> str | None:
    if ".." in name.parts or name.is_absolute():
        raise NotMade(f"A wheel has a file {name}")
    if is_left_out(str(name)):
        return None
    if not name.parts[0].endswith(".data"):
        return f"{PACKAGES}/{name}"
    kind, rest = name.parts[1], PurePosixPath(*name.parts[2:])
    return {"data": f"{PREFIX}/{rest}", "purelib": f"{PACKAGES}/{rest}", "platlib": f"{PACKAGES}/{rest}"}.get(kind)


def make_environment(target: Path) -> None:
    """As `python -m venv` makes one, so that Python finds the libraries, and `python` and `postern` are on the PATH."""
    write(target / PREFIX / "pyvenv.cfg", f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {PYTHON}\n")
    (target / PREFIX / "bin").mkdir()
    (target / PREFIX / "bin" / "python").symlink_to(f"/usr/bin/python{PYTHON}")
    (target / PREFIX / "bin" / "python3").symlink_to("python")


def make_commands(target: Path) -> None:
    """The commands that the wheels declare."""
    for declared in sorted((target / PACKAGES).glob("*.dist-info/entry_points.txt")):
        parser = configparser.ConfigParser(delimiters=("=",))
        parser.read_string(declared.read_text())
        for name, place in parser["console_scripts"].items() if parser.has_section("console_scripts") else ():
            module, _, function = place.partition(":")
            command = target / PREFIX / "bin" / name
            write(command, f"#!/{PREFIX}/bin/python\nimport sys\n\nfrom {module} import {function}\n\nsys.exit({function}())\n")
            command.chmod(0o755)
