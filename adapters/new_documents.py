"""Documents of clients that nobody has allowed yet, in the memory of this process: many people may meet a new client at once, and no row
may come of a request that anybody can send.
"""

from collections import OrderedDict
from typing import Final

from core.domain.federation.oauth.client_documents import KeptDocument

# Each has 5 KiB of JSON at most. Whoever sends requests for so many new documents has the older ones fetched again, and no more.
MOST_REMEMBERED: Final = 100


class RememberedDocuments:
    """Implements `ports.federation.oauth.NewDocuments`."""

    def __init__(self) -> None:
        self._documents: OrderedDict[str, KeptDocument] = OrderedDict()

    def find(self, address: str) -> KeptDocument | None:
        return self._documents.get(address)

    def keep(self, kept: KeptDocument) -> None:
        self._documents[kept.document.address] = kept
        self._documents.move_to_end(kept.document.address)
        if len(self._documents) > MOST_REMEMBERED:
            self._documents.popitem(last=False)

    def forget(self) -> None:
        self._documents.clear()
