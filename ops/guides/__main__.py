"""Tries a guide with the product that it is about, in an installation of Postern and an environment that are deleted at the end:

.venv/bin/python -m ops.guides jupyterhub
.venv/bin/python -m ops.guides jupyterhub --keep /var/tmp/guides    keeps the product's packages for the next trial
.venv/bin/python -m ops.guides express mellon    tries several, one after the other

The packages come from where pip, npm and apt-get are set up to fetch them. CI runs none of the trials. Some run each night
(`TRIED_AT_NIGHT` in the Makefile); the packages of the others are large.
"""

import argparse
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from ops.guides.pages import Page
from ops.guides.products import (
    Product,
    authjs,
    better_auth,
    django,
    dovecot,
    express,
    jupyterhub,
    mellon,
    mod_auth_openidc,
    oidc_client_ts,
    passport_saml,
    pgadmin,
    streamlit,
    superset,
    synapse,
)
from ops.guides.tenants import tenant
from ops.guides.trying import Trial, debian_packages, node_packages, python_packages

PRODUCTS: Final[Mapping[str, Product]] = {
    product.name: product
    for product in (
        jupyterhub.PRODUCT,
        superset.PRODUCT,
        pgadmin.PRODUCT,
        streamlit.PRODUCT,
        synapse.PRODUCT,
        authjs.PRODUCT,
        better_auth.PRODUCT,
        django.ALLAUTH,
        django.MOZILLA,
        dovecot.PRODUCT,
        express.PRODUCT,
        mod_auth_openidc.PRODUCT,
        oidc_client_ts.PRODUCT,
        mellon.PRODUCT,
        passport_saml.PRODUCT,
    )
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="ops.guides", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("product", choices=PRODUCTS, nargs="+")
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY", help="where the product's packages stay for the next trial")
    given = parser.parse_args()
    for name in given.product:
        attempt(PRODUCTS[name], given.keep)
        print(f"{name}: the guide works as written.", flush=True)
    return 0


def attempt(product: Product, keep: Path | None) -> None:
    with ExitStack() as opened:
        temporary = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="postern-guide-", ignore_cleanup_errors=True)))
        installed = ((keep or temporary) / f"packages-{product.name}").resolve()
        python_packages(installed, product.python)
        node_packages(installed, product.node)
        debian_packages(installed, product.debian)
        place = temporary / "product"
        place.mkdir()
        trial = Trial(Page(product.page), opened.enter_context(tenant()), installed, place, opened)
        try:
            product.attempt(trial)
        except BaseException:
            print(trial.log()[-5000:])
            raise


if __name__ == "__main__":
    raise SystemExit(main())
