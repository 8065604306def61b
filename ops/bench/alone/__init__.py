"""One part of Postern is measured alone, without the rest: each module is a command of its own."""
