"""Further providers of the installation: their settings, what they say, and the people whom only they know."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import pytest

from core.domain.errors import BadRequest, Conflict
from core.domain.identifiers import FlowId, FurtherProviderId, OrganizationId
from core.domain.identity.profiles import StatedProfile
from core.domain.identity.upstream.claims import Asserted, IdentityNotAsserted, of_further_openid, of_further_profile, require_claims
from core.domain.identity.upstream.further import (
    FurtherChange,
    FurtherProvider,
    FurtherState,
    FurtherTest,
    activated,
    after_test,
    client_secret,
    further_activated,
    further_created,
    further_deleted,
    further_updated,
    renamed,
    require_room,
    sealing_context,
    short_name,
)
from core.domain.identity.upstream.further_sign_ins import (
    MOST_TRIES,
    WaitingNewcomer,
    answer_context,
    code_digest,
    restored_word,
    stored_word,
    with_stated,
    word_context,
)
from core.domain.identity.upstream.identities import Linking, MatchingAccounts, linking
from core.domain.identity.upstream.providers import (
    RESERVED_NAMES,
    ClientSecretKind,
    FurtherKind,
    FurtherSettings,
    OfferedFurther,
    ProviderOff,
    ProviderOrigin,
    UnknownProvider,
    origin_of,
    own_provider_of,
    profile_place,
    provider_key,
    restored_settings,
)
from core.domain.identity.upstream.sign_in import ConfiguredFurther, ConfiguredProvider, SealedClient, WayThrough, client_kept, upstream_of
from core.domain.languages import Language
from core.domain.mail import Email
from core.domain.record.events import SYSTEM
from core.domain.secrets import Secret
from core.frozen import replace

NOW: Final = datetime(2026, 11, 27, 12, tzinfo=UTC)
ID: Final = UUID(int=7)
OPENID: Final = FurtherSettings(issuer="https://id.example", scopes=("openid",))
OAUTH: Final = FurtherSettings(
    kind=FurtherKind.OAUTH,
    authorization_url="https://a.example/a",
    token_url="https://a.example/t",
    profile_url="https://a.example/p",
    subject="data.id",
    email="data.email",
    verified="data.ok",
    full_name="data.name",
)
PROVIDER: Final = FurtherProvider(
    id=FurtherProviderId(ID),
    key="forum",
    preset="",
    name="Forum",
    settings=OAUTH,
    client_id="c",
    enabled=True,
    position=0,
    secret_set_at=NOW,
    created_at=NOW,
    updated_at=NOW,
)
FLOW: Final = FlowId(UUID(int=1))


def test_a_key_says_whose_the_provider_is() -> None:
    assert [origin_of(one) for one in ("codehost", "forum", str(ID))] == [
        ProviderOrigin.SHIPPED,
        ProviderOrigin.FURTHER,
        ProviderOrigin.OWN,
    ]
    assert own_provider_of(str(ID)) == ID
    assert own_provider_of("forum") is own_provider_of("") is None
    assert [provider_key(one) for one in ("forum", str(ID), "websuite")] == ["forum", str(ID), "websuite"]
    for wrong in ("", "X", "a" * 31, "a--b", "a-", "verify-email", "device", "1a"):
        with pytest.raises(UnknownProvider):
            provider_key(wrong)


@pytest.mark.parametrize("word", sorted(RESERVED_NAMES))
def test_reserved_names_are_refused(word: str) -> None:
    with pytest.raises(BadRequest, match=r"reserved|2 to 30"):
        short_name(word)


def test_short_names_have_a_form() -> None:
    assert short_name("my-forum2") == "my-forum2"
    for wrong in ("", "x", "X1", "a--b", "a-", "1a", "a" * 31):
        with pytest.raises(BadRequest, match="2 to 30"):
            short_name(wrong)


def test_settings_are_stored_and_read_again() -> None:
    for settings in (OPENID, OAUTH):
        assert restored_settings(settings.stored()) == settings
    assert (OPENID.identity_issuer, OAUTH.identity_issuer) == ("https://id.example", "https://a.example/p")
    assert replace(OAUTH, issuer="https://a.example").identity_issuer == "https://a.example"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"organizations": ["x"] * 201}, "organizations: at most"),
        ({"issuer": "https://a.example?x"}, "issuer: a URL without a query"),
        ({"profile_url": "no address"}, "profile_url: "),
        ({"profile_url": "https://a.example/" + "x" * 500}, "profile_url: a URL of at most"),
        ({"email": "a b"}, "email: names of members"),
        ({"client_id": "\u00e9"}, "client_id: 1 to"),
        ({"name": " "}, "name: 1 to"),
        ({"position": 201}, "position: 0 to"),
        ({"scopes": ['a"b']}, "scopes: at most"),
        ({"token_url": "https://other.example/t"}, "client_secret: send it again"),
        ({"subject": ""}, "subject: needed"),
    ],
)
def test_a_change_is_refused_in_words(change: dict[str, Any], said: str) -> None:
    with pytest.raises(BadRequest, match=said.replace("?", r"\?")):
        FurtherChange(**change).applied(PROVIDER, NOW)


def test_a_change_that_changes_nothing_leaves_the_time() -> None:
    later = NOW + timedelta(hours=1)
    assert FurtherChange(name="Forum").applied(PROVIDER, later) == PROVIDER
    after = FurtherChange(name="Other", organizations=["b", "a", "b"], client_secret="s", enabled=False).applied(PROVIDER, later)
    assert (after.name, after.organizations, after.enabled, after.secret_set_at, after.updated_at) == (
        "Other",
        ("a", "b"),
        False,
        later,
        later,
    )
    told = further_updated(PROVIDER, after, SYSTEM)
    assert (told.details["old_name"], told.details["new_name"], told.details["secret_changed"]) == ("Forum", "Other", True)
    quiet = further_updated(PROVIDER, replace(PROVIDER, position=3), SYSTEM)
    assert "secret_changed" not in quiet.details


def test_what_a_kind_does_not_have_goes() -> None:
    openid = replace(PROVIDER, settings=replace(OPENID, scopes=("email",)))
    after = FurtherChange(subject="id").applied(openid, NOW)
    assert (after.settings.subject, after.settings.scopes) == ("", ("openid", "email"))
    oauth = FurtherChange(posts_answer=True, repeats_nonce=False).applied(PROVIDER, NOW)
    assert (oauth.settings.posts_answer, oauth.settings.repeats_nonce) == (False, True)


def test_a_signing_key_needs_a_team_and_a_name() -> None:
    apple = replace(PROVIDER, settings=replace(OPENID, secret_kind=ClientSecretKind.SIGNING_KEY, team_id="A" * 10, key_id="B" * 10))
    assert FurtherChange(name="Apple").applied(apple, NOW).name == "Apple"
    with pytest.raises(BadRequest, match="key_id: ten capital"):
        FurtherChange(key_id="short").applied(apple, NOW)


def test_secrets_and_room_have_bounds() -> None:
    assert client_secret(" a\nb ") == "a\nb"
    for wrong in ("", "x" * 4001, "\u00e9", "a\x00b"):
        with pytest.raises(BadRequest, match="client_secret: 1 to"):
            client_secret(wrong)
    require_room(19)
    with pytest.raises(BadRequest, match="at most 20"):
        require_room(20)


def test_a_profile_is_read_by_the_mapping() -> None:
    profile = {"data": {"id": 7, "email": "ada@example.org", "ok": True, "name": "Ada"}}
    asserted = of_further_profile(OAUTH, profile)
    assert (asserted.issuer, asserted.subject, asserted.email, asserted.email_is_verified) == (
        OAUTH.profile_url,
        "7",
        "ada@example.org",
        False,
    )
    assert (asserted.stated.name, asserted.authenticated_at) == ("Ada", None)
    assert of_further_profile(OAUTH, {"data": {"id": "x", "email": "ada@example.org"}}).email == ""
    silent = replace(OAUTH, email="", verified="", full_name="")
    assert of_further_profile(silent, profile).email == ""
    for wrong in ({}, {"data": {"id": True}}, {"data": {"id": ""}}, {"data": {"id": "x" * 256}}, {"data": 3}):
        with pytest.raises(IdentityNotAsserted, match=r"no id at data\.id"):
            of_further_profile(OAUTH, wrong)


def test_a_word_of_openid_never_verifies() -> None:
    claims = {"iss": "https://id.example", "sub": "1", "email": "ada@example.org", "name": "Ada", "auth_time": 5}
    for said, email in ((True, "ada@example.org"), ("true", "ada@example.org"), (False, ""), ("false", "")):
        asserted = of_further_openid({**claims, "email_verified": said})
        assert (asserted.email, asserted.email_is_verified) == (email, False)
    silent = of_further_openid(claims)
    assert (silent.email, silent.stated.name, silent.authenticated_at) == ("ada@example.org", "Ada", datetime.fromtimestamp(5, UTC))


def test_only_who_repeats_no_nonce_may_leave_it_out() -> None:
    claims = {"iss": "i", "aud": "c", "iat": NOW.timestamp(), "exp": NOW.timestamp() + 60}
    require_claims(claims, issuer="i", client_id="c", nonce="n", now=NOW, repeats=False)
    for more, repeats in (({}, True), ({"nonce": "other"}, False)):
        with pytest.raises(IdentityNotAsserted, match="another nonce"):
            require_claims({**claims, **more}, issuer="i", client_id="c", nonce="n", now=NOW, repeats=repeats)


def test_who_is_not_connected_is_asked() -> None:
    asserted = Asserted("i", "s", "ada@example.org", email_is_verified=True)
    assert linking(asserted, MatchingAccounts(), "forum", of_organization=False, proves=False) is Linking.ASK


def test_a_newcomer_has_a_code_and_tries() -> None:
    email, key = Email("ada@example.org"), b"key"
    digest = code_digest(Secret("12345678"), FLOW, "forum", email, key)
    waiting = WaitingNewcomer(
        flow=FLOW, provider="forum", sealed_word=b"", email=email.address, code_digest=digest, tries=1, created_at=NOW, expires_at=NOW
    )
    assert waiting.may_try
    assert waiting.is_code(Secret("12345678"), key)
    assert not waiting.is_code(Secret("12345679"), key)
    assert not replace(waiting, email="eve@example.org").is_code(Secret("12345678"), key)
    assert not replace(waiting, provider="other").is_code(Secret("12345678"), key)
    assert not replace(waiting, tries=MOST_TRIES + 1).may_try
    assert not replace(waiting, code_digest=None).may_try
    assert not replace(waiting, code_digest=None).is_code(Secret("12345678"), key)


def test_a_word_is_stored_and_read_again() -> None:
    stated = StatedProfile(name="Ada", given_name="A", family_name="L", zoneinfo="Europe/London", language=Language.GERMAN)
    for word in (
        Asserted("i", "s", "ada@example.org", stated=stated, authenticated_at=NOW),
        Asserted("i", "s"),
        Asserted("i", "s", naming=OAUTH.naming),
    ):
        assert restored_word(stored_word(word)) == word  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("language", "before"),
    [(Language.GERMAN, "de"), (Language.FRENCH, "fr"), (Language.POLISH, None), (Language.ARABIC, None), (None, None)],
)
def test_a_release_that_has_four_languages_can_read_a_word(language: Language | None, before: str | None) -> None:
    """It fails at any other value of `language`. What it has stored has no `locale`."""
    kept = stored_word(Asserted("i", "s", "ada@example.org", stated=StatedProfile(language=language)))
    assert kept["language"] == before  # type: ignore[index, call-overload]
    assert restored_word(kept).stated.language is language  # type: ignore[arg-type]
    old = {name: value for name, value in kept.items() if name != "locale"}  # type: ignore[union-attr]
    assert restored_word({**old, "language": "es"}).stated.language is Language.SPANISH


@pytest.mark.parametrize(
    ("form", "given", "email"),
    [
        ({"name": {"firstName": " Ada ", "lastName": "L"}, "email": "ada@example.org"}, "Ada", "ada@example.org"),
        ({"name": {"firstName": 3}}, None, ""),
        ({"name": "Ada"}, None, ""),
        ({"name": {"firstName": "x" * 201}}, None, ""),
        (None, None, ""),
    ],
)
def test_what_a_form_says_fills_what_is_empty(form: Any, given: str | None, email: str) -> None:
    filled = with_stated(Asserted("i", "s"), form)
    assert (filled.stated.given_name, filled.email, filled.email_is_verified) == (given, email, False)
    known = Asserted("i", "s", "told@example.org", stated=StatedProfile(given_name="Grace"))
    assert (with_stated(known, form).stated.given_name, with_stated(known, form).email) == ("Grace", "told@example.org")


def test_a_provider_is_found_on_its_way() -> None:
    client = SealedClient(client_id="c", sealed_secret=b"s", context="x")
    further = ConfiguredFurther(name="Forum", settings=OAUTH, client=client, secret_set_at=NOW, is_on=True)
    way = WayThrough(further=further)
    assert client_kept("forum", way) == client
    upstream = upstream_of("forum", {}, way, Secret("s"))
    assert (upstream.key, upstream.kind, upstream.proves, upstream.label) == ("forum", None, False, "forum")
    assert not upstream.states_issuer
    stated = WayThrough(further=replace(further, settings=replace(OAUTH, issuer="https://a.example")))
    assert upstream_of("forum", {}, stated, Secret("s")).states_issuer
    with pytest.raises(UnknownProvider):
        upstream_of("forum", {}, WayThrough(), None)
    with pytest.raises(ProviderOff):
        upstream_of("forum", {}, WayThrough(further=replace(further, is_on=False)), Secret("s"))
    draft = WayThrough(further=replace(further, is_on=False, is_draft=True))
    with pytest.raises(UnknownProvider):
        upstream_of("forum", {}, draft, Secret("s"))
    assert upstream_of("forum", {}, draft, Secret("s"), even_off=True).key == "forum"


def test_offers_are_for_everybody_or_for_some() -> None:
    everywhere = OfferedFurther("forum", "Forum")
    here = OfferedFurther("forum", "Forum", frozenset({ID}))  # type: ignore[arg-type]
    assert everywhere.is_offered_in(None)
    assert not here.is_offered_in(None)
    assert here.is_offered_in(ID)  # type: ignore[arg-type]


def test_an_organizations_own_provider_is_found_on_its_way() -> None:
    client = SealedClient(client_id="c", sealed_secret=b"s", context="x")
    configured = ConfiguredProvider(
        organization=OrganizationId(UUID(int=3)),
        name="Staff",
        issuer="https://id.example",
        client=client,
        scopes=("openid",),
        second_factor_values=("mfa",),
    )
    way, key = WayThrough(configured=configured), str(ID)
    assert client_kept(key, way) == client
    assert client_kept(key, WayThrough()) is None
    upstream = upstream_of(key, {}, way, Secret("s"))
    assert (upstream.key, upstream.organization, upstream.second_factor_values, upstream.further) == (
        *(key, configured.organization, ("mfa",)),
        None,
    )
    for found, opened in ((WayThrough(), Secret("s")), (way, None)):
        with pytest.raises(ProviderOff):
            upstream_of(key, {}, found, opened)


def test_what_is_sealed_is_bound_to_its_row() -> None:
    """Nobody opens the secret of one row in another."""
    assert {sealing_context(PROVIDER.id), word_context(FLOW), answer_context(ID)} == {
        *(f"further_providers.sealed_client_secret:{ID}", f"newcomers.sealed_word:{FLOW}"),
        f"posted_answers.sealed_answer:{ID}",
    }


def test_the_log_has_what_was_made_and_deleted_and_for_how_many() -> None:
    made, gone = further_created(PROVIDER, SYSTEM), further_deleted(replace(PROVIDER, organizations=("acme",)), 3, SYSTEM)
    assert (made.name, made.details["key"], made.details["organizations"]) == ("platform.provider.created", "forum", None)
    assert (gone.name, gone.details["people"], gone.details["organizations"]) == ("platform.provider.deleted", 3, ["acme"])
    assert made.target.id == gone.target.id == str(ID)


DRAFT: Final = replace(PROVIDER, state=FurtherState.DRAFT, enabled=False)


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        (DRAFT, {}, ("draft", False)),
        (DRAFT, {"enabled": False}, ("draft", False)),
        (DRAFT, {"active": True}, ("active", True)),
        (DRAFT, {"active": True, "enabled": False}, ("active", False)),
        (DRAFT, {"active": False}, ("draft", False)),
        (PROVIDER, {"active": True}, ("active", True)),
        (PROVIDER, {"enabled": False}, ("active", False)),
        (PROVIDER, {"active": False}, ("draft", False)),
        (replace(PROVIDER, enabled=False), {"active": True}, ("active", False)),
    ],
)
def test_a_state_follows_what_a_request_says(before: FurtherProvider, change: dict[str, Any], after: tuple[str, bool]) -> None:
    turned = FurtherChange(**change).applied(before, NOW)
    assert (turned.state.value, turned.enabled) == after


@pytest.mark.parametrize(("before", "change"), [(DRAFT, {}), (DRAFT, {"active": False}), (PROVIDER, {"active": False})])
def test_a_draft_is_never_enabled(before: FurtherProvider, change: dict[str, Any]) -> None:
    with pytest.raises(BadRequest, match="enabled: the provider is a draft"):
        FurtherChange(enabled=True, **change).applied(before, NOW)


def test_a_test_counts_for_its_settings_and_leads_to_an_active_provider() -> None:
    assert after_test(DRAFT, b"of others", NOW) == DRAFT
    with pytest.raises(BadRequest, match="not been tested"):
        activated(DRAFT, NOW)
    passed = after_test(DRAFT, DRAFT.digest, NOW)
    assert (passed.test, activated(passed, NOW).state) == (FurtherTest.PASSED, FurtherState.ACTIVE)
    changed = replace(passed, client_id="another")
    assert changed.test is FurtherTest.BEFORE_CHANGE
    with pytest.raises(BadRequest, match="not been tested"):
        activated(changed, NOW)
    assert activated(PROVIDER, NOW) == PROVIDER
    assert further_activated(passed, SYSTEM, by_request=False).details["how"] == "test"


def _settings(**more: Any) -> FurtherProvider:
    return replace(PROVIDER, settings=replace(OAUTH, **more))


@pytest.mark.parametrize(
    ("before", "after", "people", "field"),
    [
        (_settings(), _settings(subject="login"), {OAUTH.profile_url: 2}, "subject"),
        (_settings(issuer="https://i"), _settings(issuer="https://i", subject="login"), {"https://i": 2}, "subject"),
        (_settings(issuer="https://i"), _settings(issuer="https://i", profile_url="https://b.example/p"), {"https://i": 2}, "profile_url"),
        # People hang on an issuer of before, and nobody knows what ids meant then.
        (_settings(), _settings(issuer="https://i"), {"https://i": 2}, "issuer"),
        (_settings(profile_url="https://v1/p"), _settings(profile_url="https://v2/p", subject="login"), {"https://v2/p": 2}, "issuer"),
    ],
)
def test_ids_keep_their_meaning_while_people_hang_on_them(
    before: FurtherProvider, after: FurtherProvider, people: dict[str, int], field: str
) -> None:
    with pytest.raises(Conflict, match=rf"{field}: people are linked by the former IDs \(2\)"):
        renamed(before, after, people)
    assert renamed(before, after, {}).settings == after.settings


def test_a_provider_keeps_what_ids_meant_under_an_issuer_that_people_hang_on() -> None:
    before, people = _settings(issuer="https://i"), {"https://i": 2}
    left = renamed(before, _settings(issuer="https://j", subject="login"), people)
    assert left.namings == {"https://i": ("https://a.example/p", "data.id")}
    back = renamed(left, replace(left, settings=before.settings), people)
    assert (back.settings, back.namings) == (before.settings, {})
    with pytest.raises(Conflict, match="issuer"):
        renamed(left, replace(left, settings=replace(before.settings, subject="login")), people)
    # Where nobody is connected, there is nothing to keep.
    assert renamed(before, _settings(issuer="https://j"), {}).namings == {}
    # A change of anything else says nothing of ids.
    other = _settings(issuer="https://i", email="data.address")
    assert renamed(before, other, people) is other


def test_another_version_of_an_address_is_the_same_place() -> None:
    assert profile_place("https://g.example/v21.0/me?fields=id") == profile_place("https://g.example/v22.0/me?fields=id")
    assert profile_place("https://d.example/api/v9/users/@me") == profile_place("https://d.example/api/v10/users/@me")
    for one, other in (
        ("https://v1/me", "https://v2/me"),
        ("https://g/v1/me?id=a", "https://g/v1/me?id=b"),
        ("https://g/a/me", "https://g/b/me"),
    ):
        assert profile_place(one) != profile_place(other)
