"""The modules of verification: by pushes, and by polls."""

import pytest

from tests.conformance.kit.signals import Transmitter


def test_openid_ssf_transmitter_stream_verification_push(pushing: Transmitter) -> None:
    pushing.create()
    pushing.is_verification(state=pushing.verify(), heard=pushing.next_push())
    pushing.delete()


def test_openid_ssf_transmitter_stream_verification_error_push_no_auth(pushing: Transmitter) -> None:
    pushing.header = None
    pushing.create()
    pushing.is_verification(state=pushing.verify(), heard=pushing.next_push())
    pushing.delete()


def test_openid_ssf_transmitter_stream_verification_poll_only(polling: Transmitter) -> None:
    polling.create()
    state = polling.verify()
    (heard,) = polling.soon().values()
    polling.is_verification(heard, state)
    polling.delete()


# The second verification waits for as long as the stream says.
@pytest.mark.only_whole
def test_openid_ssf_transmitter_stream_verification_poll_and_ack(polling: Transmitter) -> None:
    polling.create()
    polling.verify()
    first = list(polling.soon())
    state = polling.verify()
    found = polling.poll(ack=first)
    assert not set(found) & set(first)
    (heard,) = (found or polling.soon()).values()
    polling.is_verification(heard, state)
    polling.delete()


def test_openid_ssf_transmitter_stream_verification_ack_only(polling: Transmitter) -> None:
    polling.create()
    state = polling.verify()
    found = polling.soon()
    (heard,) = found.values()
    polling.is_verification(heard, state)
    assert polling.poll(most=0, ack=list(found)) == {}
    assert polling.poll() == {}
    polling.delete()
