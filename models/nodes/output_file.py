"""Write and read the outputs of nodes as bytes: arrays and JSON, never code.

`OutputCache` stores them in its folder, `child` sends them between processes. A file is a NumPy
archive; its member `json` holds everything except the arrays. It is read with `allow_pickle=False`.
"""

import collections.abc
import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from itertools import chain, groupby
from typing import Any, TypeAlias, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from harness.errors import DataError
from harness.masks import Rle, Track
from harness.node import OUTPUTS, DepthMaps, Features, Instances, Output

Array: TypeAlias = NDArray[np.generic]

OUTPUT_CLASSES = {kind.__name__: kind for kind in OUTPUTS.values()}
"""Classes of outputs, by the `type` in a file."""


def write_output(output: Output) -> bytes:
    """Encode an output; equal outputs give equal bytes."""
    arrays: dict[str, Array] = {}
    plain = _plain(output, arrays)
    text = json.dumps({"type": type(output).__name__, "value": plain}, ensure_ascii=False)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, array in [("json", np.frombuffer(text.encode(), np.uint8)), *arrays.items()]:
            member = io.BytesIO()
            np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), member.getvalue())
    return file.getvalue()


def read_output(data: bytes) -> Output:
    """Decode the bytes of `write_output`.

    Raises:
        DataError: the bytes are damaged or not an output.
    """
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            head = json.loads(archive["json"].tobytes())
            output: Output = _value(OUTPUT_CLASSES[head["type"]], head["value"], archive)
    except MemoryError:
        raise
    except Exception as error:  # for a damaged archive, NumPy and zipfile raise many types
        raise DataError("output of a node", expected="a whole file", found=str(error)) from error
    return output


def held_bytes(output: Output) -> int:
    """Return the approximate size of an output in memory, in bytes."""
    if isinstance(output, DepthMaps):
        return sum(depth.nbytes for depth in output.maps.values())
    if isinstance(output, Features):
        vectors = (*output.instances.values(), *output.frames.values())
        return 200 + sum(vector.nbytes + 100 for vector in vectors)
    if isinstance(output, Instances):
        run_lengths = (rle.counts for instance in output.found for rle in instance.track.rles)
        return 200 + sum(len(text) + 60 for text in run_lengths)
    return len(repr(output))


def _plain(value: Any, arrays: dict[str, Array]) -> object:
    """Return a value as JSON data, in which each array is replaced by its key in `arrays`."""
    if isinstance(value, np.ndarray):
        name = str(len(arrays))
        arrays[name] = value
        return name
    if isinstance(value, Track):
        # Equal masks in successive frames are stored once, with their number.
        runs = groupby(rle.counts for rle in value.rles)
        run_list = [[text, len(list(run))] for text, run in runs]
        return {"size": [value.height, value.width], "runs": run_list}
    if is_dataclass(value):
        return [_plain(getattr(value, field.name), arrays) for field in fields(value)]
    if isinstance(value, Mapping):
        return [[key, _plain(item, arrays)] for key, item in value.items()]
    if isinstance(value, tuple):
        return [_plain(item, arrays) for item in value]
    return value


def _value(type_: Any, plain: Any, arrays: Mapping[str, Array]) -> Any:
    """Return the value of type `type_` from the JSON data of `_plain`."""
    origin, inner = get_origin(type_), get_args(type_)
    if origin is np.ndarray:
        return arrays[plain]
    if type_ is Track:
        (height, width), runs = plain["size"], plain["runs"]
        rles = ([Rle(height, width, text)] * int(n_frames) for text, n_frames in runs)
        return Track.from_rles(list(chain.from_iterable(rles)))
    if isinstance(type_, type) and is_dataclass(type_):
        hints = get_type_hints(type_)
        pairs = zip(fields(type_), plain, strict=True)
        return type_(*(_value(hints[field.name], part, arrays) for field, part in pairs))
    if origin is collections.abc.Mapping:
        return {key: _value(inner[1], item, arrays) for key, item in plain}
    if origin is tuple:
        return tuple(_value(inner[0], item, arrays) for item in plain)
    if type(None) in inner:  # an optional type
        return None if plain is None else _value(inner[0], plain, arrays)
    return type_(*plain) if isinstance(plain, list) else plain  # a list: a NamedTuple, such as Box
