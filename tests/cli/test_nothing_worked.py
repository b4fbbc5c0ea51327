"""Exit codes of evaluations in which the model failed on every sample."""

import json

from harness.api import load_task
from harness.cli.main import main
from harness.errors import ModelError
from harness.testing.shapes import make_shapes


def test_a_model_that_fails_on_every_sample_ends_with_its_code_and_keeps_the_results(
    tmp_path, monkeypatch, capsys
):
    make_shapes(tmp_path / "data", tasks=["reason_seg"], size=2)

    def broken(*_, **__):
        raise ValueError("a broken model")

    monkeypatch.setattr("harness.models.baselines.model.Guesser.predict", broken)
    options = ["--data", str(tmp_path / "data"), "--out", str(tmp_path / "runs")]
    code = main(["eval", "--model", "random", "--tasks", "reason_seg", *options])
    assert code == ModelError.exit_code
    printed = capsys.readouterr()
    assert "failures of the model itself" in printed.err and printed.out == ""
    assert list((tmp_path / "runs").rglob("results.json"))


def test_predictions_of_which_none_is_read_end_with_code_4_after_their_results(tmp_path, capsys):
    make_shapes(tmp_path / "data", tasks=["reason_seg"], size=2)
    ids = [one.id for one in load_task("reason_seg", data=tmp_path / "data").samples()]
    file = tmp_path / "words.jsonl"
    command = ["score", "--tasks", "reason_seg", "--data", str(tmp_path / "data")]
    command += [
        "--predictions",
        str(file),
        "--model",
        "visionreasoner(backend=stored,segmenter=box)",
    ]
    read = '<answer>[{"bbox_2d": [1, 2, 9, 9], "point_2d": [4, 5]}]</answer>'
    for texts, code in ((["no", "idea"], ModelError.exit_code), (["no", read], 0)):
        rows = [{"id": name, "response": text} for name, text in zip(ids, texts, strict=True)]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        out = tmp_path / f"runs{code}"
        assert main([*command, "--out", str(out), "--json"]) == code
        printed = capsys.readouterr()
        assert json.loads(printed.out)["tasks"]["reason_seg"]["n_failed"] == (2 if code else 1)
        (run,) = (path.parent for path in out.rglob("results.json"))
        assert main(["score", str(run), "--json"]) == code
        capsys.readouterr()
