"""The builder of STV-205k: questions of space and time from TAO, KITTI tracking and ScanNet.

    official files ─ tao | kitti | scannet ─▶ Clip ─ filters ─▶ Clip ─ questions ─▶ Draft
        ─ wording, options ─▶ a line of questions.jsonl (and of graphs.jsonl, and the statistics)

The set itself was not published; the paper (Video-STR, section 3 and appendix D) names sources,
types of questions and templates. docs/design/stv.md decides the points that it leaves open.
"""
