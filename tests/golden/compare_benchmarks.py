"""Golden files of whole protocols against our numbers, scored as in a run."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from comparison import Comparison, gap
from scored import line, read

from harness.masks import Rle, SoftMask
from harness.media import pixels
from harness.metrics import letter_readers as readers
from harness.metrics.choices import video_mme_v2_choice
from harness.metrics.revos import in_percent
from harness.scores import Totals
from harness.task import Protocol
from harness.tasks.charades_sta.task import PROTOCOLS as CHARADES_STA
from harness.tasks.mmvu.scoring import is_option, is_text
from harness.tasks.pointbench.task import PROTOCOLS as POINTBENCH
from harness.tasks.reason_vos.task import PROTOCOLS as REASON_VOS
from harness.tasks.ref_sav.task import PROTOCOLS as REF_SAV
from harness.tasks.ref_sav.task import TYPES
from harness.tasks.refspatial.task import PROTOCOLS as REFSPATIAL
from harness.tasks.revsi.task import PROTOCOLS as REVSI
from harness.tasks.robospatial.task import PROTOCOLS as ROBOSPATIAL
from harness.tasks.saco.scoring import PROTOCOLS as SACO
from harness.tasks.saco_veval.task import PROTOCOLS as VEVAL
from harness.tasks.video_mme_v2.scoring import PROTOCOLS as VIDEO_MME_V2
from harness.tasks.video_mmmu.scoring import PROTOCOLS as VIDEO_MMMU
from harness.tasks.where2place.task import PROTOCOLS as WHERE2PLACE
from harness.types import (
    Answer,
    AnswerForm,
    Failure,
    FailureKind,
    Interval,
    Point,
    Prediction,
    Query,
    Sample,
    Target,
)


def sample_of(
    answer: Answer,
    *,
    size: tuple[int, int] = (1, 1),
    form: AnswerForm = AnswerForm.POINTS,
    extra: Mapping[str, Any] | None = None,
    categories: Mapping[str, str] | None = None,
) -> Sample:
    """A sample with this ground truth, about a black image of (height, width)."""
    media = pixels([np.zeros((*size, 3), np.uint8)], times=(0.0,), is_video=False, id="black")
    return Sample(
        id="s",
        query=Query(id="q", text="?", media=(media,), forms=(form,)),
        target=Target(answer=answer, extra=extra or {}),
        categories=categories or {},
    )


def number(protocol: Protocol, sample: Sample, prediction: Prediction, name: str) -> float:
    """The value of one number of one sample."""
    statistic: Any = protocol.score([sample], [prediction])[name]
    return float(statistic.value)


def points_answer(points: Sequence[Sequence[float]]) -> Prediction:
    """An answer of points, which may be none."""
    return Prediction(query_id="q", answer=Answer(points=tuple(Point(x, y) for x, y in points)))


def pointing(protocol: Protocol, name: str, key: str, source: str) -> Comparison:
    """A protocol of regions against the golden file `pointing/NAME.json`."""
    file, deviations = read(f"pointing/{name}.json"), []
    for case in file["cases"]:
        region = SoftMask.from_json(case["region"])
        sample = sample_of(Answer(soft_masks=(region,)), extra={"count": case.get("count")})
        found = number(protocol, sample, points_answer(case["points"]), "accuracy")
        deviations.append(gap(found, float(case[key])))
    return line(protocol.name, source, file, deviations)


def robospatial() -> Comparison:
    file, deviations = read("pointing/robospatial.json"), []
    protocol = ROBOSPATIAL["robospatial/official"]
    for case in file["cases"]:
        if "polygon" in case:
            extra, truth = {"polygon": case["polygon"]}, Answer()
            prediction = points_answer([case["point"], (0.5, 0.5)])
        else:
            extra, truth = {}, Answer(text=case["truth"].lower())
            prediction = Prediction(
                query_id="q", answer=Answer(text=case["said"]), responses=(case["said"],)
            )
        sample = sample_of(truth, extra=extra, categories={"category": "context"})
        deviations.append(
            gap(number(protocol, sample, prediction, "accuracy"), float(case["right"]))
        )
    return line(protocol.name, "evaluation.py", file, deviations)


def points() -> Iterator[Comparison]:
    refspatial, where2place = REFSPATIAL["refspatial/official"], WHERE2PLACE["where2place/official"]
    yield pointing(refspatial, "refspatial", "accuracy", "summarize_acc.py")
    yield pointing(REFSPATIAL["refspatial/white"], "white", "accuracy", "where2place/utils.py")
    yield pointing(where2place, "where2place", "accuracy", "summarize_vqa.py")
    yield pointing(WHERE2PLACE["where2place/white"], "white", "accuracy", "where2place/utils.py")
    official = POINTBENCH["pointbench/official"]
    yield pointing(official, "pointbench", "success", "model_evaluator.py")
    yield robospatial()


def track(size: Sequence[int], counts: Sequence[str]) -> tuple[Rle, ...]:
    """The masks of a track in a golden file."""
    return tuple(Rle(size[0], size[1], one) for one in counts)


def reason_vos() -> Iterator[Comparison]:
    file, deviations = read("reason_vos/scores.json"), []
    protocol = REASON_VOS["reasonvos/official"]
    totals = Totals(protocol.metrics)
    for case in file["cases"]:
        masks = track(case["size"], case["truth"])
        sample = sample_of(
            Answer(masks=masks), size=case["size"], extra={"counted": tuple(range(len(masks)))}
        )
        if case["predicted"] is None:
            prediction = Prediction(query_id="q", failure=Failure(FailureKind.MODEL, "none"))
        else:
            answer = Answer(masks=track(case["size"], case["predicted"]))
            prediction = Prediction(query_id="q", answer=answer)
        found: Any = protocol.score([sample], [prediction])
        totals.add(found)
        official = case["official"] or [None, None]
        for name, value in zip("JF", official, strict=True):
            deviations.append(gap(found[name].value if found else None, value))
    yield line("reasonvos/official: samples", "eval_reason_vos.py", file, deviations)
    numbers = totals.values()
    whole = [gap(numbers[name], file[key]) for name, key in (("J", "J"), ("F", "F"), ("J&F", "JF"))]
    yield line("reasonvos/official: means", "eval_reason_vos.py", file, whole)


def ref_sav() -> Iterator[Comparison]:
    file, deviations = read("ref_sav/scores.json"), []
    protocol = REF_SAV["refsav/official"]
    totals = Totals(protocol.metrics)
    for case in file["cases"]:
        objects, kind = [track(case["size"], one) for one in case["objects"]], TYPES[case["type"]]
        union = tuple(Rle.union(*frame) for frame in zip(*objects, strict=True))
        sample = sample_of(
            Answer(masks=union),
            size=case["size"],
            extra={"objects": objects, "foreground": union},
            categories={"type": kind},
        )
        answer = Answer(masks=track(case["size"], case["predicted"]))
        found: Any = protocol.score([sample], [Prediction(query_id="q", answer=answer)])
        totals.add(found)
        for name, value in zip("JFA", case["official"], strict=True):
            deviations.append(gap(found[f"{name} {kind}"].value, in_percent(value) / 100))
    yield line("refsav/official: samples", "eval_ref_sav.py", file, deviations)
    numbers = totals.values()
    whole = []
    for kind in (*TYPES, "overall"):
        end = "" if kind == "overall" else f" {kind}"
        for name, key in (("J", "J"), ("F", "F"), ("A", "A"), ("J&F", "JF")):
            if f"{name}{end}" in numbers:
                ours = numbers[f"{name}{end}"]
                value = file["results"][kind][key]
                whole.append(gap(None if ours is None else ours * 100, value))
    yield line("refsav/official: means, in percent", "eval_ref_sav.py", file, whole)


def video_mme_v2() -> Iterator[Comparison]:
    file, deviations = read("video_mme_v2/scores.json"), []
    letters = [float((video_mme_v2_choice(one) or "") != said) for one, said in file["letters"]]
    yield line("videommev2/official: letters", "test_video_mme_v2.py", file, letters)
    protocol = VIDEO_MME_V2["videommev2/official"]
    totals = Totals(protocol.metrics)
    said = {1: "A", 0: "B", -1: "none"}
    for case in file["cases"]:
        categories = {"group_type": case["type"], "level": str(case["level"])}
        extra = {"structure": case["structure"], "letter": "A", "letters": "ABCDEFGH"}
        sample = sample_of(Answer(choice="A"), extra=extra, categories=categories)
        answers = [
            Prediction(query_id="q", answer=Answer(text="?"), responses=(said[one],))
            for one in case["scores"]
        ]
        found: Any = protocol.score([sample] * 4, answers)
        totals.add(found)
        deviations.append(gap(found["score"].value * 100, case["points"]))
    yield line("videommev2/official: groups, in percent", "test_video_mme_v2.py", file, deviations)
    numbers, rating = totals.values(), file["rating"]
    names = {
        "score": "total",
        "logic": "logic_score",
        "relevance": "relevance_score",
        "relevance_linear": "relevance_linear_score",
        **{f"level_{one}": f"level_{one}" for one in (1, 2, 3)},
    }
    whole = [gap((numbers[ours] or 0) * 100, rating[theirs]) for ours, theirs in names.items()]
    yield line("videommev2/official: rating, in percent", "test_video_mme_v2.py", file, whole)


READERS = {
    "mvbench": ("mvbench/lmms", readers.mvbench_choice),
    "perception_test": ("perceptiontest/lmms", readers.perception_test_choice),
    "mmsi": ("mmsi/lmms", readers.mmsi_choice),
    "mindcube": ("mindcube", lambda said: readers.mindcube_choice(said.strip())),
    "view_spatial": ("viewspatial", readers.view_spatial_choice),
    "leading": ("blink/lmms, embspatial/lmms", readers.leading_choice),
    "three_dsr": ("3dsr/lmms", readers.three_dsr_choice),
    "site": ("site", lambda said: readers.site_choice(said, "ABCD")),
    "mcq": ("videommmu/lmms", lambda said: readers.mcq_choice(said, "ABCDE")),
}


def letters() -> Iterator[Comparison]:
    file = read("letters/lmms_eval.json")
    for place, name in enumerate(file["readers"], start=1):
        protocol, ours = READERS[name]
        deviations = [float(ours(case[0]) != case[place]) for case in file["cases"]]
        yield line(f"{protocol}: letters", "tasks/*/utils.py", file, deviations)


def mmvu() -> Iterator[Comparison]:
    file = read("mmvu/rules.json")
    options = list(file["choices"].values())
    deviations = [
        float(is_option(said, one, options) != right) for one, said, right in file["cases"]
    ]
    yield line("mmvu/rules: options", "mmvu/utils.py", file, deviations)
    deviations = [float(is_text(said, truth) != right) for truth, said, right in file["free"]]
    yield line("mmvu/rules: free answers", "mmvu/utils.py", file, deviations)


def video_mmmu() -> Iterator[Comparison]:
    file, deviations = read("video_mmmu/open.json"), []
    protocol = VIDEO_MMMU["videommmu/lmms"]
    totals = Totals(protocol.metrics)
    for truth, said, right in file["cases"]:
        extra, categories = {"letter": None, "letters": ""}, {"track": "adaptation"}
        sample = sample_of(Answer(text=truth), extra=extra, categories=categories)
        prediction = Prediction(query_id="q", answer=Answer(text="?"), responses=(said,))
        found: Any = protocol.score([sample], [prediction])
        totals.add(found)
        one = found["accuracy"]
        deviations.append(gap(one.numerator if one.denominator else None, right))
    yield line("videommmu/lmms: free answers", "videommmu/utils.py", file, deviations)
    whole = [gap(round(totals.values()["accuracy"] or 0, 5), file["total"])]
    yield line("videommmu/lmms: mean, to 5 places", "videommmu/utils.py", file, whole)


def revsi() -> Iterator[Comparison]:
    file, deviations = read("revsi/scores.json"), []
    protocol = REVSI["revsi/lmms"]
    totals = Totals(protocol.metrics)
    for kind, truth, said, official in file["cases"]:
        is_choice = kind.startswith(("object_rel", "route"))
        answer = Answer(choice=truth) if is_choice else Answer(number=float(truth))
        sample = sample_of(answer, extra={"letters": "ABCD"}, categories={"type": kind})
        prediction = Prediction(query_id="q", answer=Answer(text="?"), responses=(said,))
        found: Any = protocol.score([sample], [prediction])
        totals.add(found)
        deviations.append(gap(found[kind].value, official))
    yield line("revsi/lmms: samples", "revsi/utils.py", file, deviations)
    numbers = totals.values()
    whole = [gap(numbers[name.removesuffix("_acc")], one) for name, one in file["totals"].items()]
    yield line("revsi/lmms: averages", "revsi/utils.py", file, whole)


def charades_sta() -> Iterator[Comparison]:
    file, deviations = read("charades_sta/scores.json"), []
    protocol = CHARADES_STA["charades/interval"]
    totals = Totals(protocol.metrics)
    for truth, text, _, official in file["cases"]:
        sample = sample_of(Answer(interval=Interval(*truth)))
        said = Prediction(query_id="q", answer=Answer(text="?"), responses=(text,))
        found: Any = protocol.score([sample], [said])
        totals.add(found)
        deviations.append(gap(found["mIoU"].value, official))
    yield line("charades/interval: responses", "charades_sta/utils.py", file, deviations)
    numbers, official = totals.values(), file["totals"]
    names = {"mIoU": "mIOU", **{f"R1@0.{one}": f"IOU@{one}" for one in (3, 5, 7)}}
    whole = [gap((numbers[ours] or 0) * 100, official[theirs]) for ours, theirs in names.items()]
    yield line("charades/interval: means, in percent", "charades_sta/utils.py", file, whole)


def tracks_24x30(tracks: Sequence[Sequence[str]]) -> tuple[tuple[Rle, ...], ...]:
    """Objects of a golden file of SA-Co."""
    return tuple(tuple(Rle(24, 30, counts) for counts in one) for one in tracks)


def saco_totals(
    protocol: Protocol, cases: Sequence[Any], annotators: int, key: str
) -> dict[str, float | None]:
    """Our numbers over cases with up to three annotators of their objects."""
    totals = Totals(protocol.metrics)
    for case in cases:
        truths = [tracks_24x30(one) for one in (case[key] if key == "truths" else [case[key]])]
        said = tracks_24x30(case["predicted"])
        sample = sample_of(Answer(), extra={"annotators": truths[:annotators]})
        masks = tuple(Rle.union(*frame) for frame in zip(*said, strict=True))
        answer = Answer(masks=masks, instances=said, box_scores=tuple(case["scores"]))
        prediction = Prediction(query_id="q", answer=answer)
        totals.add(protocol.score([sample], [prediction]))
    return totals.values()


def saco() -> Iterator[Comparison]:
    file, deviations = read("saco/masks.json"), []
    for annotators, official in file["totals"].items():
        protocol = SACO["saco/official"]
        numbers = saco_totals(protocol, file["cases"], int(annotators), "truths")
        deviations += [gap(numbers[name], value) for name, value in official.items()]
    yield line("saco/official: cgF1, pmF1, IL_MCC", "cgf1_eval.py", file, deviations)
    file = read("saco/tracks.json")
    numbers = saco_totals(VEVAL["veval/official"], file["cases"], 1, "true")
    whole = [gap(numbers[name], value) for name, value in file["totals"].items()]
    yield line("veval/official: cgF1, pHOTA", "saco_veval_evaluators.py", file, whole)


def comparisons() -> Iterator[Comparison]:
    """One line a protocol and official number."""
    yield from points()
    yield from reason_vos()
    yield from ref_sav()
    yield from video_mme_v2()
    yield from letters()
    yield from mmvu()
    yield from video_mmmu()
    yield from revsi()
    yield from charades_sta()
    yield from saco()
