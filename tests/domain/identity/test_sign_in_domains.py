"""Sign-in domains: how the people of a domain sign in."""

from uuid import uuid4

import pytest

from core.domain.identifiers import OrganizationId, UpstreamProviderId
from core.domain.identity.sign_in_domains import (
    ANY_WAY,
    OUR_OWN,
    AccountRequired,
    AuthMethod,
    ClientRequired,
    LoginPolicy,
    ProviderRequired,
    SignInDomain,
    SignInDomainProvider,
    WayIn,
    Word,
)
from core.domain.mail import Email, mail_domain
from core.frozen import replace

OWN = UpstreamProviderId(uuid4())
ALLOWED, ONLY, FALLBACK = LoginPolicy.PASSWORD_ALLOWED, LoginPolicy.UPSTREAM_ONLY, LoginPolicy.PASSWORD_FALLBACK
WORKS, AWAY = SignInDomainProvider("Acme", is_available=True), SignInDomainProvider("Acme", is_available=False)


def sign_in_domain(policy: LoginPolicy, own: UpstreamProviderId | None = OWN) -> SignInDomain:
    shared = "" if own is not None else "websuite"
    return SignInDomain(
        organization=OrganizationId(uuid4()), organization_slug="acme", policy=policy, shared_provider=shared, own_provider=own
    )


@pytest.mark.parametrize(
    ("policy", "provider", "required", "led"),
    [
        (ALLOWED, WORKS, False, True),
        (ALLOWED, AWAY, False, False),
        (ALLOWED, None, False, False),
        (ONLY, WORKS, True, True),
        (ONLY, AWAY, True, True),
        (ONLY, None, True, True),
        (FALLBACK, WORKS, True, True),
        (FALLBACK, AWAY, False, False),
        (FALLBACK, None, False, False),
    ],
)
def test_what_each_policy_asks(policy: LoginPolicy, provider: SignInDomainProvider | None, required: bool, led: bool) -> None:
    for own, method in ((OWN, AuthMethod.UPSTREAM), (None, AuthMethod.OAUTH)):
        way = WayIn(sign_in_domain(policy, own), provider)
        assert (way.is_required, way.leads_to_provider) == (required, led)
        assert way.method is (method if led else AuthMethod.PASSWORD)


def test_where_nobody_decides_any_way_will_do() -> None:
    assert (ANY_WAY.is_required, ANY_WAY.leads_to_provider, ANY_WAY.method, ANY_WAY.provider_name) == (False, False, "password", "")


def test_a_provider_is_named_as_its_address_names_it() -> None:
    assert (sign_in_domain(ONLY).provider, sign_in_domain(ONLY, None).provider) == (str(OWN), "websuite")


def test_which_word_does_where_nothing_but_the_provider_will() -> None:
    own, shared = sign_in_domain(ONLY), sign_in_domain(ONLY, None)
    theirs = replace(shared, has_client=True)
    other = OrganizationId(uuid4())
    for one in (own, shared):
        assert type(one.objection(OUR_OWN)) is ProviderRequired
        assert type(one.objection(Word(provider="codehost", vouches_in=one.organization))) is ProviderRequired
    assert own.objection(Word(provider=str(OWN))) is None
    for somebody in (None, other):
        assert type(shared.objection(Word(provider="websuite", vouches_in=somebody, client_of=shared.organization))) is AccountRequired
        word = Word(provider="websuite", vouches_in=shared.organization, client_of=somebody)
        assert shared.objection(word) is None
        assert type(theirs.objection(word)) is ClientRequired
    assert theirs.objection(Word(provider="websuite", vouches_in=shared.organization, client_of=shared.organization)) is None


@pytest.mark.parametrize(
    ("address", "domain"),
    [
        ("ada@Acme.Example", "acme.example"),
        ("ada@b\u00fccher.example", "xn--bcher-kva.example"),
        ("ada@stra\u00dfe.example", "strasse.example"),
        ('"a@b"@acme.example', "acme.example"),
        ("\uff41da@\uff41cme.example", "acme.example"),
        ("ada@" + "\u00fc" * 70 + ".example", ""),
        ("ada@" + "\u00fc" * 60 + ".example", ""),
        ("ada@\u00fc..example", ""),
        ("ada@", ""),
        # Each label is a good one; all together are no domain, and it would take milliseconds to write them in ASCII.
        ("ada@" + ".".join(["\u4e00\u9fa5\u5b57" * 6] * 13), ""),
        ("ada@" + "\ufdfa" * 300, ""),
    ],
)
def test_a_domain_is_as_name_servers_know_it(address: str, domain: str) -> None:
    assert mail_domain(Email(address)) == domain
