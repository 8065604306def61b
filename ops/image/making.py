"""Puts the image together: three layers, which change ever more often (Debian, the libraries, Postern), and what describes them."""

import hashlib
import io
import json
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from ops.image import bill, debian, libraries
from ops.image.debian import NotMade, PackageList
from ops.image.sealing import USER

ROOT: Final = Path(__file__).resolve().parent.parent.parent
LAYERS: Final = ("debian", "libraries", "postern")
DATA: Final = "/var/lib/postern"
# PostgreSQL's client programs, as Debian installs them.
CLIENT: Final = "/usr/lib/postgresql/18/bin"
_LIVES: Final = (
    "import http.client, sys; c = http.client.HTTPConnection('127.0.0.1', 8000, timeout=2); c.request('GET', '/health/live'); "
    "sys.exit(c.getresponse().status != 200)"
)
CONFIG: Final[dict[str, Any]] = {
    # A number, so that Kubernetes can see that it is not root.
    "User": f"{USER}:{USER}",
    "Env": [
        f"PATH=/{libraries.PREFIX}/bin:{CLIENT}:/usr/local/bin:/usr/bin",
        "LANG=C.UTF-8",
        "PYTHONDONTWRITEBYTECODE=1",
        "PYTHONUNBUFFERED=1",
        "POSTERN_BIND=0.0.0.0:8000",
        f"POSTERN_DATA_DIR={DATA}",
        "POSTERN_LOG_FORMAT=json",
    ],
    "Entrypoint": ["postern"],
    "Cmd": ["serve"],
    "WorkingDir": DATA,
    "Volumes": {DATA: {}},
    "ExposedPorts": {"8000/tcp": {}},
    # Docker's own. It asks "live", not "ready", so that nobody restarts the container while its database is away.
    "Healthcheck": {
        "Test": ["CMD", "python", "-c", _LIVES],
        "Interval": 10_000_000_000,
        "Timeout": 3_000_000_000,
        "StartPeriod": 20_000_000_000,
        "Retries": 3,
    },
}
_PASSWD: Final = (
    f"root:x:0:0:root:/root:/usr/sbin/nologin\npostern:x:{USER}:{USER}:Postern:{DATA}:/usr/sbin/nologin\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
)
_GROUP: Final = f"root:x:0:\npostern:x:{USER}:\nnogroup:x:65534:\n"


@dataclass(frozen=True, slots=True)
class Layer:
    digest: str
    diff_id: str
    size: int
    unpacked: int


@dataclass(frozen=True, slots=True)
class Image:
    version: str
    digest: str
    files: Sequence[Path]
    unpacked: int


def make(wheel: Path, packages: PackageList, debs: Path, wheels: Sequence[Path], target: Path) -> Image:
    """Writes the image, its SBOM, its licences and its digest into the folder. Needs no network. Raises `NotMade`."""
    version = wheel.name.split("-")[1]
    time = int(datetime.strptime(packages.moment, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp())
    name = f"postern-{version}-image"
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="postern-image-") as folder:
        stages = {layer: Path(folder, layer) for layer in LAYERS}
        _lay_debian(packages, debs, stages["debian"])
        for one in wheels:
            libraries.unpack(one, stages["libraries"])
        libraries.make_environment(stages["libraries"])
        libraries.unpack(wheel, stages["postern"])
        libraries.make_commands(stages["postern"])
        described = bill.describe(version, packages, debs, [wheel, *wheels], list(stages.values()))
        debian.write(stages["postern"] / libraries.PREFIX / "share" / "postern" / "sbom.cdx.json", described.sbom)
        blobs = Path(folder, "blobs")
        blobs.mkdir()
        layers = _sealed(stages, time, blobs)
        digest = _write_layout(target / f"{name}.tar", version, time, layers, blobs)
    debian.write(target / f"{name}.cdx.json", described.sbom)
    debian.write(target / f"{name}-licences.txt", described.licences)
    debian.write(target / f"{name}.digest", f"{digest}\n")
    files = [target / f"{name}{end}" for end in (".tar", ".cdx.json", "-licences.txt", ".digest")]
    return Image(version, digest, files, sum(layer.unpacked for layer in layers))


def _lay_debian(packages: PackageList, debs: Path, stage: Path) -> None:
    debian.unpack(packages.packages, debs, stage)
    debian.write(stage / "etc/passwd", _PASSWD)
    debian.write(stage / "etc/group", _GROUP)
    # Where OpenSSL looks by itself.
    (stage / "usr/lib/ssl").mkdir(exist_ok=True)
    (stage / "usr/lib/ssl/cert.pem").symlink_to("/etc/ssl/certs/ca-certificates.crt")
    for name in (f".{DATA}", "backups", "tmp", "var/tmp", "proc", "sys", "dev", "run"):
        (stage / name).mkdir(parents=True, exist_ok=True)


def _sealed(stages: Mapping[str, Path], time: int, blobs: Path) -> Sequence[Layer]:
    """The layers at once, each in a process of the image's own Python."""
    root = stages["debian"]
    loader: list[str | Path] = [root / "usr/lib64/ld-linux-x86-64.so.2", "--library-path", root / "usr/lib/x86_64-linux-gnu"]
    with tempfile.TemporaryDirectory() as empty:
        environment = {
            "PYTHONHOME": str(root / "usr"),
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            # Of the modules that it imports itself, it finds none compiled: these appear while it runs.
            "PYTHONPYCACHEPREFIX": empty,
            "LC_ALL": "C.UTF-8",
        }
        python = [*loader, root / f"usr/bin/python{libraries.PYTHON}", "-S", "-P", Path(__file__).with_name("sealing.py")]
        running = [
            subprocess.Popen([*python, stage, str(time), blobs / name], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for name, stage in stages.items()
        ]
        said = [one.communicate() for one in running]
    for one, (_, error) in zip(running, said, strict=True):
        if one.returncode != 0:
            raise NotMade(f"The image's own Python failed: {error.decode(errors='replace').strip()}")
    return [Layer(**json.loads(told)) for told, _ in said]


def _write_layout(target: Path, version: str, time: int, layers: Sequence[Layer], blobs: Path) -> str:
    """An OCI image layout as an archive, and beside it the list by which every version of Docker loads it."""
    created = datetime.fromtimestamp(time, UTC).isoformat().replace("+00:00", "Z")
    labels = {
        "org.opencontainers.image.title": "Postern",
        "org.opencontainers.image.description": "Self-hosted, multi-tenant single sign-on and identity platform",
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.version": version,
    }
    config = _json(
        {
            "created": created,
            "architecture": debian.ARCHITECTURE,
            "os": "linux",
            "config": CONFIG | {"Labels": labels},
            "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
            "history": [{"created": created, "created_by": f"ops.image: {name}"} for name in LAYERS],
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": _descriptor("application/vnd.oci.image.config.v1+json", _digest(config), len(config)),
            "layers": [_descriptor("application/vnd.oci.image.layer.v1.tar+gzip", layer.digest, layer.size) for layer in layers],
            "annotations": {**labels, "org.opencontainers.image.created": created},
        }
    )
    described = _descriptor("application/vnd.oci.image.manifest.v1+json", _digest(manifest), len(manifest))
    names = {"io.containerd.image.name": f"docker.io/library/postern:{version}", "org.opencontainers.image.ref.name": version}
    platform = {"architecture": debian.ARCHITECTURE, "os": "linux"}
    index = _json(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": [{**described, "platform": platform, "annotations": names}],
        }
    )
    docker = _json(
        [{"Config": _blob(_digest(config)), "RepoTags": [f"postern:{version}"], "Layers": [_blob(layer.digest) for layer in layers]}]
    )
    small = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": index, "manifest.json": docker}
    small |= {_blob(_digest(content)): content for content in (config, manifest)}
    with tarfile.open(target, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name in ("blobs", "blobs/sha256"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode, folder.mtime = tarfile.DIRTYPE, 0o755, time
            archive.addfile(folder)
        for name, content in sorted(small.items()):
            archive.addfile(_file(name, len(content), time), io.BytesIO(content))
        for name, layer in zip(LAYERS, layers, strict=True):
            with (blobs / name).open("rb") as packed:
                archive.addfile(_file(_blob(layer.digest), layer.size, time), packed)
    return _digest(manifest)


def _file(name: str, size: int, time: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, 0o644, time
    return info


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _descriptor(kind: str, digest: str, size: int) -> dict[str, Any]:
    return {"mediaType": kind, "digest": digest, "size": size}
