"""Golden files of segmentation against our numbers.

A check takes the modules to test, so that the mutation tests can hand it spoiled ones, and yields
pairs of numbers, ours and the official one.
"""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
from comparison import Comparison
from pairs import Modules, Pairs, compared, equal, mask, masks, read, totals

from harness.masks import Rle
from harness.metrics import generalised, grec, normalised, overlap, referring
from harness.scores import Mean, Metric, Ratio
from harness.tasks.grefcoco.task import square_mask
from harness.tasks.refer.annotations import ImageInfo, ObjectEntry
from harness.types import Box

OURS = SimpleNamespace(
    generalised=generalised, grec=grec, normalised=normalised, overlap=overlap, referring=referring
)
LISA = Metric("gIoU", epsilon=1e-5), Metric("cIoU", epsilon=1e-10)


def llmseg_samples(m: Modules) -> Pairs:
    for case in read("llmseg/masks.json")["cases"]:
        ground_truth, ignore = masks(case, "ground_truth", "ignore")
        height, width = case["size"]
        output = mask(tuple(case["answer_size"]), case["predicted"])
        for first, second, void in forms(ground_truth, output, ignore):
            if (output.height, output.width) != (height, width):
                second = m.normalised.nearest_resize(second, height=height, width=width)
            counts = m.overlap.overlap(first, second, void)
            yield from equal(counts, (case["I"], case["U"]))
            yield m.normalised.llmseg_iou(*counts), case["iou"]


def forms(*found: Rle | None) -> Iterator[list[Any]]:
    """Masks as run-lengths, and again as arrays."""
    yield list(found)
    yield [None if one is None else one.to_array() for one in found]


def llmseg_squares(m: Modules) -> Pairs:
    for case in read("llmseg/masks.json")["cases"][::3]:
        ground_truth, ignore = masks(case, "ground_truth", "ignore")
        output = mask(tuple(case["answer_size"]), case["predicted"])
        counts = m.normalised.normalised_overlap(ground_truth, output, ignore)
        yield from equal(counts, (case["square_I"], case["square_U"]))


def llmseg_totals(m: Modules) -> Pairs:
    file = read("llmseg/masks.json")
    found = totals(
        (*LISA, Metric("ncIoU", epsilon=1e-10)),
        (
            {
                "gIoU": Mean(m.normalised.llmseg_iou(case["I"], case["U"])),
                "cIoU": Ratio(case["I"], case["U"]),
                "ncIoU": Ratio(case["square_I"], case["square_U"]),
            }
            for case in file["cases"]
        ),
    )
    yield from equal(found.values(), (file[name] for name in found))


def expressions(m: Modules) -> Iterator[tuple[dict[str, Any], list[Any]]]:
    """Each image with the counts of its expressions."""
    for case in read("lisa/referring.json")["cases"]:
        size, counts = tuple(case["size"]), []
        for parts, output in zip(case["objects"], case["predicted"], strict=True):
            decoded = [mask(size, part) for part in parts]
            ground_truth = m.referring.referring_mask(decoded, form="compat")
            counts.append(m.overlap.overlap(ground_truth, mask(size, output)))
        yield case, counts


def lisa_referring(m: Modules) -> Pairs:
    for case, counts in expressions(m):
        yield from equal(
            (sum(one[place] for one in counts) for place in (0, 1)), (case["I"], case["U"])
        )


def lisa_referring_totals(m: Modules) -> Pairs:
    file = read("lisa/referring.json")
    every = [one for _, counts in expressions(m) for one in counts]
    found = totals(
        LISA, ({"gIoU": Mean(m.overlap.lisa_iou(*one)), "cIoU": Ratio(*one)} for one in every)
    )
    yield from equal(found.values(), (file[name] for name in found))


def rela_samples(m: Modules) -> Pairs:
    for group in read("rela/samples.json")["groups"]:
        for case in group["cases"]:
            for pair in forms(*masks(case, "ground_truth", "predicted")):
                yield from equal(
                    rela_credit(m, case, *pair), (case[key] for key in ("iou", "I", "U"))
                )


def rela_mapper(m: Modules) -> Pairs:
    """The true mask on the square, and what a prediction there adds."""
    for number, case in enumerate(read("rela/mapper.json")["cases"]):
        height, width = case["size"]
        things = [
            ObjectEntry(
                id=1, image_id=1, category_id=1, crowd=bool(one["iscrowd"]), plain=one, where=""
            )
            for one in case["objects"]
        ]
        image = ImageInfo(id=1, file_name="", width=width, height=height)
        ground_truth = square_mask(things, image)
        yield from equal(
            (ground_truth.counts == case["ground_truth"], 1, *ground_truth.size),
            (True, *case["grid"]),
        )
        output = Rle.from_array(np.roll(ground_truth.to_array(), 1 + number % 5, axis=number % 2))
        credit = m.generalised.rela_credit(
            m.overlap.overlap(ground_truth, output),
            no_target=not things,
            predicted_no_target=case["said"],
        )
        yield from equal(credit, (case[key] for key in ("iou", "I", "U")))


def rela_credit(m: Modules, case: dict[str, Any], ground_truth: Any, said: Any) -> Any:
    """What a sample adds."""
    counts = m.overlap.overlap(ground_truth, said)
    return m.generalised.rela_credit(
        counts, no_target=case["none"], predicted_no_target=case["said"]
    )


def rela_totals(m: Modules) -> Pairs:
    names = ["gIoU", "cIoU", "T_acc", "N_acc", *(f"Pr@{one}" for one in m.generalised.THRESHOLDS)]
    for group in read("rela/samples.json")["groups"]:
        found = totals(map(Metric, names), (rela_scores(m, case) for case in group["cases"]))
        if found["N_acc"] is None:  # the official code prints 0 for both
            found |= {"N_acc": 0.0, "T_acc": 0.0}
        for name in names:
            scale = 1 if name.endswith("acc") else 100
            yield found[name] * scale, group["totals"][name]


def rela_scores(m: Modules, case: dict[str, Any]) -> dict[str, Any]:
    """The statistics of a sample."""
    credit = rela_credit(m, case, *masks(case, "ground_truth", "predicted"))
    scores = {"gIoU": Mean(credit.iou), "cIoU": Ratio(credit.intersection, credit.union)}
    if case["none"]:
        return {**scores, "N_acc": Ratio(case["said"], 1)}
    reached = m.overlap.precision_at(credit.iou, thresholds=m.generalised.THRESHOLDS)
    shares = zip(m.generalised.THRESHOLDS, reached, strict=True)
    return {
        **scores,
        "T_acc": Ratio(not case["said"], 1),
        **{f"Pr@{threshold}": Mean(float(share)) for threshold, share in shares},
    }


def nonobject_samples(m: Modules) -> Pairs:
    for group in read("visionreasoner/nonobject.json")["groups"]:
        for case in group["cases"]:
            credit, hit = nonobject(m, case)
            yield from equal((*credit, hit), (case[key] for key in ("iou", "I", "U", "hit")))


def nonobject(m: Modules, case: dict[str, Any]) -> tuple[Any, bool]:
    """What a sample adds, and whether a box hits."""
    ground_truth, output = masks(case, "ground_truth", "predicted")
    boxes = [Box(*sides) for sides in case["boxes"]]
    credit = m.generalised.nonobject_credit(
        m.overlap.overlap(ground_truth, output), no_target=ground_truth.area == 0, boxes=len(boxes)
    )
    true_box = Box(*case["box"]) if case["box"] else m.generalised.nonobject_box(ground_truth)
    return credit, m.generalised.nonobject_box_hit(true_box, boxes)


def nonobject_totals(m: Modules) -> Pairs:
    for group in read("visionreasoner/nonobject.json")["groups"]:
        scores = []
        for case in group["cases"]:
            credit, hit = nonobject(m, case)
            scores.append(
                {
                    "gIoU": Mean(credit.iou),
                    "bbox_iou": Mean(hit),
                    "cIoU": Ratio(credit.intersection, credit.union),
                }
            )
            if masks(case, "ground_truth")[0].area == 0:
                scores[-1]["N-Acc"] = Ratio(not case["boxes"], 1)
        found = totals(map(Metric, group["totals"]), scores)
        yield from equal(found.values(), group["totals"].values())


def grec_pairs(m: Modules) -> Pairs:
    for case in read("grefcoco/boxes.json")["cases"]:
        if "giou" in case:
            found = m.grec.generalised_box_iou(case["ground_truth"], case["predicted"])
            yield from equal(found.ravel().tolist(), np.ravel(case["giou"]).tolist())


def grec_samples(m: Modules) -> Pairs:
    for case in read("grefcoco/boxes.json")["cases"]:
        yield m.grec.grec_f1(case["ground_truth"], confident(m, case)), case["f1"]


def confident(m: Modules, case: dict[str, Any]) -> Any:
    """A sample's boxes that count."""
    return m.grec.confident(case["predicted"], case["scores"])


def grec_totals(m: Modules) -> Pairs:
    file, scores = read("grefcoco/boxes.json"), []
    for case in file["cases"]:
        kept = confident(m, case)
        accuracy = (
            {"T_acc": Mean(bool(kept))} if case["ground_truth"] else {"N_acc": Mean(not kept)}
        )
        scores.append(
            {"F1_score": Mean(m.grec.grec_f1(case["ground_truth"], kept) >= 1.0), **accuracy}
        )
    found = totals(map(Metric, file["totals"]), scores)
    yield from equal(found.values(), file["totals"].values())


CHECKS: dict[str, tuple[str, str, Callable[[Modules], Pairs]]] = {
    function.__name__: (protocol, name, function)
    for protocol, name, function in (
        ("seg/llmseg: samples, predictions resized", "llmseg/masks.json", llmseg_samples),
        ("seg/llmseg: masks on squares, for ncIoU", "llmseg/masks.json", llmseg_squares),
        ("seg/llmseg: gIoU, cIoU, ncIoU (float32 sums)", "llmseg/masks.json", llmseg_totals),
        ("res/expression: compat", "lisa/referring.json", lisa_referring),
        ("res/expression: gIoU, cIoU (float32 sums)", "lisa/referring.json", lisa_referring_totals),
        ("res/rela: masks on 480 × 480", "rela/mapper.json", rela_mapper),
        ("res/rela: samples", "rela/samples.json", rela_samples),
        ("res/rela: all numbers", "rela/samples.json", rela_totals),
        ("res/visionreasoner-nonobj: samples", "visionreasoner/nonobject.json", nonobject_samples),
        (
            "res/visionreasoner-nonobj: all numbers",
            "visionreasoner/nonobject.json",
            nonobject_totals,
        ),
        ("rec/grec: generalised IoU", "grefcoco/boxes.json", grec_pairs),
        ("rec/grec: F1 of a sample", "grefcoco/boxes.json", grec_samples),
        ("rec/grec: F1_score, N_acc, T_acc", "grefcoco/boxes.json", grec_totals),
    )
}


def comparisons() -> Iterator[Comparison]:
    """One line a protocol and official number."""
    for protocol, name, check in CHECKS.values():
        yield compared(protocol, read(name), check(OURS))
