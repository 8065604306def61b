"""A directory by other authors: SimpleSAMLphp as an identity provider of SAML, on loopback, from Debian's package. It trusts each service
provider whose metadata it is given, and knows one person.
"""

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urljoin

import httpx

from adapters.saml import signing
from ops.browser.page_reader import PageReader
from ops.free_ports import free_port
from tests.patience import PATIENCE
from tests.tools import place_of

ENTITY_ID: Final = "https://directory.example.com/idp"
USER: Final = "ada"
PASSWORD: Final = "a-word-of-the-directory"
EMAIL: Final = "ada@example.com"
ATTRIBUTES: Final[Mapping[str, Sequence[str]]] = {
    "urn:oid:0.9.2342.19200300.100.1.1": ["ada"],
    "urn:oid:0.9.2342.19200300.100.1.3": [EMAIL],
    "urn:oid:2.5.4.42": ["Ada"],
    "urn:oid:2.5.4.4": ["Lovelace"],
    "urn:oid:1.3.6.1.4.1.5923.1.1.1.7": ["staff", "mathematicians"],
}
"""The attributes of the one person, by the names that the directory sends."""

_CONFIG: Final = """<?php
$config = array_merge(json_decode(file_get_contents(__DIR__ . '/config.json'), true), ['metadata.sources' => [['type' => 'flatfile']]]);
"""
_FROM_JSON: Final = "<?php\n$config = json_decode(file_get_contents(__DIR__ . '/authsources.json'), true);\n"
_HOSTED: Final = "<?php\n$metadata = json_decode(file_get_contents(__DIR__ . '/hosted.json'), true);\n"
# Reads each service provider's metadata as an administrator's paste would be read.
_REMOTE: Final = """<?php
foreach (glob(__DIR__ . '/sp/*.xml') as $file) {
    foreach (SimpleSAML\\Metadata\\SAMLParser::parseDescriptorsString(file_get_contents($file)) as $entity => $parsed) {
        $more = json_decode(file_get_contents(substr($file, 0, -3) . 'json'), true);
        $metadata[$entity] = array_merge($parsed->getMetadata20SP(), $more);
    }
}
"""


@dataclass(frozen=True)
class Posted:
    """The form that the directory's last page sends to the service provider."""

    action: str
    fields: Mapping[str, str]


@dataclass(frozen=True)
class SimpleSamlPhp:
    url: str
    directory: Path
    certificate: str
    """The certificate that signs, in PEM."""

    entity_id: str = ENTITY_ID

    @property
    def metadata_url(self) -> str:
        return f"{self.url}saml2/idp/metadata.php"

    def metadata(self) -> bytes:
        return httpx.get(self.metadata_url, timeout=30).raise_for_status().content

    def trust(self, metadata: bytes, **options: Any) -> None:
        """Connects a service provider by its metadata. `options` are the product's own, such as `assertion.encryption`. A second call
        replaces the first.
        """
        place = self.directory / "metadata" / "sp"
        (place / "sp.json").write_text(json.dumps(options))
        (place / "sp.xml").write_bytes(metadata)

    @property
    def start_url(self) -> str:
        """Where a sign-in begins that no service provider has asked for. `?spentityid=` names the service provider."""
        return f"{self.url}saml2/idp/SSOService.php"

    def browser(self) -> httpx.Client:
        return httpx.Client(follow_redirects=True, timeout=30)

    def sign_out(self, address: str, browser: httpx.Client) -> str:
        """Goes to the address of a sign-out, and returns the address that leads back to the service provider."""
        for _ in range(10):
            answer = browser.get(address, follow_redirects=False)
            assert answer.is_redirect, (answer.status_code, answer.text)
            address = urljoin(address, answer.headers["location"])
            if not address.startswith(self.url):
                return address
        raise AssertionError(address)

    def sign_in(self, address: str, *, user: str = USER, password: str = PASSWORD, browser: httpx.Client | None = None) -> Posted:
        """Goes to the address of a request, signs in by the forms there, and returns the form that leads back. With a `browser` that has
        signed in before, no form asks again, unless the request demands it.
        """
        own = browser or self.browser()
        try:
            answer = own.get(address)
            if b'name="password"' in answer.content:
                form = PageReader(answer.content).forms[0]
                fields = {**form.fields, "username": user, "password": password}
                answer = own.post(urljoin(str(answer.url), form.action), data=fields)
            forms = [form for form in PageReader(answer.content).forms if "SAMLResponse" in form.fields]
            assert forms, (answer.status_code, answer.text)
            return Posted(forms[0].action, dict(forms[0].fields))
        finally:
            if browser is None:
                own.close()


@contextmanager
def simplesamlphp(directory: Path) -> Iterator[SimpleSamlPhp]:
    """Runs the product until the end of the block. Skips the test where it is not installed; in CI it is."""
    pages = Path(place_of("pwgen.php")).parent.parent / "www"
    php = place_of("php")
    now = int(time.time())
    certificate, key = signing._made("directory", 1, now - 3600, now + 10_000_000)
    port = free_port()
    running = SimpleSamlPhp(f"http://127.0.0.1:{port}/", directory, certificate)
    _configure(running, key.reveal())
    command = [php, "-d", "display_errors=0", "-S", f"127.0.0.1:{port}", "-t", str(pages)]
    environment = {**os.environ, "SIMPLESAMLPHP_CONFIG_DIR": str(directory)}
    with (directory / "out").open("wb") as out, subprocess.Popen(command, env=environment, stdout=out, stderr=out) as process:
        try:
            _wait_until_it_listens(process, port, directory / "out")
            yield running
        finally:
            process.terminate()


def _configure(running: SimpleSamlPhp, key: str) -> None:
    directory = running.directory
    for name in ("cert", "data", "log", "tmp", "metadata/sp"):
        (directory / name).mkdir(parents=True)
    settings = {
        "baseurlpath": running.url,
        **{
            f"{name}dir": f"{directory / place}/"
            for name, place in (("cert", "cert"), ("logging", "log"), ("data", "data"), ("temp", "tmp"))
        },
        "metadatadir": f"{directory / 'metadata'}/",
        "attributenamemapdir": "/etc/simplesamlphp/attributemap/",
        "secretsalt": "a-salt-for-tests-only",
        "auth.adminpassword": "an-administrator-of-tests",
        "technicalcontact_email": "administrator@example.com",
        "timezone": "UTC",
        "logging.handler": "file",
        "showerrors": True,
        "enable.saml20-idp": True,
        "module.enable": {"exampleauth": True, "core": True, "saml": True},
        "session.cookie.secure": False,
        "session.cookie.samesite": None,
        "session.phpsession.savepath": str(directory / "data"),
        "store.type": "phpsession",
        "language.available": ["en"],
        "language.default": "en",
        "language.cookie.secure": False,
        "production": True,
    }
    hosted = {
        running.entity_id: {
            "host": "__DEFAULT__",
            "privatekey": "idp.pem",
            "certificate": "idp.crt",
            "auth": "people",
            "attributes.NameFormat": "urn:oasis:names:tc:SAML:2.0:attrname-format:uri",
            "NameIDFormat": ["urn:oasis:names:tc:SAML:2.0:nameid-format:persistent"],
            "authproc": {
                "1": {
                    "class": "saml:PersistentNameID",
                    "attribute": "urn:oid:0.9.2342.19200300.100.1.1",
                    "identifyingAttribute": "urn:oid:0.9.2342.19200300.100.1.1",
                }
            },
        }
    }
    people = {"people": {"0": "exampleauth:UserPass", f"{USER}:{PASSWORD}": ATTRIBUTES}}
    for name, content in {
        "config.php": _CONFIG,
        "config.json": json.dumps(settings),
        "authsources.php": _FROM_JSON,
        "authsources.json": json.dumps(people),
        "metadata/saml20-idp-hosted.php": _HOSTED,
        "metadata/hosted.json": json.dumps(hosted),
        "metadata/saml20-sp-remote.php": _REMOTE,
        "cert/idp.pem": key,
        "cert/idp.crt": running.certificate,
    }.items():
        (directory / name).write_text(content)


def _wait_until_it_listens(process: subprocess.Popen[bytes], port: int, out: Path) -> None:
    until = time.monotonic() + PATIENCE
    while True:
        assert process.poll() is None, out.read_text()
        assert time.monotonic() < until, out.read_text()
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except ConnectionRefusedError:
            time.sleep(0.02)
        else:
            return
