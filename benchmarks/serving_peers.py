"""Another program's client in `serving.py`: run by the interpreter of an environment that has it.

    python serving_peers.py lmms-eval|evalscope QUESTIONS.jsonl URL CONCURRENCY FOLDER

Nothing of them is changed. lmms-eval's model `openai` (the chat class, which it takes by default)
is evaluated by `simple_evaluate` on a task in FOLDER; EvalScope's `general_vqa` reads the questions
as its own lines. A question is `{"id": …, "prompt": …, "images": [PATH, …]}`. Prints the release.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path

from throughput_lmms import READING, TASK

from harness.models.backends.torchvision_cpu import ensure_torchvision

IMAGES = (
    READING.replace(
        '[Image.open(doc["image"]).convert("RGB")]',
        '[Image.open(path).convert("RGB") for path in doc["images"]]',
    )
    .replace(
        '{"type": "image", "url": images(doc)[0]}',
        '[{"type": "image", "url": p} for p in images(doc)]',
    )
    .replace("[image, ", "[*image, ")
)


def lmms_eval(questions: Path, url: str, concurrency: int, folder: Path) -> None:
    from lmms_eval.evaluator import simple_evaluate
    from lmms_eval.tasks import TaskManager

    (folder / "reading.py").write_text(IMAGES, encoding="utf-8")
    text = TASK.format(name="served", questions=json.dumps(str(questions)), limit=1024)
    (folder / "served.yaml").write_text(text, encoding="utf-8")
    given = {"model": "model", "base_url": f"{url}/v1", "api_key": "none", "timeout": 600}
    given |= {"num_concurrent": concurrency}
    simple_evaluate(
        model="openai",
        model_args=",".join(f"{name}={value}" for name, value in given.items()),
        tasks=["served"],
        task_manager=TaskManager(include_path=str(folder)),
        batch_size=concurrency,
        bootstrap_iters=0,
    )


def evalscope(questions: Path, url: str, concurrency: int, folder: Path) -> None:
    from evalscope import TaskConfig, run_task

    lines = []
    for text in questions.read_text("utf-8").splitlines():
        question = json.loads(text)
        shown = [{"type": "image_url", "image_url": {"url": one}} for one in question["images"]]
        content = [*shown, {"type": "text", "text": question["prompt"]}]
        line = {"messages": [{"role": "user", "content": content}], "answer": "A"}
        lines.append(json.dumps(line))
    (folder / "served.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    run_task(
        TaskConfig(
            model="model",
            api_url=f"{url}/v1",
            api_key="none",
            eval_type="openai_api",
            datasets=["general_vqa"],
            dataset_args={
                "general_vqa": {"local_path": str(folder), "subset_list": ["served"]},
            },
            eval_batch_size=concurrency,
            generation_config={"temperature": 0, "max_tokens": 1024},
            work_dir=str(folder / "work"),
        )
    )


PEERS = {"lmms-eval": lmms_eval, "evalscope": evalscope}


def main() -> None:
    name, questions, url, concurrency, folder = sys.argv[1:]
    ensure_torchvision()
    PEERS[name](Path(questions).resolve(), url, int(concurrency), Path(folder).resolve())
    print(version(name))


if __name__ == "__main__":
    main()
