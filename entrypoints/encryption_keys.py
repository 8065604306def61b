"""Activates a new encryption key, in an installation that stores its keys in a file."""

import os

from adapters.crypto.key_ring import generate_key
from entrypoints.assembly.configured import key_file, key_ring
from entrypoints.failures import StartFailed
from entrypoints.settings import Settings


def prepend_key(settings: Settings) -> str:
    """Writes a new key in front of the others, and returns its id. Running processes read the file again by themselves. Raises
    `StartFailed`; then the keys are as they were.
    """
    file = key_file(settings)
    if file is None:
        raise StartFailed("The encryption keys are a setting here: change POSTERN_ENCRYPTION_KEYS")
    key_ring(settings)  # raises if the file cannot be used
    if file.path.stat().st_uid != os.geteuid():
        raise StartFailed(f"{file.path} belongs to another user, who has to keep it: run this as that user")
    added = generate_key()
    try:
        file.prepend(added)
    except OSError as error:
        raise StartFailed(f"{file.path} cannot be written: {error.strerror}. The keys are as they were") from error
    return added.id
