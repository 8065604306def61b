"""LDAP (RFC 4511), as far as we need it: bind, search, StartTLS, and the controls of pages and of password policies. Nothing imports this
package before somebody has a connection of this kind.
"""
