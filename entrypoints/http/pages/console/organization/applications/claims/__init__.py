"""The claims of an application, and what it would learn of a person."""
