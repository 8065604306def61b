"""How Postern is put together: the foundation first, then one module per family. Each wires its family's use cases to the adapters that
serve them, and knows only the families below it.
"""
