"""Upstream providers as a sign-in finds them: the three, with the installation's client or an organization's, and organizations' own."""

from collections.abc import Mapping, Sequence

from core.domain.identity.flows import Flow
from core.domain.identity.upstream.providers import (
    NAMES,
    NO_OWN_PROVIDERS,
    Installed,
    OwnProviders,
    Provider,
    ProviderOffer,
    Upstream,
    is_one_of_three,
)
from core.domain.identity.upstream.sign_in import WayThrough, client_kept, upstream_of
from core.domain.secrets import Secret
from ports.encryption import KeyRing


class UpstreamProviders:
    def __init__(self, installed: Mapping[Provider, Installed], keyring: KeyRing) -> None:
        self._installed = installed
        self._keyring = keyring
        self.offers: Sequence[ProviderOffer] = self.offered(NO_OWN_PROVIDERS)
        """Those that anybody can use, whatever the organization."""

    def found(self, key: str, way: WayThrough) -> Upstream:
        """Raises `ProviderOff`."""
        kept = client_kept(key, way)
        opened = None if kept is None else Secret(self._keyring.open(kept.sealed_secret, kept.context).decode())
        return upstream_of(key, self._installed, way, opened)

    def installed_client(self, key: str) -> str | None:
        """What the provider knows the installation by. None for an organization's own, and where the installation has none."""
        client = self._installed[Provider(key)].client if is_one_of_three(key) else None
        return None if client is None else client.client_id

    @property
    def shared(self) -> Sequence[str]:
        """Those of the three that the installation has a client at."""
        return [one.value for one in Provider if self._installed[one].client is not None]

    def offered_in(self, flow: Flow | None) -> Sequence[ProviderOffer]:
        """What the pages of a flow lead to: only what works there."""
        return self.offers if flow is None else self.offered(flow.own)

    def offered(self, own: OwnProviders) -> Sequence[ProviderOffer]:
        """With what an organization has."""
        three = [
            ProviderOffer(one.value, NAMES[one]) for one in Provider if self._installed[one].client is not None or one.value in own.clients
        ]
        return [*three, *own.providers]

    def name(self, key: str, otherwise: str = "") -> str:
        """As people know it. `otherwise` is the name of an organization's own."""
        return NAMES[Provider(key)] if is_one_of_three(key) else otherwise
