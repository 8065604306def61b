"""Signatures of exported chains: by an implementation that others wrote, and under a key of their own."""

import jwt
import pytest

from adapters.crypto.signing_keys import Es256HeadSigner


class Fixed:
    """Implements `ports.crypto.ServerSecrets`."""

    def __init__(self, secret: bytes) -> None:
        self.secret = secret
        self.asked: list[str] = []

    async def get(self, purpose: str) -> bytes:
        self.asked.append(purpose)
        return self.secret


@pytest.mark.parametrize("secret", [b"\x07" * 32, bytes(32), b"\xff" * 32])
async def test_a_head_verifies_under_the_published_key(secret: bytes) -> None:
    secrets = Fixed(secret)
    signer = Es256HeadSigner(secrets)
    head = await signer.sign({"iss": "https://id.example.org", "sequence": 7})
    public = dict(await signer.public_key())
    assert jwt.get_unverified_header(head) == {"alg": "ES256", "kid": public["kid"], "typ": "postern-head+jwt"}
    assert jwt.decode(head, jwt.PyJWK(public), ["ES256"])["sequence"] == 7
    assert "d" not in public
    # The same in every process, and another for another secret.
    assert await Es256HeadSigner(Fixed(secret)).public_key() == public
    assert (await Es256HeadSigner(Fixed(b"\x08" * 32)).public_key())["kid"] != public["kid"]
    assert secrets.asked == ["siem_heads"]


async def test_evidence_has_a_type_of_its_own_under_the_same_key() -> None:
    signer = Es256HeadSigner(Fixed(b"\x07" * 32))
    evidence = await signer.sign_evidence({"entries": []})
    public = dict(await signer.public_key())
    assert jwt.get_unverified_header(evidence) == {"alg": "ES256", "kid": public["kid"], "typ": "postern-evidence+jwt"}
    assert jwt.decode(evidence, jwt.PyJWK(public), ["ES256"]) == {"entries": []}
