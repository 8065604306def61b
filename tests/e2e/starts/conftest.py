"""Programs that need a bundler are no part of the ordinary run. `make frameworks` and `make check-all` name their file."""

collect_ignore = ["test_bundled.py"]
