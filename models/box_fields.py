"""Refuse boxes whose other JSON fields reject them, or give their numbers another scale.

Examples are `"accepted": false`, `"note": "please ignore"` and `"units": "percent"`. Fields of
names and traits (`"occluded": true`) may hold anything; text outside fields is not looked at.
`places.refuse_other_meaning` calls `refuse_fields`.
"""

import re

from harness.errors import ParseError

_FIELD = re.compile(
    r"[\"'](?P<key>\w{1,40})[\"']\s{0,9}:\s{0,9}"
    r"(?:[\"'](?P<text>[^\"'\n]{0,60})[\"']|(?P<word>(?i:true|false|0(?![\d.]))\b))"
)
"""Matches a key with a text, a truth value or 0: `"note": "ignore"`, `"valid": false`."""
_REJECTING_VALUES = re.compile(
    r"(?i:no|n|none|not?[ _-].*|false|negative|reject.*|discard\w*|dropp?(?:ed)?|delet\w*|remov\w*"
    r"|ignor\w*|exclud\w*|in(?:valid|correct|accurate)|wrong|mismatch\w*|un(?:matched|related)"
    r"|fail\w*|error|absent|missing|denied|declined?|skip(?:ped)?|obsolete|superseded|replaced"
    r"|previous|outdated|cancel\w*|distractor|decoy|background|other)"
)
"""Values by which an object is rejected, or is not the one that is asked for."""
_REMARK_KEYS = re.compile(r"(?i:note|comments?|remarks?|review|warning|feedback)")
"""Keys of a remark on the box."""
_DENYING_WORDS = re.compile(
    r"(?i:\b(?:not (?:the|a|an|it|what)|(?:is|was)n['’]t|wrong|incorrect|mistak\w+|reject\w*"
    r"|discard\w*|ignore|please remove)\b)"
)
"""Words by which a remark rejects its box."""
_VERDICT_KEYS = re.compile(
    r"(?i:is_\w+|accept\w*|keep|kept|select\w*|valid\w*|correct\w*|match\w*|confirm\w*|verif\w*"
    r"|approved?|relevant|final|use|target|visible|present|found|exists)"
)
"""Keys of a verdict, for which 0 is a rejection: `"valid": 0`."""
_FAULT_KEYS = re.compile(
    r"(?i:(?:is_?)?(?:reject\w*|discard\w*|dropped|delet\w*|remov\w*|ignor\w*|exclud\w*|invalid|wrong"
    r"|incorrect|error|false_\w+|absent|missing|negative|distractor|decoy|skip\w*|not_\w+"
    r"|hallucinat\w*))"
)
"""Keys of a fault, for which true is a rejection: `"is_rejected": true`."""
_TRAIT_KEYS = re.compile(
    r"(?i:(?:is_?)?(?:\w*occlu\w*|trunca\w*|i?s?crowd|group\w*|difficult|hidden|blur\w*|partial\w*"
    r"|ambiguous|uncertain|moving|depict\w*|inside|text\w*|labell?\w*|names?(?:_\w+)?|desc\w*"
    r"|categor\w*|class\w*|attribut\w*|colou?r|caption|reason\w*|sub_?label|id|mask|points?"
    r"|keypoints?|parent|score|confidence|track\w*|children|segmentation))"
)
"""Keys of an object's name or trait, whose values may be anything."""
_TEXT_KEYS = re.compile(r"object|type|question|answer|query|phrase|think")
"""Keys of texts that may contain words of scales."""
_SCALE_WORDS = re.compile(
    r"(?i:(?<![a-z])(?:relative|absolute|normali[sz]ed|norm|percent(?:age)?s?|permille|thousandths"
    r"|pixels?|px|c?xywh|cxcywh|ltwh|tlwh|yxyx|xyxy|fractions?|ratio"
    r"|0\s?(?:-|–|~|to)\s?1(?:000?)?)(?![a-z]))"
)
"""Words for a scale or an order of the numbers."""


def refuse_fields(text: str, side: int | None) -> None:
    """Raise if a JSON field rejects its box, or gives its numbers another scale.

    Args:
        text: A response.
        side: Steps of the canvas along a side (such as 1000) if numbers are shares of it, else
            None; a field that names this scale is accepted.

    Raises:
        ParseError: a field does so.

    >>> refuse_fields('{"bbox_2d": [1, 2, 3, 4], "space": "0-1000", "occluded": false}', 1000)
    """
    for field in _FIELD.finditer(text):
        key, value, word = field["key"], (field["text"] or "").strip(), field["word"] or ""
        if _FAULT_KEYS.fullmatch(key):
            is_refused = (word or value).casefold() in ("true", "yes")
        elif _TRAIT_KEYS.fullmatch(key):
            is_refused = False
        else:
            is_refused = (
                _is_of_other_scale(key, value, side)
                or word.casefold() == "false"
                or (word == "0" and _VERDICT_KEYS.fullmatch(key) is not None)
                or (
                    _REMARK_KEYS.fullmatch(key) is not None
                    and _DENYING_WORDS.search(value) is not None
                )
                or _REJECTING_VALUES.fullmatch(value) is not None
            )
        if is_refused:
            raise ParseError("places", expected="a box that no field rejects", found=field[0])


def _is_of_other_scale(key: str, value: str, side: int | None) -> bool:
    """Return True if the value of a field has a word of a scale, but not the number `side`."""
    if _TEXT_KEYS.fullmatch(key) or not _SCALE_WORDS.search(value):
        return False
    return not side or re.search(rf"(?<!\d){side}(?!\d)", value) is None
