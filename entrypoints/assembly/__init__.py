"""Assembles Postern: the foundation first, then one module per family. Each module connects its family's use cases with their adapters, and
knows only the families below its own.
"""
