"""The organizations' own sign-in options: their clients at the three shared providers, and their own providers."""

from typing import LiteralString

from core.domain.identity.upstream.providers import OwnProviders, ProviderOffer
from core.frozen import Frozen


class OwnRow(Frozen, kw_only=True):
    """The columns of `own`."""

    own_clients: list[str] | None
    own_providers: list[list[str]] | None

    def own(self) -> OwnProviders:
        return OwnProviders(tuple(self.own_clients or ()), tuple(ProviderOffer(key, name) for key, name in self.own_providers or ()))


def own(organizations: LiteralString) -> LiteralString:
    """Columns for a statement that reads organizations. `organizations` is the alias of that table in the statement."""
    return f"""
           (
               select array_agg(oauth_credentials.provider) from oauth_credentials where oauth_credentials.org_id = {organizations}.id
           ) as own_clients,
           (
               select jsonb_agg(
                          jsonb_build_array(upstream_providers.id, upstream_providers.name)
                          order by upstream_providers.created_at, upstream_providers.id
                      )
                 from upstream_providers
                where upstream_providers.org_id = {organizations}.id and upstream_providers.enabled
           ) as own_providers"""
