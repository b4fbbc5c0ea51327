"""Refuse boxes whose fields, under any key, reject them or give their numbers another scale.

A field that is not a name or a trait of the object says something of the box. A no, a rejection, or
a scale in it is a failure; any other word is passed over.
"""

import re

from harness.errors import ParseError

_FIELD = re.compile(
    r"[\"'](?P<key>\w{1,40})[\"']\s{0,9}:\s{0,9}"
    r"(?:[\"'](?P<text>[^\"'\n]{0,60})[\"']|(?P<word>(?i:true|false|0(?![\d.]))\b))"
)
_REJECTS = re.compile(
    r"(?i:no|n|none|not?[ _-].*|false|negative|reject.*|discard\w*|dropp?(?:ed)?|delet\w*|remov\w*"
    r"|ignor\w*|exclud\w*|in(?:valid|correct|accurate)|wrong|mismatch\w*|un(?:matched|related)"
    r"|fail\w*|error|absent|missing|denied|declined?|skip(?:ped)?|obsolete|superseded|replaced"
    r"|previous|outdated|cancel\w*|distractor|decoy|background|other)"
)
"""A value that takes its object back, or says that it is not the one that is asked for."""
_REMARK = re.compile(r"(?i:note|comments?|remarks?|review|warning|feedback)")
_DENIES = re.compile(
    r"(?i:\b(?:not (?:the|a|an|it|what)|(?:is|was)n['’]t|wrong|incorrect|mistak\w+|reject\w*"
    r"|discard\w*|ignore|please remove)\b)"
)
"""Words of a remark with which it rejects its box."""
_VERDICT = re.compile(
    r"(?i:is_\w+|accept\w*|keep|kept|select\w*|valid\w*|correct\w*|match\w*|confirm\w*|verif\w*"
    r"|approved?|relevant|final|use|target|visible|present|found|exists)"
)
"""A key of a verdict, of which 0 is a no."""
_FAULT = re.compile(
    r"(?i:(?:is_?)?(?:reject\w*|discard\w*|dropped|delet\w*|remov\w*|ignor\w*|exclud\w*|invalid|wrong"
    r"|incorrect|error|false_\w+|absent|missing|negative|distractor|decoy|skip\w*|not_\w+"
    r"|hallucinat\w*))"
)
"""A key of a fault: true says that there is one."""
_TRAIT = re.compile(
    r"(?i:(?:is_?)?(?:\w*occlu\w*|trunca\w*|i?s?crowd|group\w*|difficult|hidden|blur\w*|partial\w*"
    r"|ambiguous|uncertain|moving|depict\w*|inside|text\w*|labell?\w*|names?(?:_\w+)?|desc\w*"
    r"|categor\w*|class\w*|attribut\w*|colou?r|caption|reason\w*|sub_?label|id|mask|points?"
    r"|keypoints?|parent|score|confidence|track\w*|children|segmentation))"
)
"""A key of a name or a trait of an object, which may be anything."""
_WORDS = re.compile(r"object|type|question|answer|query|phrase|think")
"""Keys of texts in which words of scales may stand."""
_SCALE = re.compile(
    r"(?i:(?<![a-z])(?:relative|absolute|normali[sz]ed|norm|percent(?:age)?s?|permille|thousandths"
    r"|pixels?|px|c?xywh|cxcywh|ltwh|tlwh|yxyx|xyxy|fractions?|ratio"
    r"|0\s?(?:-|–|~|to)\s?1(?:000?)?)(?![a-z]))"
)


def refuse_fields(text: str, side: int | None) -> None:
    """Raise where a field of JSON rejects its box, or gives its numbers another scale.

    Args:
        text: A response.
        side: Steps of the canvas along a side, where the numbers are shares of it; a field that
            names them is right.

    Raises:
        ParseError: one does.

    >>> refuse_fields('{"bbox_2d": [1, 2, 3, 4], "space": "0-1000", "occluded": false}', 1000)
    """
    for field in _FIELD.finditer(text):
        key, said, word = field["key"], (field["text"] or "").strip(), field["word"] or ""
        if _FAULT.fullmatch(key):
            is_refused = (word or said).casefold() in ("true", "yes")
        elif _TRAIT.fullmatch(key):
            is_refused = False
        else:
            is_refused = (
                _is_of_other_scale(key, said, side)
                or word.casefold() == "false"
                or (word == "0" and _VERDICT.fullmatch(key) is not None)
                or (_REMARK.fullmatch(key) is not None and _DENIES.search(said) is not None)
                or _REJECTS.fullmatch(said) is not None
            )
        if is_refused:
            raise ParseError("places", expected="a box that no field rejects", found=field[0])


def _is_of_other_scale(key: str, said: str, side: int | None) -> bool:
    if _WORDS.fullmatch(key) or not _SCALE.search(said):
        return False
    return not side or re.search(rf"(?<!\d){side}(?!\d)", said) is None
