"""Checks the certificate and key of HTTPS before the start, so that a wrong file is reported in a sentence that names its setting."""

import ssl
from datetime import datetime
from pathlib import Path
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509 import Certificate, load_pem_x509_certificates

from entrypoints.settings import SettingsError

_CERTIFICATE: Final = "POSTERN_TLS_CERTIFICATE"
_KEY: Final = "POSTERN_TLS_KEY"


def require_pair(certificate: Path, key: Path) -> None:
    """Raises `SettingsError`, which names the faulty setting."""
    _require_certificates(certificate)
    _require_key(key)
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise SettingsError(f"{_KEY}: the key in {key} does not belong to the first certificate in {certificate}") from None
        reason = (error.reason or type(error).__name__).replace("_", " ").lower()
        raise SettingsError(f"{_CERTIFICATE} or {_KEY} cannot be used: {reason}") from None


def valid_between(certificate: Path) -> tuple[datetime, datetime]:
    """The validity of the server's own certificate, which is the first in the file. Raises `SettingsError`."""
    own = _require_certificates(certificate)[0]
    return own.not_valid_before_utc, own.not_valid_after_utc


def _require_certificates(file: Path) -> list[Certificate]:
    try:
        return load_pem_x509_certificates(_content(_CERTIFICATE, file))
    except ValueError:
        raise SettingsError(f"{_CERTIFICATE}: the file {file} has no certificate in PEM form, or a damaged one") from None


def _require_key(file: Path) -> None:
    content = _content(_KEY, file)
    try:
        load_pem_private_key(content, None)
    except TypeError:
        # Without this, OpenSSL would ask for the passphrase on the terminal, and wait.
        raise SettingsError(f"{_KEY}: the key in {file} is encrypted; give one without a passphrase") from None
    except (ValueError, UnsupportedAlgorithm):
        raise SettingsError(f"{_KEY}: the file {file} has no private key in PEM form, or a damaged one") from None


def _content(setting: str, file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise SettingsError(f"{setting}: the file {file} cannot be read: {error.strerror}") from None
