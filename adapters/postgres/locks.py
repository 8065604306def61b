"""Every advisory lock, with its why. The first number is ours, so that we never meet another program's locks in the same database."""

from typing import Final

NAMESPACE: Final = 0x505354  # "PST"

# Held by whoever migrates: two processes that start at once must not both apply the same file.
MIGRATION: Final = 1

# Held while the first platform owner is looked for and made: two first starts must not make two.
FIRST_OWNER: Final = 2

# Held while signing keys are created or rotated: there is one current key per purpose.
SIGNING_KEYS: Final = 3

# Held while a platform owner is put out of office: of the last two, not both may go.
PLATFORM_OWNERS: Final = 4

# Held while entries of the audit log are linked: two must not put different links behind the same one.
AUDIT_CHAINS: Final = 5
