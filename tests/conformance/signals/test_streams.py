"""The modules of metadata and of streams, each by every delivery method."""

from collections.abc import Sequence

from tests.conformance.kit.metadata import is_https, published_keys
from tests.conformance.kit.signals import ASKED, BROKEN, POLL, PUSH, Transmitter, invalid


def test_openid_ssf_transmitter_metadata(transmitters: Sequence[Transmitter]) -> None:
    transmitter = transmitters[0]
    metadata = transmitter.metadata
    assert metadata["issuer"] == transmitter.installation.issuer
    for name in ("issuer", "jwks_uri", "configuration_endpoint", "status_endpoint", "verification_endpoint"):
        is_https(metadata, name)
    assert metadata["default_subjects"] in {"ALL", "NONE"}
    assert "urn:ietf:rfc:6749" in {scheme["spec_urn"] for scheme in metadata["authorization_schemes"]}
    assert all(scheme["spec_urn"].startswith("urn:") for scheme in metadata["authorization_schemes"])
    assert metadata["spec_version"] == "1_0"
    assert set(metadata["delivery_methods_supported"]) <= {PUSH, POLL}
    assert [] not in metadata.values()
    published_keys(transmitter.client.get(metadata["jwks_uri"]).json(), transmitter.outcome)


def test_openid_ssf_stream_control_happy_path(transmitters: Sequence[Transmitter]) -> None:
    for transmitter in transmitters:
        made = transmitter.create()
        assert set(transmitter.read()["events_supported"]) & set(ASKED)
        # The profile of CAEP asks for neither of these.
        if not transmitter.is_interop:
            for method, word in (("PATCH", "Updated"), ("PUT", "Replaced")):
                body = {**transmitter.wanted, "stream_id": made["stream_id"], "description": f"{word} Stream for the Test-Suite"}
                answer = transmitter.at_configuration(method, body)
                assert answer.status_code == 200, answer.text
                assert answer.json()["iss"] == transmitter.metadata["issuer"]
                assert answer.json()["description"] == body["description"]
        assert transmitter.status()["status"] == "enabled"
        if not transmitter.is_interop:
            for status in ("enabled", "paused", "disabled"):
                reason = f"Updated Stream status for Receiver OIDF Conformance Test-Suite to {status}"
                assert transmitter.status(status=status, reason=reason)["status"] == status
        transmitter.delete()


def test_openid_ssf_stream_control_error_create_stream_with_broken_input(transmitters: Sequence[Transmitter]) -> None:
    for transmitter in transmitters:
        assert transmitter.at_configuration("POST", BROKEN).status_code == 400


def test_openid_ssf_stream_control_error_create_stream_with_invalid_token(transmitters: Sequence[Transmitter]) -> None:
    for transmitter in transmitters:
        assert transmitter.at_configuration("POST", transmitter.wanted, token=invalid(transmitter.token)).status_code == 401


def test_openid_ssf_stream_control_error_create_stream_with_duplicate_config(transmitters: Sequence[Transmitter]) -> None:
    for transmitter in transmitters:
        first = transmitter.create()
        second = transmitter.create()
        assert first["stream_id"] != second["stream_id"]
        for one in (first, second):
            assert transmitter.at_configuration("DELETE", of=one["stream_id"]).status_code == 204


def test_openid_ssf_stream_control_error_read_stream_with_invalid_token(transmitters: Sequence[Transmitter]) -> None:
    for transmitter in transmitters:
        assert transmitter.at_configuration("GET", token=invalid(transmitter.token)).status_code == 401


def test_openid_ssf_stream_control_error_read_unknown_stream(transmitters: Sequence[Transmitter]) -> None:
    for transmitter in transmitters:
        transmitter.create()
        transmitter.delete()
        assert transmitter.at_configuration("GET", of=transmitter.id).status_code == 404


def test_openid_ssf_stream_control_error_delete_stream_with_invalid_token(transmitters: Sequence[Transmitter]) -> None:
    for transmitter in transmitters:
        transmitter.create()
        transmitter.delete()
        assert transmitter.at_configuration("DELETE", of=transmitter.id, token=invalid(transmitter.token)).status_code == 401


def test_openid_ssf_stream_control_error_delete_unknown_stream(transmitters: Sequence[Transmitter]) -> None:
    for transmitter in transmitters:
        transmitter.create()
        transmitter.delete()
        assert transmitter.at_configuration("DELETE", of=transmitter.id).status_code == 404
