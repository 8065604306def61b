"""Settings: read once, and a wrong one stops the start with a sentence that names it and shows no secret."""

from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path

import pytest

from entrypoints import settings_page
from entrypoints.settings import DECLARATIONS, Settings, SettingsError, in_force, read
from entrypoints.settings_forms import Address, masked_url
from tests.places import ROOT

SECRET = "hunter2-and-more"


def _refused(environment: dict[str, str]) -> str:
    with pytest.raises(SettingsError) as caught:
        read(environment)
    text = str(caught.value)
    assert "\n" not in text
    assert SECRET not in text
    return text


def test_nothing_set_is_a_complete_installation() -> None:
    settings = read({})
    assert settings.embedded
    assert settings.bind == Address("127.0.0.1", 8000)
    assert settings.data_dir == Path(".postern")
    assert settings.public_url == "http://127.0.0.1:8000"
    assert settings.public_frontend_url == "http://127.0.0.1:8000/ui"
    assert settings.access_token_lifetime == timedelta(seconds=900)
    assert settings.argon2_memory == 19456 * 1024
    assert settings.rate_limits is True


def test_other_programs_variables_are_passed_over() -> None:
    assert read({"PATH": "/bin", "POSTER": "x"}) == read({})


def test_an_empty_value_means_not_set() -> None:
    assert read({"POSTERN_BASE_URL": "", "POSTERN_TRUSTED_PROXIES": " ", "POSTERN_OWNER_PASSWORD_FILE": ""}) == read({})


def test_an_unknown_name_stops_the_start_and_gets_a_hint() -> None:
    assert _refused({"POSTERN_BNID": "x"}) == "POSTERN_BNID is not a setting of Postern; did you mean POSTERN_BIND?"
    assert _refused({"POSTERN_ZZZZZZ": ""}) == "POSTERN_ZZZZZZ is not a setting of Postern"
    assert (
        _refused({"POSTERN_BIND_FILE": "/x"})
        == "POSTERN_BIND_FILE is unknown: only secrets can be read from a file, and POSTERN_BIND is not a secret"
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("POSTERN_BIND", "8000"),
        ("POSTERN_BIND", "host:99999"),
        ("POSTERN_BIND", "host:-1"),
        ("POSTERN_BIND", ":8000"),
        ("POSTERN_BIND", "::1:8000"),
        ("POSTERN_BIND", "[nonsense]:8000"),
        ("POSTERN_BIND", "unix:relative"),
        ("POSTERN_BIND", f"host:{'1' * 5000}"),
        ("POSTERN_POOL_SIZE", f"{'0' * 20}10"),
        ("POSTERN_POOL_SIZE", "1" * 5000),
        ("POSTERN_DATA_DIR", "~nobody-by-that-name/data"),
        ("POSTERN_BASE_URL", "login.example.com"),
        ("POSTERN_BASE_URL", "ftp://example.com"),
        ("POSTERN_BASE_URL", "https://example.com/path"),
        ("POSTERN_BASE_URL", "https://user@example.com"),
        ("POSTERN_BASE_URL", "https://exa mple.com"),
        ("POSTERN_BASE_URL", "https://example.com:port"),
        ("POSTERN_BASE_URL", "https://example.com?"),
        ("POSTERN_FRONTEND_URL", "https://example.com/ui#top"),
        ("POSTERN_TRUSTED_PROXIES", "10.0.0.0/8,proxy.local"),
        ("POSTERN_TRUSTED_PROXIES", "10.0.0.1/8"),
        ("POSTERN_CORS_ORIGINS", "*"),
        ("POSTERN_MAIL", "carrier-pigeon"),
        ("POSTERN_MAIL_SENDER", "nobody"),
        ("POSTERN_RATE_LIMITS", "maybe"),
        ("POSTERN_LOG_LEVEL", "loud"),
        ("POSTERN_LOG_FORMAT", "xml"),
        ("POSTERN_ACCESS_TOKEN_LIFETIME", "59"),
        ("POSTERN_ACCESS_TOKEN_LIFETIME", "2d"),
        ("POSTERN_ACCESS_TOKEN_LIFETIME", "soon"),
        ("POSTERN_POOL_SIZE", "0"),
        ("POSTERN_POOL_SIZE", "٣"),
        ("POSTERN_BODY_LIMIT", "1MB"),
        ("POSTERN_TRACES_ENDPOINT", "collector:4318"),
        ("POSTERN_TRACES_SAMPLE", "1.1"),
        ("POSTERN_TRACES_SAMPLE", "-0.1"),
        ("POSTERN_TRACES_SAMPLE", "."),
        ("POSTERN_TRACES_SAMPLE", "nan"),
        ("POSTERN_TRACES_SAMPLE", "10%"),
        ("POSTERN_TRACES_HOSTS", "https://own.example"),
        ("POSTERN_TRACES_HOSTS", "own.example:8443"),
    ],
)
def test_a_malformed_value_stops_the_start(name: str, value: str) -> None:
    text = _refused({name: value})
    assert text.startswith(f"{name} must be ")
    assert text.endswith(f", not {value!r}")


@pytest.mark.parametrize("name", [one.name for one in DECLARATIONS if one.secret])
def test_a_secret_is_never_shown(name: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET)
    values = {
        "POSTERN_ENCRYPTION_KEYS": "x",
        name: {
            "POSTERN_DATABASE_URL": f"postgresql://me:{SECRET}@host/db",
            "POSTERN_OUTBOUND_PROXY": f"http://me:{SECRET}@proxy:3128",
            "POSTERN_TRACES_HEADERS": f"Authorization=Bearer {SECRET}",
        }.get(name, SECRET),
    }
    settings = read(values)
    assert SECRET not in repr(settings)
    assert SECRET not in repr(in_force(settings))
    _refused({**values, f"{name}_FILE": str(tmp_path / "secret")})


def test_a_malformed_secret_is_not_repeated() -> None:
    assert _refused({"POSTERN_DATABASE_URL": SECRET}).startswith("POSTERN_DATABASE_URL must be a URL like postgresql://")


@pytest.mark.parametrize(
    "value",
    [
        "smtp://",
        "smtp://host:port",
        f"smtp://u:{SECRET}@mail.example:58x7",
        f"smpt://u:{SECRET}@mail.example",
        f"smtp://u:{SECRET}/@mail.example",
        f"smtp:u:{SECRET}#@",
        f"u:{SECRET}",
    ],
)
def test_a_malformed_address_of_a_mail_server_is_not_repeated_either(value: str) -> None:
    assert _refused({"POSTERN_MAIL": value}).startswith("POSTERN_MAIL must be smtp://user@host:port")


def test_the_password_in_any_other_address_is_masked() -> None:
    assert _refused({"POSTERN_BASE_URL": f"https://u:{SECRET}@login.example.com"}).endswith(", not 'https://u:***@login.example.com'")


def test_a_secret_can_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(f"{SECRET} \n")
    password = read({"POSTERN_OWNER_PASSWORD_FILE": str(file)}).owner_password
    assert password is not None
    assert password.reveal() == f"{SECRET} "  # only the line end goes


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("POSTERN_GITHUB_CLIENT_ID", "codehost_client_id"),
        ("POSTERN_GOOGLE_CLIENT_ID", "websuite_client_id"),
        ("POSTERN_MICROSOFT_CLIENT_ID", "officesuite_client_id"),
    ],
)
def test_a_provider_is_set_by_its_own_name_too(name: str, field: str) -> None:
    old = f"POSTERN_{field.upper()}"
    assert read({name: "abc"}) == read({old: "abc"}) == read({name: "abc", old: "abc"})
    assert getattr(read({name: "abc"}), field) == "abc"
    assert _refused({name: "abc", old: "def"}) == f"{name} and {old} are both set, and differ; set only one"


def test_a_secret_with_two_names_comes_from_the_file_of_either(tmp_path: Path) -> None:
    (tmp_path / "one").write_text(f"{SECRET}\n")
    (tmp_path / "other").write_text(f"{SECRET}-2\n")
    new, old = "POSTERN_GITHUB_CLIENT_SECRET", "POSTERN_CODEHOST_CLIENT_SECRET"
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    for environment in ({f"{new}_FILE": one}, {f"{old}_FILE": one}, {f"{new}_FILE": one, old: SECRET}, {new: SECRET, f"{old}_FILE": one}):
        secret = read(environment).codehost_client_secret
        assert secret is not None
        assert secret.reveal() == SECRET
    assert _refused({f"{new}_FILE": one, f"{old}_FILE": other}) == f"{new}_FILE and {old}_FILE are both set, and differ; set only one"
    assert _refused({new: SECRET, f"{old}_FILE": other}) == f"{new} and {old}_FILE are both set, and differ; set only one"
    assert _refused({new: SECRET, f"{new}_FILE": one}) == f"{new} and {new}_FILE are both set; set only one"


def test_the_environment_wins_over_the_file_under_whatever_name(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET)
    config = tmp_path / "postern.env"
    config.write_text(f"POSTERN_GITHUB_CLIENT_ID=in-file\nPOSTERN_GITHUB_CLIENT_SECRET_FILE={tmp_path / 'missing'}\n")
    settings = read({"POSTERN_CONFIG": str(config), "POSTERN_CODEHOST_CLIENT_ID": "here", "POSTERN_CODEHOST_CLIENT_SECRET": SECRET})
    assert settings.codehost_client_id == "here"
    config.write_text("POSTERN_GITHUB_CLIENT_ID=one\nPOSTERN_CODEHOST_CLIENT_ID=other\n")
    text = _refused({"POSTERN_CONFIG": str(config)})
    assert text == "POSTERN_GITHUB_CLIENT_ID and POSTERN_CODEHOST_CLIENT_ID are both set, and differ; set only one"


@pytest.mark.parametrize(("content", "says"), [(None, "cannot be read: No such file"), (b"", "is empty"), (b"\xff", "is not UTF-8")])
def test_a_secret_file_that_cannot_be_used_is_named(content: bytes | None, says: str, tmp_path: Path) -> None:
    file = tmp_path / "password"
    if content is not None:
        file.write_bytes(content)
    text = _refused({"POSTERN_OWNER_PASSWORD_FILE": str(file)})
    assert text.startswith(f"POSTERN_OWNER_PASSWORD_FILE: the file {file}")
    assert says in text


def test_an_external_database_needs_keys_of_its_own() -> None:
    text = _refused({"POSTERN_DATABASE_URL": "postgresql://host/db"})
    assert "POSTERN_ENCRYPTION_KEYS is required" in text
    assert "postern keys generate" in text


def test_certificate_and_key_go_together() -> None:
    assert _refused({"POSTERN_TLS_KEY": "/x"}) == "POSTERN_TLS_CERTIFICATE is required with POSTERN_TLS_KEY"
    assert _refused({"POSTERN_TLS_CERTIFICATE": "/x"}) == "POSTERN_TLS_KEY is required with POSTERN_TLS_CERTIFICATE"
    assert read({"POSTERN_TLS_CERTIFICATE": "/x", "POSTERN_TLS_KEY": "/y"}).public_url == "https://127.0.0.1:8000"


@pytest.mark.parametrize(
    ("bind", "url"),
    [
        ("0.0.0.0:8080", "http://localhost:8080"),
        ("[::]:80", "http://localhost"),
        ("[::1]:8000", "http://[::1]:8000"),
        ("id.example.com:80", "http://id.example.com"),
        ("unix:/run/postern.sock", "http://localhost"),
    ],
)
def test_the_base_url_is_made_from_the_address(bind: str, url: str) -> None:
    settings = read({"POSTERN_BIND": bind})
    assert str(settings.bind) == bind
    assert settings.public_url == url


def test_values_take_their_forms() -> None:
    settings = read(
        {
            "POSTERN_BASE_URL": "https://Login.Example.com/",
            "POSTERN_FRONTEND_URL": "https://app.example.com/account/",
            "POSTERN_TRUSTED_PROXIES": "10.0.0.0/8, ::1",
            "POSTERN_CORS_ORIGINS": "https://a.example, http://localhost:3000",
            "POSTERN_RATE_LIMITS": "OFF",
            "POSTERN_KEEP_ALIVE": "2m",
            "POSTERN_SHUTDOWN_TIMEOUT": "500ms",
            "POSTERN_BODY_LIMIT": "2MiB",
        }
    )
    assert settings.base_url == "https://login.example.com"
    assert settings.frontend_url == "https://app.example.com/account"
    assert settings.trusted_proxies == (ip_network("10.0.0.0/8"), ip_network("::1/128"))
    assert settings.cors_origins == ("https://a.example", "http://localhost:3000")
    assert settings.rate_limits is False
    assert settings.keep_alive == timedelta(minutes=2)
    assert settings.shutdown_timeout == timedelta(milliseconds=500)
    assert settings.body_limit == 2 << 20


def test_a_file_gives_settings_and_the_environment_wins(tmp_path: Path) -> None:
    file = tmp_path / "postern.conf"
    file.write_text(
        "# ours\n; also ours\n\nPOSTERN_BIND = 127.0.0.1:9000\nPOSTERN_LOG_LEVEL=\"debug\"\nPOSTERN_MAIL='console'\nPOSTERN_BASE_URL=\n"
    )
    settings = read({"POSTERN_CONFIG": str(file), "POSTERN_LOG_LEVEL": "error"})
    assert (settings.bind.port, settings.log_level, settings.mail, settings.base_url) == (9000, "error", "console", None)


def test_the_environment_wins_over_the_file_in_either_form_of_a_secret(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("from the file")
    file = tmp_path / "postern.conf"
    file.write_text(f"POSTERN_OWNER_PASSWORD_FILE={tmp_path / 'password'}\n")
    chosen = read({"POSTERN_CONFIG": str(file), "POSTERN_OWNER_PASSWORD": "from the environment"}).owner_password
    assert chosen is not None
    assert chosen.reveal() == "from the environment"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("POSTERN_BIND", "is not of the form NAME=value"),
        ("POSTREN_BIND=x", "POSTREN_BIND is not a setting of Postern (line 1 of"),
        ("POSTERN_CONFIG=/other", "POSTERN_CONFIG is not a setting"),
        ("POSTERN_BIND=h:1\nPOSTERN_BIND=h:2", "POSTERN_BIND is set twice (line 2 of"),
    ],
)
def test_a_wrong_line_in_the_file_is_named(content: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "postern.conf"
    file.write_text(content)
    assert says in _refused({"POSTERN_CONFIG": str(file)})


def test_a_file_that_is_away_is_named(tmp_path: Path) -> None:
    assert _refused({"POSTERN_CONFIG": str(tmp_path / "none")}).endswith("cannot be read: No such file or directory")


def test_what_is_in_force_can_be_read_back() -> None:
    settings = read({"POSTERN_BIND": "[::1]:9000", "POSTERN_KEEP_ALIVE": "1m", "POSTERN_TRUSTED_PROXIES": "10.0.0.0/8"})
    assert read({name: value for name, value in in_force(settings) if value}) == settings


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (f"postgresql://me:{SECRET}@host:5432/db?sslmode=require", "postgresql://me:***@host:5432/db?sslmode=require"),
        (f"postgresql://me:a@b{SECRET}@host/db", "postgresql://me:***@host/db"),
        (f"postgresql://me:a/b#{SECRET} c@host/db", "postgresql://me:***@host/db"),
        (f"postgresql://me@b:a@{SECRET}@host/db", "postgresql://me@b:***@host/db"),
        ("postgresql://host:5432/db", "postgresql://host:5432/db"),
        (f"postgresql://host/db?user=me&password={SECRET}&x=y", "postgresql://host/db?user=me&password=***&x=y"),
        (f"host=h password='{SECRET} \\' more' user=me", "host=h password=*** user=me"),
        (f"smtp://me%40x:{SECRET}@host:587", "smtp://me%40x:***@host:587"),
        ("smtp://host:25", "smtp://host:25"),
    ],
)
def test_the_password_of_a_url_is_masked(text: str, masked: str) -> None:
    assert masked_url(text) == masked


def test_every_setting_says_what_it_is() -> None:
    for one in DECLARATIONS:
        assert one.description.endswith("."), one.name
        assert (one.default is None) is bool(one.unset), one.name
    assert len({one.name for one in DECLARATIONS}) == len(DECLARATIONS) == len(Settings.__slots__)


def test_the_page_is_current() -> None:
    written = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert written == settings_page.render(), "run: .venv/bin/python -m entrypoints.settings_page > docs/settings.md"


def test_the_metrics_need_an_address_that_is_not_taken_already() -> None:
    with pytest.raises(SettingsError, match="POSTERN_METRICS_BIND must differ from POSTERN_BIND"):
        read({"POSTERN_BIND": "127.0.0.1:8000", "POSTERN_METRICS_BIND": "127.0.0.1:8000"})


def test_the_token_for_the_metrics_is_a_secret_and_may_be_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("a-token-for-scrapers\n")
    settings = read({"POSTERN_METRICS_TOKEN_FILE": str(file)})
    assert settings.metrics_token is not None
    assert settings.metrics_token.reveal() == "a-token-for-scrapers"
    assert dict(in_force(settings))["POSTERN_METRICS_TOKEN"] == "***"


def test_traces_are_set_up_with_shares_headers_and_hosts() -> None:
    plain = read({})
    assert (plain.traces_endpoint, plain.traces_headers, plain.traces_sample, plain.traces_hosts) == (None, None, 0.1, ())
    given = {
        "POSTERN_TRACES_ENDPOINT": "https://collector.example/v1/traces",
        "POSTERN_TRACES_HEADERS": f"Authorization=Bearer {SECRET}, X-Tenant=a=b",
        "POSTERN_TRACES_SAMPLE": ".25",
        "POSTERN_TRACES_HOSTS": "Own.example, 10.0.0.7, ::1",
    }
    settings = read(given)
    assert settings.traces_hosts == ("own.example", "10.0.0.7", "::1")
    assert settings.traces_sample == 0.25
    assert [(name, value.reveal()) for name, value in settings.traces_headers or ()] == [
        ("authorization", f"Bearer {SECRET}"),
        ("x-tenant", "a=b"),
    ]
    written = dict(in_force(settings))
    assert (written["POSTERN_TRACES_SAMPLE"], written["POSTERN_TRACES_HEADERS"]) == ("0.25", "***")
    for headers in ("Authorization", "=x", "Bad name=x", "X-A= ", f"X-A={SECRET}\r\nX-B: y", f"X-Ü={SECRET}"):
        assert _refused({**given, "POSTERN_TRACES_HEADERS": headers}).startswith("POSTERN_TRACES_HEADERS must be ")


@pytest.mark.parametrize(("endpoint", "fits"), [("http://10.0.0.7:4318/v1/traces", False), ("http://127.0.0.1:4318/v1/traces", True)])
def test_headers_for_the_collector_travel_encrypted_or_stay_on_the_machine(endpoint: str, fits: bool) -> None:
    plain = {"POSTERN_TRACES_ENDPOINT": endpoint}
    assert read(plain).traces_endpoint == endpoint
    given = {**plain, "POSTERN_TRACES_HEADERS": f"Authorization=Bearer {SECRET}"}
    if fits:
        assert read(given).traces_headers
    else:
        assert _refused(given).startswith("POSTERN_TRACES_ENDPOINT must begin with https://")
