"""Server secrets: random keys of the installation, sealed in the database under their purposes."""


def sealing_context(purpose: str) -> str:
    return f"server_secrets.sealed_secret:{purpose}"
