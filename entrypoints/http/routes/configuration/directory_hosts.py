"""Hosts and authorities of a directory by LDAP in a document, in the form in which they are stored. What cannot be read stays as it is: the
endpoint says what is wrong with it.
"""

from typing import Any

from core.domain.errors import BadRequest
from core.domain.identity.upstream.ldap.settings import authorities_in, host_in
from entrypoints.http.routes.configuration.saml_metadata import stored_pem


def stored_hosts(hosts: Any) -> Any:
    return list(dict.fromkeys(_host(one) for one in hosts)) if isinstance(hosts, list | tuple) else hosts


def stored_authorities(text: Any) -> Any:
    try:
        return "".join(stored_pem(one) for one in authorities_in(text)) if text else text
    except BadRequest:
        return text


def _host(text: Any) -> Any:
    try:
        return host_in(text, start_tls=text.strip().lower().startswith("ldap://"))
    except BadRequest:
        return text
