"""Password hashes of other systems: how many remain, and what sign-ins have to know of them."""

from core.frozen import Frozen
from ports.identity.foreign_hashes import ForeignHashStore, PasswordCounts
from ports.metrics import Metrics
from ports.passwords import PasswordHasher


class ForeignHashes(Frozen):
    store: ForeignHashStore
    passwords: PasswordHasher
    metrics: Metrics

    async def look(self) -> bool:
        """Tells the hasher which shapes remain. Returns whether any do. Raises `Overloaded`, `Unavailable`."""
        shapes = await self.store.shapes()
        await self.passwords.expect(shapes)
        return bool(shapes)

    async def count(self, *, remain: bool) -> None:
        """Sets the metric. Counts nothing where none `remain`."""
        self.metrics.foreign_passwords(await self.store.remaining() if remain else {})

    async def counts(self) -> PasswordCounts:
        """For an operator at the command line."""
        return await self.store.counts()
