"""An event says what changed, before and after, and nothing of what stayed."""

from core.domain.record.events import differences


def test_facts_that_differ_stand_with_both_values() -> None:
    told = differences({"name": "Deploy", "issuer": "a", "claims": {}}, {"name": "Ship", "issuer": "a", "claims": {"ref": "main"}})
    assert list(told.items()) == [("old_name", "Deploy"), ("old_claims", {}), ("new_name", "Ship"), ("new_claims", {"ref": "main"})]


def test_nothing_is_told_of_what_stayed() -> None:
    assert differences({"name": "Deploy"}, {"name": "Deploy"}) == {}
