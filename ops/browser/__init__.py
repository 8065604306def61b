"""Browsers of people: Chromium, and one without scripts. The tests use them, too."""
