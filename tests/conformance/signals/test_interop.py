"""The module of the interoperability profile: what happens to a person reaches the receiver."""

import time
from collections.abc import Sequence
from typing import Any

import pyotp

from tests.conformance.kit.installation import ALICE, PASSWORD
from tests.conformance.kit.relying import Suite
from tests.conformance.kit.signals import ASKED, PUSH, VERIFICATION, HeardSignal, Transmitter
from tests.patience import PATIENCE


def lives(suite: Suite, transmitter: Transmitter) -> None:
    """Alice uses the application, turns a second factor on and off again, and ends her session there."""
    application = transmitter.application
    tokens = suite.tokens(suite.request(application), application)
    signed_in = suite.client.post("/api/auth/login", json={"email": ALICE, "password": PASSWORD}).json()
    bearer = {"Authorization": f"Bearer {signed_in['access_token']}"}

    def ask(method: str, path: str, body: Any = None) -> Any:
        answer = suite.client.request(method, path, json=body, headers=bearer)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    secret = ask("POST", "/api/user/mfa/setup")["secret"]
    ask("POST", "/api/user/mfa/verify", {"code": pyotp.TOTP(secret).now()})
    ask("DELETE", "/api/user/mfa")
    revoked = suite.client.post(
        suite.metadata["revocation_endpoint"],
        data={"token": tokens.answer["refresh_token"]},
        auth=(application.client_id, application.secret),
    )
    assert revoked.is_success, revoked.text


def heard(transmitter: Transmitter, wanted: set[str]) -> list[HeardSignal]:
    """Until each of these types of events has come."""
    found: list[HeardSignal] = []
    until = time.monotonic() + PATIENCE
    while not wanted <= {one.event for one in found} and time.monotonic() < until:
        if transmitter.method == PUSH:
            found.append(transmitter.next_push())
        else:
            found += (came := transmitter.soon()).values()
            transmitter.poll(most=0, ack=list(came))
    return found


def test_openid_ssf_transmitter_stream_caep_interop(suite: Suite, transmitters: Sequence[Transmitter]) -> None:
    for transmitter in transmitters:
        stream = transmitter.create()
        delivered = set(stream["events_delivered"])
        assert delivered == set(ASKED[:2])
        assert set(transmitter.read()["events_supported"]) & set(ASKED)
        assert transmitter.status()["status"] == "enabled"
        state = transmitter.verify()
        lives(suite, transmitter)
        found = heard(transmitter, delivered | {VERIFICATION})
        told = set()
        for one in found:
            if one.event == VERIFICATION:
                transmitter.is_verification(one, state)
            else:
                told.add(transmitter.is_caep(one))
        assert told == delivered
        transmitter.delete()
