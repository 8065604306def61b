"""What a directory's answer must not get through (row 34). Each attack is refused by the check that it is for, in words, and signs nobody
in. The list is read in one test, since most attacks take a millisecond.
"""

import zlib
from base64 import b64encode
from functools import cache

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, OAEP
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.saml.responses import read_response
from core.domain.identity.upstream.connection_tests import CheckName, CheckState
from ops.stand_ins.saml import (
    DIRECTORY,
    DS,
    REQUEST,
    SAML,
    SHA256,
    XENC,
    assertion,
    at,
    conditions,
    confirmation,
    directory,
    document,
    name_id,
    packed,
    pair,
    response,
    sign,
    signed_assertion,
    written,
)
from tests.adapters.saml.answering import XENC11, answer, encrypted, expected, key_pair, signed_response
from tests.adapters.saml.attacks import OTHER_REQUEST, attacks, changed, formed


def test_every_attack_is_refused_by_its_check_and_in_words() -> None:
    seen: set[str] = set()
    wrong = []
    for name, text, changes, check, fault in attacks():
        assert name not in seen, name
        seen.add(name)
        found = read_response(packed(text), expected(**changes))
        failed = found.failed
        told = None if failed is None else (failed.name, failed.fault)
        if told != (check, fault) or found.asserting is not None:
            wrong.append((name, told, (check, fault)))
            continue
        assert failed is not None
        assert failed.words.endswith("."), name
        assert failed.mend.endswith("."), name
        assert len(failed.came) <= 301, name
        assert len(failed.expected) <= 301, name
        assert [one.name for one in found.checks] == list(CheckName), name
        _require_nothing_secret(text, repr(found))
    assert wrong == []
    assert len([name for name in seen if name.startswith("wrapped")]) >= 40


def _require_nothing_secret(text: str, told: str) -> None:
    for part in text.split("SignatureValue>")[1:2] + text.split("CipherValue>")[1::2] + text.split("X509Certificate>")[1:2]:
        value = part.partition("<")[0].strip()
        assert len(value) < 20 or value[:60] not in told


def _without_prefix(text: str) -> str:
    """The same content, but for the signature, which covers the prefixes."""
    root = document(text.replace(f' xmlns:saml="{SAML}"', f' xmlns="{SAML}"').replace("saml:", ""))
    root.remove(root.find(f"{{{DS}}}Signature"))
    sign(root, directory())
    return written(root).replace(f' xmlns="{SAML}"', "", 1)


def test_what_is_attacked_is_good_without_the_attack() -> None:
    """Shows that the attacks fail by what they change."""
    both = document(answer())
    sign(both, directory())
    for name, text in {
        "a signed assertion": answer(),
        "a signed response": signed_response(response()),
        "both": written(both),
        "encrypted": response(encrypted(signed_assertion())),
        "encrypted under a signature": signed_response(response(encrypted(assertion()))),
        "encrypted with AES-CBC under a signature": signed_response(response(encrypted(assertion(), method=f"{XENC}aes128-cbc"))),
        "encrypted, with the prefix declared around it": response(encrypted(signed_assertion().replace(f' xmlns:saml="{SAML}"', ""))),
        "encrypted, with the namespace declared around it": response(encrypted(_without_prefix(signed_assertion()))).replace(
            "<saml:EncryptedAssertion", f'<saml:EncryptedAssertion xmlns="{SAML}"'
        ),
        "white space around the name": answer(assertion(name=name_id("\n  p-1\n"))),
        "a form that is untouched": formed(lambda _: None),
        "an untouched change": changed(lambda _: None),
    }.items():
        found = read_response(packed(text), expected())
        assert found.failed is None, (name, found.failed)
        assert found.asserting is not None, name
        assert [one.name for one in found.checks if one.state is not CheckState.PASSED] == [CheckName.ONE_USE], name


def test_a_bomb_is_not_unpacked() -> None:
    bomb = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    compressed = bomb.compress(bytes(64 << 20)) + bomb.flush()
    for text in (compressed, zlib.compress(answer().encode())[2:-4]):
        found = read_response(b64encode(text).decode(), expected())
        assert found.failed is not None
        assert found.failed.fault == "malformed"
        assert "compressed" in found.failed.words


def test_an_assertion_counts_once() -> None:
    """The store decides by issuer and id. Only a good answer gets so far."""
    found = read_response(packed(answer()), expected())
    assert found.asserting is not None
    said = found.asserting.assertion
    assert (said.issuer, said.id) == (DIRECTORY, "_a1")
    assert said.usable_until.strftime("%H:%M:%S") == "12:06:00", "five minutes, and the tolerance"
    first, second = found.counted(first=True), found.counted(first=False)
    assert first.failed is None
    assert first.asserting is not None
    assert second.asserting is None
    assert second.failed is not None
    assert (second.failed.name, second.failed.fault) == (CheckName.ONE_USE, "used_before")
    refused = read_response(packed(response()), expected())
    assert refused.counted(first=True) is refused
    long = answer(assertion(conditioned=conditions(NotOnOrAfter=at(days=900)), confirmed=confirmation(NotOnOrAfter=at(days=900))))
    kept = read_response(packed(long), expected()).asserting
    assert kept is not None
    assert kept.assertion.usable_until <= expected().now.replace(day=3), "a directory cannot fill the store for years"


def test_what_an_unasked_answer_contains_is_not_looked_at() -> None:
    """Anybody can send it, so it must not cost a signature."""
    for changes in ({"request_id": None}, {"request_id": OTHER_REQUEST}):
        found = read_response(packed(answer()), expected(**changes))
        assert {one.name for one in found.checks if one.state is CheckState.NOT_REACHED} >= {
            CheckName.SIGNATURE,
            CheckName.ENCRYPTION,
            CheckName.SUBJECT,
        }


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_no_change_of_a_signed_answer_signs_anybody_else_in(data: st.DataObject) -> None:
    """An answer with any characters cut out, put in or replaced is refused, or says the same. Nothing that it contains raises anything."""
    text = data.draw(st.sampled_from(_good()))
    place = data.draw(st.integers(0, len(text)))
    length = data.draw(st.integers(0, 40))
    new = data.draw(st.text(st.sampled_from("<>/=\"'& abcdef019:_-!?[]#;pS"), max_size=12))
    found = read_response(packed(text[:place] + new + text[place + length :]), expected())
    if found.asserting is not None:
        assert found.asserting.person.subject == "p-1"
        assert found.asserting.person.email == "ada@example.com"
        assert found.asserting.assertion.id == "_a1"


@cache
def _good() -> tuple[str, ...]:
    return answer(), signed_response(response())


def test_keys_of_ours_that_changed_both_open() -> None:
    keys = (key_pair(pair("ours next")), key_pair(pair("ours")))
    for recipient in ("ours", "ours next"):
        found = read_response(packed(response(encrypted(signed_assertion(), pair(recipient)))), expected(decryption_keys=keys))
        assert found.asserting is not None, found.failed


@pytest.mark.parametrize(("mask", "uri"), [(hashes.SHA1, "mgf1sha1"), (hashes.SHA256, "mgf1sha256")])
def test_the_newer_key_wrapping_is_read(mask: type[hashes.HashAlgorithm], uri: str) -> None:
    parameters = f'<ds:DigestMethod xmlns:ds="{DS}" Algorithm="{SHA256}"/><m:MGF xmlns:m="{XENC11}" Algorithm="{XENC11}{uri}"/>'
    padding = OAEP(MGF1(mask()), hashes.SHA256(), None)
    text = response(encrypted(signed_assertion(), wrapping=f"{XENC11}rsa-oaep", parameters=parameters, padding=padding))
    assert read_response(packed(text), expected()).asserting is not None


def test_the_request_is_told_also_when_it_is_not_ours() -> None:
    found = read_response(packed(answer()), expected(request_id=None))
    assert (found.response_id, found.in_response_to) == ("_r1", REQUEST)
