"""Golden files of video segmentation against our numbers.

A check takes the modules to test, as in `compare_segmentation.py`.
"""

from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from comparison import Comparison
from pairs import Modules, Pairs, compared, equal, mask, read, totals

from harness.masks import Rle
from harness.metrics import boundary, overlap, revos, unsupervised
from harness.scores import Mean, Metric

OURS = SimpleNamespace(boundary=boundary, overlap=overlap, revos=revos, unsupervised=unsupervised)
FORMS = {"VISA": "visa255", "Sa2VA": "binary"}


def labels(case: dict[str, Any], name: str) -> Any:
    """Frames of labels from the run-lengths of each."""
    size = tuple(case["size"])
    found = np.zeros((len(case[name]), *size), dtype=np.uint8)
    for frame, objects in enumerate(case[name]):
        for number, counts in objects.items():
            found[frame][mask(size, counts).to_array()] = int(number)
    return found


def davis_objects(m: Modules, case: dict[str, Any]) -> tuple[Any, Any]:
    """Our J and F of a video's objects, as arrays and as run-lengths."""
    annotated = labels(case, "ground_truth")
    count = m.unsupervised.object_count(annotated[0])
    ground_truth, void = [annotated == number for number in range(1, count + 1)], annotated == 255
    output = m.unsupervised.proposals(labels(case, "predicted"))
    arrays = m.unsupervised.unsupervised_scores(ground_truth, output, void)
    if len(output) > 8:  # a matrix of matches takes long enough once
        return arrays, arrays
    runs = m.unsupervised.unsupervised_scores(
        [track(one) for one in ground_truth], [track(one) for one in output], track(void)
    )
    return arrays, runs


def track(array: Any) -> list[Rle]:
    """A run-length a frame."""
    return [Rle.from_array(frame) for frame in array]


def davis_unsupervised(m: Modules) -> Pairs:
    """Pairs of J and F of a video, sorted: the official order is that of the proposals."""
    for case in read("davis2017/unsupervised.json")["cases"]:
        expected = sorted(zip(case["J"], case["F"], strict=True))
        for found in davis_objects(m, case):
            ours = sorted(zip(found.j.tolist(), found.f.tolist(), strict=True))
            yield from equal(np.ravel(ours).tolist(), np.ravel(expected).tolist())


def davis_totals(m: Modules) -> Pairs:
    """A video counts by its objects."""
    file = read("davis2017/unsupervised.json")
    scores = []
    for case in file["cases"]:
        found = davis_objects(m, case)[0]
        scores.append(
            {
                "J": Mean(float(found.j.mean()), weight=len(found.j)),
                "F": Mean(float(found.f.mean()), weight=len(found.f)),
            }
        )
    values = totals(map(Metric, "JF"), scores)
    yield from equal(values.values(), (file["totals"][name] for name in values))


def referformer_argmax(m: Modules) -> Pairs:
    for case in read("referformer/argmax.json")["cases"]:
        confidences = [np.array(one, dtype=np.float32) for one in case["confidences"]]
        found = m.unsupervised.soft_argmax(confidences)
        yield from equal(found.ravel().tolist(), np.ravel(case["labels"]).tolist())


def visa_davis(m: Modules) -> Pairs:
    file = read("visa/davis.json")
    scores = []
    for case in file["cases"]:
        ground_truth, output = (tracked(case, case[name]) for name in ("ground_truth", "predicted"))
        j = float(m.overlap.region_similarity(ground_truth, output).mean())
        f = float(m.boundary.boundary_f_measure(ground_truth, output).mean())
        yield from equal((j, f), (case["J"], case["F"]))
        scores.append({"J": Mean(j), "F": Mean(f)})
    found = totals((*map(Metric, "JF"), JF), scores)
    yield from equal((round(100 * value, 2) for value in found.values()), file["totals"].values())


JF = Metric("J&F", inputs=("J", "F"), derived=lambda j, f: (j + f) / 2)


def tracked(case: dict[str, Any], counts: Sequence[str | None]) -> list[Rle]:
    """A track of stored masks; a frame without one is empty."""
    size = tuple(case["size"])
    return [Rle.empty(*size) if one is None else mask(size, one) for one in counts]


def revos_tracks(case: dict[str, Any]) -> tuple[list[list[Rle]], list[Rle], list[Rle]]:
    """An expression's objects, the prediction and the video's foreground."""
    objects = [tracked(case, one) for one in case["objects"]]
    return objects, tracked(case, case["predicted"]), tracked(case, case["foreground"])


def revos_expressions(m: Modules, name: str) -> Pairs:
    file = read(name)
    for case in file["cases"]:
        found = m.revos.revos_scores(*revos_tracks(case), form=FORMS[file["tool"]])
        yield from equal(found, case["scores"])
        yield from equal(map(m.revos.in_percent, found), case["percent"])


def revos_foreground(m: Modules) -> Pairs:
    """The largest set of objects that a video's expressions ask for is all of them."""
    largest: dict[str, Any] = {}
    for case in read("revos/visa.json")["cases"]:
        if len(case["objects"]) >= len(largest.get(case["video"], {"objects": ()})["objects"]):
            largest[case["video"]] = case
    for case in largest.values():
        objects, _, expected = revos_tracks(case)
        found = m.revos.foreground_track(objects)
        same = [one.counts == two.counts for one, two in zip(found, expected, strict=True)]
        yield from equal(same, [1] * len(expected))


def revos_totals(m: Modules, name: str) -> Pairs:
    """Referring, reasoning, and the mean of the two; J&F is derived of the means."""
    file, scores = read(name), []
    for case in file["cases"]:
        group = {0: "referring", 1: "reason"}.get(case["type"])
        found = m.revos.revos_scores(*revos_tracks(case), form=FORMS[file["tool"]])
        scores.append(
            {
                f"{letter} {group}": Mean(m.revos.in_percent(value))
                for letter, value in zip("JFAR", found, strict=True)
                if group
            }
        )
    values = totals(REVOS, scores)
    for group, row in file["totals"].items():
        for letter, expected in row.items():
            yield values[f"{letter} {group}"], expected


REVOS = (
    *(Metric(f"{one} {group}") for group in ("referring", "reason") for one in "JFAR"),
    *(
        Metric(
            f"{one} overall",
            inputs=(f"{one} referring", f"{one} reason"),
            derived=lambda first, second: (first + second) / 2,
        )
        for one in "JFAR"
    ),
    *(
        Metric(f"JF {group}", inputs=(f"J {group}", f"F {group}"), derived=lambda j, f: (j + f) / 2)
        for group in ("referring", "reason", "overall")
    ),
)


def revos_visa(m: Modules) -> Pairs:
    yield from revos_expressions(m, "revos/visa.json")


def revos_visa_totals(m: Modules) -> Pairs:
    yield from revos_totals(m, "revos/visa.json")


def revos_sa2va(m: Modules) -> Pairs:
    yield from revos_expressions(m, "revos/sa2va.json")


def revos_sa2va_totals(m: Modules) -> Pairs:
    yield from revos_totals(m, "revos/sa2va.json")


CHECKS: dict[str, tuple[str, str, Callable[[Modules], Pairs]]] = {
    function.__name__: (protocol, name, function)
    for protocol, name, function in (
        ("rvos/davis_unsup_4anno: objects", "davis2017/unsupervised.json", davis_unsupervised),
        ("rvos/davis_unsup_4anno: J, F", "davis2017/unsupervised.json", davis_totals),
        ("rvos/davis_unsup_4anno: argmax", "referformer/argmax.json", referformer_argmax),
        ("rvos/visa_davis", "visa/davis.json", visa_davis),
        ("revos/visa255: J, F, A, R of expressions", "revos/visa.json", revos_visa),
        ("revos/visa255: all means", "revos/visa.json", revos_visa_totals),
        ("revos/binary: J, F, A, R of expressions", "revos/sa2va.json", revos_sa2va),
        ("revos/binary: all means", "revos/sa2va.json", revos_sa2va_totals),
        ("revos: foreground masks", "revos/visa.json", revos_foreground),
    )
}


def comparisons() -> Iterator[Comparison]:
    """One line a protocol and official number."""
    for protocol, name, check in CHECKS.values():
        yield compared(protocol, read(name), check(OURS))
