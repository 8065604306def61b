"""A container of the image, as an engine starts one: its user and settings, a root that nobody can write to, and a volume for its data."""

import json
import os
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ops.image.sealing import USER
from tests.tools import place_of


@dataclass(frozen=True)
class Layout:
    """An OCI image layout, unpacked."""

    folder: Path

    def index(self) -> Any:
        return json.loads((self.folder / "index.json").read_text())

    def manifest(self) -> Any:
        (described,) = self.index()["manifests"]
        return json.loads(self.blob(described["digest"]).read_text())

    def config(self) -> Any:
        return json.loads(self.blob(self.manifest()["config"]["digest"]).read_text())

    def blob(self, digest: str) -> Path:
        return self.folder / "blobs" / digest.replace(":", "/")


@dataclass
class Container:
    """Without root, the only user that there is has the number of the image's."""

    layout: Layout
    folder: Path
    """Everybody can enter it and the folders above, as the user of the image must."""
    settings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.root = self.folder / "root"
        self.volume = self.folder / "volume"
        self.root.mkdir()
        for layer in self.layout.manifest()["layers"]:
            with tarfile.open(self.layout.blob(layer["digest"])) as files:
                files.extractall(self.root, filter="fully_trusted")  # noqa: S202 - we made it
        # An engine makes a new volume like the folder that the image has in its place.
        self.volume.mkdir(mode=0o700)
        if os.geteuid() == 0:
            os.chown(self.volume, USER, USER)

    def command(self, *words: str, **settings: str) -> Sequence[str]:
        config = self.layout.config()["config"]
        (volume,) = config["Volumes"]
        environment = {**dict(pair.split("=", 1) for pair in config["Env"]), **self.settings, **settings}
        sandbox = [
            *("--unshare-all", "--share-net", "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
            *("--uid", config["User"].split(":")[0], "--gid", config["User"].split(":")[1]),
            *("--ro-bind", str(self.root), "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/dev/shm", "--tmpfs", "/tmp"),  # noqa: S108
            *("--bind", str(self.volume), volume, "--chdir", config["WorkingDir"], "--clearenv"),
            *(word for name, value in environment.items() for word in ("--setenv", name, value)),
        ]
        return [place_of("bwrap"), *sandbox, *(words or (*config["Entrypoint"], *config["Cmd"]))]

    def start(self, *words: str, log: Path) -> subprocess.Popen[bytes]:
        with log.open("wb") as file:
            return subprocess.Popen(self.command(*words), stdin=subprocess.DEVNULL, stdout=file, stderr=file, **_user())

    def run(self, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command(*words, **settings), capture_output=True, text=True, check=False, **_user())


def _user() -> dict[str, Any]:
    return {"user": USER, "group": USER, "extra_groups": []} if os.geteuid() == 0 else {}
