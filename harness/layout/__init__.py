"""Reading the files of a benchmark's layout: errors that name the file, no path that leaves it.

`read_json` is for small files. A file that grows with the benchmark is read one entry at a time:
`JsonFile` from its beginning, `JsonIndex` by key.
"""

from harness.layout.files import (
    Files,
    LazyFileList,
    field,
    file,
    folder,
    path_inside,
    read_json,
    read_lines,
    readable,
    rows,
)
from harness.layout.json_file import Entry, JsonFile
from harness.layout.json_index import JsonIndex

__all__ = [
    "Entry",
    "Files",
    "JsonFile",
    "JsonIndex",
    "LazyFileList",
    "field",
    "file",
    "folder",
    "path_inside",
    "read_json",
    "read_lines",
    "readable",
    "rows",
]
