"""Time-based codes against the RFC's own vectors and pyotp's, at the edges of the clock; the URI and the QR code that carry the secret."""

from base64 import b32decode, b32encode
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree as ET

import pyotp
import pytest

from adapters.crypto.factors import PyotpTotp
from core.domain.identity.mfa import step_at
from core.domain.secrets import Secret

SECRET = Secret("JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP")
START = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)  # a step begins


@pytest.fixture
def totp() -> PyotpTotp:
    return PyotpTotp("Postern")


def code_at(moment: datetime) -> str:
    return pyotp.TOTP(SECRET.reveal()).at(moment)


# RFC 6238 appendix B, of whose eight digits ours are the last six.
@pytest.mark.parametrize(
    ("seconds", "code"),
    [
        (59, "287082"),
        (1111111109, "081804"),
        (1111111111, "050471"),
        (1234567890, "005924"),
        (2000000000, "279037"),
        (20000000000, "353130"),
    ],
)
def test_the_vectors_of_the_rfc_are_met(totp: PyotpTotp, seconds: int, code: str) -> None:
    secret = Secret(b32encode(b"12345678901234567890").decode())
    assert totp.step_of(secret, code, datetime.fromtimestamp(seconds, UTC)) == seconds // 30


@pytest.mark.parametrize(
    ("seconds", "accepted"),
    [(-30.000001, False), (-30, True), (-0.000001, True), (0, True), (29.999999, True), (30, True), (59.999999, True), (60, False)],
)
def test_a_code_is_good_from_one_step_before_its_own_to_one_after(totp: PyotpTotp, seconds: float, accepted: bool) -> None:
    found = totp.step_of(SECRET, code_at(START), START + timedelta(seconds=seconds))
    assert found == (step_at(START) if accepted else None)


def test_a_code_names_the_step_that_it_is_of_and_not_the_moment(totp: PyotpTotp) -> None:
    for steps in (-1, 0, 1):
        of = START + timedelta(seconds=30 * steps)
        assert totp.step_of(SECRET, code_at(of), START) == step_at(of)


@pytest.mark.parametrize("code", ["", "12345", "1234567", "\u00e9", "x" * 10_000])
def test_what_is_no_code_is_of_no_step(totp: PyotpTotp, code: str) -> None:
    assert totp.step_of(SECRET, code, START) is None


def test_secrets_have_160_bits_and_differ(totp: PyotpTotp) -> None:
    secrets = {totp.new_secret().reveal() for _ in range(50)}
    assert len(secrets) == 50
    assert {len(b32decode(secret)) for secret in secrets} == {20}


def test_the_uri_names_issuer_account_and_secret(totp: PyotpTotp) -> None:
    uri = urlsplit(totp.uri(SECRET, "ada+mfa@example.org").reveal())
    assert (uri.scheme, uri.netloc, unquote(uri.path)) == ("otpauth", "totp", "/Postern:ada+mfa@example.org")
    assert parse_qs(uri.query) == {"secret": [SECRET.reveal()], "issuer": ["Postern"]}
    # What an authenticator that read it would show.
    assert pyotp.parse_uri(uri.geturl()).secret == SECRET.reveal()


async def test_the_qr_code_is_an_svg_that_runs_nothing_and_loads_nothing(totp: PyotpTotp) -> None:
    drawn = (await totp.qr_code(totp.uri(SECRET, "ada@example.org"))).reveal()
    root = ET.fromstring(drawn)  # noqa: S314 - our own output
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert {element.tag.rpartition("}")[2] for element in root.iter()} <= {"svg", "g", "path", "title"}
    assert len(drawn) < 10_000


@pytest.mark.parametrize(
    "account", ["\N{GRINNING FACE}" * 300 + "@example.org", "a" * 10_000, '"><script>alert(1)</script>@example.org', "a:b@example.org", ""]
)
async def test_any_address_fits_into_a_qr_code_and_stays_in_its_place(totp: PyotpTotp, account: str) -> None:
    uri = totp.uri(SECRET, account)
    parsed = urlsplit(uri.reveal())
    assert parse_qs(parsed.query) == {"secret": [SECRET.reveal()], "issuer": ["Postern"]}
    ET.fromstring((await totp.qr_code(uri)).reveal())  # noqa: S314


def test_nothing_of_it_prints_the_secret(totp: PyotpTotp) -> None:
    assert SECRET.reveal() not in repr((totp, totp.uri(SECRET, "ada@example.org"), SECRET))
