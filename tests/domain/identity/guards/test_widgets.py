"""Widgets of others: what their makers publish, and the form that waits for an answer."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec
import pytest

from adapters.widgets import widget_presets
from core.domain.identity.guards.puzzles import AWAY_FOR, LIFETIME, THERE_FOR, KeptForm, MakerSeen, PuzzlePurpose, WidgetVerdict, answer_id
from core.domain.outbound import destination
from entrypoints.http.pages.puzzle import PuzzleForm, policy_of
from entrypoints.settings import DECLARATIONS

NOW = datetime(2026, 11, 27, 9, tzinfo=UTC)
ONE = UUID("0197f0c8-0000-7000-8000-000000000001")
FIELDS = {"email": "ada@example.org", "password": "correct horse"}


def kept(**fields: str) -> KeptForm:
    return KeptForm.made(ONE, PuzzlePurpose.REGISTRATION, "a form", fields or FIELDS, NOW)


def test_a_form_that_waits_is_read_back_as_it_was() -> None:
    for fields in (FIELDS, {"password": "\ud800 ü 🙂"}):
        assert KeptForm.unpacked(kept(**fields).packed()) == kept(**fields)


def test_its_length_tells_nothing_of_a_password() -> None:
    assert {len(kept(email="ada@example.org", password="x" * length).packed()) for length in range(1, 129)} == {2048}


def test_what_is_no_form_is_none() -> None:
    packed = kept().packed()
    for told in (packed[:40], packed.replace(b"registration", b"of_tomorrow"), packed[:40] + b"{", packed[:40] + b"[1]"):
        with pytest.raises(ValueError):  # noqa: PT011 - of several libraries
            KeptForm.unpacked(told)


def test_it_counts_for_its_form_and_purpose_in_its_time() -> None:
    form = kept()
    assert form.objection(PuzzlePurpose.REGISTRATION, "a form", NOW) == ""
    assert form.objection(PuzzlePurpose.RESET, "a form", NOW) == "purpose"
    assert form.objection(PuzzlePurpose.REGISTRATION, "another", NOW) == "flow"
    assert form.objection(PuzzlePurpose.REGISTRATION, "a form", NOW + LIFETIME) == "late"


def test_what_the_maker_learns_tells_neither_the_form_nor_its_id() -> None:
    assert len(kept().bound) == 32
    assert ONE.hex not in kept().bound


@pytest.mark.parametrize(
    ("verdict", "objection"),
    [
        (WidgetVerdict(solved=True, site="ID.example.org", action="reset", bound="b"), ""),
        (WidgetVerdict(solved=True, site="id.example.org"), ""),
        (WidgetVerdict(solved=False, site="id.example.org"), "refused"),
        (WidgetVerdict(solved=True), "site"),
        (WidgetVerdict(solved=True, site="id.example.org", action="link", bound="b"), "action"),
        (WidgetVerdict(solved=True, site="id.example.org", action="", bound="b"), "action"),
        (WidgetVerdict(solved=True, site="id.example.org", action="reset", bound=""), "flow"),
    ],
)
def test_a_verdict_counts_for_its_site_action_and_form(verdict: WidgetVerdict, objection: str) -> None:
    assert verdict.objection("id.example.org", PuzzlePurpose.RESET, "b") == objection


def test_a_maker_is_away_for_a_minute_and_there_for_ten_seconds() -> None:
    seen = MakerSeen()
    assert not seen.is_away(NOW)
    assert not seen.is_there(NOW)
    seen.found(NOW, away=True)
    assert seen.is_away(NOW + AWAY_FOR - timedelta(microseconds=1))
    assert not seen.is_away(NOW + AWAY_FOR)
    seen.found(NOW, away=False)
    assert seen.is_there(NOW + THERE_FOR - timedelta(microseconds=1))
    assert not seen.is_there(NOW + THERE_FOR)


def test_answers_have_names_of_their_own() -> None:
    assert answer_id("a") == answer_id("a") != answer_id("b")


def test_every_widget_has_a_setting_a_field_and_a_policy() -> None:
    presets = widget_presets()
    (setting,) = [one for one in DECLARATIONS if one.name == "POSTERN_WIDGET"]
    assert {setting.form.parse(name) for name in presets} == set(presets)
    fields = {one.encode_name for one in msgspec.structs.fields(PuzzleForm)}
    for preset in presets.values():
        assert preset.field in fields
        assert destination(preset.verify).scheme == "https"
        policy = policy_of(preset).content_security.decode()
        assert "sandbox allow-forms allow-same-origin allow-scripts" in policy
        assert "script-src https://" in policy
        # The action is a purpose of ours, which has letters that every maker takes.
        assert all(len(purpose) <= 32 and purpose.replace("_", "").isalpha() for purpose in PuzzlePurpose)
