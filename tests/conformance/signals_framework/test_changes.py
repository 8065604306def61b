"""The modules of update and replace, which the profile of CAEP leaves out."""

from collections.abc import Sequence

from tests.conformance.kit.signals import BROKEN, Transmitter, invalid


def _with_an_invalid_token(transmitters: Sequence[Transmitter], method: str) -> None:
    for transmitter in transmitters:
        # The suite has made no stream.
        body = {**transmitter.wanted, "stream_id": None}
        assert transmitter.at_configuration(method, body, token=invalid(transmitter.token)).status_code == 401


def _with_an_invalid_body(transmitters: Sequence[Transmitter], method: str) -> None:
    for transmitter in transmitters:
        assert transmitter.at_configuration(method, BROKEN).status_code == 400


def _of_an_unknown_stream(transmitters: Sequence[Transmitter], method: str) -> None:
    for transmitter in transmitters:
        transmitter.create()
        transmitter.delete()
        assert transmitter.at_configuration(method, {**transmitter.wanted, "stream_id": transmitter.id}).status_code == 404


def test_openid_ssf_stream_control_error_update_stream_with_invalid_token(transmitters: Sequence[Transmitter]) -> None:
    _with_an_invalid_token(transmitters, "PATCH")


def test_openid_ssf_stream_control_error_update_stream_with_invalid_body(transmitters: Sequence[Transmitter]) -> None:
    _with_an_invalid_body(transmitters, "PATCH")


def test_openid_ssf_stream_control_error_update_unknown_stream(transmitters: Sequence[Transmitter]) -> None:
    _of_an_unknown_stream(transmitters, "PATCH")


def test_openid_ssf_stream_control_error_replace_stream_with_invalid_token(transmitters: Sequence[Transmitter]) -> None:
    _with_an_invalid_token(transmitters, "PUT")


def test_openid_ssf_stream_control_error_replace_stream_with_invalid_body(transmitters: Sequence[Transmitter]) -> None:
    _with_an_invalid_body(transmitters, "PUT")


def test_openid_ssf_stream_control_error_replace_unknown_stream(transmitters: Sequence[Transmitter]) -> None:
    _of_an_unknown_stream(transmitters, "PUT")
