"""The console: pages for everything that can be administered, of an organization below `/ui/o/{org_slug}` and of the installation below
`/ui/platform`.

A page is allowed to whom its endpoint is: it names its endpoint (`declaring.py`), and a `PageVisit` calls it. `resources.py` declares
lists, records, forms and deletions; what a declaration cannot say is a screen of its own.
"""
