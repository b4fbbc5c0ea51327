"""Copy runs to W&B and MLflow. The run folders stay the source: nothing is read back."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.errors import MissingDependency, StoreError
from harness.leaderboards.export.tables import plain
from harness.leaderboards.row import row
from harness.record import Run

PROJECT = "harness"


def to_wandb(runs: Sequence[Run], folder: Path) -> None:
    """Write each run as a W&B run into an offline folder, which `wandb sync` uploads.

    Raises:
        MissingDependency: wandb is not installed.
    """
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
        wandb_run = wandb.init(
            project=PROJECT,
            name=f"{run_row.name} {run_row.task} {run_row.split}",
            config=plain(run_row),
            dir=str(folder),
            mode="offline",
            settings=settings,
        )
        wandb_run.summary.update({k: v for k, v in run_row.metrics.items() if v is not None})
        wandb_run.finish()


def to_mlflow(runs: Sequence[Run], uri: str) -> None:
    """Write each run into the experiment `harness` of an MLflow tracking store or server.

    Raises:
        MissingDependency: mlflow is not installed.
        StoreError: the store or server does not accept the runs.
    """
    mlflow = _import("mlflow")
    try:
        client = mlflow.MlflowClient(tracking_uri=uri)
        existing = client.get_experiment_by_name(PROJECT)
        experiment = existing.experiment_id if existing else client.create_experiment(PROJECT)
        for run in runs:
            run_row = row(run)
            name = f"{run_row.name} {run_row.task} {run_row.split}"
            run_id = client.create_run(experiment, run_name=name).info.run_id
            for key, value in plain(run_row).items():
                client.log_param(run_id, key, str(value)[:500])  # MLflow's limit of characters
            for metric, value in run_row.metrics.items():
                if value is not None:
                    client.log_metric(run_id, _name(metric), value)
            client.set_terminated(run_id)
    except Exception as error:
        raise StoreError(
            f"MLflow {uri}", expected="a tracking store", found=str(error).split("\n")[0]
        ) from error


def _name(metric: str) -> str:
    """Return a metric's name with `_` for each character that MLflow does not allow."""
    return "".join(c if c.isalnum() or c in "_-. /" else "_" for c in metric)


def _import(name: str) -> Any:
    try:
        return __import__(name)
    except ModuleNotFoundError as error:
        raise MissingDependency.package(name, extra=name) from error
