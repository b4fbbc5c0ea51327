"""Files that survive a crash: atomic replacement, an append-only journal, one writer a folder."""
