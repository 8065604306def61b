"""Relying parties by other authors sign people in at the real server. Each knows only the issuer and the data that a member of the
organization sees of the service.
"""
