"""The console: pages for everything that can be administered, of an organization below `/ui/o/{org_slug}` and of the installation below
`/ui/platform`.

The rule of a page is its endpoint's rule: a page names its endpoint (`kit/declaring.py`), and a `PageVisit` calls it. Lists, records,
forms and ends are declared (`kit/resources.py`); what a declaration cannot say is a screen of its own.
"""
