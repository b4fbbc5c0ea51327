"""Files of annotation tools and of trackers, and the command that makes records of each."""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from harness.errors import DataError, raised_as
from harness.foreign import to_lines
from harness.tasks.table.annotation_tools import first_attribute
from harness.tasks.table.tracking_files import NUMBER, is_mot, is_visdrone
from harness.tasks.table.voc_files import other_elements
from harness.tasks.table.xml_files import has_boxes

FOLDER = "harness.tasks.table"
BOXES_OR_MASKS = (
    "makes lines of boxes (xyxy) or masks in pixels, by their label, without other attributes"
)
ALL = "ALL"
"""Stands for a pattern of files in a command until the shell's own is written there."""


class Tool(NamedTuple):
    """Files of one program, and what makes records of them."""

    what: str
    function: str
    """Function of a module of this folder, with a dot between them."""
    means: str
    """Sentence on the records that the command makes, and on what they leave out."""
    pattern: str = ""
    """Pattern of the files that belong together; "": there is one."""
    arguments: tuple[object, ...] = ()
    """Arguments of the function after the paths, such as the name of an attribute."""

    def command(self, path: Path) -> str:
        """Return what to type to make lines of a table."""
        module = f"{FOLDER}.{self.function.partition('.')[0]}"
        given = "sys.argv[1:]" if self.pattern else "sys.argv[1]"
        given = ", ".join((given, *map(repr, self.arguments)))
        name = ALL if self.pattern else path.name
        typed = to_lines(f"{FOLDER}.{self.function}({given})", name, module)
        return typed.replace(f" {ALL} > ", f" {self.pattern} > ")

    def error(self, path: Path) -> DataError:
        """Return the error for a file in the place of a table."""
        fix = f"{self.command(path)}, named NEW.jsonl, {self.means}."
        return DataError(f"file {path}", expected="a table", found=self.what, fix=fix)


SUPERVISELY = Tool(
    "annotations of an image by Supervisely",
    "annotation_tools.supervisely",
    BOXES_OR_MASKS,
    "*.json",
)
LAYERS = Tool(
    "polygons of an image, as Cityscapes and Mapillary Vistas have them",
    "annotation_tools.layers",
    "makes lines of masks by label, in which later objects cover earlier ones, as Cityscapes' own "
    "code has it; the images are …_leftImg8bit.png of Cityscapes, otherwise NAME.jpg of NAME.json",
    "*.json",
)
CVAT = Tool("CVAT's annotations of images", "annotation_tools.cvat", BOXES_OR_MASKS, "*.xml")
VOC = Tool(
    "boxes of an image, as Pascal VOC has them",
    "voc_files.voc",
    "makes lines of boxes in pixels, as they are: VOC's own count from 1",
    "*.xml",
)
XML = Tool(
    "boxes in XML of another form",
    "xml_files.boxes",
    "makes lines of boxes in pixels as they are, or in fractions where all are at most 1, by name, "
    "with the values of the elements around; `images` in its description is a pattern of these, "
    "such as {index:03}.jpg",
    "*.xml",
)
VIA2 = Tool("regions of VIA 2", "annotation_tools.via2", BOXES_OR_MASKS)
VIA3 = Tool(
    "VIA 3's annotations",
    "annotation_tools.via3",
    f"{BOXES_OR_MASKS}, or of moments in seconds",
)
LABEL_STUDIO = Tool(
    "shapes of Label Studio, in percent of their image",
    "annotation_tools.label_studio",
    BOXES_OR_MASKS,
)
SA_V = Tool(
    "masklets of SA-V, which have no texts",
    "tracking_files.sa_v",
    "makes lines of masks of every fourth frame, for which `ffmpeg -i VIDEO.mp4 -start_number 0 "
    "VIDEO/%05d.jpg` writes the images; replace the questions (`object 0`)",
)
MOTS = Tool(
    "MOTS' run-lengths by frame",
    "tracking_files.mots",
    "makes lines of masks by class and frame; `ignored` says which frames have pixels to ignore",
    "*.txt",
)
KITTI = Tool(
    "KITTI's labels",
    "tracking_files.kitti",
    "makes lines of boxes (xyxy) by class, in pixels as they are; `ignored` counts DontCare",
    "*.txt",
)
MOT = Tool(
    "boxes by frame, as MOTChallenge has them",
    "tracking_files.mot",
    "makes lines of boxes (xyxy), all called pedestrian, in pixels from 0: MOT's own count from 1; "
    "`ignored` counts persons that its evaluation counts neither way",
)
VISDRONE = Tool(
    "VisDrone's boxes",
    "tracking_files.visdrone",
    "makes lines of boxes (xyxy) by category, in pixels as they are; `ignored` counts ignored "
    "regions and boxes of score 0",
    "*.txt",
)
DOTA = Tool(
    "quadrilaterals of an image, as DOTA has them",
    "line_files.dota",
    "makes lines of masks (polygons) by class, of .png images, without classes that have a "
    "difficult object in an image",
    "*.txt",
)
ICDAR = Tool(
    "texts in quadrilaterals, as ICDAR has them",
    "line_files.icdar",
    "makes lines of masks (polygons) whose question is the text, of .jpg images, without "
    "illegible texts (###)",
    "*.txt",
)
WIDER = Tool(
    "boxes of several images, as WIDER FACE has them",
    "line_files.wider",
    "makes lines of boxes (xyxy) of faces, without images that have an invalid face or none",
)
OPEN_IMAGES = Tool(
    "Open Images' boxes",
    "line_files.columns",
    "makes lines of boxes (xyxy) in fractions, without labels that have a group in an image; "
    "class-descriptions-boxable.csv has the labels' names",
    arguments=("ImageID", "LabelName", "XMin YMin XMax YMax", ".jpg", "XYXY_REL"),
)
TENSORFLOW = Tool(
    "TensorFlow's boxes, one a line",
    "line_files.columns",
    "makes lines of boxes (xyxy) in pixels",
    arguments=("filename", "class", "xmin ymin xmax ymax"),
)
BOXES = [
    ({*" ".join(map(str, tool.arguments[:3])).split()}, tool) for tool in (OPEN_IMAGES, TENSORFLOW)
]
"""Columns of tables that have one box per row."""
HEADS = (
    (re.compile(rf"^(?:{NUMBER} ){{8}}[A-Za-z]\S* \d\s*$", re.MULTILINE), DOTA),
    (re.compile(r"\A(?:-?\d+, ?){8}\S"), ICDAR),
    (re.compile(r"\A\S.*\.(?:jpe?g|png)\s*\n\d+\s*\n(?:-?\d+ ){4}"), WIDER),
)
"""Beginnings of files of text with an object a line."""
LINES = (
    (re.compile(r"\d+ \d+ (?:1|2|10) \d+ \d+ [^\s.]+"), MOTS),
    (re.compile(rf"(?:\d+ -?\d+ )?[A-Za-z]\w+(?: {NUMBER}){{14,15}}"), KITTI),
)
"""First lines of files of trackers."""
COLUMNS = re.compile(rf"{NUMBER}(?:,\s*{NUMBER}){{6,9}},?")
"""First line of a file that has a box per line, of MOTChallenge or of others."""
OTHER_COLUMNS = (
    "MOTChallenge has 9 columns in gt.txt (flag, class and visibility last), otherwise 7, or 10 "
    "that end in -1,-1,-1; VisDrone has 8 (score, category, truncation and occlusion last) or 10. "
    "Write a line of JSON for each question of another file, with the names of its classes."
)
TRACK = re.compile(rf"{NUMBER}(?:(?:,\s*|\s+){NUMBER}){{3}},?")
"""First line of a file that has the box of one object per line, as LaSOT and GOT-10k have it."""
OF_A_TRACK = (
    'Write a line of JSON for each frame that shows the object, such as {"image": '
    '"img/00000001.jpg", "question": "the white airplane", "boxes": [[367, 101, 41, 16]]}, in '
    'a .jsonl file; its description says written = "xywh" for left, top, width and height.'
)
VIA3_HEAD = re.compile(r"^# CSV_HEADER = metadata_id,file_list,flags,temporal", re.MULTILINE)
BROKEN = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)
"""Errors that a file may raise if it lacks a part of its form."""
TRACKS = "Export it as `CVAT for images 1.1`, and save the images: frames of a video have no name."


def refuse_tool_text(path: Path, head: str) -> None:
    """Raise DataError if a file of text that begins with `head` is one of these programs."""
    suffix, first = path.suffix.lower(), head.split("\n", 1)[0].strip()
    if suffix == ".xml" and "<annotations>" in head:
        if "<mode>interpolation</mode>" in head:
            what = "tracks of CVAT for video"
            raise DataError(f"file {path}", expected="a table", found=what, fix=TRACKS)
        raise CVAT.error(path)
    if suffix == ".xml" and "<annotation" in head and "<bndbox>" in head:
        raise _of_voc(path).error(path)
    if suffix == ".xml" and has_boxes(path):
        raise XML.error(path)
    if suffix == ".csv" and VIA3_HEAD.search(head):
        raise _of_via(VIA3, path).error(path)
    tools = (tool for pattern, tool in LINES if suffix == ".txt" and pattern.fullmatch(first))
    if tool := next(tools, None):
        raise tool.error(path)
    begun = (tool for pattern, tool in HEADS if suffix == ".txt" and pattern.search(head))
    if not COLUMNS.fullmatch(first) and (tool := next(begun, None)):
        raise tool.error(path)
    if suffix == ".txt" and TRACK.fullmatch(first):
        what = "4 numbers a line, as trackers write the box of an object in each frame"
        raise DataError(f"file {path}", expected="a table", found=what, fix=OF_A_TRACK)
    if suffix == ".txt" and COLUMNS.fullmatch(first):
        if is_mot(path):
            raise MOT.error(path)
        if is_visdrone(path):
            raise VISDRONE.error(path)
        raise DataError(
            f"file {path}",
            expected="a table, or boxes of MOTChallenge or VisDrone",
            found=f"{first.rstrip(',').count(',') + 1} numbers a line, of neither",
            fix=OTHER_COLUMNS,
        )


def refuse_tool_object(path: Path, keys: Collection[str]) -> None:
    """Raise DataError if an object of JSON with these keys is a file of one of these programs."""
    keys = {*keys}
    if {"size", "objects"} <= keys:
        raise SUPERVISELY.error(path)
    if {"masklet", "masklet_id", "video_id"} <= keys:
        raise SA_V.error(path)
    if {"project", "file", "view", "metadata"} <= keys:
        raise _of_via(VIA3, path).error(path)
    refuse_via2(path, keys, {"_via_img_metadata"})


def refuse_via2(path: Path, keys: Collection[str], known: Collection[str]) -> None:
    """Raise DataError if these keys hold all that are known of VIA 2."""
    if {*known} <= {*keys}:
        raise _of_via(VIA2, path).error(path)


def refuse_tool_record(path: Path, record: Mapping[str, object]) -> None:
    """Raise DataError if a record of a table is a box, a VIA 2 region or a Label Studio task."""
    if tool := next((tool for columns, tool in BOXES if columns <= record.keys()), None):
        raise tool.error(path)
    refuse_via2(path, record, {"region_shape_attributes", "region_attributes"})
    if isinstance(record.get("annotations"), list) and isinstance(record.get("data"), dict):
        raise LABEL_STUDIO.error(path)


def _of_via(tool: Tool, path: Path) -> Tool:
    """Return a tool with the attribute that names the objects of a file of VIA."""
    with raised_as(DataError, f"file {path}", "a complete file of VIA", *BROKEN):
        attribute = first_attribute(path)
    if not attribute:
        fix = "Give each a text under the same attribute in VIA, and export again."
        raise DataError(f"file {path}", expected="a table", found="regions without a name", fix=fix)
    means = f"{tool.means}, named by the attribute {attribute!r}"
    return tool._replace(arguments=(attribute,), means=means)


def _of_voc(path: Path) -> Tool:
    """Return the tool for a VOC file, which names the elements that it reads and leaves out."""
    with raised_as(DataError, f"file {path}", "a complete file of VOC", ElementTree.ParseError):
        question, left_out = other_elements(path)
    means = VOC.means
    if question == "name":
        means = f"{means}, without difficult objects, whose number by class is in `difficult`"
    else:
        means = f"{means}, and asks by each object's <{question}>, not by its class"
    if left_out:
        means = f"{means}. It leaves out {', '.join(f'<{name}>' for name in left_out)}"
    arguments = (question, left_out) if left_out else (question,) if question != "name" else ()
    return VOC._replace(arguments=arguments, means=means)
