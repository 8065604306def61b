"""Makes the list of throw-away mail domains that Postern ships, from a package of a public registry:

    pip download --no-deps disposable-email-domains
    .venv/bin/python -m ops.lists.throwaway_domains disposable_email_domains-*.whl

The package mirrors a list that many people look after. Its day is the day of the package.
"""

import ast
import hashlib
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from adapters.mail_domains import SHIPPED
from core.domain.identity.registering import listed_domain

_MODULE: Final = "disposable_email_domains/__init__.py"


def main(package: str) -> None:
    with zipfile.ZipFile(package) as wheel:
        year, month, day = wheel.getinfo(_MODULE).date_time[:3]
        module = wheel.read(_MODULE).decode()
        (license_name,) = [name for name in wheel.namelist() if name.endswith("/LICENSE.txt")]
        license_text = wheel.read(license_name).decode()
    domains = sorted({domain for one in _blocklist(module) if (domain := listed_domain(one))})
    digest = hashlib.sha256(Path(package).read_bytes()).hexdigest()
    head = [
        "# Mail domains that lend mailboxes to anybody for a while, one on each line, as `ops/lists/throwaway_domains.py` has made them.",
        f"# day: {year}-{month:02}-{day:02}",
        f"# From {Path(package).name}",
        f"#   sha256 {digest}",
        "#",
        *(f"# {line}".rstrip() for line in license_text.strip().splitlines()),
    ]
    SHIPPED.write_text("".join(f"{line}\n" for line in (*head, *domains)), encoding="utf-8")
    print(f"{len(domains)} domains of {year}-{month:02}-{day:02}")


def _blocklist(module: str) -> Iterable[str]:
    """The list is a literal of the module: it is read, and nothing runs."""
    for one in ast.parse(module).body:
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name) and one.targets[0].id == "blocklist":
            return {str(name) for name in ast.literal_eval(one.value)}
    raise SystemExit("The package has no list named blocklist")


if __name__ == "__main__":
    main(*sys.argv[1:])
