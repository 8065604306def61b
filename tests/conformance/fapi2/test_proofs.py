"""The modules of FAPI 2.0 that are about proofs of a key (DPoP, RFC 9449)."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence

import jwt

from tests.conformance.kit import answers, id_tokens
from tests.conformance.kit.keyed import KeyedSuite, jwk_of, new_key, refused_at_par, thumbprint
from tests.conformance.kit.relying import random_text

_HOUR = 3600


def test_fapi2_security_profile_final_check_dpop_proof_nbf_exp(fapi: KeyedSuite) -> None:
    now = id_tokens.now()
    fapi.proof_more = {"nbf": now, "exp": now + 300}
    fapi.keyed_tokens(fapi.first, fapi.keyed_request(fapi.first))


def test_fapi2_security_profile_final_ensure_dpopproof_with_iat_10seconds_before_succeeds(fapi: KeyedSuite) -> None:
    fapi.proof_ahead = -10
    fapi.keyed_tokens(fapi.first, fapi.keyed_request(fapi.first), with_proof=True)


def test_fapi2_security_profile_final_ensure_dpopproof_with_iat_10seconds_after_succeeds(fapi: KeyedSuite) -> None:
    """Eight seconds ahead, as the suite sends it."""
    fapi.proof_ahead = 8
    fapi.keyed_tokens(fapi.first, fapi.keyed_request(fapi.first), with_proof=True)


def another_thumbprint(fapi: KeyedSuite) -> str:
    digest = bytes(one ^ 0x5A for one in urlsafe_b64decode(f"{thumbprint(fapi.holder)}="))
    return urlsafe_b64encode(digest).rstrip(b"=").decode()


def test_fapi2_security_profile_final_ensure_mismatched_dpop_jkt_fails(fapi: KeyedSuite) -> None:
    request = fapi.keyed_request(fapi.first, dpop_jkt=another_thumbprint(fapi))
    refused_at_par(fapi.push(fapi.first, request, with_proof=True), "invalid_request", "invalid_dpop_proof")


def is_refused(fapi: KeyedSuite, code: str) -> None:
    error = answers.refused_at_token(fapi.keyed_redeem(fapi.first, code), fapi.outcome)
    assert error in {"invalid_request", "invalid_grant", "invalid_dpop_proof"}


def test_fapi2_security_profile_final_ensure_token_endpoint_fails_with_mismatched_dpop_proof_jkt(fapi: KeyedSuite) -> None:
    code = fapi.keyed_code(fapi.first, fapi.keyed_request(fapi.first), with_proof=True)
    fapi.holder = new_key()
    is_refused(fapi, code)


def test_fapi2_security_profile_final_ensure_token_endpoint_fails_with_mismatched_dpop_jkt(fapi: KeyedSuite) -> None:
    is_refused(fapi, fapi.keyed_code(fapi.first, fapi.keyed_request(fapi.first, dpop_jkt=another_thumbprint(fapi))))


def test_fapi2_security_profile_final_ensure_dpopproof_at_par_endpoint_binding_success(fapi: KeyedSuite) -> None:
    fapi.keyed_tokens(fapi.first, fapi.keyed_request(fapi.first), with_proof=True)


def test_fapi2_security_profile_final_ensure_dpop_auth_code_binding_success(fapi: KeyedSuite) -> None:
    request = fapi.keyed_request(fapi.first, dpop_jkt=thumbprint(fapi.holder))
    fapi.keyed_tokens(fapi.first, request, with_proof=True)


def encoded(text: str) -> str:
    return urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def without_algorithm(proof: str) -> str:
    head, body, signature = proof.split(".")
    said = urlsafe_b64decode(f"{head}==").decode().replace("alg", "alg2")
    return f"{encoded(said)}.{body}.{signature}"


def with_another_signature(proof: str) -> str:
    head, body, signature = proof.split(".")
    turned = bytes(one ^ 0x5A for one in urlsafe_b64decode(f"{signature}=="))
    return f"{head}.{body}.{urlsafe_b64encode(turned).rstrip(b'=').decode()}"


def test_fapi2_security_profile_final_dpop_negative_tests(fapi: KeyedSuite) -> None:
    token = fapi.keyed_tokens(fapi.first, fapi.keyed_request(fapi.first)).access_token
    address = str(fapi.metadata["userinfo_endpoint"])

    def make(**changed: object) -> str:
        return fapi.proof("GET", address, token, **changed)  # type: ignore[arg-type]  # the header is a mapping, and claims are anything

    def is_open(*proofs: str) -> bool:
        return fapi.resource(token, proofs=proofs).status_code in {200, 201}

    def is_shut(proofs: Sequence[str], **how: str) -> None:
        fapi.resource_is_shut(token, proofs=proofs, **how)

    capital = fapi.resource(token, name="DPOP").status_code
    fapi.outcome.should(capital in {200, 201}, "the name of the header in capitals is another one")
    is_shut([make(), make()])
    is_shut([make().rpartition(".")[0]])
    is_shut([make(header={"typ": None})])
    is_shut([without_algorithm(make())])
    is_shut([make(header={"jwk": None})])
    for claim in ("jti", "htm", "htu", "iat", "ath"):
        is_shut([make(**{claim: None})])
    is_shut([make(header={"typ": "dpop+jwt+wrongyousee"})])
    claims = jwt.decode(make(), options={"verify_signature": False})
    head = {"alg": "none", "typ": "dpop+jwt"}
    is_shut([".".join(encoded(id_tokens.as_json(part)) for part in (head, claims)) + "."])
    is_shut([with_another_signature(make())])
    is_shut([make(header={"jwk": jwk_of(fapi.holder, private=True)})])
    is_shut([make(htm="PUT")])
    assert is_open(make(htu=f"{address}?allthedoorsonthisspaceshiphavebeen#programmedtohaveacheeryandsunnydisposition"))
    assert is_open(make(htu=address.partition("?")[0]))
    is_shut([make(htu=f"{address}ohnonotagain")])
    for ahead in (_HOUR, -_HOUR):
        is_shut([make(iat=id_tokens.now() + ahead)])
    once = random_text(15)
    assert is_open(make(jti=once))
    fapi.outcome.should(not is_open(make(jti=once)), "a proof counts twice")
    is_shut([make(ath=encoded("another"))])
    # Another key signs, and shows itself.
    is_shut([make(key=new_key())])
    assert is_open(make(header={"tx_id": id_tokens.now() + _HOUR}, tx_id_key=id_tokens.now() + _HOUR))
    scheme, _, rest = address.partition("://")
    host, colon, port = rest.partition(":")
    in_capitals = f"{scheme.upper()}://{host.upper()}{colon}{port}"
    fapi.outcome.should(is_open(make(htu=in_capitals)), "scheme and host are compared by their case")
    # Where the address has no port, the suite writes the usual one.
    fapi.outcome.should(is_open(make(htu=address)), "the usual port is another address")
    is_shut([])
    is_shut([], scheme="Bearer")
    fapi.resource_is_open(token)
