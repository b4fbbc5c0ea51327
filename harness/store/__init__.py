"""Files that survive a crash: atomic replacement, append-only journals, one writer for a folder."""
