"""Copies of runs in W&B and MLflow. The run folders stay the truth: nothing is read back."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.errors import MissingDependency, StoreError
from harness.leaderboards.export.tables import plain
from harness.leaderboards.row import row
from harness.record import Run

PROJECT = "harness"


def to_wandb(runs: Sequence[Run], folder: Path) -> None:
    """Write each run as one of W&B, into an offline folder; `wandb sync` uploads it."""
    wandb = _import("wandb")
    folder.mkdir(parents=True, exist_ok=True)
    for run in runs:
        run_row = row(run)
        settings = wandb.Settings(
            silent=True,
            console="off",
            disable_git=True,
            disable_code=True,
            x_disable_stats=True,
            x_disable_meta=True,
        )
        there = wandb.init(
            project=PROJECT,
            name=f"{run_row.name} {run_row.task} {run_row.split}",
            config=plain(run_row),
            dir=str(folder),
            mode="offline",
            settings=settings,
        )
        there.summary.update({k: v for k, v in run_row.metrics.items() if v is not None})
        there.finish()


def to_mlflow(runs: Sequence[Run], uri: str) -> None:
    """Write each run as one of the experiment `harness` of an MLflow tracking store or server."""
    mlflow = _import("mlflow")
    try:
        client = mlflow.MlflowClient(tracking_uri=uri)
        existing = client.get_experiment_by_name(PROJECT)
        experiment = existing.experiment_id if existing else client.create_experiment(PROJECT)
        for run in runs:
            run_row = row(run)
            name = f"{run_row.name} {run_row.task} {run_row.split}"
            there = client.create_run(experiment, run_name=name).info.run_id
            for key, value in plain(run_row).items():
                client.log_param(there, key, str(value)[:500])
            for metric, value in run_row.metrics.items():
                if value is not None:
                    client.log_metric(there, _name(metric), value)
            client.set_terminated(there)
    except Exception as error:
        raise StoreError(
            f"MLflow {uri}", expected="a tracking store", found=str(error).split("\n")[0]
        ) from error


def _name(metric: str) -> str:
    """Return a name of the letters that MLflow allows."""
    return "".join(c if c.isalnum() or c in "_-. /" else "_" for c in metric)


def _import(name: str) -> Any:
    try:
        return __import__(name)
    except ModuleNotFoundError as error:
        raise MissingDependency.package(name, extra=name) from error
