"""Shared signals: what owners and applications may set, what a SET says, and when a push is sent again."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from core.domain.errors import BadRequest, Forbidden, RateLimited
from core.domain.federation.oauth.authorizations import AuthorizationErrorCode, AuthorizationRefused, AuthorizationRequest, Recipient
from core.domain.federation.signal_grants import with_signals
from core.domain.federation.signals import (
    KEPT_FOR,
    MOST_PUSH_HOSTS,
    SIGNAL_RULES,
    VERIFICATION_PACE,
    DueSignal,
    SignalSettings,
    asked_events,
    authorization_header,
    keeps_header,
    push_destination,
    require_pace,
    require_room,
    signal_claims,
    signal_events,
    signal_hosts,
    transaction_of,
)
from core.domain.identifiers import ClientId, OrganizationId, SignalStreamId, UserId
from core.domain.record.event_types import Audience, event_type
from core.domain.record.signals import (
    DROPPED_EVENT,
    OFFERED,
    PAUSING_EVENT,
    PURGED_EVENT,
    RESUMING_EVENT,
    SIGNALLED_EVENTS,
    VERIFIED_EVENT,
    SignalType,
)
from core.frozen import replace

AT = datetime(2026, 11, 28, tzinfo=UTC)
ADA = UserId(UUID(int=1))
STREAM = SignalStreamId(UUID(int=2))


def due(event: str | None, **changed: Any) -> DueSignal:
    given: dict[str, Any] = {"user": ADA, "details": {}, **changed}
    return DueSignal(
        id=UUID(int=3),
        attempts=0,
        event=event,
        stream=STREAM,
        transaction="t",
        happened_at=AT,
        queued_at=AT + timedelta(seconds=1),
        **given,
    )


def told(one: DueSignal) -> dict[str, Any]:
    claims = signal_claims(one, client=ClientId("pc_shop"), issuer="https://id.example.org")
    assert set(claims) == {"iss", "aud", "iat", "jti", "txn", "sub_id", "events"}
    assert (claims["iss"], claims["aud"], claims["jti"]) == ("https://id.example.org", "pc_shop", str(UUID(int=3)))
    assert claims["iat"] == int(AT.timestamp()) + 1
    events: Any = claims["events"]
    ((uri, facts),) = events.items()
    assert uri == one.type.uri
    return {**facts, "sub_id": claims["sub_id"]}


def test_an_owner_names_events_and_hosts() -> None:
    assert signal_events(["account-enabled", "session-revoked"]) == (SignalType.SESSION_REVOKED, SignalType.ACCOUNT_ENABLED)
    for wrong in ([], ["verification"], ["token-claims-change"]):
        with pytest.raises(BadRequest):
            signal_events(wrong)
    assert signal_hosts(["App.example.ORG", "app.example.org", "192.0.2.1"]) == ("app.example.org", "192.0.2.1")
    for names in (["https://app.example"], ["a b"], [f"h{n}.example" for n in range(MOST_PUSH_HOSTS + 1)]):
        with pytest.raises(BadRequest):
            signal_hosts(names)


def test_a_stream_asks_for_what_it_understands() -> None:
    assert asked_events(None) == OFFERED
    assert asked_events(["urn:unknown", SignalType.CREDENTIAL_CHANGE.uri]) == (SignalType.CREDENTIAL_CHANGE,)
    assert asked_events([]) == ()


@pytest.mark.parametrize(
    ("endpoint", "refusal"),
    [
        ("ftp://app.example/", BadRequest),
        ("http://app.example/", BadRequest),
        ("http://9.9.9.9/", BadRequest),
        ("https://user:pass@app.example/", BadRequest),
        ("https://other.example/", Forbidden),
        ("https://app.example.org/", Forbidden),
        ("https://sub.app.example/", Forbidden),
    ],
)
def test_pushes_go_to_named_hosts_alone(endpoint: str, refusal: type[Exception]) -> None:
    with pytest.raises(refusal):
        push_destination(endpoint, ("app.example", "9.9.9.9"))


def test_pushes_go_over_tls_but_inside() -> None:
    assert push_destination("https://app.example:8443/set?x=1", ("app.example",)).port == 8443
    assert push_destination("http://127.0.0.1:80/", ("127.0.0.1",)).scheme == "http"


def test_a_header_is_bound_to_scheme_host_and_port() -> None:
    before = "https://app.example/one"
    assert keeps_header(before, "https://APP.example:443/two")
    for after in ("https://app.example:444/one", "https://other.example/one", "http://app.example:443/one", None):
        assert not keeps_header(before, after)
    assert not keeps_header(None, before)
    assert authorization_header("Bearer x y") == "Bearer x y"
    for wrong in ("", "a\nb", "ä", "x" * 4001):
        with pytest.raises(BadRequest):
            authorization_header(wrong)


def test_streams_are_bounded() -> None:
    require_room(4, 99)
    for counts in ((5, 5), (0, 100)):
        with pytest.raises(Forbidden):
            require_room(*counts)


def test_verifications_have_a_pace() -> None:
    require_pace(None, AT)
    require_pace(AT - VERIFICATION_PACE, AT)
    with pytest.raises(RateLimited) as refused:
        require_pace(AT - timedelta(seconds=4), AT)
    assert refused.value.retry_after == 6


def test_an_ended_session_is_told_of_the_person() -> None:
    facts = told(due(None))
    assert facts["sub_id"] == {"format": "iss_sub", "iss": "https://id.example.org", "sub": str(ADA)}
    assert (facts["event_timestamp"], "initiating_entity" in facts) == (int(AT.timestamp()), False)
    assert list(facts["reason_admin"]) == ["en"]
    assert told(due(None, by_policy=True))["initiating_entity"] == "policy"


@pytest.mark.parametrize(
    ("event", "details", "kind", "change"),
    [
        ("security.password.changed", {"how": "reset"}, "password", "update"),
        ("security.password.changed", {"how": "set"}, "password", "create"),
        ("security.password.changed", {"how": "ended"}, "password", "delete"),
        ("security.mfa.enabled", {}, "app", "create"),
        ("security.passkeys.changed", {"kind": "fido2-platform", "change": "delete"}, "fido2-platform", "delete"),
        ("security.mfa.disabled", {"forced": True}, "app", "delete"),
    ],
)
def test_a_changed_credential_is_told_by_kind_and_change(event: str, details: dict[str, Any], kind: str, change: str) -> None:
    facts = told(due(event, details=details))
    assert set(facts) == {"event_timestamp", "credential_type", "change_type", "reason_admin", "sub_id"}
    assert (facts["credential_type"], facts["change_type"]) == (kind, change)


def test_a_locked_account_is_told_as_disabled() -> None:
    facts = told(due("security.account.locked", details={"how": "mail"}))
    assert facts["reason"] == "hijacking"
    assert "mail" not in json.dumps(facts["reason_admin"])
    assert "reason" not in told(due("security.account.unlocked"))


def test_a_verification_is_about_the_stream() -> None:
    facts = told(due(VERIFIED_EVENT, user=None, details={"state": "abc", "service_id": "x"}))
    assert facts == {"state": "abc", "sub_id": {"format": "opaque", "id": str(STREAM)}}
    assert told(due(VERIFIED_EVENT, user=None)) == {"sub_id": {"format": "opaque", "id": str(STREAM)}}


@pytest.mark.parametrize(("event", "status"), [(PAUSING_EVENT, "paused"), (RESUMING_EVENT, "enabled"), (DROPPED_EVENT, "enabled")])
def test_an_update_is_about_the_stream(event: str, status: str) -> None:
    facts = told(due(event, user=None, details={"reason": "Unpaid", "service_id": "x"}))
    assert facts["sub_id"] == {"format": "opaque", "id": str(STREAM)}
    # Nothing that an operator wrote gets into it.
    assert (facts["status"], "Unpaid" in facts["reason"], set(facts)) == (status, False, {"status", "reason", "sub_id"})


def test_a_deleted_account_is_told_of_the_person() -> None:
    facts = told(due(PURGED_EVENT))
    assert set(facts) == {"event_timestamp", "reason_admin", "sub_id"}
    assert facts["sub_id"]["sub"] == str(ADA)


def test_what_is_told_is_published_to_organizations() -> None:
    for name in SIGNALLED_EVENTS:
        found = event_type(name)
        assert (found.published, found.audience) == (True, Audience.ORGANIZATION)


def test_organizations_cannot_compare_what_they_hear() -> None:
    event = str(UUID(int=4))
    one, other = OrganizationId(UUID(int=5)), OrganizationId(UUID(int=6))
    assert transaction_of(event, one) == transaction_of(event, one) != transaction_of(event, other)


def test_a_push_is_tried_for_seven_days() -> None:
    spent = sum(SIGNAL_RULES.pauses, timedelta())
    assert KEPT_FOR - timedelta(hours=10) < spent <= KEPT_FOR
    assert SIGNAL_RULES.pauses[:8] == tuple(timedelta(minutes=minutes) for minutes in (1, 4, 15, 60, 180, 360, 600, 600))


@pytest.mark.parametrize(
    ("status", "body", "delivered", "final"),
    [
        (202, b"", True, True),
        (400, b'{"err": "invalid_key"}', False, True),
        (400, b"nothing", False, False),
        (400, b"[]", False, False),
        (302, b"", False, False),
        (500, b'{"err": "invalid_key"}', False, False),
    ],
)
def test_a_receiver_refuses_by_the_name_of_an_error(status: int, body: bytes, *, delivered: bool, final: bool) -> None:
    outcome = SIGNAL_RULES.answered(due(None), status, body, retry_after=None, now=AT, spread=0.0)
    assert (outcome.delivered, outcome.pause is None) == (delivered, final)


def test_a_stream_gets_what_both_name() -> None:
    settings = SignalSettings(events=(SignalType.SESSION_REVOKED,))
    assert settings.hosts == ()


def test_scopes_of_signals_are_unknown_where_signals_are_off() -> None:
    asking = AuthorizationRequest(
        client_id=ClientId("app"), recipient=Recipient("https://app.example.com/callback"), scopes=(), signal_scopes=("ssf.read",)
    )
    with pytest.raises(AuthorizationRefused, match="none of these scopes exists") as refusal:
        with_signals(asking, are_on=False)
    assert refusal.value.word is AuthorizationErrorCode.INVALID_SCOPE
    for more in (replace(asking, scopes=("openid",)), replace(asking, resources=("https://api.example.com",))):
        left = replace(more, signal_scopes=())
        assert with_signals(more, are_on=False) == left
        assert with_signals(left, are_on=False) is left
    assert with_signals(asking, are_on=True).signal_scopes == ("ssf.read",)
