"""The guards of `ops/middleware` in each framework. The attacks are the published faults of others' middleware: paths that a list of paths
does not recognize (CVE-2025-29927 of Next.js among them), one of several conditions in place of all, algorithms that the token chooses
(CVE-2020-15084), tokens of another type or for another service.

Express and Next.js come by npm (`make .venv/ready-node`), and without npm these tests run in Python alone.
"""

import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from jwt.algorithms import ECAlgorithm

from ops.free_ports import free_port
from ops.middleware.installed import INSTALLED
from ops.middleware.postern_tokens import TWO_FACTORS
from tests.e2e.postern import until
from tests.ops.middleware.issuer import API, API_ID, AUDIENCE, ORGANIZATION, SERVICE, TokenIssuer, token_issuer
from tests.places import ROOT

pytestmark = pytest.mark.slow

APPS = Path(__file__).parent / "apps"
GUARDS = ROOT / "ops" / "middleware"
FRAMEWORKS = ROOT / ".venv" / "frameworks"
NEXT = INSTALLED / "node_modules" / "next" / "dist" / "bin" / "next"


@dataclass(frozen=True)
class GuardedAnswer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def challenge(self) -> str:
        return self.headers.get("www-authenticate", "")

    @property
    def has_run(self) -> bool:
        """Whether an endpoint of the application answered."""
        return "x-ran" in self.headers


@dataclass
class Api:
    port: int
    issuer: TokenIssuer

    def ask(self, path: str, *tokens: str, method: str = "GET", **headers: str) -> GuardedAnswer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.putrequest(method, path, skip_accept_encoding=True)
            for token in tokens:
                connection.putheader("Authorization", f"Bearer {token}")
            for name, value in headers.items():
                connection.putheader(name.replace("_", "-"), value)
            connection.putheader("Content-Length", "0")
            connection.putheader("Connection", "close")
            connection.endheaders()
            answer = connection.getresponse()
            return GuardedAnswer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def is_up(self) -> bool:
        try:
            return self.ask("/health").status == 200
        except OSError:
            return False


def command(framework: str, folder: Path, environment: Mapping[str, str]) -> list[str]:
    """The command that serves the application, with copies of the files as a developer has them."""
    if framework in {"express", "nextjs"}:
        for file in [*GUARDS.glob("*.mjs"), *APPS.glob("*.mjs")]:
            shutil.copy(file, folder)
    if framework == "express":
        return ["node", str(folder / "express_app.mjs")]
    if framework == "nextjs":
        shutil.copytree(APPS / "nextjs", folder, dirs_exist_ok=True)
        building = subprocess.run(["node", str(NEXT), "build"], cwd=folder, env=environment, capture_output=True, check=False)
        assert building.returncode == 0, (building.stdout + building.stderr).decode()
        return ["node", str(NEXT), "start", "--hostname", "127.0.0.1", "--port", environment["PORT"]]
    if framework != "flask" and not FRAMEWORKS.exists():
        pytest.skip("make .venv/ready-dev installs the frameworks")
    return [sys.executable, str(APPS / f"{framework}_app.py")]


def node_folder() -> Path:
    """Below what npm installed: programs find it in the folders above, and Next.js takes no link in its place."""
    return Path(tempfile.mkdtemp(prefix="guarded-", dir=INSTALLED))


@pytest.fixture(scope="module")
def issuer() -> Iterator[TokenIssuer]:
    with token_issuer() as made:
        yield made


FRAMEWORKS_HERE = ["flask", "fastapi", "django", *(["express", "nextjs"] if INSTALLED.exists() else [])]


@pytest.fixture(scope="module", params=FRAMEWORKS_HERE)
def api(request: pytest.FixtureRequest, issuer: TokenIssuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    made = Api(free_port(), issuer)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (GUARDS, FRAMEWORKS))),
        "ISSUER": issuer.url,
        "AUDIENCE": f"{AUDIENCE} services:acme {API}",
        "IDS": f"{SERVICE} {ORGANIZATION} {API_ID}",
        "PORT": str(made.port),
        "NEXT_TELEMETRY_DISABLED": "1",
    }
    folder = node_folder() if request.param in {"express", "nextjs"} else tmp_path_factory.mktemp("guarded")
    serving = command(request.param, folder, environment)
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(serving, env=environment, cwd=folder, stdout=log, stderr=log)
    try:
        until(lambda: made.is_up() or server.poll() is not None)
        assert server.poll() is None, (folder / "log").read_text()
        yield made
    finally:
        server.kill()
        server.wait()
        if folder.parent == INSTALLED:
            shutil.rmtree(folder)


def test_an_open_endpoint_is_open_and_every_other_one_is_not(api: Api) -> None:
    assert api.ask("/health").status == 200
    for path, method in (("/orders", "GET"), ("/orders/refunds", "GET"), ("/payments", "POST"), ("/secrets", "GET")):
        answer = api.ask(path, method=method)
        # Without credentials, the challenge has no error (RFC 6750, 3.1).
        assert (answer.status, answer.challenge.strip(), answer.has_run) == (401, "Bearer", False), path


def test_a_token_opens_its_endpoints(api: Api) -> None:
    answer = api.ask("/orders", api.issuer.token())
    assert (answer.status, answer.body.replace(b" ", b"").strip()) == (200, b'{"sub":"ada"}')
    program = api.issuer.token(token_use="client", sub="shop", aud="services:acme", service_id=None, sid=None, auth_time=None)
    assert api.ask("/orders", program).status == 200
    # An API of its own, which applications name as their resource.
    resource = api.issuer.token(aud=API, token_use="resource", resource_id=API_ID)
    assert api.ask("/orders", resource).status == 200


@dataclass
class KeyHolder:
    """An application whose tokens are bound to its key."""

    api: Api
    key: EllipticCurvePrivateKey = field(default_factory=lambda: generate_private_key(SECP256R1()))

    @property
    def jwk(self) -> dict[str, str]:
        found = json.loads(ECAlgorithm.to_jwk(self.key.public_key()))
        return {name: found[name] for name in ("crv", "kty", "x", "y")}

    def token(self, **changed: Any) -> str:
        thumbprint = sha256(json.dumps(self.jwk, separators=(",", ":")).encode()).digest()
        return self.api.issuer.token(cnf={"jkt": encoded(thumbprint)}, **changed)

    def proof(self, token: str, **changed: Any) -> str:
        header = {"typ": "dpop+jwt", "jwk": self.jwk, **changed.pop("header", {})}
        claims = {
            "jti": str(uuid4()),
            "htm": "GET",
            "htu": f"http://127.0.0.1:{self.api.port}/orders",
            "iat": int(time.time()),
            "ath": encoded(sha256(token.encode()).digest()),
            **changed,
        }
        return jwt.encode(claims, self.key, "ES256", header)

    def ask(self, token: str, *proofs: str, scheme: str = "DPoP") -> GuardedAnswer:
        connection = http.client.HTTPConnection("127.0.0.1", self.api.port, timeout=30)
        connection.putrequest("GET", "/orders", skip_accept_encoding=True)
        for name, value in (("Authorization", f"{scheme} {token}"), *(("DPoP", proof) for proof in proofs), ("Connection", "close")):
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        found = GuardedAnswer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        connection.close()
        return found


def encoded(given: bytes) -> str:
    return urlsafe_b64encode(given).rstrip(b"=").decode()


def test_a_bound_token_passes_with_a_proof_of_its_key(api: Api) -> None:
    holder = KeyHolder(api)
    token = holder.token()
    proof = holder.proof(token)
    answer = holder.ask(token, proof)
    assert (answer.status, answer.has_run) == (200, True), answer.body
    # Once.
    again = holder.ask(token, proof)
    assert (again.status, again.has_run, again.challenge.partition(",")[0]) == (401, False, 'DPoP error="invalid_dpop_proof"')


def test_a_bound_token_without_its_proof_is_refused(api: Api) -> None:
    holder, other = KeyHolder(api), KeyHolder(api)
    token, plain = holder.token(), api.issuer.token()
    fine = holder.proof(token)
    tries: Sequence[tuple[str, str, tuple[str, ...]]] = [
        ("Bearer", token, ()),
        ("Bearer", token, (holder.proof(token),)),
        ("DPoP", token, ()),
        ("DPoP", plain, (other.proof(plain),)),
        ("DPoP", token, (other.proof(token),)),
        ("DPoP", token, (holder.proof(token), holder.proof(token))),
        ("DPoP", token, (holder.proof(token, htm="POST"),)),
        ("DPoP", token, (holder.proof(token, htu=f"http://127.0.0.1:{api.port}/orders/"),)),
        ("DPoP", token, (holder.proof(token, htu="http://evil.example/orders"),)),
        ("DPoP", token, (holder.proof(token, htu=7),)),
        ("DPoP", token, (holder.proof(token, iat=int(time.time()) - 120),)),
        ("DPoP", token, (holder.proof(token, iat="now"),)),
        ("DPoP", token, (holder.proof(token, iat=10**400),)),
        ("DPoP", token, (holder.proof(plain),)),
        ("DPoP", token, (holder.proof(token, jti=""),)),
        ("DPoP", token, (holder.proof(token, header={"typ": "JWT"}),)),
        ("DPoP", token, (holder.proof(token, header={"jwk": other.jwk}),)),
        ("DPoP", token, (holder.proof(token, header={"jwk": {**holder.jwk, "d": "AQ"}}),)),
        ("DPoP", token, (fine[:-8] + "AAAAAAAA",)),
        ("DPoP", token, (holder.proof(token, more="x" * 9000),)),
        ("DPoP", token, ("x",)),
    ]
    for number, (scheme, shown, proofs) in enumerate(tries):
        answer = holder.ask(shown, *proofs, scheme=scheme)
        assert (answer.status, answer.has_run) == (401, False), number
        assert answer.challenge.startswith("DPoP "), number
    assert holder.ask(token, fine).status == 200
    assert api.ask("/orders", plain).status == 200


def unsigned(issuer: TokenIssuer) -> str:
    head = urlsafe_b64encode(b'{"alg":"none","kid":"one","typ":"at+jwt"}').rstrip(b"=").decode()
    return f"{head}.{issuer.token().split('.')[1]}."


def signed_with_the_public_key(issuer: TokenIssuer) -> str:
    """The confusion of algorithms: the published key as the secret of an HMAC."""
    import hmac  # noqa: PLC0415

    head = urlsafe_b64encode(b'{"alg":"HS256","kid":"one","typ":"at+jwt"}').rstrip(b"=")
    signed = head + b"." + issuer.token().split(".")[1].encode()
    return (signed + b"." + urlsafe_b64encode(hmac.digest(issuer.public_pem(), signed, "sha256")).rstrip(b"=")).decode()


FORGED: Mapping[str, tuple[Callable[[TokenIssuer], str], str]] = {
    "nonsense": (lambda _: "x.y.z", "not valid"),
    "unsigned": (unsigned, "not valid"),
    "signed with the public key": (signed_with_the_public_key, "not valid"),
    "an unknown key": (lambda issuer: issuer.token(header={"kid": "two"}), "not valid"),
    "another key by its name": (lambda issuer: issuer.token(key=TokenIssuer().key), "not valid"),
    "a key that the token brings": (
        lambda issuer: issuer.token(key=(other := TokenIssuer()).key, header={"jwk": other.keys()["keys"][0]}),
        "not valid",
    ),
    "an ID token": (lambda issuer: issuer.token(header={"typ": "JWT"}), "another type"),
    "a logout token": (lambda issuer: issuer.token(header={"typ": "logout+jwt"}), "another type"),
    "expired": (lambda issuer: issuer.token(exp=int(time.time()) - 60), "has expired"),
    "without an end": (lambda issuer: issuer.token(exp=None), "not valid"),
    "another issuer": (lambda issuer: issuer.token(iss="https://id.evil.example"), "another issuer"),
    "an issuer that ours begins": (lambda issuer: issuer.token(iss=f"{issuer.url}.evil.example"), "another issuer"),
    "another audience": (lambda issuer: issuer.token(aud="service:acme/other"), "another audience"),
    "an audience that ours begins": (lambda issuer: issuer.token(aud=f"{AUDIENCE}-evil"), "another audience"),
    "another service of that name": (lambda issuer: issuer.token(service_id="0197f0c8"), "another service"),
    # The id of the organization, which a program's token may have, in the place of the service.
    "another API of that name": (
        lambda issuer: issuer.token(aud=API, token_use="resource", resource_id="0197f0c8"),
        "another service or API",
    ),
    "a service of the organization": (lambda issuer: issuer.token(service_id=None), "another service"),
    "an ended session": (lambda issuer: issuer.token(sid="ended"), "session has ended"),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_token_that_is_not_ours_is_refused_and_the_answer_says_why(api: Api, name: str) -> None:
    make, why = FORGED[name]
    answer = api.ask("/orders", make(api.issuer))
    assert (answer.status, answer.has_run) == (401, False)
    assert 'error="invalid_token"' in answer.challenge
    assert why in answer.challenge


def test_a_token_elsewhere_than_in_one_header_does_not_count(api: Api) -> None:
    token = api.issuer.token()
    assert api.ask(f"/orders?access_token={token}", Cookie=f"access_token={token}").status == 401
    for several in ((token, token), (token, "x"), ("x", token)):
        for headers in ({}, {"X_Authorization_Looked_At": "x"}):
            answer = api.ask("/orders", *several, **headers)
            assert (answer.status, answer.has_run) == (401, False)
    answer = api.ask("/orders", token, Authorization="Basic eDp4")
    assert (answer.status, answer.has_run) == (401, False)
    assert not api.ask("/orders", f"{token},{token}").has_run
    assert not api.ask("/orders", Authorization=f"Basic {token}").has_run
    assert not api.ask("/orders", "").has_run


REFUNDS = [
    *("//orders/refunds", "/orders//refunds", "/orders/refunds/", "/Orders/Refunds", "/ORDERS/REFUNDS"),
    *("/orders/%72efunds", "/orders%2frefunds", "/orders/refunds%2f", "/orders/refunds%00", "/orders/refunds%20"),
    *("/./orders/refunds", "/health/../orders/refunds", "/health/%2e%2e/orders/refunds", "/health/..%2forders/refunds"),
    *("/health/..;/orders/refunds", "/orders/refunds;/health", "/orders/refunds?/health", "/orders/refunds?x=/health"),
    *("/orders/refunds.json", "\\orders\\refunds", "http://127.0.0.1/orders/refunds"),
]


@pytest.mark.parametrize("path", REFUNDS)
def test_another_spelling_of_a_path_leads_nobody_around(api: Api, path: str) -> None:
    assert not api.ask(path).has_run
    lacking = api.issuer.token(scope="orders:read")
    assert not api.ask(path, lacking).has_run
    for method in ("HEAD", "OPTIONS", "POST", "TRACE"):
        assert not api.ask(path, method=method).has_run, method


@pytest.mark.parametrize(
    "headers",
    [
        {"x_middleware_subrequest": "middleware:middleware:middleware:middleware:middleware"},
        {"x_middleware_subrequest": "src/middleware"},
        {"X_Original_URL": "/health", "X_Rewrite_URL": "/health"},
        {"X_Forwarded_Prefix": "/health", "X_Forwarded_Path": "/health"},
        {"X_HTTP_Method_Override": "OPTIONS"},
        {"X_Forwarded_For": "127.0.0.1", "X_Forwarded_User": "ada", "X_Claims": "{}"},
    ],
)
def test_no_header_leads_around(api: Api, headers: dict[str, str]) -> None:
    assert not api.ask("/orders/refunds", **headers).has_run


def test_every_scope_is_needed_and_not_one_of_them(api: Api) -> None:
    for scope in ("orders:read", "orders:refund", "orders:readorders:refund", "orders:reader orders:refunds", "", None):
        answer = api.ask("/orders/refunds", api.issuer.token(scope=scope))
        assert (answer.status, answer.has_run) == (403, False), scope
        assert 'error="insufficient_scope"' in answer.challenge
        assert 'scope="orders:read orders:refund"' in answer.challenge
    assert api.ask("/orders/refunds", api.issuer.token(scope="x orders:refund orders:read")).status == 200


def test_a_step_up_is_asked_for_and_does_not_replace_a_scope(api: Api) -> None:
    now = int(time.time())
    for since in (now - 301, None):
        answer = api.ask("/payments", api.issuer.token(scope="payments:write", auth_time=since), method="POST")
        assert (answer.status, answer.has_run) == (401, False)
        assert 'error="insufficient_user_authentication"' in answer.challenge
        assert 'max_age="300"' in answer.challenge
    assert api.ask("/payments", api.issuer.token(scope="orders:read", auth_time=now), method="POST").status == 403
    assert api.ask("/payments", api.issuer.token(scope="payments:write", auth_time=now), method="POST").status == 200
    weak = api.ask("/secrets", api.issuer.token())
    assert (weak.status, f'acr_values="{TWO_FACTORS}"' in weak.challenge) == (401, True)
    assert api.ask("/secrets", api.issuer.token(acr=TWO_FACTORS)).status == 200


def test_an_endpoint_that_is_open_and_has_a_condition_has_the_condition(api: Api) -> None:
    assert api.ask("/both").status == 401


def test_a_revoked_token_is_refused_and_so_is_each_while_nobody_can_say(api: Api) -> None:
    token = api.issuer.token(jti="revoked")
    assert api.ask("/orders", token).status == 200
    api.issuer.revoked.add(token)
    answer = api.ask("/orders", token)
    assert (answer.status, "session has ended" in answer.challenge) == (401, True)
    api.issuer.is_down = True
    try:
        answer = api.ask("/orders", api.issuer.token())
        assert (answer.status, answer.has_run) == (503, False)
    finally:
        api.issuer.is_down = False


@pytest.mark.skipif(not INSTALLED.exists(), reason="make .venv/ready-node installs Next.js, by npm")
def test_a_handler_of_nextjs_before_which_nobody_counts_headers_refuses(issuer: TokenIssuer) -> None:
    folder = node_folder()
    try:
        command("express", folder, {})
        (folder / "asking.mjs").write_text(
            """
            import { tokens } from "./common.mjs"
            import { guarded, register } from "./nextjs-guard.mjs"
            const ask = () => guarded(tokens, {}, () => Response.json("ran"))(new Request("http://127.0.0.1/orders"), {})
            console.log(await ask().catch((error) => error.message))
            process.env.NEXT_RUNTIME = "nodejs"
            await register()
            console.log((await ask()).status)
            """
        )
        environment = {**os.environ, "ISSUER": issuer.url, "AUDIENCE": AUDIENCE, "IDS": SERVICE, "PORT": "0"}
        asked = subprocess.run(["node", "asking.mjs"], cwd=folder, env=environment, capture_output=True, text=True, check=True)
    finally:
        shutil.rmtree(folder)
    # A request that did not come through Node's server is none that was looked at.
    assert asked.stdout.splitlines() == [
        "nextjs-guard.mjs: export register from instrumentation.js, and use the runtime nodejs",
        "503",
    ]


@pytest.mark.parametrize("status", [302, 303, 307, 308])
def test_introspection_follows_no_redirect(api: Api, status: int) -> None:
    api.issuer.sends_elsewhere, api.issuer.status_of_redirects = True, status
    try:
        answer = api.ask("/orders", api.issuer.token(jti=f"sent-elsewhere-{status}"))
        assert (answer.status, answer.has_run) == (503, False)
    finally:
        api.issuer.sends_elsewhere = False
    # Neither the token nor the client's secret went there.
    assert api.issuer.elsewhere == []


def test_an_endpoint_that_is_open_at_one_address_is_closed_at_its_others(api: Api) -> None:
    assert api.ask("/twice/open").status == 200
    answer = api.ask("/twice/closed")
    assert (answer.status, answer.has_run) == (401, False)
    assert api.ask("/twice/closed", api.issuer.token()).status == 200


def test_unknown_keys_do_not_have_the_keys_fetched_each_time(api: Api) -> None:
    api.ask("/orders", api.issuer.token())
    before = api.issuer.key_requests
    for number in range(20):
        assert api.ask("/orders", api.issuer.token(header={"kid": f"unknown-{number}"})).status == 401
    assert api.issuer.key_requests - before <= 2
