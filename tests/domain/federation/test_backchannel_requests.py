"""Requests from afar: words and times that an application may send, and what a poll gets."""

from datetime import UTC, datetime, timedelta
from unicodedata import normalize
from uuid import UUID

import pytest

from core.domain.errors import BadRequest
from core.domain.federation.backchannel_requests import (
    LONGEST_EXPIRY,
    LONGEST_MESSAGE,
    SHORTEST_EXPIRY,
    TELL_JOB,
    AskedBackchannel,
    BackchannelDecision,
    BackchannelExpired,
    BackchannelNotice,
    BackchannelPending,
    BackchannelRefused,
    BackchannelSlowDown,
    BackchannelState,
    InvalidBindingMessage,
    PolledRequest,
    allowed,
    read_expiry,
    read_message,
    require_asker,
    require_scopes,
)
from core.domain.federation.oauth.clients import AuthenticatedClient, AuthenticationMethod, RegisteredClient
from core.domain.federation.oauth.refusals import InvalidGrant, InvalidScope, UnauthorizedClient
from core.domain.identifiers import BackchannelRequestId, ClientId, OrganizationId, ServiceId, SessionId, UserId
from core.domain.identity.sessions import Context
from core.domain.key_proofs import KeyThumbprint
from core.domain.services.services import ServiceType
from core.domain.tokens import TokenAlgorithm
from core.frozen import replace

NOW = datetime(2026, 11, 27, tzinfo=UTC)
KEY = KeyThumbprint("0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I")
POLLED = PolledRequest(
    id=BackchannelRequestId(UUID(int=1)),
    state=BackchannelState.PENDING,
    expires_at=NOW + timedelta(minutes=1),
    is_slowed=False,
    is_open=True,
    key=None,
    allowed=None,
)
YES = BackchannelDecision(user=UserId(UUID(int=2)), email="ada@example.org", session=SessionId(UUID(int=3)), scopes=(), granted=())
SHOP = RegisteredClient(
    client=ClientId("0199d3a0-0000-7000-8000-000000000001"),
    context=Context(OrganizationId(UUID(int=6)), "acme", ServiceId(UUID(int=4)), "shop"),
    service=ServiceId(UUID(int=4)),
    organization=OrganizationId(UUID(int=6)),
    organization_is_active=True,
    service_type=ServiceType.WEB,
    id_token_algorithm=TokenAlgorithm.RS256,
    access_token_algorithm=TokenAlgorithm.ES256,
    keys=None,
    has_secret=True,
    secret=None,
)
SAID = replace(POLLED, state=BackchannelState.ALLOWED, allowed=YES)


ORDINARY = [
    # English, German, Spanish and French.
    *(
        "Invoice 2026/117: 12.50 EUR",
        "It's due, isn\u2019t it?",
        "the customers' invoice",
        "Pay 1/2 & the rest (24/7)",
        "Order ABC-12, PO #7",
    ),
    *("Rechnung Nr. 4711 \u00fcber 1.234,50 \u20ac", "Ist's f\u00fcr Hans' Konto, z.B. 20 %?", "Bestellung A/B // Globex GmbH & Co."),
    *(
        "\u00bfPagar 1.234,50 \u20ac a Globex?",
        "Factura n.\u00ba 7: \u00a1hoy!",
        "Paiement n\u00b0 7 : 1 234,50 \u20ac",
        "l'achat d\u2019accord",
        "Aujourd'hui : 12 h 30",
    ),
    # Italian, Dutch, Portuguese, Polish, Turkish.
    *(
        "L'ordine dell\u2019azienda: un po' di pi\u00f9",
        "Data: 12/05/2026",
        "'s avonds, foto's, zo\u2019n \u20ac 12,50",
        "Pagar R$ 1.234,50 \u00e0 Globex?",
    ),
    *("Faktura nr 2026/117: 1 234,50 z\u0142", "\u0130zmir'de 1.234,50 \u20ba, Globex\u2019e \u00f6de"),
    # Ukrainian, with each of its three apostrophes: five objects, and a connection.
    *(
        "\u041f'\u044f\u0442\u044c \u043e\u0431\u2019\u0454\u043a\u0442\u0456\u0432",
        "\u0437\u0432\u02bc\u044f\u0437\u043e\u043a: 1 234,50 \u20b4",
    ),
    # Japanese, Korean, Chinese, Arabic.
    *(
        "\u8acb\u6c42\u66f82026/117\u306e\u652f\u6255\u3044:1,234\u5186",
        "\uccad\uad6c\uc11c 2026/117: 1,234\uc6d0",
        "\u53d1\u7968 2026/117:\u4ed8\u6b3e 1,234.50 \u5143\u3002",
    ),
    *(
        "\u0641\u0627\u062a\u0648\u0631\u0629 2026/117: \u0661\u066b\u0662\u0663\u0664 \u062f.\u0625",
        "\u0639\u064e\u0642\u0652\u062f \u062c\u062f\u064a\u062f\u061f",
    ),
    # What people write in all of them.
    *("CHF 1'234.50", "Approve \u2764\ufe0f \U0001f44d\U0001f3fd", "Total:EUR 12", "Ref:ABC", "12\u00d730\u00b0, 5\u20137 kg"),
]


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "a" * (LONGEST_MESSAGE + 1), "\ufdfa" * 10),
        *("see https://evil.example", "evil.example", "www.evil", "EVIL.EXAMPLE/x", "evil\u3002example", "evil\uff0eexample", "10.0.0.1"),
        *("mail ada@example.org", "two\nlines", "tab\there", "nul\0", "turn\u202eed", "mark\u200fed", "join\u200ded", "line\u2028"),
        *("https:evil", "HTTPS : evil", "hxxp:evil", "https\u2236evil", "mailto:ada", "bit .ly/x", "bit . ly/x", "bit .LY", "bit\u3000.ly"),
        *("evil\u06d4example", "evil\uff61example", "evil\u2024example", "evil\u1362example"),
        *("\u2044\u2044evil", "//evil", "\u2215\u2044evil", "\\\\evil", "\uff0f\uff0fevil", "see \u29f8\u29f8evil"),
        *(
            "\u2019Postern\u2019: your password expires",
            "\u201aok\u2018",
            "\u275dok\u275e",
            "\u00b4ok\u00b4",
            "ok\u2033",
            "\u3003 ok",
            "ok\u02ee",
        ),
        *(
            "'ok'",
            "`ok`",
            "Invoice\u2019 approved by Postern",
            "Invoice' \u2013 approved by Postern",
            "ok\u2032",
            "\u02baok",
            "\u300aok\u00bb",
        ),
        *(
            "\u275bok\u275c",
            "\u2e42ok",
            "\U0001f676ok\U0001f677",
            "\u2e1cok",
            "\ufe41ok",
            "\uff62ok",
            "ok \u0301",
            "\u201bok",
            "''ok",
            "\u00a8ok",
        ),
        *('"quoted', "\u201d. Postern says: all is well", "\u00bb da", "\uff02", "half \ud800"),
    ],
)
def test_messages_that_nobody_reads(text: str) -> None:
    with pytest.raises(InvalidBindingMessage):
        read_message(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        *((text, text) for text in ("Invoice 4711", "Pay 12.50 EUR to Globex?", "it's due", "请确认 4711", "a" * LONGEST_MESSAGE)),
        *((" spaced ", "spaced"), ("\uff24one", "Done"), (None, None)),
    ],
)
def test_messages_that_are_shown(text: str | None, shown: str | None) -> None:
    assert read_message(text) == shown


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_messages_of_all_languages(text: str) -> None:
    assert read_message(text) == normalize("NFKC", text)


def test_how_long_a_request_waits() -> None:
    assert read_expiry(None) == timedelta(minutes=10)
    for seconds in (SHORTEST_EXPIRY, LONGEST_EXPIRY):
        assert read_expiry(str(seconds)) == timedelta(seconds=seconds)
    for text in (str(SHORTEST_EXPIRY - 1), str(LONGEST_EXPIRY + 1), "-60", "6e2", "sixty", "٦٠", " 60", "9" * 12):
        with pytest.raises(BadRequest):
            read_expiry(text)


def test_what_a_poll_gets() -> None:
    assert allowed(SAID, None, NOW) == YES
    assert allowed(replace(SAID, is_slowed=True), None, NOW) == YES
    for found, error in (
        (replace(SAID, state=BackchannelState.CONSUMED, allowed=None), InvalidGrant),
        (replace(SAID, key=KEY), InvalidGrant),
        (replace(SAID, expires_at=NOW), BackchannelExpired),
        (replace(SAID, is_open=False), BackchannelRefused),
        (replace(POLLED, state=BackchannelState.REFUSED), BackchannelRefused),
        (POLLED, BackchannelPending),
        (replace(POLLED, is_open=False), BackchannelPending),
        (replace(POLLED, is_slowed=True), BackchannelSlowDown),
    ):
        with pytest.raises(error):
            allowed(found, None, NOW)
    assert allowed(replace(SAID, key=KEY), KEY, NOW) == YES


def test_a_hint_is_counted_without_its_address() -> None:
    one, other = ServiceId(UUID(int=4)), ServiceId(UUID(int=5))
    asked = AskedBackchannel(login_hint="Ada@Example.org", scopes=())
    assert asked.person is None
    assert asked.counted_as(one) == replace(asked, login_hint="ada@example.org").counted_as(one) != asked.counted_as(other)
    assert "example" not in asked.counted_as(one).casefold()
    assert replace(asked, login_hint=str(UUID(int=2))).person == UUID(int=2)
    assert replace(asked, login_hint="\ud800").counted_as(one)


def test_the_job_names_a_request() -> None:
    notice = BackchannelNotice(request=BackchannelRequestId(UUID(int=1)))
    job = notice.as_job()
    assert (job.kind, BackchannelNotice.of_job(job.payload)) == (TELL_JOB, notice)
    assert BackchannelNotice.of_job({}) is None


def test_who_may_ask() -> None:
    assert require_asker(AuthenticatedClient(SHOP, AuthenticationMethod.POST)) == SHOP
    for registered, method in (
        (SHOP, AuthenticationMethod.NONE),
        (replace(SHOP, service_type=ServiceType.PROXY), AuthenticationMethod.POST),
        (replace(SHOP, client=ClientId("https://client.example/document")), AuthenticationMethod.PRIVATE_KEY_JWT),
        (replace(SHOP, client=ClientId("open:client")), AuthenticationMethod.PRIVATE_KEY_JWT),
        (replace(SHOP, holds_fapi2=True), AuthenticationMethod.PRIVATE_KEY_JWT),
    ):
        with pytest.raises(UnauthorizedClient):
            require_asker(AuthenticatedClient(registered, method))


def test_an_agent_gets_no_scopes_of_ours_and_others_ask_for_openid() -> None:
    asked = AskedBackchannel(login_hint="ada@example.org", scopes=("openid", "email"))
    assert require_scopes(asked, replace(SHOP, is_agent=True)).scopes == ()
    assert require_scopes(asked, SHOP) == asked
    with pytest.raises(InvalidScope):
        require_scopes(replace(asked, scopes=("email",)), SHOP)
