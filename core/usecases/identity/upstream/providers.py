"""Upstream providers as a sign-in finds them: the three shared providers, with the installation's client or an organization's, and the
organizations' own providers.
"""

from collections.abc import Mapping, Sequence

from core.domain.identifiers import OrganizationId
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
from core.usecases.identity.upstream.further_offers import FurtherOffers
from ports.encryption import KeyRing


class UpstreamProviders:
    def __init__(self, installed: Mapping[Provider, Installed], keyring: KeyRing, further: FurtherOffers) -> None:
        self._installed = installed
        self._keyring = keyring
        self.further = further

    def found(self, key: str, way: WayThrough, *, even_off: bool = False) -> Upstream:
        """With `even_off`, also a further provider that is off. Raises `ProviderOff`, and `UnknownProvider`."""
        kept = client_kept(key, way)
        opened = None if kept is None else Secret(self._keyring.open(kept.sealed_secret, kept.context).decode())
        return upstream_of(key, self._installed, way, opened, even_off=even_off)

    def installed_client(self, key: str) -> str | None:
        """Returns the installation's client id at the provider. None for an organization's own provider, and when the installation has no
        client there.
        """
        client = self._installed[Provider(key)].client if is_one_of_three(key) else None
        return None if client is None else client.client_id

    @property
    def shared(self) -> Sequence[str]:
        """Returns those of the three providers at which the installation has a client."""
        return [one.value for one in Provider if self._installed[one].client is not None]

    def offered_in(self, flow: Flow | None) -> Sequence[ProviderOffer]:
        """Returns the providers that the pages of a flow offer: only those that work there."""
        return self.offered(NO_OWN_PROVIDERS) if flow is None else self.offered(flow.own, flow.organization)

    def offered(self, own: OwnProviders, organization: OrganizationId | None = None) -> Sequence[ProviderOffer]:
        """Returns the three, the further ones of the installation, and an organization's own."""
        three = [
            ProviderOffer(one.value, NAMES[one]) for one in Provider if self._installed[one].client is not None or one.value in own.clients
        ]
        return [*three, *self.further.offered_in(organization), *own.providers]

    def name(self, key: str, otherwise: str = "") -> str:
        """Returns the provider's name for people. `otherwise` is the name of any but the three."""
        return NAMES[Provider(key)] if is_one_of_three(key) else otherwise
