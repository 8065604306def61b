"""The parameters of an authorization request, and its faults."""

import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.federation.oauth.authorization_parameters import (
    LONGEST,
    PUSHED,
    Parameters,
    checked,
    client_of,
    id_token_hint,
    pushed,
    recipient,
)
from core.domain.federation.oauth.authorizations import (
    AuthorizationPrompt,
    AuthorizationRefused,
    AuthorizationRequest,
    Recipient,
    Registered,
    ResponseMode,
    UnknownRecipient,
    restored,
    stored,
)
from core.domain.federation.oauth.resources import SCOPES
from core.domain.identifiers import ClientId, UserId
from core.frozen import replace
from tests.hostile_uris import ALWAYS, FOR_THE_WEB, LOOPBACK, NEAR_LOOPBACK, NEAR_REGISTERED, REGISTERED

CLIENT = ClientId("0199d3a0-0000-7000-8000-000000000001")
WEB = Registered(CLIENT, [REGISTERED], is_native=False, authenticates=True)
PUBLIC = replace(WEB, authenticates=False)
DESKTOP = Registered(CLIENT, [LOOPBACK, "com.example.app:/callback"], is_native=True, authenticates=False)
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
GOOD: Mapping[str, str] = {
    "client_id": str(CLIENT),
    "redirect_uri": REGISTERED,
    "response_type": "code",
    "scope": "openid",
    "code_challenge": CHALLENGE,
    "code_challenge_method": "S256",
}


def read(given: Mapping[str, str | None], *again: tuple[str, str], client: Registered = PUBLIC) -> AuthorizationRequest:
    parameters = Parameters([*((name, value) for name, value in {**GOOD, **given}.items() if value is not None), *again])
    assert client_of(parameters) == client.client_id
    return checked(parameters, client, recipient(parameters, client))


def refused(given: Mapping[str, str | None], *again: tuple[str, str], client: Registered = PUBLIC) -> tuple[str, str]:
    with pytest.raises(AuthorizationRefused) as refusal:
        read(given, *again, client=client)
    return refusal.value.word.value, refusal.value.message


def test_the_least_that_one_may_ask() -> None:
    assert read({}) == AuthorizationRequest(client_id=CLIENT, recipient=Recipient(REGISTERED), scopes=("openid",), code_challenge=CHALLENGE)


def test_all_that_one_may_ask() -> None:
    request = read(
        {
            "scope": "organization  roles groups provider_token email offline_access address openid phone profile openid",
            "state": 'a b"\\~',
            "nonce": "n" * LONGEST,
            "response_mode": "form_post",
            "prompt": "login consent select_account",
            "max_age": "0",
            "login_hint": "ada@example.org",
            "acr_values": "urn:postern:acr:2fa phr",
            "ui_locales": "de-CH fr en_US x-",
            "claims": '{"id_token": {"acr": {"essential": true}}}',
            "display": "popup",
            "resource": "https://api.example.com",
        },
        ("resource", "https://another.example.com"),
        ("resource", "https://api.example.com"),
        ("unheard_of", ""),
    )
    assert request == AuthorizationRequest(
        client_id=CLIENT,
        recipient=Recipient(REGISTERED, ResponseMode.FORM_POST, 'a b"\\~'),
        scopes=SCOPES,
        nonce="n" * LONGEST,
        code_challenge=CHALLENGE,
        prompts=frozenset({AuthorizationPrompt.LOGIN, AuthorizationPrompt.CONSENT, AuthorizationPrompt.SELECT_ACCOUNT}),
        max_age=0,
        login_hint="ada@example.org",
        acr_values=("urn:postern:acr:2fa", "phr"),
        ui_locales=("de-CH", "fr"),
        resources=("https://api.example.com", "https://another.example.com"),
        foreign_scopes=("address", "phone"),
    )


def test_a_claim_that_is_asked_for_is_a_scope() -> None:
    claims = (
        '{"userinfo": {"email": {"essential": true}}, "id_token": {"acr": {"essential": true, "values": ["urn:postern:acr:one-factor"]}}}'
    )
    assert read({"claims": claims, "scope": "profile openid"}).scopes == ("openid", "profile", "email")
    # An essential value is stricter than a wish.
    assert read({"claims": claims, "acr_values": "phr"}).acr_values == ("urn:postern:acr:one-factor",)
    assert read({"claims": "{}", "acr_values": "phr"}).acr_values == ("phr",)
    person = UserId(UUID(int=7))
    assert read({"claims": f'{{"id_token": {{"sub": {{"value": "{person}"}}}}}}'}).subject == person
    # Without the scope `openid` the parameter is unknown, and ignored.
    assert read({"claims": claims, "scope": "profile", "acr_values": "phr"}) == read({"scope": "profile", "acr_values": "phr"})


def test_a_parameter_without_a_value_is_left_out() -> None:
    empty = dict.fromkeys(
        ("state", "nonce", "prompt", "max_age", "request", "request_uri", "registration", "response_mode", "ui_locales"), ""
    )
    assert read(empty) == read({})


def test_who_authenticates_may_do_without_pkce_and_nobody_else() -> None:
    without: dict[str, str | None] = {"code_challenge": None, "code_challenge_method": None}
    assert read(without, client=WEB).code_challenge is None
    assert read({}, client=WEB).code_challenge == CHALLENGE
    assert refused(without)[0] == "invalid_request"
    assert refused({**without, "redirect_uri": LOOPBACK}, client=DESKTOP)[0] == "invalid_request"


@pytest.mark.parametrize(
    ("given", "word", "said"),
    [
        ({"response_type": None}, "invalid_request", "response_type: it is missing"),
        ({"response_type": ""}, "invalid_request", "response_type: it is missing"),
        *(
            ({"response_type": one}, "unsupported_response_type", "response_type: must be code")
            for one in ("token", "id_token", "code id_token", "id_token code", "code token", "none", "CODE", "code ", "<script>")
        ),
        *(({"response_mode": one}, "invalid_request", "response_mode") for one in ("code_fragment", "web_message", "query.jwt", "Query")),
        *(({"scope": one}, "invalid_scope", "scope: must be") for one in (" ", " openid", "openid ", 'open"id', "open\nid", "é")),
        ({"scope": "openid " + "a" * LONGEST}, "invalid_scope", "scope: must be"),
        ({"scope": "address phone OPENID"}, "invalid_scope", "scope: none"),
        ({"code_challenge": None}, "invalid_request", "code_challenge: it is missing"),
        ({"code_challenge": None, "code_challenge_method": None}, "invalid_request", "must use PKCE"),
        *(({"code_challenge_method": one}, "invalid_request", "must be S256") for one in (None, "plain", "s256", "S512")),
        *(
            ({"code_challenge": one}, "invalid_request", "must be a SHA-256")
            for one in ("a" * 42, "a" * 44, f"{'a' * 42}=", f"{'a' * 42}+")
        ),
        *(
            ({"prompt": one}, "invalid_request", "prompt: ")
            for one in (
                "none login",
                "login none consent",
                "None",
                "create login",
                "create select_account",
                "login,consent",
                "admin_consent",
            )
        ),
        *(({"max_age": one}, "invalid_request", "max_age") for one in ("-1", "1.5", "ten", "+1", " 1", "12345678901", "²")),
        *(({"nonce": one}, "invalid_request", "nonce") for one in ("n" * (LONGEST + 1), "\x00", "a\nb", "é")),
        *(({"acr_values": one}, "invalid_request", "acr_values") for one in ("n" * (LONGEST + 1), "é")),
        ({"claims": "{"}, "invalid_request", "claims: must be JSON"),
        ({"claims": "{", "scope": "email"}, "invalid_request", "claims: must be JSON"),
        ({"request": "e30.e30."}, "request_not_supported", "request: "),
        ({"request_uri": "https://app.example.com/request"}, "request_uri_not_supported", "request_uri: "),
        ({"registration": "{}"}, "registration_not_supported", "registration: "),
    ],
)
def test_what_the_application_is_told(given: Mapping[str, str | None], word: str, said: str) -> None:
    told = refused(given)
    assert told[0] == word
    assert said in told[1]
    assert "<" not in told[1]


@pytest.mark.parametrize("name", [name for name in GOOD if name not in {"client_id", "redirect_uri"}])
def test_nothing_is_said_twice(name: str) -> None:
    assert refused({}, (name, GOOD[name])) == ("invalid_request", f"{name}: send it only once")


@pytest.mark.parametrize(
    "name", ["state", "nonce", "prompt", "max_age", "login_hint", "request", "claims", "response_mode", "id_token_hint"]
)
def test_not_even_with_nothing_in_it(name: str) -> None:
    assert refused({name: "1"}, (name, "")) == ("invalid_request", f"{name}: send it only once")
    assert refused({}, (name, ""), (name, "")) == ("invalid_request", f"{name}: send it only once")


@pytest.mark.parametrize("state", ["s" * (LONGEST + 1), "a\x00", "a\r\nSet-Cookie: a=b", "é", "\ufffd"])
def test_a_state_that_is_none_is_refused_and_never_sent_back(state: str) -> None:
    parameters = Parameters({**GOOD, "state": state}.items())
    answers_to = recipient(parameters, PUBLIC)
    assert answers_to == Recipient(REGISTERED)
    assert refused({"state": state})[1].startswith("state: ")
    twice = Parameters([*GOOD.items(), ("state", "a"), ("state", "b")])
    assert recipient(twice, PUBLIC).state is None


def test_a_refusal_goes_out_the_way_that_was_asked_for() -> None:
    parameters = Parameters({**GOOD, "response_mode": "form_post", "state": "s", "response_type": "token"}.items())
    assert recipient(parameters, PUBLIC) == Recipient(REGISTERED, ResponseMode.FORM_POST, "s")


@pytest.mark.parametrize(
    "pairs",
    [
        [],
        [("client_id", "")],
        [("client_id", "app")],
        [("client_id", f"{{{CLIENT}}}")],
        [("client_id", str(CLIENT).upper())],
        [("client_id", CLIENT.replace("-", ""))],
        [("client_id", str(CLIENT)), ("client_id", str(CLIENT))],
    ],
)
def test_without_a_client_nobody_is_told_but_the_person(pairs: list[tuple[str, str]]) -> None:
    with pytest.raises(UnknownRecipient):
        client_of(Parameters(pairs))


@pytest.mark.parametrize("client", [WEB, PUBLIC, DESKTOP])
def test_no_hostile_address_gets_an_answer(client: Registered) -> None:
    near = NEAR_LOOPBACK if client is DESKTOP else (*NEAR_REGISTERED, *FOR_THE_WEB)
    for uri in (*ALWAYS, *near):
        with pytest.raises(UnknownRecipient) as refusal:
            read({"redirect_uri": uri}, client=client)
        assert "evil" not in refusal.value.message
    with pytest.raises(UnknownRecipient):
        read({"redirect_uri": None}, client=client)
    with pytest.raises(UnknownRecipient):
        read({}, ("redirect_uri", client.redirect_uris[0]), client=client)


def test_an_application_on_a_device_gets_its_port_and_its_scheme() -> None:
    for uri in ("http://127.0.0.1/callback", "http://127.0.0.1:1024/callback", "com.example.app:/callback"):
        assert read({"redirect_uri": uri}, client=DESKTOP).recipient.redirect_uri == uri


@pytest.mark.parametrize("hint", ["ada@example.org", "Ada", "+15550100", "ädä@example.org", "a" * 320])
def test_whom_to_expect_is_only_a_hint(hint: str) -> None:
    assert read({"login_hint": hint}).login_hint == hint


@pytest.mark.parametrize("hint", ["a" * 321, "a\x00b", "a\nb", "a\x85b"])
def test_a_hint_that_is_none_is_ignored(hint: str) -> None:
    assert read({"login_hint": hint}).login_hint is None


def test_of_many_languages_and_levels_the_first_count() -> None:
    assert len(read({"ui_locales": "de " * 50}).ui_locales) == 20
    assert len(read({"acr_values": "1 " * 50}).acr_values) == 20


def test_a_token_of_ours_may_come_along() -> None:
    assert id_token_hint(Parameters(GOOD.items())) is None
    assert id_token_hint(Parameters([("id_token_hint", "a.b.c")])) == "a.b.c"
    for odd in ("a" * 8193, "é"):
        with pytest.raises(AuthorizationRefused):
            id_token_hint(Parameters([("id_token_hint", odd)]))


def test_a_pushed_request_is_known_by_its_name() -> None:
    assert pushed(Parameters([("request_uri", f"{PUSHED}secret")])) == "secret"
    assert pushed(Parameters([("request_uri", "https://app.example.com/")])) is None
    assert pushed(Parameters(GOOD.items())) is None
    # A repeated `request_uri` makes the request invalid; the parameters beside it do not replace it.
    assert refused({}, ("request_uri", f"{PUSHED}a"), ("request_uri", f"{PUSHED}b"))[0] == "invalid_request"


def test_a_request_is_kept_and_comes_back_as_it_was() -> None:
    for request in (
        read({}),
        read({"state": "s", "nonce": "n", "prompt": "create consent", "max_age": "7", "login_hint": "ada", "ui_locales": "de fr"}),
        read({"response_mode": "form_post", "acr_values": "a b", "scope": "openid email"}, client=WEB),
        replace(read({}), subject=UserId(UUID(int=7))),
    ):
        assert restored(stored(request)) == request


@given(st.lists(st.tuples(st.sampled_from([*GOOD, "state", "nonce", "prompt", "max_age", "request_uri", "other"]), st.text(max_size=50))))
def test_whatever_comes_is_a_request_or_a_refusal(more: list[tuple[str, str]]) -> None:
    # As a browser sends it and the server reads it.
    pairs = parse_qsl(urlencode([*GOOD.items(), *more], errors="replace"), keep_blank_values=True)
    parameters = Parameters(pairs)
    try:
        request = checked(parameters, PUBLIC, recipient(parameters, PUBLIC))
    except (AuthorizationRefused, UnknownRecipient):
        return
    assert request.recipient.redirect_uri == REGISTERED
    assert request.code_challenge is not None
    assert restored(stored(request)) == request


def unsigned(claims: object) -> str:
    """A request object without a signature."""
    head, body = (urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in ({"alg": "none"}, claims))
    return f"{head}.{body}."


def test_an_object_is_refused_where_it_says_that_it_waits() -> None:
    said = {"response_mode": "form_post", "state": "of the object"}

    def waits(**given: str) -> Recipient:
        parameters = Parameters({**{name: GOOD[name] for name in ("client_id", "redirect_uri")}, **given}.items())
        return recipient(parameters, PUBLIC)

    assert waits(request=unsigned(said)) == Recipient(REGISTERED, ResponseMode.FORM_POST, "of the object")
    # What stands beside it counts first, and an object without the one has the other.
    assert waits(request=unsigned(said), state="beside", response_mode="query") == Recipient(REGISTERED, ResponseMode.QUERY, "beside")
    assert waits(request=unsigned({"state": "s"})) == Recipient(REGISTERED, ResponseMode.QUERY, "s")
    nothing: list[object] = [[], "text", 1, None, {"response_mode": 1, "state": ["s"]}, {"response_mode": "web_message", "state": "é"}]
    for claims in nothing:
        assert waits(request=unsigned(claims)) == Recipient(REGISTERED)
    for broken in ("e30", "a.b.c.d", "e30.%%%.", "e30.e.", f"e30.{urlsafe_b64encode(b'{').decode()}.", f"{unsigned(said)}{'x' * 8000}"):
        assert waits(request=broken) == Recipient(REGISTERED)
    deep = urlsafe_b64encode(b"[" * 6000).decode()
    assert waits(request=f"e30.{deep}.") == Recipient(REGISTERED)
    # A receiver that nobody has registered gets nothing, whatever an object says.
    with pytest.raises(UnknownRecipient):
        recipient(Parameters([("client_id", "x"), ("request", unsigned({"redirect_uri": REGISTERED}))]), PUBLIC)
