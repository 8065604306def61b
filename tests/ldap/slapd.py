"""Debian's slapd, with the password policy and nested groups, in a folder of the test's own."""

import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from tests.ldap.authority import Authority
from tests.patience import PATIENCE

SUFFIX: Final = "dc=example,dc=org"
READER: Final = f"cn=reader,{SUFFIX}"
READER_PASSWORD: Final = "the reader's own password"
ADMIN: Final = f"cn=admin,{SUFFIX}"
_SETTINGS: Final = """
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
moduleload ppolicy
pidfile {folder}/slapd.pid
TLSCACertificateFile {folder}/authority.pem
TLSCertificateFile {certificate}
TLSCertificateKeyFile {key}
database mdb
maxsize 268435456
suffix "dc=example,dc=org"
rootdn "cn=admin,dc=example,dc=org"
rootpw admin
directory {folder}/data
index objectClass,uid,mail,entryUUID eq
overlay ppolicy
ppolicy_default "cn=default,ou=policies,dc=example,dc=org"
{more}
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="cn=reader,dc=example,dc=org" read by * none
"""
_TREE: Final = """
dn: dc=example,dc=org
objectClass: dcObject
objectClass: organization
dc: example
o: Acme

dn: ou=people,dc=example,dc=org
objectClass: organizationalUnit
ou: people

dn: ou=policies,dc=example,dc=org
objectClass: organizationalUnit
ou: policies

dn: cn=default,ou=policies,dc=example,dc=org
objectClass: pwdPolicy
objectClass: device
cn: default
pwdAttribute: userPassword
pwdLockout: TRUE
pwdMaxFailure: 5
pwdFailureCountInterval: 600
pwdMustChange: TRUE

dn: cn=expiring,ou=policies,dc=example,dc=org
objectClass: device
cn: expiring

dn: cn=reader,dc=example,dc=org
objectClass: person
cn: reader
sn: reader
userPassword: the reader's own password
"""


@dataclass
class Slapd:
    folder: Path
    authority: Authority
    tls_port: int
    plain_port: int
    process: "subprocess.Popen[bytes]"

    @classmethod
    def start(cls, folder: Path, program: str, *, more: str = "", entries: str = "") -> Self:
        """`more` are lines of the settings of the database, and `entries` stand in the tree besides Ada, Bob and Zoë."""
        authority = Authority.make()
        (folder / "authority.pem").write_text(authority.pem, encoding="utf-8")
        certificate, key = authority.write(folder, "dc1.example.org", "127.0.0.1")
        (folder / "data").mkdir()
        settings, tree = folder / "slapd.conf", folder / "tree.ldif"
        settings.write_text(_SETTINGS.format(folder=folder, certificate=certificate, key=key, more=more), encoding="utf-8")
        people = "".join(person(name) for name in ("ada", "bob", "zoë"))
        tree.write_text(_TREE + people + entries, encoding="utf-8")
        subprocess.run([program, "-T", "add", "-q", "-f", settings, "-l", tree], check=True, capture_output=True)
        tls_port, plain_port = _free(), _free()
        urls = f"ldaps://127.0.0.1:{tls_port} ldap://127.0.0.1:{plain_port}"
        process = subprocess.Popen([program, "-f", settings, "-h", urls, "-d", "0"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        made = cls(folder, authority, tls_port, plain_port, process)
        made._wait()
        return made

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(PATIENCE)

    def change(self, ldif: str) -> None:
        """As the directory's own administrator, with Debian's tools."""
        subprocess.run(
            ["ldapmodify", "-x", "-H", f"ldap://127.0.0.1:{self.plain_port}", "-D", ADMIN, "-w", "admin"],
            input=ldif.encode(),
            check=True,
            capture_output=True,
        )

    def _wait(self) -> None:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", self.tls_port), 1).close()
            except OSError:
                assert self.process.poll() is None, "slapd ended"
                time.sleep(0.05)
            else:
                return
        raise AssertionError("slapd does not answer")


def person(name: str) -> str:
    return (
        f"\ndn: uid={name},ou=people,{SUFFIX}\nobjectClass: inetOrgPerson\nuid: {name}\ncn: {name}\nsn: {name}\n"
        f"mail: {name}@example.org\nuserPassword: password of {name}\n"
    )


def _free() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
