"""How the image starts, in its three forms: as we make it, as the Dockerfile does, and in the compose file of ten lines."""

import re
from datetime import timedelta
from typing import Any

import yaml

from ops.image.making import CLIENT, CONFIG, DATA
from tests.ops.test_container import final_stage, only
from tests.ops.test_version import VERSION
from tests.places import ROOT

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "ops" / "container" / "compose.yaml").read_text())
# The places of programs differ, and Python's encoding is set by Debian's image of Python.
OWN = {"PATH", "LANG"}


def test_it_starts_as_the_image_of_the_dockerfile_does() -> None:
    stage = final_stage()
    environment = dict(pair.split("=", 1) for one in stage if one.word == "ENV" for pair in one.words)
    ours = dict(pair.split("=", 1) for pair in CONFIG["Env"])
    assert {name: value for name, value in ours.items() if name not in OWN} == {n: v for n, v in environment.items() if n not in OWN}
    assert only(stage, "USER").text == CONFIG["User"]
    assert only(stage, "WORKDIR").text == CONFIG["WorkingDir"] == DATA
    assert yaml.safe_load(only(stage, "VOLUME").text) == list(CONFIG["Volumes"])
    assert [f"{only(stage, 'EXPOSE').text}/tcp"] == list(CONFIG["ExposedPorts"])
    assert yaml.safe_load(only(stage, "ENTRYPOINT").text) == CONFIG["Entrypoint"]
    assert yaml.safe_load(only(stage, "CMD").text) == CONFIG["Cmd"]


def test_it_is_asked_whether_it_lives_as_the_image_of_the_dockerfile_is() -> None:
    options, _, command = only(final_stage(), "HEALTHCHECK").text.partition(" CMD ")
    check = CONFIG["Healthcheck"]
    assert check["Test"] == ["CMD", *yaml.safe_load(command)]
    given = {name: timedelta(seconds=int(seconds)) for name, seconds in re.findall(r"--([\w-]+)=(\d+)s", options)}
    ours = {name: timedelta(microseconds=check[key] / 1000) for name, key in NAMES.items()}
    assert given == ours
    assert f"--retries={check['Retries']}" in options


NAMES = {"interval": "Interval", "timeout": "Timeout", "start-period": "StartPeriod"}


def test_the_programs_of_the_newest_server_are_found_before_others() -> None:
    (path,) = [pair.removeprefix("PATH=").split(":") for pair in CONFIG["Env"] if pair.startswith("PATH=")]
    assert path[:2] == ["/opt/postern/bin", CLIENT]


def test_ten_lines_start_the_release_with_its_data_in_a_volume() -> None:
    lines = (ROOT / "ops" / "container" / "compose.yaml").read_text().splitlines()
    assert len([line for line in lines if not line.startswith("#")]) == 10
    (service,) = COMPOSE["services"].values()
    assert service["image"] == f"postern:{VERSION}"
    (volume,) = COMPOSE["volumes"]
    assert service["volumes"] == [f"{volume}:{DATA}"]
    # Only this machine reaches it.
    assert service["ports"] == [f"127.0.0.1:8000:{next(iter(CONFIG['ExposedPorts'])).removesuffix('/tcp')}"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
