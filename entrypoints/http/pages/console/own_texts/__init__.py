"""Own texts, of an organization or of the installation: by page and mail, each beside ours."""
