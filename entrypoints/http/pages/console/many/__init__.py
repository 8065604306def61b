"""Lists as a whole: their rows as a file, and one act for several rows."""
