"""Every advisory lock, with its reason. `NAMESPACE` is the first number of each lock, so that Postern's locks never collide with those of
another program in the same database.
"""

from typing import Final

NAMESPACE: Final = 0x505354  # "PST"

# Held while migrating: two processes that start at once must not apply the same file.
MIGRATION: Final = 1

# Held while the first platform owner is looked up and created: two first starts must not create two.
FIRST_OWNER: Final = 2

# Held while signing keys are created or rotated: there is one current key for each purpose.
SIGNING_KEYS: Final = 3

# Held while a platform owner is removed: of the last two, one must stay.
PLATFORM_OWNERS: Final = 4

# Held while entries of the audit log are linked into chains: two links must not follow the same link.
AUDIT_CHAINS: Final = 5

# Held while a domain is recorded as proved: of two organizations that prove the same domain, one gets the domain.
DOMAINS: Final = 6
# Held while sign-ins get the numbers by which they are exported: two sign-ins must not get the same number.
SIGN_IN_NUMBERS: Final = 7

# Held while sign-ins are counted: two counting transactions at once would wait for each other's rows.
LOGIN_COUNTS: Final = 8

# Held while the installation's fields change: of two new fields, one may be the fiftieth.
INSTALLATION_FIELDS: Final = 12
