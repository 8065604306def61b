"""Debian's 389 Directory Server, with its password policy. Its tools keep instances in places of the machine, so it needs root."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from tests.patience import PATIENCE

SUFFIX: Final = "dc=example,dc=org"
PEOPLE: Final = f"ou=people,{SUFFIX}"
GROUPS: Final = f"ou=groups,{SUFFIX}"
READER: Final = f"cn=reader,{SUFFIX}"
READER_PASSWORD: Final = "the reader's own password"
PASSWORD: Final = "her directory password"
_ADMIN: Final = "cn=Directory Manager"
_ADMIN_PASSWORD: Final = "Directory_Manager_Password"
# The tool asks systemd to start the server wherever the package was built with it.
_MAKER: Final = """
import sys
from lib389.paths import Paths
Paths.with_systemd = property(lambda self: False)
sys.argv = ["dscreate", "from-file", sys.argv[1]]
exec(compile(open("/usr/sbin/dscreate", encoding="utf-8").read(), "dscreate", "exec"))
"""
_SETTINGS: Final = """
[general]
full_machine_name = dc1.example.org
strict_host_checking = False
selinux = False
[slapd]
instance_name = {name}
port = {plain_port}
secure_port = {tls_port}
root_password = {password}
self_sign_cert = True
[backend-userroot]
suffix = dc=example,dc=org
create_suffix_entry = True
"""
_POLICY: Final = """
dn: cn=config
changetype: modify
replace: nsslapd-listenhost
nsslapd-listenhost: 127.0.0.1
-
replace: nsslapd-securelistenhost
nsslapd-securelistenhost: 127.0.0.1
-
replace: passwordLockout
passwordLockout: on
-
replace: passwordMaxFailure
passwordMaxFailure: 3
-
replace: passwordExp
passwordExp: on
"""
_TREE: Final = """
dn: ou=people,dc=example,dc=org
changetype: add
objectClass: organizationalUnit
ou: people
aci: (targetattr="* || nsAccountLock || nsUniqueId || modifyTimestamp")(version 3.0; acl "reader"; allow (read, search, compare)
  userdn="ldap:///cn=reader,dc=example,dc=org";)

dn: ou=groups,dc=example,dc=org
changetype: add
objectClass: organizationalUnit
ou: groups
aci: (targetattr="* || nsUniqueId")(version 3.0; acl "reader"; allow (read, search, compare)
  userdn="ldap:///cn=reader,dc=example,dc=org";)

dn: cn=reader,dc=example,dc=org
changetype: add
objectClass: person
cn: reader
sn: reader
userPassword: the reader's own password
"""


@dataclass
class Directory389:
    name: str
    plain_port: int
    tls_port: int
    authority: str
    process: "subprocess.Popen[bytes]"

    @classmethod
    def start(cls, folder: Path) -> Self:
        name, plain_port, tls_port = f"postern{os.getpid()}", _free(), _free()
        settings, maker = folder / "389.inf", folder / "maker.py"
        settings.write_text(
            _SETTINGS.format(name=name, plain_port=plain_port, tls_port=tls_port, password=_ADMIN_PASSWORD), encoding="utf-8"
        )
        maker.write_text(_MAKER, encoding="utf-8")
        # Debian's own Python has the library of 389.
        done = subprocess.run(["/usr/bin/python3", maker, settings], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        first = Path("/run/dirsrv") / f"slapd-{name}.pid"
        _modify(plain_port, _POLICY)
        _modify(plain_port, _TREE)
        running = int(first.read_text(encoding="ascii"))
        os.kill(running, signal.SIGTERM)
        _wait(lambda: not Path(f"/proc/{running}").exists() or "Z" in Path(f"/proc/{running}/stat").read_text(encoding="ascii").split())
        process = subprocess.Popen(
            ["ns-slapd", "-D", f"/etc/dirsrv/slapd-{name}", "-d", "0"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        authority = (Path("/etc/dirsrv") / f"slapd-{name}" / "ca.crt").read_text(encoding="ascii")
        made = cls(name, plain_port, tls_port, authority, process)
        _wait(lambda: _answers(tls_port))
        return made

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(PATIENCE)
        for one in ("/etc/dirsrv", "/var/lib/dirsrv", "/var/log/dirsrv", "/run/lock/dirsrv", "/dev/shm"):  # noqa: S108 - where 389 puts it
            shutil.rmtree(f"{one}/slapd-{self.name}", ignore_errors=True)
        for one in (f"/etc/default/dirsrv-{self.name}", f"/etc/sysconfig/dirsrv-{self.name}"):
            Path(one).unlink(missing_ok=True)

    def change(self, ldif: str) -> None:
        """As the directory's own administrator."""
        _modify(self.plain_port, ldif)

    def add(self, *names: str) -> None:
        self.change(
            "".join(
                f"\ndn: uid={name},{PEOPLE}\nchangetype: add\nobjectClass: inetOrgPerson\nuid: {name}\ncn: {name}\nsn: {name}\n"
                f"mail: {name}@example.org\nuserPassword: {PASSWORD}\n"
                for name in names
            )
        )

    def configure(self, **values: str) -> None:
        lines = "".join(f"replace: {attribute}\n{attribute}: {value}\n-\n" for attribute, value in values.items())
        self.change(f"dn: cn=config\nchangetype: modify\n{lines}")

    def set(self, name: str, **values: str) -> None:
        lines = "".join(f"replace: {attribute}\n{attribute}: {value}\n-\n" for attribute, value in values.items())
        self.change(f"dn: uid={name},{PEOPLE}\nchangetype: modify\n{lines}")


def _modify(port: int, ldif: str) -> None:
    command = ["ldapmodify", "-x", "-H", f"ldap://127.0.0.1:{port}", "-D", _ADMIN, "-w", _ADMIN_PASSWORD]
    done = subprocess.run(command, input=ldif, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-500:] + done.stderr


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def _wait(until: Callable[[], bool]) -> None:
    ends = time.monotonic() + PATIENCE
    while not until():
        assert time.monotonic() < ends, "389 does not answer"
        time.sleep(0.1)


def _free() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
