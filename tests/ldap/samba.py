"""Debian's Samba as a controller of an Active Directory of its own, in a folder and at an address of the test's own. It has the ports of
LDAP, so it needs root.
"""

import base64
import os
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from tests.ldap.authority import Authority
from tests.patience import PATIENCE

SUFFIX: Final = "DC=example,DC=org"
USERS: Final = f"CN=Users,{SUFFIX}"
STAFF: Final = f"OU=Staff,{SUFFIX}"
READER: Final = f"CN=reader,{USERS}"
READER_PASSWORD: Final = "the reader's 0wn password"
PASSWORD: Final = "Her passw0rd at the directory"
# An address of each process's own, since the ports are those of LDAP.
ADDRESS: Final = f"127.55.{os.getpid() >> 8 & 0xFF}.{os.getpid() & 0xFE | 1}"
PORT: Final = 636
_SETTINGS: Final = """[global]
    realm = EXAMPLE.ORG
    workgroup = EXAMPLE
    netbios name = DC1
    server role = active directory domain controller
    server services = ldap
    interfaces = {address}/8
    bind interfaces only = yes
    log file = {folder}/log
    pid directory = {folder}/pid
    ncalrpc dir = {folder}/ncalrpc
    winbindd socket directory = {folder}/winbind
    ntp signd socket directory = {folder}/ntp
    tls enabled = yes
    tls certfile = {certificate}
    tls keyfile = {key}
    tls cafile = {folder}/authority.pem
"""


@dataclass
class Samba:
    folder: Path
    authority: Authority
    process: "subprocess.Popen[bytes] | None" = None

    @classmethod
    def start(cls, folder: Path) -> Self:
        authority = Authority.make()
        (folder / "authority.pem").write_text(authority.pem, encoding="utf-8")
        certificate, key = authority.write(folder, "dc1.example.org", ADDRESS)
        # Samba reads no key that others could read.
        key.chmod(0o600)
        for one in ("pid", "ncalrpc", "winbind", "ntp"):
            (folder / one).mkdir()
        first = folder / "smb.conf"
        first.write_text(_SETTINGS.format(folder=folder, address=ADDRESS, certificate=certificate, key=key), encoding="utf-8")
        made = cls(folder, authority)
        made.tool(
            *("domain", "provision", "--realm=EXAMPLE.ORG", "--domain=EXAMPLE", "--server-role=dc", "--dns-backend=NONE"),
            *("--adminpass=Adm1n-Passw0rd", f"--targetdir={folder / 'dc'}", "--host-name=dc1", f"--host-ip={ADDRESS}"),
            settings=first,
        )
        made.tool("domain", "passwordsettings", "set", "--account-lockout-threshold=5", "--min-pwd-age=0", "--history-length=0")
        made.change(_person("reader", USERS, READER_PASSWORD) + f"\ndn: {STAFF}\nobjectClass: organizationalUnit\nou: Staff\n")
        made.run()
        return made

    @property
    def settings(self) -> Path:
        return self.folder / "dc" / "etc" / "smb.conf"

    def run(self) -> None:
        command = ["samba", "--interactive", "--model=single", f"--configfile={self.settings}"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            try:
                socket.create_connection((ADDRESS, PORT), 1).close()
            except OSError:
                assert self.process.poll() is None, (self.folder / "log").read_text(encoding="utf-8")
                time.sleep(0.1)
            else:
                return
        self.stop()
        raise AssertionError("Samba does not answer")

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(PATIENCE)

    def tool(self, *arguments: str, settings: Path | None = None) -> None:
        command = ["samba-tool", *arguments, f"--configfile={settings or self.settings}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def change(self, ldif: str) -> None:
        """As the directory's own administrator, in its database."""
        command = ["ldbmodify", "-H", str(self.folder / "dc" / "private" / "sam.ldb"), f"--configfile={self.settings}"]
        done = subprocess.run(command, input=_ldif(ldif), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def add(self, *names: str, where: str = STAFF, password: str = PASSWORD) -> None:
        self.change("".join(_person(name, where, password) for name in names))

    def set(self, name: str, **values: str) -> None:
        lines = "".join(f"replace: {attribute}\n{attribute}: {value}\n-\n" for attribute, value in values.items())
        self.change(f"dn: CN={name},{STAFF}\nchangetype: modify\n{lines}")


def _ldif(entries: str) -> str:
    """Entries without a kind of change are added."""
    parts = [one.strip("\n") for one in entries.split("\n\n") if one.strip()]
    return "\n\n".join(one if "\nchangetype:" in one else one.replace("\n", "\nchangetype: add\n", 1) for one in parts) + "\n"


def _person(name: str, where: str, password: str) -> str:
    typed = base64.b64encode(f'"{password}"'.encode("utf-16-le")).decode()
    return (
        f"\ndn: CN={name},{where}\nobjectClass: user\nsAMAccountName: {name}\nuserPrincipalName: {name}@example.org\n"
        f"mail: {name}.mail@example.org\nuserAccountControl: 512\nunicodePwd:: {typed}\n"
    )
