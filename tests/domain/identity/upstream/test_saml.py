"""The rules for a directory's answer, apart from its XML."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import pytest

from core.domain.identifiers import UpstreamProviderId
from core.domain.identity.upstream.claims import IdentityNotAsserted
from core.domain.identity.upstream.connection_tests import CheckName, CheckState, Examination
from core.domain.identity.upstream.connection_tests import restored_examination as restored_check
from core.domain.identity.upstream.directories import asserted_by
from core.domain.identity.upstream.directory_visits import name_digest
from core.domain.identity.upstream.saml import faults
from core.domain.identity.upstream.saml.assertions import (
    NAME_ID,
    PRESETS,
    TOLERANCE,
    AttributeMapping,
    DirectoryPreset,
    Expected,
    ReceivedAttribute,
    restored,
)
from core.domain.identity.upstream.saml.faults import AnswerFault, malformed, shown
from core.domain.identity.upstream.saml.judgements import (
    examination,
    is_worth_verifying,
    judge_assertion,
    judge_proof,
    judge_response,
    judged,
)
from core.domain.identity.upstream.saml.received import (
    AnswerProof,
    ReceivedAssertion,
    ReceivedConditions,
    ReceivedConfirmation,
    ReceivedResponse,
    ReceivedStatement,
)
from core.domain.saml import DirectoryNameId, NameIdFormat, Status
from core.frozen import replace

_NOW: Final = datetime(2026, 6, 1, 12, tzinfo=UTC)
_OURS: Final = "https://sso.example.com/saml/sp/1"
_ACS: Final = f"{_OURS}/acs"
_IDP: Final = "https://idp.example.com"
_EXPECTED: Final = Expected(
    entity_id=_OURS,
    acs_url=_ACS,
    issuer=_IDP,
    certificates=(),
    request_id="_q",
    mapping=AttributeMapping(email=("mail", NAME_ID), given_name=("given",), groups=("groups",), fields={"department": "unit"}),
    now=_NOW,
)


def _at(seconds: float = 0) -> str:
    return (_NOW + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class _Answer:
    response: ReceivedResponse
    said: ReceivedAssertion
    proof: AnswerProof

    def examined(self, **changes: Any) -> Examination:
        expected = replace(_EXPECTED, **changes)
        outside = judge_response(self.response, expected)
        if not is_worth_verifying(outside):
            return examination(outside, self.response)
        return judge_assertion(
            judged([*outside.values(), *judge_proof(self.proof, expected).values()]), self.said, self.response, self.proof, expected
        )


def _answer(**changes: Any) -> _Answer:
    confirmation = ReceivedConfirmation(recipient=_ACS, in_response_to="_q", not_before=None, not_on_or_after=_at(300))
    statement = ReceivedStatement(authn_instant=_at(-30), session_index="s", session_not_on_or_after=None, context_class="c")
    said = ReceivedAssertion(
        id="_a",
        issue_instant=_at(),
        issuer=_IDP,
        name_id=DirectoryNameId(text="p-1", format=NameIdFormat.PERSISTENT.value),
        confirmations=(confirmation,),
        conditions=ReceivedConditions(not_before=_at(), not_on_or_after=_at(300), audiences=((_OURS, "another"),)),
        statement=statement,
        attributes=(
            ReceivedAttribute(name="mail", friendly_name="Mail", values=("ada@example.com",)),
            ReceivedAttribute(name="groups", values=("staff",)),
            ReceivedAttribute(name="groups", values=("math", "")),
        ),
    )
    for name in ("confirmation", "conditions", "statement"):
        if name in changes and isinstance(changes[name], dict):
            before = confirmation if name == "confirmation" else getattr(said, name)
            changed = replace(before, **changes.pop(name))
            changes["confirmations" if name == "confirmation" else name] = (changed,) if name == "confirmation" else changed
    return _Answer(
        response=ReceivedResponse(
            id="_r", destination=_ACS, in_response_to="_q", issuer=_IDP, status=Status.SUCCESS.value, signed=False, encrypted=False
        ),
        said=replace(said, **changes),
        proof=AnswerProof(
            what="the assertion",
            algorithm="RSA with SHA-256",
            fingerprint="ab" * 32,
            valid_from=_NOW - timedelta(days=1),
            valid_until=_NOW + timedelta(days=30),
            encryption="",
        ),
    )


def _failed(found: Examination) -> tuple[CheckName, str] | None:
    return None if found.failed is None else (found.failed.name, found.failed.fault)


def test_every_name_stands_in_every_list_in_order() -> None:
    for found in (_answer().examined(), _answer().examined(request_id=None), examination(judged([malformed("it is empty")]))):
        assert [one.name for one in found.checks] == list(CheckName)
    assert found.check(CheckName.SIGNATURE).state is CheckState.NOT_REACHED


def test_all_that_is_wrong_is_told_at_once() -> None:
    """An administrator who sets a connection up should not mend one setting after another."""
    answer = _answer(
        conditions={"audiences": (("https://crm.example",),)},
        confirmation={"recipient": "https://crm.example/acs"},
        attributes=(),
        name_id=None,
    )
    found = answer.examined()
    wrong = {one.name for one in found.checks if one.state is CheckState.FAILED}
    assert wrong == {CheckName.RECIPIENT, CheckName.AUDIENCE, CheckName.SUBJECT, CheckName.ADDRESS}
    assert _failed(found) == (CheckName.RECIPIENT, "other_recipient")
    assert found.asserting is None


@pytest.mark.parametrize("seconds", [-59, 0, 59])
def test_clocks_may_differ_by_a_minute(seconds: float) -> None:
    answer = _answer(
        issue_instant=_at(seconds),
        conditions={"not_before": _at(max(seconds, 0)), "not_on_or_after": _at(max(seconds, 0) or seconds + 1)},
        confirmation={"not_on_or_after": _at(min(seconds, 0) + 0.5 or 1)},
        statement={"authn_instant": _at(seconds)},
    )
    assert answer.examined().failed is None


def test_a_fresh_sign_in_may_be_asked_for() -> None:
    assert _answer().examined(authenticated_since=_NOW).failed is None, "half a minute is within the tolerance"
    old = _answer(statement={"authn_instant": _at(-61)})
    assert old.examined().failed is None
    assert _failed(old.examined(authenticated_since=_NOW)) == (CheckName.AUTHENTICATION, "too_long_ago")


def test_an_assertion_survives_its_wait_for_the_browser() -> None:
    for answer in (
        _answer(),
        _answer(statement={"session_not_on_or_after": _at(3600), "session_index": None, "context_class": None}),
        _answer(name_id=None),
    ):
        asserting = answer.examined(mapping=AttributeMapping(subject="mail", email=("mail",), fields={"groups": "unit"})).asserting
        assert asserting is not None
        assert restored(json.loads(json.dumps(asserting.stored()))) == asserting
        assert asserting.assertion.values("groups") == ("staff", "math", "")
        assert asserting.assertion.values("nothing") == ()
        assert asserting.person.fields == {"unit": ("staff", "math")}


_PROVIDER: Final = UpstreamProviderId(UUID(int=7))
_BY_MAIL: Final = AttributeMapping(subject="mail", email=("mail",))


def test_a_visit_is_known_by_the_name_that_a_later_sign_out_will_name() -> None:
    """A directory that sends no NameID can name no session later, so nothing of the visit is kept."""
    asserting = _answer(statement={"session_not_on_or_after": _at(3600)}).examined(mapping=_BY_MAIL).asserting
    assert asserting is not None
    visit = asserted_by(_PROVIDER, asserting).visit
    assert visit is not None
    assert (visit.provider, visit.name_digest) == (_PROVIDER, name_digest(_PROVIDER, "p-1"))
    assert (visit.session_index, visit.context_class, visit.issued_at) == ("s", "c", _NOW)
    assert visit.ends_at == _NOW + timedelta(seconds=3600) + TOLERANCE
    nameless = _answer(name_id=None).examined(mapping=_BY_MAIL).asserting
    assert nameless is not None
    found = asserted_by(_PROVIDER, nameless)
    assert found.visit is None
    assert (found.issuer, found.subject, found.email, found.email_is_verified) == (_IDP, "ada@example.com", "ada@example.com", True)


@pytest.mark.parametrize("subject", ["", "x" * 256])
def test_an_answer_that_has_waited_signs_nobody_in_whose_name_cannot_be_kept(subject: str) -> None:
    """The examination refuses such a name before anything waits. What comes out of the database is not trusted to have passed it."""
    asserting = _answer().examined().asserting
    assert asserting is not None
    kept = replace(asserting, person=replace(asserting.person, subject="x" * 255))
    assert asserted_by(_PROVIDER, kept).subject == "x" * 255
    with pytest.raises(IdentityNotAsserted, match="empty or too long"):
        asserted_by(_PROVIDER, replace(kept, person=replace(kept.person, subject=subject)))


def test_what_the_recorder_keeps_says_nothing_about_people() -> None:
    found = _answer().examined()
    kept = json.dumps([one.without_person().stored() for one in found.checks])
    assert [restored_check(one) for one in json.loads(kept)] == [one.without_person() for one in found.checks]
    assert "ada@example.com" in json.dumps([one.stored() for one in found.checks])
    assert "ada@" not in kept
    assert "p-1" not in kept
    assert "mail, groups" in kept


def test_the_first_source_that_came_counts() -> None:
    named = DirectoryNameId(text="ada@example.org", format=NameIdFormat.EMAIL.value)
    found = _answer(name_id=named).examined()
    assert found.asserting is not None
    assert found.asserting.person.email == "ada@example.com"
    assert "another person" in found.check(CheckName.SUBJECT).words
    found = _answer(name_id=named, attributes=()).examined()
    assert found.asserting is not None
    assert (found.asserting.person.email, found.asserting.person.groups) == ("ada@example.org", ())
    assert "given_name (given), groups (groups), unit (department)" in found.check(CheckName.ATTRIBUTES).words


def test_a_connection_need_not_name_an_address() -> None:
    found = _answer().examined(mapping=AttributeMapping())
    assert found.asserting is not None
    assert found.asserting.person.email == ""
    assert found.check(CheckName.ADDRESS).state is CheckState.PASSED


def test_a_name_that_nobody_could_read_is_left_out() -> None:
    for value, name in (("Ada", "Ada"), ("a" * 201, ""), ("A\u202eda", "")):
        told = (ReceivedAttribute(name="mail", values=("a@b.example",)), ReceivedAttribute(name="given", values=(value,)))
        found = _answer(attributes=told).examined()
        assert found.asserting is not None
        assert found.asserting.person.given_name == name


def test_an_unsigned_response_need_not_name_its_issuer_and_destination() -> None:
    answer = _answer()
    answer.response = replace(answer.response, issuer=None, destination=None)
    assert answer.examined().failed is None
    answer.response = replace(answer.response, encrypted=True)
    assert _failed(answer.examined()) == (CheckName.ISSUER, "no_issuer")
    answer.response = replace(answer.response, signed=True)
    assert _failed(answer.examined()) == (CheckName.DESTINATION, "no_destination")


@pytest.mark.parametrize(
    ("status", "below", "mend"),
    [
        ("Responder", "AuthnFailed", "sign-in log"),
        ("Requester", "NoAuthnContext", "AuthnContext"),
        ("VersionMismatch", "", "SAML 2.0"),
        ("Responder", "SomethingOfTheirOwn", "sign-in log for this time"),
    ],
)
def test_the_mend_of_a_failure_follows_its_status(status: str, below: str, mend: str) -> None:
    answer = _answer()
    uri = Status.SUCCESS.value.removesuffix("Success")
    answer.response = replace(answer.response, status=f"{uri}{status}", status_below=below and f"{uri}{below}")
    found = answer.examined()
    assert found.failed is not None
    assert mend in found.failed.mend
    assert found.status == (below or status)
    assert not found.failed.personal


def test_text_of_others_is_shown_within_bounds() -> None:
    assert shown("a\x00b\u202e") == "a\ufffdb\ufffd"
    assert len(shown("x" * 10_000)) == 301


def test_words_for_administrators_are_whole_sentences() -> None:
    listed = [one for one in vars(faults).values() if isinstance(one, AnswerFault)]
    assert len({one.key for one in listed}) == len(listed)
    for one in listed:
        for text in (one.words, one.mend):
            assert text.endswith(".")
            assert text[0].isupper()
            assert "  " not in text


def test_presets_name_what_identifies_and_the_address() -> None:
    assert set(PRESETS) == set(DirectoryPreset)
    for which, preset in PRESETS.items():
        assert preset.mapping.email, which
        assert preset.mapping.given_name, which
        assert preset.mapping.family_name, which
        assert preset.mapping.groups, which
    assert PRESETS[DirectoryPreset.ENTRA_ID].mapping.subject != NAME_ID, "its NameID is the user principal name, which changes"
