"""What is kept of an exchange with a hook."""

import json

import pytest

from core.domain.tenancy.hooks import LONGEST_KEPT, masked


def test_texts_of_people_are_their_lengths_and_words_of_ours_stay() -> None:
    body = {"decision": "no", "reason": "Ada is away", "ada@example.org": ["ada@example.org", 7, True, None]}
    assert json.loads(masked(json.dumps(body).encode())) == {"decision": "no", "reason": "***11", "***15": ["***15", 0, True, None]}


@pytest.mark.parametrize("body", [b"", b"<p>ada@example.org</p>", b'{"decision": ', b"\xff\xfe", b"[" * 100_000])
def test_nothing_is_kept_of_what_is_no_json(body: bytes) -> None:
    assert masked(body) == f"… ({len(body)} bytes)"


def test_a_long_body_is_kept_to_a_length() -> None:
    kept = masked(json.dumps(["ada@example.org"] * LONGEST_KEPT).encode())
    assert (len(kept), kept[-1]) == (LONGEST_KEPT, "…")
