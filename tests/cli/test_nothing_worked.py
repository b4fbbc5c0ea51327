"""Exit codes of evaluations in which the model failed on every sample."""

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
