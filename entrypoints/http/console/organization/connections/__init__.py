"""The connections of an organization: its own providers, its domains, its directory by SCIM, and keys for machines."""
