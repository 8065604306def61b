"""A certificate or key that cannot be used stops the start with one sentence that names its setting."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from entrypoints import daemon, listening
from entrypoints.checks import Verdict
from entrypoints.checks import certificate as certificate_check
from entrypoints.cli.main import main
from entrypoints.failures import USAGE
from entrypoints.settings import SettingsError, read
from ops.stand_ins.mail_server import Certificates, make_certificates
from tests.actors.observed import RememberedMetrics


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def refusal(certificate: Path, key: Path) -> str:
    settings = read({"POSTERN_TLS_CERTIFICATE": str(certificate), "POSTERN_TLS_KEY": str(key)})
    with pytest.raises(SettingsError) as caught:
        listening.require_certificate(settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_pair_that_fits_is_taken_and_none_is_needed(made: Certificates) -> None:
    listening.require_certificate(read({"POSTERN_TLS_CERTIFICATE": str(made.certificate), "POSTERN_TLS_KEY": str(made.key)}))
    listening.require_certificate(read({}))


def test_the_metrics_tell_the_end_of_the_certificate_that_is_served(made: Certificates) -> None:
    metrics = RememberedMetrics()
    daemon.tell_certificate(read({}), metrics)
    assert metrics.tls_ends == []
    daemon.tell_certificate(read({"POSTERN_TLS_CERTIFICATE": str(made.certificate), "POSTERN_TLS_KEY": str(made.key)}), metrics)
    assert metrics.tls_ends == [x509.load_pem_x509_certificates(made.certificate.read_bytes())[0].not_valid_after_utc]


def test_a_missing_file_is_named_with_its_setting(made: Certificates, tmp_path: Path) -> None:
    gone = tmp_path / "gone.pem"
    assert refusal(gone, made.key) == f"POSTERN_TLS_CERTIFICATE: the file {gone} cannot be read: No such file or directory"
    assert refusal(made.certificate, gone) == f"POSTERN_TLS_KEY: the file {gone} cannot be read: No such file or directory"
    assert refusal(tmp_path, made.key) == f"POSTERN_TLS_CERTIFICATE: the file {tmp_path} cannot be read: Is a directory"


@pytest.mark.parametrize(
    "content", [b"", b"no certificate", b"\x00\xff", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"], ids=repr
)
def test_a_file_that_is_no_certificate_is_named_with_its_setting(content: bytes, made: Certificates, tmp_path: Path) -> None:
    bad = tmp_path / "bad.pem"
    bad.write_bytes(content)
    assert refusal(bad, made.key) == f"POSTERN_TLS_CERTIFICATE: the file {bad} has no certificate in PEM form, or a damaged one"


@pytest.mark.parametrize(
    "content", [b"", b"no key", b"\x00\xff", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"], ids=repr
)
def test_a_file_that_is_no_key_is_named_with_its_setting(content: bytes, made: Certificates, tmp_path: Path) -> None:
    bad = tmp_path / "bad.key"
    bad.write_bytes(content)
    assert refusal(made.certificate, bad) == f"POSTERN_TLS_KEY: the file {bad} has no private key in PEM form, or a damaged one"


def test_the_two_files_the_wrong_way_round_are_found_out(made: Certificates) -> None:
    assert refusal(made.key, made.certificate) == (
        f"POSTERN_TLS_CERTIFICATE: the file {made.key} has no certificate in PEM form, or a damaged one"
    )


def test_the_key_of_another_certificate_is_found_out(made: Certificates, tmp_path: Path) -> None:
    other = make_certificates(tmp_path)
    assert refusal(made.certificate, other.key) == (
        f"POSTERN_TLS_KEY: the key in {other.key} does not belong to the first certificate in {made.certificate}"
    )


def test_a_key_with_a_passphrase_is_refused_instead_of_asked_about(made: Certificates, tmp_path: Path) -> None:
    key = load_pem_private_key(made.key.read_bytes(), None)
    locked = tmp_path / "locked.key"
    locked.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")))
    assert refusal(made.certificate, locked) == f"POSTERN_TLS_KEY: the key in {locked} is encrypted; give one without a passphrase"


@pytest.mark.parametrize(
    ("begins", "ends", "verdict", "said"),
    [
        (-30, 60, Verdict.OK, ""),
        (-80, 10, Verdict.SOON, ": renew it, and restart Postern"),
        (-3, 3, Verdict.OK, ""),  # issued for six days
        (-5, 1, Verdict.SOON, ": renew it, and restart Postern"),
        (-90, -1, Verdict.FAIL, ", so that clients refuse it now: renew it, and restart Postern"),
        (1, 90, Verdict.FAIL, ", so that clients refuse it now: renew it, and restart Postern"),
    ],
)
def test_the_doctor_says_until_when_it_is_valid(begins: int, ends: int, verdict: Verdict, said: str, tmp_path: Path) -> None:
    """The server starts with an expired certificate, too, but then no client can connect."""
    now = datetime.now(UTC)
    certificate, key = self_signed(tmp_path, now + timedelta(days=begins), now + timedelta(days=ends))
    found = certificate_check(read({"POSTERN_TLS_CERTIFICATE": str(certificate), "POSTERN_TLS_KEY": str(key)}))
    assert found.verdict is verdict
    assert found.text.startswith(f"{certificate}, valid from {now + timedelta(days=begins):%Y-%m-%d}")
    assert found.text.endswith(f"to {now + timedelta(days=ends):%Y-%m-%d %H:%M} UTC{said}")


def self_signed(directory: Path, begins: datetime, ends: datetime, *, bits: int = 2048) -> tuple[Path, Path]:
    made = rsa.generate_private_key(65537, bits)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    signed = x509.CertificateBuilder(name, name, made.public_key(), 1, begins, ends).sign(made, SHA256())
    certificate, key = directory / "own.pem", directory / "own.key"
    certificate.write_bytes(signed.public_bytes(Encoding.PEM))
    key.write_bytes(made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return certificate, key


def test_what_only_openssl_refuses_is_a_sentence_too(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    weak, key = self_signed(tmp_path, now, now + timedelta(days=1), bits=1024)
    assert refusal(weak, key) == "POSTERN_TLS_CERTIFICATE or POSTERN_TLS_KEY cannot be used: ee key too small"


def test_serve_says_it_before_anything_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("POSTERN_TEST_POSTGRES", "POSTERN_TEST_DATABASE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("POSTERN_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("POSTERN_TLS_CERTIFICATE", str(tmp_path / "gone.pem"))
    monkeypatch.setenv("POSTERN_TLS_KEY", str(tmp_path / "gone.key"))
    assert main(["serve"]) == USAGE
    assert capsys.readouterr().err == (
        f"postern: POSTERN_TLS_CERTIFICATE: the file {tmp_path}/gone.pem cannot be read: No such file or directory\n"
    )
    assert not (tmp_path / "data").exists()
