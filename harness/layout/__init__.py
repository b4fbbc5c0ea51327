"""Read the files of a benchmark's folder: errors name the file, and no path leaves the folder.

Tasks and readers of predictions use this room. `read_json` is for small files. A file that grows
with the benchmark is read one entry at a time: `JsonFile` in the file's order, `JsonIndex` by key,
`read_lines` line by line.
"""

from harness.layout.files import Files as Files
from harness.layout.files import LazyFileList as LazyFileList
from harness.layout.files import field as field
from harness.layout.files import file as file
from harness.layout.files import folder as folder
from harness.layout.files import path_inside as path_inside
from harness.layout.files import read_json as read_json
from harness.layout.files import readable as readable
from harness.layout.json_file import Entry as Entry
from harness.layout.json_file import JsonFile as JsonFile
from harness.layout.json_index import JsonIndex as JsonIndex
from harness.layout.json_lines import parse_line as parse_line
from harness.layout.json_lines import read_by_id as read_by_id
from harness.layout.json_lines import read_lines as read_lines
from harness.layout.parquet_rows import rows as rows
