"""Assembles Postern: the foundation first, then one module per area. Each module connects its area's use cases with their adapters, and
knows only the areas below its own.
"""
