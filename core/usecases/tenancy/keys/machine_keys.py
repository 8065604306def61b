"""Machine keys: the shared way to create a key of any kind."""

from collections.abc import Awaitable, Callable

from core.domain.secrets import Token
from core.domain.tenancy.keys.machine_keys import Key, NewMachineKey, prefix_of


async def add_key(
    add: Callable[[Key, bytes], Awaitable[int | None]], draw: Callable[[], Token], key_of: Callable[[str], Key]
) -> tuple[NewMachineKey[Key], int]:
    """Draw a new key and store it. `key_of` makes the stored record for a prefix, and `add` stores the record unless another key has the
    prefix. Returns the new key and the number of keys before it.
    """
    while True:
        text = draw()
        key = key_of(prefix_of(text))
        count = await add(key, text.digest())
        if count is not None:
            return NewMachineKey(key, text), count
        # Another key has this prefix: draw again. The probability is one in two thousand million for each existing key.
