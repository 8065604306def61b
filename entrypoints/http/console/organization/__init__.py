"""The console of an organization, below `/ui/o/{org_slug}`."""
