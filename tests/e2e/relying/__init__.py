"""Relying parties that others wrote sign people in at the real server, each told no more than the issuer and what a member of the
organization sees of the service.
"""
