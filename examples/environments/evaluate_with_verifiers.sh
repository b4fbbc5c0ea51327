#!/bin/sh
# Evaluate pocket on ReasonSeg's layout with verifiers' own loop: sh examples/environments/evaluate_with_verifiers.sh DIR
set -e
place=${1:?a folder for data and packages}
here=$(cd "$(dirname "$0")/../.." && pwd)

harness data make shapes --out "$place/data" --size 24 --tasks reason_seg
harness env export --tasks "reason_seg(split=val)" --data "$place/data" --out "$place/envs" --model pocket

# The server of pocket, which stands for `vllm serve`.
python "$here/tests/serving/chat_server.py" --checkpoint "$here/models/pocket/checkpoint" --port 8001 &
trap 'kill $!' EXIT
until python -c "import urllib.request as r; r.urlopen('http://127.0.0.1:8001/v1/models')" 2>/dev/null; do sleep 1; done

# Instead of `pip install -e "$place/envs/harness_reason_seg_split_val"`:
export PYTHONPATH="$place/envs/harness_reason_seg_split_val${PYTHONPATH:+:$PYTHONPATH}"
vf-eval harness-reason-seg-split-val -m served --client.base-url http://127.0.0.1:8001/v1 \
    --sampling.temperature 1 -n 8 -r 4 -c 4 --no-push --no-rich -o "$place/outputs" >"$place/traces.txt"

python - "$place" <<'END'
import json, sys
from pathlib import Path

lines = [line for path in Path(sys.argv[1], "outputs").rglob("traces.jsonl") for line in path.open()]
traces = [trace for line in lines for trace in json.loads(line)["traces"]]
rewards = [trace["rewards"]["gIoU"]["score"] for trace in traces]
print(f"{len(rewards)} episodes, mean gIoU {sum(rewards) / len(rewards):.3f}")
END
