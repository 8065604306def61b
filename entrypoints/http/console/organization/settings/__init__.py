"""An organization's own settings: its looks, its domain and mail server, its audit log, and its end."""
