"""Write scores.json: what the official rewards say of the responses in responses.py.

    python tests/golden/visionreasoner_reward/make_scores.py CHECKOUT

CHECKOUT is `dvlab-research/Seg-Zero` at 42a33455283ba041a3099cf154a708116f300cec. Of it run
`verl/utils/reward_score/vision_reasoner.py` (format, accuracy, non-repeat), `seg.py` (soft) and
`seg_restrict.py` (strict: thinking, answer, IoU, box and point distance each).
"""

import importlib.util
import json
import sys
import warnings
from pathlib import Path

from responses import COUNT, SEED, cases

HERE = Path(__file__).parent


def module(checkout, name):
    path = checkout / "verl" / "utils" / "reward_score" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def bits(official, response, ground_truth):
    return [
        official.seg_thinking_format_reward(response),
        official.seg_segmentation_format_reward(response),
        official.seg_iou_reward(response, ground_truth),
        official.seg_box_l1_reward(response, ground_truth),
        official.seg_point_l1_reward(response, ground_truth),
    ]


def seg_ground_truth(alone):
    (a, b, c, d), (x, y), (u, v) = alone
    return f"<box>({a},{b}),({c},{d})</box><points>({x},{y}),({u},{v})</points>"


def main(checkout):
    many = module(checkout, "vision_reasoner")
    soft, strict = module(checkout, "seg"), module(checkout, "seg_restrict")
    rows, known, index = [], {}, []
    for response, target, single, alone in cases():
        ground_truth = json.dumps(target)
        row = (
            many.vision_reasoner_format_reward(response),
            round(float(many.vision_reasoner_accuracy_reward(response, ground_truth)), 9),
            float(many.vision_reasoner_non_repeat_reward(response)),
            *bits(soft, single, seg_ground_truth(alone)),
            *bits(strict, single, seg_ground_truth(alone)),
        )
        row = (round(row[0], 9), *row[1:])
        if row not in known:
            known[row] = len(rows)
            rows.append(row)
        index.append(known[row])
    plain = {"seed": SEED, "count": COUNT, "rows": rows, "index": index}
    (HERE / "scores.json").write_text(json.dumps(plain, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(Path(sys.argv[1]))
