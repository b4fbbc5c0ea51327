"""Write the golden files of the general video benchmarks: what official code makes of the examples.

    python tests/golden/make_video_qa.py --official FOLDER

FOLDER holds checkouts named `lmms-eval` and `LongVideoBench` at the commits that `checkouts.py`
lists or that stand here; their code is compiled from there, without what it imports,
and none of it is kept here. What it reads are the examples that are committed beside the tasks.
"""

import argparse
import json
import re
from pathlib import Path

import av
import numpy as np
from checkouts import COMMITS, parts, write
from pyarrow import parquet

TASKS = Path(__file__).resolve().parents[2] / "tasks"
COMMITS["LongVideoBench"] = "fc3c553250cfee6853a722f9b181f1b69f478426"
FRAMES = (2, 4, 8)


def example(name: str) -> Path:
    """The committed example of a benchmark."""
    return TASKS / name / "example" / name


def times(path: Path) -> tuple[int, float]:
    """Number of frames, and frames a second, as decord tells them."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        return stream.frames, float(stream.average_rate)


def video_mme(official: Path) -> None:
    """Subtitles of every video that are on show in 2, 4 and 8 frames of lmms-eval's rule."""
    code = parts(
        official / "lmms-eval/lmms_eval/tasks/videomme/utils.py",
        ["parse_subtitle_time", "load_subtitles", "convert_time_to_frame"],
    )
    place = example("video_mme")
    shown = []
    for path in sorted((place / "subtitle").glob("*.srt")):
        total, rate = times(place / "data" / f"{path.stem}.mp4")
        lines = [
            (
                code["convert_time_to_frame"](start, rate),
                code["convert_time_to_frame"](end, rate),
                text,
            )
            for (start, end), text in code["load_subtitles"](str(path)).items()
        ]
        for count in FRAMES:
            frames = np.linspace(0, total - 1, count, dtype=int).tolist()
            info = [text for start, end, text in lines if any(start <= k < end for k in frames)]
            words = [
                re.findall(r'<font color="white" size=".72c">(.*?)</font>', one)[0] for one in info
            ]
            shown.append([path.stem, count, "\n".join(words)])
    rows = parquet.read_table(place / "videomme" / "test-00000-of-00001.parquet").to_pylist()
    prompts = [
        [row["question_id"], row["question"] + "\n" + "\n".join(row["options"])] for row in rows
    ]
    write(
        "readers/video_mme.json",
        "lmms-eval",
        "tasks/videomme/utils.py: [video, frames, subtitles shown]; [id, question and options]",
        subtitles=shown,
        questions=prompts,
    )


def long_video_bench(official: Path) -> None:
    """Frames and subtitles in the order of the official dataset, and its prompt."""
    code = parts(
        official / "LongVideoBench/longvideobench/longvideobench_dataset.py",
        ["timestamp_to_seconds", "insert_subtitles_into_frames"],
    )
    place = example("long_video_bench")
    interleaved, prompts = [], []
    for row in json.loads((place / "lvb_val.json").read_text("utf-8")):
        _, rate = times(place / "videos" / row["video_path"])
        subtitles = json.loads((place / "subtitles" / row["subtitle_path"]).read_text("utf-8"))
        for count in FRAMES:
            number = min(count, int(row["duration"]))
            frames = [int(int(row["duration"] * rate) / number) * k for k in range(number)]
            mixed = code["insert_subtitles_into_frames"](
                [f"<frame {k + 1}>" for k in range(number)],
                [k / rate for k in frames],
                subtitles,
                row["starting_timestamp_for_subtitles"],
                row["duration"],
            )
            interleaved.append([row["id"], count, frames, mixed])
        options = [f"{chr(65 + k)}. {one}" for k, one in enumerate(row["candidates"])]
        prompts.append(
            [
                row["id"],
                "\n".join(
                    [
                        "Question: " + row["question"],
                        *options,
                        "Answer with the option's letter from the given choices directly.",
                    ]
                ),
            ]
        )
    write(
        "readers/long_video_bench.json",
        "LongVideoBench",
        "longvideobench_dataset.py: [id, frames, their numbers, inputs]; [id, end of inputs]",
        interleaved=interleaved,
        questions=prompts,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--official", type=Path, required=True)
    given = parser.parse_args().official
    video_mme(given)
    long_video_bench(given)
