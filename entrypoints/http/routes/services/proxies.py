"""Applications behind a reverse proxy: their hosts, path rules, and forwarded headers."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

from core.domain.errors import BadRequest, Conflict
from core.domain.services.proxies import (
    LONGEST_HEADER,
    LONGEST_RULE,
    MOST_HEADERS,
    MOST_HOSTS,
    MOST_PATH_RULES,
    USUAL_HEADERS,
    KeptProxy,
    ProxySettingsChange,
)
from core.domain.services.proxy_paths import LONGEST_PATH
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown, taken
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import ServicePath, example
from entrypoints.http.machinery.limits import UNLIMITED

_TAGS = ("services",)
_PROXY: Final = "/api/organizations/{org_slug}/services/{service_slug}/proxy"

_Host = Annotated[str, msgspec.Meta(max_length=260)]
_Hosts = Annotated[Sequence[_Host], msgspec.Meta(max_length=MOST_HOSTS), example(["wiki.acme.example"])]
_Rule = Annotated[str, msgspec.Meta(max_length=LONGEST_RULE)]
_Rules = Annotated[Sequence[_Rule], msgspec.Meta(max_length=MOST_PATH_RULES), example(["/public open", "/admin role editor"])]
_Header = Annotated[str, msgspec.Meta(max_length=LONGEST_HEADER)]
_Headers = Annotated[Sequence[_Header], msgspec.Meta(max_length=MOST_HEADERS), example(["Remote-User email"])]
_Idle = Annotated[int, example(60)]


class ProxyBody(msgspec.Struct, frozen=True, kw_only=True):
    """What is set of an application behind a proxy."""

    hosts: _Hosts = ()
    """The hosts of the application, at most 20, without ports. Each host must be in a verified domain of the organization, unless a
    platform owner adds it. A host can belong to only one application.
    """
    rules: _Rules = ()
    """The access rules, each for a path and everything below it: `/public open`, `/ signed_in`, `/admin role editor`, `/docs permission
    read`. The longest matching path applies. If no rule matches, sign-in is required. If a path can be interpreted in several ways, it must
    satisfy every rule. If a segment contains a dot, the path after it must also satisfy its own rule. For example, `/index.php/admin` must
    satisfy the rule for `/admin`. The rule for `/` is exempt from this. Rules ignore the query.
    """
    headers: _Headers = USUAL_HEADERS
    """The headers that the application receives, with their values: `id`, `email` (only if verified), `name`, `username`, `groups` (the
    person's teams), `roles` or `permissions`. Each response also has `Remote-User`, `Remote-Email`, `Remote-Name` and `Remote-Groups`.
    """
    idle_minutes: _Idle | None = None
    """The idle timeout in minutes, 5 to 43200. Null: the session ends when the browser's session ends."""


class ProxyRecord(ProxyBody, frozen=True, kw_only=True):
    """The proxy settings of an application, and the state of its hosts."""

    approved_hosts: _Hosts
    """The hosts that a platform owner added without domain verification."""
    closed_hosts: Annotated[Sequence[_Host], example([])]
    """The hosts that are blocked, because the organization's verification of the domain was lost, or another organization has verified it.
    """


class ProxyPatch(msgspec.Struct, frozen=True, kw_only=True):
    """The changes to the proxy settings. Omitted fields keep their values; a list replaces the current one."""

    hosts: _Hosts | msgspec.UnsetType = msgspec.UNSET
    """The hosts of the application. From the next request, a removed host gives no access."""
    rules: _Rules | msgspec.UnsetType = msgspec.UNSET
    """The access rules."""
    headers: _Headers | msgspec.UnsetType = msgspec.UNSET
    """The headers that the application receives."""
    idle_minutes: _Idle | msgspec.UnsetType | None = msgspec.UNSET
    """The idle timeout in minutes; null for none."""


class ProxyPreviewQuery(msgspec.Struct, frozen=True):
    """The path of a request."""

    path: Annotated[str, msgspec.Meta(max_length=LONGEST_PATH), example("/admin/x")]
    """The path as a browser would send it, percent-encoded."""


class ProxyPreview(msgspec.Struct, frozen=True):
    """The requirements for a path."""

    place: Annotated[str, example("/admin/x")] | None
    """The normalized path that the rules apply to. Null if the path can be interpreted in several ways and must satisfy every rule."""
    demands: Annotated[Sequence[str], example(["role editor"])]
    """All requirements for the path: `open`, `signed_in`, `role …`, `permission …`."""


@endpoint.get(_PROXY, caller=able(Capability.SERVICES_VIEW, impersonated=True), keys=True, tags=_TAGS)
async def get_proxy(call: Call[None, None, ServicePath, Member], postern: Postern) -> ProxyRecord:
    """Get the proxy settings of an application

    Returns its hosts and access rules. Only services of the type `proxy` have these settings. A service without settings has no hosts.
    """
    return _shown(await postern.services.proxies.get(call.caller, call.path.service_slug))


@endpoint.patch(
    _PROXY,
    caller=able(Capability.SERVICES_MANAGE, impersonated=False),
    keys=True,
    limit=UNLIMITED,
    refuses=(BadRequest, Conflict),
    tags=_TAGS,
)
async def change_proxy(call: Call[ProxyPatch, None, ServicePath, Member], postern: Postern) -> ProxyRecord:
    """Change the proxy settings of an application

    Changes apply to the next request. If you are a platform owner, hosts that you add need no domain verification.
    """
    person = call.caller.signed_in
    for_platform = call.request.needs_no_proof or (person is not None and person.is_platform_owner)
    change = _change(call.body)
    kept = await postern.services.proxies.change(call.caller, call.path.service_slug, change, call.actor, for_platform=for_platform)
    return _shown(kept)


@endpoint.get(f"{_PROXY}/preview", caller=able(Capability.SERVICES_VIEW, impersonated=True), keys=True, verb="proxy preview", tags=_TAGS)
async def preview_proxy(call: Call[None, ProxyPreviewQuery, ServicePath, Member], postern: Postern) -> ProxyPreview:
    """Preview the access rules for a path

    The preview uses the same code as `/proxy/check`. If a segment contains a dot, the path after it must also satisfy its own rule:
    `/index.php/admin` has the requirements of `/admin`. Rules ignore the query, so they cannot protect an application that selects its
    pages by query (`/?r=admin`).
    """
    found = await postern.services.proxies.preview(call.caller, call.path.service_slug, call.query.path)
    return ProxyPreview(found.place, [str(one) for one in found.demands])


_shown = shown(KeptProxy, ProxyRecord, within=("settings",))
_change = taken(ProxyPatch, ProxySettingsChange)
