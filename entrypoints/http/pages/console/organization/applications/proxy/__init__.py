"""The page of an application behind a proxy."""
