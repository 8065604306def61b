"""Bootstrap turns settings into a Postern, or fails with a sentence."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from adapters.outbound.dialer import SystemNames
from core.domain.identity.devices import Client, Location
from core.usecases.keys import KeyCare
from entrypoints import bootstrap
from entrypoints.assembly import configured
from entrypoints.failures import StartFailed
from entrypoints.settings import Settings, SettingsError, read
from tests.adapters.location_database import place, write_location_database
from tests.conftest import CapturedLog
from tests.signing import SettableClock

KEY = "2026-01-31.abc:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


def _settings(data_dir: Path, **others: str) -> Settings:
    return read({"POSTERN_DATA_DIR": str(data_dir), **others})


def test_the_keys_of_an_installation_are_made_once_and_are_nobody_elses(tmp_path: Path) -> None:
    settings = _settings(tmp_path)
    configured.ensure_key_file(settings)
    made = configured.key_ring(settings).key_ids()
    configured.ensure_key_file(settings)
    assert configured.key_ring(settings).key_ids() == made
    assert (tmp_path / "encryption.keys").stat().st_mode & 0o777 == 0o600


def test_keys_that_were_lost_are_missed_and_not_made_again(tmp_path: Path) -> None:
    """New keys decrypt nothing, and would be in the way of the right ones: a backup, or the keys of a running server."""
    with pytest.raises(StartFailed, match=r"encryption\.keys are missing: put their backup there"):
        configured.key_ring(_settings(tmp_path))
    assert not list(tmp_path.iterdir())


def test_keys_that_are_a_setting_make_no_file(tmp_path: Path) -> None:
    settings = _settings(tmp_path, POSTERN_ENCRYPTION_KEYS=KEY)
    configured.ensure_key_file(settings)
    assert configured.key_ring(settings).key_ids() == ("2026-01-31.abc",)
    assert configured.key_file(settings) is None
    assert not list(tmp_path.iterdir())


def test_keys_that_cannot_be_used_are_named_and_not_shown(tmp_path: Path, log: CapturedLog) -> None:
    log.remember("c2hvcnQ")
    with pytest.raises(SettingsError, match="POSTERN_ENCRYPTION_KEYS cannot be used: ") as caught:
        configured.key_ring(_settings(tmp_path, POSTERN_ENCRYPTION_KEYS="k:c2hvcnQ="))
    assert "c2hvcnQ" not in str(caught.value)
    (tmp_path / "encryption.keys").write_text("k:c2hvcnQ=")
    with pytest.raises(StartFailed, match=r"encryption\.keys: ") as also:
        configured.key_ring(_settings(tmp_path))
    assert "c2hvcnQ" not in str(also.value)
    with pytest.raises(StartFailed, match=r"encryption\.keys: "):
        configured.ensure_key_file(_settings(tmp_path))
    (tmp_path / "encryption.keys").unlink()
    (tmp_path / "encryption.keys").mkdir()
    for use in (configured.key_ring, configured.ensure_key_file):
        with pytest.raises(StartFailed, match="cannot be used: Is a directory"):
            use(_settings(tmp_path))


async def test_mail_goes_below_the_data_directory_by_itself(tmp_path: Path) -> None:
    assert str(tmp_path / "mail") in await configured.mail_transport(_settings(tmp_path)).check()


def test_mail_settings_that_do_not_fit_together_are_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"POSTERN_MAIL, .* cannot be used: The mail URL names a user, and there is no password"):
        configured.mail_transport(_settings(tmp_path, POSTERN_MAIL="smtp://user@127.0.0.1"))


def test_argon2_settings_that_do_not_fit_together_are_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="POSTERN_ARGON2_MEMORY, POSTERN_ARGON2_PASSES or POSTERN_ARGON2_LANES cannot be used"):
        configured.argon2_parameters(_settings(tmp_path, POSTERN_ARGON2_MEMORY="8KiB", POSTERN_ARGON2_LANES="4"))


async def test_services_open_without_the_database_and_close(tmp_path: Path, log: CapturedLog) -> None:
    settings = _settings(tmp_path, POSTERN_DATABASE_URL="postgresql://me:hunter2@127.0.0.1:1/none", POSTERN_ENCRYPTION_KEYS=KEY)
    log.remember("hunter2")
    async with bootstrap.open_postern(settings) as postern:
        assert not await postern.foundation.database.ping()
    assert log.events("database_away")


async def test_the_ages_of_keys_are_known_by_purpose(tmp_path: Path, database_url: str) -> None:
    settings = _settings(tmp_path, POSTERN_DATABASE_URL=database_url, POSTERN_ENCRYPTION_KEYS=KEY)
    async with bootstrap.open_postern(settings) as postern:
        foundation = postern.foundation
        care = KeyCare(foundation.signing_keys, foundation.keyring, SettableClock(datetime(2026, 2, 2, tzinfo=UTC)))
        assert await care.ages() == {"encryption": timedelta(days=2)}
        await foundation.signing_keys.ensure()
        assert set(await care.ages()) == {"access", "access_rs256", "id", "id_es256", "encryption"}


async def test_an_encryption_key_whose_id_names_no_day_has_no_age(tmp_path: Path, database_url: str) -> None:
    settings = _settings(tmp_path, POSTERN_DATABASE_URL=database_url, POSTERN_ENCRYPTION_KEYS=KEY.replace("2026-01-31", "first"))
    async with bootstrap.open_postern(settings) as postern:
        foundation = postern.foundation
        care = KeyCare(foundation.signing_keys, foundation.keyring, SettableClock(datetime(2026, 2, 2, tzinfo=UTC)))
        assert await care.ages() == {}


async def test_places_and_proxies_are_known_from_what_the_settings_name(tmp_path: Path, log: CapturedLog) -> None:
    database = write_location_database(tmp_path / "city.mmdb", {"192.0.2.0/24": place("DE", "Bonn")})
    (tmp_path / "networks.txt").write_text("198.51.100.0/24  # a VPN")
    settings = _settings(
        tmp_path,
        POSTERN_DATABASE_URL="postgresql://me@127.0.0.1:1/none",
        POSTERN_ENCRYPTION_KEYS=KEY,
        POSTERN_GEOIP_DATABASE=str(database),
        POSTERN_PROXY_NETWORKS="203.0.113.0/24",
        POSTERN_PROXY_NETWORKS_FILE=str(tmp_path / "networks.txt"),
    )
    async with bootstrap.open_postern(settings) as postern:
        for address, location, through_proxy in (
            ("192.0.2.1", Location("DE", "Bonn"), False),
            ("198.51.100.1", None, True),
            ("203.0.113.1", None, True),
        ):
            approach = await postern.identity.devices.observe(Client(address, ""))
            assert (approach.location, approach.through_proxy) == (location, through_proxy)
    assert log.events("database_away")


@pytest.mark.parametrize("name", ["POSTERN_GEOIP_DATABASE", "POSTERN_PROXY_NETWORKS_FILE"])
async def test_a_file_of_places_or_proxies_that_cannot_be_used_is_named(tmp_path: Path, log: CapturedLog, name: str) -> None:
    settings = _settings(
        tmp_path,
        POSTERN_DATABASE_URL="postgresql://me@127.0.0.1:1/none",
        POSTERN_ENCRYPTION_KEYS=KEY,
        **{name: str(tmp_path / "missing")},
    )
    with pytest.raises(StartFailed, match=rf"{name} .*/missing cannot be used: No such file or directory"):
        async with bootstrap.open_postern(settings):
            pass
    assert log.events("database_away")


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_authorities_that_cannot_be_used_stop_the_start(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "authorities.pem"
    if content is not None:
        file.write_text(content)
    settings = _settings(tmp_path, POSTERN_OUTBOUND_CA_FILE=str(file))
    dialer = configured.guarded_dialer(settings, SystemNames())
    with pytest.raises(StartFailed, match="POSTERN_OUTBOUND_CA_FILE"):
        configured.guarded_client(settings, dialer)


@pytest.mark.parametrize("value", ["https://proxy:1", "proxy:3128", "http://:1", "http://proxy:x", "http://proxy/path"])
def test_what_is_no_proxy_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(SettingsError, match="POSTERN_OUTBOUND_PROXY must be the address of an HTTP proxy") as refused:
        _settings(tmp_path, POSTERN_OUTBOUND_PROXY=value)
    assert value not in str(refused.value)
    assert _settings(tmp_path, POSTERN_OUTBOUND_PROXY="http://proxy:3128").outbound_proxy is not None


def test_a_start_loads_no_library_that_only_some_installations_or_requests_need() -> None:
    rare = {"lxml", "xmlsec", "segno", "maxminddb", "tqdm", "ua_parser", "dns", "yaml", "fido2"}
    code = f"import sys, entrypoints.cli.serve, entrypoints.serving, entrypoints.http.application; print({rare!r} & set(sys.modules))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "set()"
