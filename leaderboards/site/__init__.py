"""The site of a board: plain files that open from disk, and the same pages served live."""
