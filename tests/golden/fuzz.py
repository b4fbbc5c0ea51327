"""Compare our scorers with the official ones on new cases, made from a seed that the caller gives.

    python tests/golden/fuzz.py --official DIR --seed N [--cases N] [--only NAME]…

DIR holds a checkout of each repository that `REPOSITORIES` lists, under its name there. The
generators of the golden files make the cases, with further texts spoilt at random, and run the
official code as it stands in the checkouts; the comparisons of the golden files run ours. What a
family needs and is not there is skipped, by name. The exit code is 1 if a number differs or
official code could not be run, and the smallest case that differs is printed.

Besides the checkouts it needs torch and pandas; captions and BERTScore need what make_text.py does.
scikit-image is replaced where it is not installed, by the one function that is used of it.
Masks of polygons depend on the OpenCV that is installed: the official code is run by that one.
"""

import argparse
import contextlib
import importlib
import io
import json
import multiprocessing
import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
STEP = 1_000_003
"""Between the seeds of two rounds, which is more than any generator adds to its own."""
FLOAT32, SUMMED = 1e-6, 1e-11
"""How far a number may be off that is added up in float32, or from numbers in another order."""
SHOWN = 2_000  # characters of a case

REPOSITORIES = {
    "parse_answer": "thanku-all/parse_answer",
    "TempCompass": "llyx97/TempCompass",
    "spar": "fudan-zvg/spar",
    "STI-Bench": "MINT-SJTU/STI-Bench",
    "thinking-in-space": "vision-x-nyu/thinking-in-space",
    "lmms-eval": "EvolvingLMMs-Lab/lmms-eval",
    "V-STaR": "V-STaR-Bench/V-STaR",
    "Seg-Zero": "dvlab-research/Seg-Zero",
    "VisionReasoner": "dvlab-research/VisionReasoner",
    "VisionReasoner-JIA": "JIA-Lab-research/VisionReasoner",
    "davis2017-evaluation": "davisvideochallenge/davis2017-evaluation",
    "LISA": "dvlab-research/LISA",
    "MeViS": "henghuiding/MeViS",
    "LLMSeg": "wangjunchi/LLMSeg",
    "ReLA": "henghuiding/ReLA",
    "detectron2": "facebookresearch/detectron2",
    "gRefCOCO": "henghuiding/gRefCOCO",
    "ReferFormer": "wjn922/ReferFormer",
    "VISA": "cilinyan/VISA",
    "Sa2VA": "magic-research/Sa2VA",
    "RoboRefer": "Zhoues/RoboRefer",
    "RoboPoint": "wentaoyuan/RoboPoint",
    "pointarena": "pointarena/pointarena",
    "RoboSpatial-Eval": "chanhee-luke/RoboSpatial-Eval",
    "VideoLISA": "showlab/VideoLISA",
    "Video-MME-v2": "MME-Benchmarks/Video-MME-v2",
    "sam3": "facebookresearch/sam3",
    "SpaceR": "OuyangKun10/SpaceR",
    "Video-R1": "tulerfeng/Video-R1",
    "BLINK_Benchmark": "zeyofu/BLINK_Benchmark",
    "MMSI-Bench": "OpenRobotLab/MMSI-Bench",
    "VideoMMMU": "EvolvingLMMs-Lab/VideoMMMU",
    "Ask-Anything": "OpenGVLab/Ask-Anything",
    "MindCube": "mll-lab-nu/MindCube",
    "ViewSpatial-Bench": "ZJU-REAL/ViewSpatial-Bench",
    "SITE-Bench": "wenqi-wang20/SITE-Bench",
}
"""On GitHub, each at the commit that docs/conformance.md or the generator names."""


class Family(NamedTuple):
    """Cases of one official scorer."""

    checkouts: tuple[str, ...]
    make: str
    """`module.function` that writes golden files by the official code, or says what differs."""
    compare: str = ""
    """The module that compares golden files with our numbers; empty: `make` does it."""
    names: tuple[str, ...] = ()
    """Its checks, or the functions that yield comparisons."""


FORMATS = ("multi-choice", "yes_no", "caption_matching")
FAMILIES = {
    "video_mme": Family(
        ("parse_answer",),
        "make_answers.video_mme",
        "compare_answers",
        ("video_mme", "video_mme totals"),
    ),
    "longvideobench": Family(
        ("lmms-eval",),
        "make_answers.longvideobench",
        "compare_answers",
        ("longvideobench", "longvideobench totals"),
    ),
    "sti_bench": Family(
        ("STI-Bench",), "make_answers.sti_bench", "compare_answers", ("sti_bench",)
    ),
    "vsi_bench": Family(
        ("thinking-in-space", "lmms-eval"),
        "make_answers.vsi_bench",
        "compare_answers",
        ("vsi official", "vsi lmms2026", "vsi official totals", "vsi lmms2026 totals"),
    ),
    "vsi_numbers": Family(
        ("lmms-eval",), "make_answers.vsi_numbers", "compare_answers", ("vsi numbers",)
    ),
    "spar": Family(
        ("spar",), "make_answers.spar_bench", "compare_answers", ("spar", "spar totals")
    ),
    "tempcompass": Family(
        ("TempCompass",),
        "make_answers.temp_compass",
        "compare_answers",
        (
            *(f"tempcompass {name}" for name in FORMATS),
            *(f"tempcompass {name} totals" for name in FORMATS),
            "tempcompass captioning",
        ),
    ),
    "v_star": Family(
        ("V-STaR",),
        "make_places.v_star",
        "compare_places",
        ("vstar", "vstar totals", "vstar intervals", "vstar responses"),
    ),
    "matching": Family(("Seg-Zero",), "make_places.seg_zero", "compare_places", ("seg_zero",)),
    "coco": Family((), "make_places.coco", "compare_places", ("coco",)),
    "area_scores": Family(
        ("VisionReasoner",), "make_places.vision_reasoner", "compare_places", ("area scores",)
    ),
    "davis": Family(("davis2017-evaluation",), "make.davis", "compare_core", ("davis",)),
    "mevis": Family(("MeViS",), "make.mevis", "compare_core", ("mevis",)),
    "polygons": Family(("LISA",), "fuzz_rewards.polygons"),
    "lisa": Family(("LISA",), "make.lisa_overlap", "compare_core", ("lisa",)),
    "visionreasoner": Family(
        ("VisionReasoner",),
        "fuzz_rewards.visionreasoner_files",
        "compare_core",
        ("visionreasoner",),
    ),
    "llmseg": Family(
        ("LLMSeg",),
        "make_segmentation.llmseg",
        "compare_segmentation",
        ("llmseg_samples", "llmseg_squares", "llmseg_totals"),
    ),
    "referring": Family(
        ("LISA",),
        "make_segmentation.referring",
        "compare_segmentation",
        ("lisa_referring", "lisa_referring_totals"),
    ),
    "rela": Family(
        ("ReLA",), "make_segmentation.rela", "compare_segmentation", ("rela_samples", "rela_totals")
    ),
    "rela_mapper": Family(
        ("ReLA", "detectron2"), "make_rela_mapper.main", "compare_segmentation", ("rela_mapper",)
    ),
    "nonobject": Family(
        ("VisionReasoner-JIA",),
        "make_segmentation.nonobject",
        "compare_segmentation",
        ("nonobject_samples", "nonobject_totals"),
    ),
    "grec": Family(
        ("gRefCOCO",),
        "make_segmentation.grec",
        "compare_segmentation",
        ("grec_pairs", "grec_samples", "grec_totals"),
    ),
    "davis_unsupervised": Family(
        ("davis2017-evaluation",),
        "make_objects.davis",
        "compare_objects",
        ("davis_unsupervised", "davis_totals"),
    ),
    "argmax": Family(
        ("ReferFormer",), "make_objects.argmax", "compare_objects", ("referformer_argmax",)
    ),
    "revos": Family(
        ("VISA", "Sa2VA"),
        "make_objects.revos",
        "compare_objects",
        (
            "revos_visa",
            "revos_visa_totals",
            "revos_sa2va",
            "revos_sa2va_totals",
            "revos_foreground",
        ),
    ),
    "visa_davis": Family(("VISA",), "make_objects.visa_davis", "compare_objects", ("visa_davis",)),
    "points": Family(
        ("RoboRefer", "RoboPoint", "pointarena", "RoboSpatial-Eval", "lmms-eval"),
        "make_benchmarks.points",
        "compare_benchmarks",
        ("points",),
    ),
    **{
        name: Family((checkout,), f"make_benchmarks.{name}", "compare_benchmarks", (name,))
        for name, checkout in {
            "reason_vos": "VideoLISA",
            "ref_sav": "Sa2VA",
            "video_mme_v2": "Video-MME-v2",
            "letters": "lmms-eval",
            "revsi": "lmms-eval",
            "charades_sta": "lmms-eval",
            "mmvu": "lmms-eval",
            "video_mmmu": "lmms-eval",
            "saco": "sam3",
        }.items()
    },
    **{
        f"authors {name}": Family(checkouts, f"make_authors.{name}", "compare_authors", (name,))
        for name, checkouts in {
            "letters": (
                "BLINK_Benchmark",
                "MMSI-Bench",
                "VideoMMMU",
                "Ask-Anything",
                "MindCube",
                "ViewSpatial-Bench",
                "SITE-Bench",
            ),
            "blink": ("BLINK_Benchmark",),
            "video_mmmu": ("VideoMMMU",),
            "points": ("RoboRefer", "RoboPoint", "lmms-eval", "RoboSpatial-Eval"),
        }.items()
    },
    "captions": Family(
        (),
        "make_text.write_captions",
        "compare_text",
        ("tokens", "BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "ROUGE-L", "CIDEr", "METEOR"),
    ),
    "bertscore": Family((), "make_text.write_bertscore", "compare_text", ("bertscore",)),
    "visionreasoner_reward": Family(("Seg-Zero",), "fuzz_rewards.seg_zero"),
    "spacer_reward": Family(("SpaceR",), "fuzz_rewards.spacer"),
    "video_r1_reward": Family(("Video-R1",), "fuzz_rewards.video_r1"),
}


class Finding(NamedTuple):
    """One number of ours against the official one, over all cases of a round."""

    what: str
    cases: int
    deviation: float
    smallest: str
    """The smallest case that differs; empty where none does."""


TOTALS = (
    "averages",
    "cgF1, pHOTA",
    "cgF1, pmF1, IL_MCC",
    "accuracy",
    "all numbers",
    "all means",
    "davis_unsup_4anno: J, F",
    "F1_score",
    "gIoU, cIoU",
    "count/exact",
    "rating, in percent",
    "means, in percent",
)
"""In the names of numbers over many samples."""
MEANS = ("rvos/mevis", "visa_davis")
"""Of those that are means over a sample's frames."""


def limit(protocol: str) -> float:
    """How far the official tool's own rounding lets a number be off; 0 for those of one sample."""
    if "float32" in protocol:
        return FLOAT32
    return SUMMED if any(word in protocol for word in (*TOTALS, *MEANS)) else 0.0


class Files:
    """A folder of golden files that generators write and comparisons read."""

    def __init__(self, folder: Path, compare: str) -> None:
        self.folder = folder
        self.compare = importlib.import_module(compare)

    def at(self, folder: Path) -> None:
        """Let the comparisons read from a folder."""
        for name in ("scored", "pairs", "compare_core", "compare_text"):
            module = sys.modules.get(name)
            if module is not None:
                module.GOLDEN = folder  # type: ignore[attr-defined]
                getattr(module.read, "cache_clear", lambda: None)()

    def compared(self, name: str) -> Iterator[Any]:
        """What a check, or a function of several, says of the files that are read."""
        checks = getattr(self.compare, "CHECKS", {})
        if name not in checks:
            yield from getattr(self.compare, name)()
        elif isinstance(checks[name], tuple):
            protocol, file, check = checks[name]
            read, ours = self.compare.read, self.compare.OURS
            yield self.compare.compared(protocol, read(file), check(ours))
        else:
            yield checks[name](self.compare.OURS)

    def findings(self, names: tuple[str, ...]) -> Iterator[Finding]:
        """Every number of the files that were written."""
        for name in names:
            self.at(self.folder)
            for one in list(self.compared(name)):
                far = one.deviation > limit(one.protocol)
                smallest = self.smallest(name, one.protocol) if far else ""
                yield Finding(one.protocol, one.cases, one.deviation, smallest)

    def smallest(self, name: str, protocol: str) -> str:
        """The shortest case by which alone a number differs, or a word that only sums do."""
        if any(word in protocol for word in TOTALS):
            return "none: it is a number over all cases"
        found: list[str] = []
        for path in sorted(self.folder.rglob("*.json")):
            plain = json.loads(path.read_text("utf-8"))
            for case, alone in single(plain):
                with tempfile.TemporaryDirectory() as other:
                    target = Path(other) / path.relative_to(self.folder)
                    target.parent.mkdir(parents=True)
                    target.write_text(json.dumps(alone), "utf-8")
                    self.at(Path(other))
                    if self._differs(name, protocol):
                        found.append(json.dumps(case, ensure_ascii=False))
        self.at(self.folder)
        return min(found, key=len, default="none alone")

    def _differs(self, name: str, protocol: str) -> bool:
        """Whether a number of the files that are read is off, as far as they have it."""
        try:
            for one in self.compared(name):
                if one.protocol == protocol:
                    return bool(one.deviation > limit(protocol))
        except (OSError, LookupError, ValueError):
            pass  # the number is of another file
        return False


def single(plain: Any) -> Iterator[tuple[Any, Any]]:
    """Each case of a golden file, and the file with that case alone."""
    if isinstance(plain.get("cases"), list):
        for case in plain["cases"]:
            yield case, {**plain, "cases": [case]}
    for group in plain.get("groups", ()):
        for case in group["cases"]:
            yield case, {**plain, "groups": [{**group, "cases": [case]}]}


def round_of(name: str, official: Path, seed: int) -> list[Finding]:
    """Make the cases of one family from a seed, and compare; runs in a process of its own."""
    family = FAMILIES[name]
    sys.path.insert(0, str(HERE))
    warnings.simplefilter("ignore")
    import answers
    import official as tools

    answers.SPOILT = 0.4
    tools.replace_scikit_image()
    place, _, function = family.make.rpartition(".")
    module = importlib.import_module(place)
    if not family.compare:
        made: Callable[[Path, int], Iterator[Finding]] = getattr(module, function)
        return list(made(official, seed))
    with tempfile.TemporaryDirectory() as folder:
        files = Files(Path(folder), family.compare)
        for writer in ("checkouts", "official", "pieces", "make_text"):
            if writer in sys.modules:
                sys.modules[writer].HERE = Path(folder)  # type: ignore[attr-defined]
        for generator in [one for name, one in sys.modules.items() if name.startswith("make")]:
            generator.SEED = seed  # type: ignore[attr-defined]
        write: Callable[..., None] = getattr(module, function)
        with contextlib.redirect_stdout(io.StringIO()):  # each tells what it has written
            if family.checkouts:
                write(official)
            else:
                write()
        return list(files.findings(family.names))


def missing(family: Family, official: Path) -> list[str]:
    """What a family needs and DIR does not hold."""
    return [
        f"{name} (github.com/{REPOSITORIES[name]})"
        for name in family.checkouts
        if not (official / name).is_dir()
    ]


def fuzz(name: str, official: Path, seed: int, cases: int) -> bool:
    """Compare one family until it has so many cases; whether all was equal."""
    if lacking := missing(FAMILIES[name], official):
        print(f"{name}: SKIPPED, no checkout of {', '.join(lacking)}", flush=True)
        return True
    # LISA's numpy 1.24 sorted without vectors, and so must the one that runs LISA here.
    os.environ.setdefault("NPY_DISABLE_CPU_FEATURES", "X86_V3 X86_V4 AVX512_ICL AVX512_SPR")
    context = multiprocessing.get_context("spawn")
    counts: dict[str, int] = {}
    far: dict[str, float] = {}
    right, turn = True, 0
    while not turn or (right and max(counts.values()) < cases):
        # A process for each round: official files of equal names must not meet.
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            try:
                found = pool.submit(round_of, name, official, seed + turn * STEP).result()
            except ModuleNotFoundError as error:
                print(f"{name}: SKIPPED, the package {error.name} is not installed", flush=True)
                return right
            except (Exception, SystemExit, BrokenProcessPool) as error:  # noqa: BLE001
                traceback.print_exception(error)
                print(f"{name}: COULD NOT BE RUN with seed {seed + turn * STEP}", flush=True)
                return False
        for one in found:
            counts[one.what] = counts.get(one.what, 0) + one.cases
            far[one.what] = max(far.get(one.what, 0.0), one.deviation)
            if one.deviation > limit(one.what):
                right = False
                print(
                    f"{name}: {one.what}: DIFFERS by {one.deviation} with seed "
                    f"{seed + turn * STEP}; the smallest case: {one.smallest[:SHOWN]}",
                    flush=True,
                )
        turn += 1
    for what, count in counts.items():
        if far[what] <= limit(what):
            print(f"{name}: {what}: {count} cases, largest deviation {far[what]:g}", flush=True)
    return right


def main() -> int:
    """Run what is asked for; 1 if anything differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--official", type=Path, required=True, metavar="DIR")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument(
        "--cases",
        type=int,
        default=1,
        help="at least so many for each number; a round makes as many as the golden files have",
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=sorted(FAMILIES),
        metavar="NAME",
        help=f"one of {', '.join(sorted(FAMILIES))}",
    )
    given = parser.parse_args()
    if not given.official.is_dir():
        parser.error(f"--official {given.official}: expected a folder of checkouts, found none")
    done = [
        fuzz(name, given.official.resolve(), given.seed, given.cases)
        for name in given.only or FAMILIES
    ]
    return 0 if all(done) else 1


if __name__ == "__main__":
    raise SystemExit(main())
