"""The OpenID Foundation's plans, module by module: each test does what the module of its name does, and asks what its conditions ask.

`make conformance` runs all of them and writes docs/conformance.md. docs/decisions/0207-the-tests-of-others.md says how they are made.
"""
