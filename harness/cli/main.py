"""Parse the command line. Nothing heavy is imported before a command is known."""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from harness import __version__
from harness.errors import HarnessError, UsageError

EXIT_CODES = """exit codes:
  0  done
  1  the gate, a verification or a data check did not pass
  2  what was typed cannot be done
  3  a benchmark's file is missing or damaged
  4  a model cannot be loaded, or keeps failing
  5  a run folder cannot be written, is held by another process, or belongs to another run
  6  something that is needed is not installed
  70  an error that harness did not foresee
  130  interrupted; what was finished is kept, the same command goes on
"""

LINES = """A line of FILE is a JSON object: "id", and one of "reply", "boxes", "points", "masks",
"answer", "no_target". A sample without a line counts as failed. See docs/predictions.md.
"""

FORMATS = ("jsonl", "lmms-eval", "vlmevalkit", "video-mme", "tempcompass", "sti", "vsi",
           "png-tree", "label-tree")  # fmt: skip
"""What `harness score` reads; `harness.formats` has them, and takes longer to import."""

KINDS = ("tasks", "models", "trainers", "boards", "metrics", "backends", "segmenters",
         "propagators", "nodes", "judges")  # fmt: skip


UNFORESEEN = 70  # as sysexits.h calls an internal error


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    parser = build_parser()
    given = parser.parse_args(arguments)
    if not hasattr(given, "function"):
        parser.print_help()
        return UsageError.exit_code
    try:
        if getattr(given, "config", None):
            given = _with_config(parser, given, arguments)
        module, _, name = given.function.partition(":")
        code = getattr(import_module(f"harness.cli.{module}"), name)(given)
        return int(code)
    except HarnessError as error:
        if os.environ.get("HARNESS_TRACEBACK"):
            raise
        print(f"harness: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("harness: interrupted; what was finished is kept, the same command goes on",
              file=sys.stderr)  # fmt: skip
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # the reader of a pipe has gone, as `harness list | head` does
        return 0
    except Exception as error:
        if os.environ.get("HARNESS_TRACEBACK"):
            raise
        print(f"harness: {_unforeseen(error)}", file=sys.stderr)
        return UNFORESEEN


def _unforeseen(error: Exception) -> str:
    from harness.plugins import told

    return (
        f"{told(error)}. This was not foreseen: please report it, with what "
        "HARNESS_TRACEBACK=1 in the environment shows"
    )


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = argparse.ArgumentParser(
        prog="harness",
        description="Score models on visual-reasoning tasks, train them, publish leaderboards.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"harness {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    _add_list(commands)
    _add_eval(commands)
    _add_sweep(commands)
    _add_score(commands)
    _add_verify(commands)
    _add_data(commands)
    _add_board(commands)
    _add_train(commands)
    _add_explain(commands)
    _add_doctor(commands)
    return parser


def _command(commands: Any, name: str, function: str, about: str, **extra: Any) -> Any:
    parser = commands.add_parser(
        name, help=about, description=about[0].upper() + about[1:] + ".",
        formatter_class=argparse.RawDescriptionHelpFormatter, **extra,
    )  # fmt: skip
    parser.set_defaults(function=function)
    return parser


def _json(parser: Any) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON value and nothing else")


def _tasks_and_data(parser: Any, *, required: bool = True) -> None:
    parser.add_argument(
        "--tasks",
        action="append",
        metavar="SPECS",
        required=False,
        help="NAME or NAME(split=…,protocol=…), several with commas or repeated",
    )
    parser.add_argument("--data", type=Path, metavar="ROOT",
                        help="the folder that holds one folder a benchmark")  # fmt: skip


def _metrics(parser: Any) -> None:
    parser.add_argument("--metrics", action="append", metavar="SPECS",
                        help="further metrics, from plugins")  # fmt: skip


def _judge(parser: Any) -> None:
    parser.add_argument("--judge", metavar="SPEC", help="who grades free answers: chat(backend=…), "
                        "remembered(judge=…,file=…) or stored(file=…)")  # fmt: skip


def _config(parser: Any) -> None:
    parser.add_argument("--config", type=Path, metavar="FILE",
                        help="a TOML file with the same keys; what is typed wins")  # fmt: skip


def _add_list(commands: Any) -> None:
    parser = _command(commands, "list", "show:list_plugins", "the plugins that are installed")
    parser.add_argument("kind", choices=KINDS, metavar="KIND",
                        help=", ".join(KINDS))  # fmt: skip
    parser.add_argument("name", nargs="?", help="show all there is to say about this one")
    _json(parser)


def _add_eval(commands: Any) -> None:
    parser = _command(commands, "eval", "evaluate:evaluate", "predict and score",
                      epilog='example: harness eval --model saliency --tasks reason_seg,mevis '
                      "--data ROOT --out runs")  # fmt: skip
    _evaluation(parser)


def _add_sweep(commands: Any) -> None:
    parser = _command(commands, "sweep", "sweep:sweep", "evaluate one model under several settings",
                      epilog="example: harness sweep --model pocket --vary frames=2,4,8 "
                      "--tasks mevis --data ROOT --out runs")  # fmt: skip
    parser.add_argument("--vary", action="append", metavar="SETTING=VALUES", help="of the model's "
                        "SPEC, with commas; backend.max_pixels=… reaches inside; may be repeated"
                        )  # fmt: skip
    parser.add_argument("--grid", action="store_true", help="every combination (default: one "
                        "setting at a time, and the model as it is)")  # fmt: skip
    _evaluation(parser)


def _evaluation(parser: Any) -> None:
    parser.add_argument(
        "--model",
        action="append",
        metavar="SPECS",
        help="NAME or NAME(key=value,…), several with commas or repeated",
    )
    _tasks_and_data(parser)
    parser.add_argument("--out", type=Path, metavar="DIR", help="where run folders go")
    parser.add_argument("--subset", help="first<N>, seed<S>-<N>, or a file with one id a line")
    parser.add_argument("--seed", type=int, default=0, help="of sampling (default 0)")
    parser.add_argument("--batch-size", type=int, metavar="N", help="default: what the model likes")
    parser.add_argument(
        "--workers",
        type=int,
        default=1,
        metavar="N",
        help="processes that each hold the model (default 1: this one)",
    )
    parser.add_argument(
        "--isolate",
        action="store_true",
        help="give the model decoded pictures in a process without file handles",
    )
    parser.add_argument("--timeout", type=float, metavar="SECONDS",
                        help="replace a worker that is silent over a batch so long")  # fmt: skip
    parser.add_argument("--ray", metavar="ADDRESS", help="let the workers be actors of a Ray "
                        "cluster; `local` begins one")  # fmt: skip
    parser.add_argument("--worker-gpus", type=float, default=0.0, metavar="N",
                        help="GPUs of each actor, such as 0.5 (default 0)")  # fmt: skip
    parser.add_argument("--strict-split", action="store_true", help="refuse if the model's "
                        "checkpoint says that it was trained on some of it")  # fmt: skip
    parser.add_argument("--retry-failed", action="store_true", help="predict again what failed")
    parser.add_argument(
        "--allow-missing",
        action="store_true",
        help="count samples with missing or damaged pictures as failed and go on",
    )
    parser.add_argument(
        "--restart",
        action="store_true",
        help="set an earlier run in the same folder aside and begin anew",
    )
    parser.add_argument(
        "--rescore",
        action="store_true",
        help="replace a finished run's numbers if they come out otherwise now",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress")
    _metrics(parser)
    _judge(parser)
    _config(parser)
    _json(parser)


def _add_score(commands: Any) -> None:
    parser = _command(commands, "score", "score:score",
                      "score predictions that exist: a file from elsewhere, or a run",
                      epilog=LINES)  # fmt: skip
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="run folders")
    _tasks_and_data(parser)
    parser.add_argument("--predictions", type=Path, metavar="FILE", help="JSON lines, or what "
                        "--format says")  # fmt: skip
    parser.add_argument("--format", choices=FORMATS, default="jsonl", metavar="NAME",
                        help=f"of FILE: {', '.join(FORMATS)} (default: %(default)s)")  # fmt: skip
    parser.add_argument(
        "--model", metavar="SPEC", help='reads "reply" lines, for example qwen_vl(backend=stored)'
    )
    parser.add_argument("--name", help="the name on boards (default: the file's)")
    parser.add_argument("--subset", help="first<N>, seed<S>-<N>, or a file with one id a line")
    parser.add_argument("--allow-extra", action="store_true", help="ignore lines with unknown ids")
    parser.add_argument("--allow-missing", action="store_true",
                        help="go on where pictures or videos are missing")  # fmt: skip
    parser.add_argument("--workers", type=int, default=1, metavar="N",
                        help="processes that score RUNs (default 1)")  # fmt: skip
    parser.add_argument("--out", type=Path, metavar="DIR", help="leave a run folder for boards")
    _metrics(parser)
    _judge(parser)
    _config(parser)
    _json(parser)


def _add_verify(commands: Any) -> None:
    parser = _command(
        commands,
        "verify",
        "verify:verify",
        "perfect answers must reach each card's ceiling, also as reply text",
    )
    _tasks_and_data(parser)
    parser.add_argument("--model", metavar="SPEC", default="qwen_vl(backend=stored)",
                        help="whose grammar writes and reads the replies (default: %(default)s); "
                        "none: answers only")  # fmt: skip
    _json(parser)


def _add_data(commands: Any) -> None:
    parser = commands.add_parser("data", help="make, check and describe benchmarks' files")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    make = _command(actions, "make", "data:make", "write a generated world in official layouts")
    make.add_argument("world", choices=["shapes"], help="which world")
    make.add_argument("--out", type=Path, required=True, metavar="DIR", help="a new folder")
    make.add_argument("--seed", type=int, default=0, help="of the world (default 0)")
    make.add_argument(
        "--size",
        type=int,
        default=24,
        metavar="N",
        help="samples a split and benchmark (default 24)",
    )
    make.add_argument("--tasks", action="append", metavar="LIST",
                      help="only these benchmarks, by name (default: all)")  # fmt: skip
    _json(make)
    fetch = _command(actions, "fetch", "fetch:fetch",
                     "fetch a benchmark's files from the Hugging Face hub, at a recorded commit",
                     )  # fmt: skip
    fetch.add_argument("task", metavar="TASK", help="see `harness list tasks`")
    fetch.add_argument("--data", type=Path, metavar="ROOT",
                       help="the folder that holds one folder a benchmark")  # fmt: skip
    fetch.add_argument("--revision", metavar="NAME", help="a commit or branch (default: what was "
                       "fetched before, or else what the card says)")  # fmt: skip
    fetch.add_argument("--only", action="append", metavar="FOLDER", help="of several repositories, "
                       "the one that goes there; may be repeated (`harness list tasks TASK`)"
                       )  # fmt: skip
    fetch.add_argument("--quiet", action="store_true", help="no progress")
    _json(fetch)
    for name, about in (("check", "look at every file of a benchmark"),
                        ("info", "sizes, splits, licence and one example")):  # fmt: skip
        action = _command(actions, name, f"data:{name}", about)
        action.add_argument("task", nargs="?", metavar="TASK", help="one task, or use --tasks")
        _tasks_and_data(action)
        if name == "check":
            action.add_argument("--strict", action="store_true", help="other numbers of samples or "
                                "videos than the published ones are an error")  # fmt: skip
            action.add_argument("--decode", choices=("ends", "all", "none"), default="ends",
                                help="frames of videos that are decoded: the first and the last "
                                "(default), all of them and of pictures too, or none")  # fmt: skip
        _json(action)


def _add_board(commands: Any) -> None:
    parser = commands.add_parser("board", help="build leaderboards, and gate a change by them")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    build = _command(actions, "build", "board:build", "board.md, board.json and board.html")
    build.add_argument(
        "--runs",
        type=Path,
        action="append",
        required=True,
        metavar="DIR",
        help="a folder with runs below it; may be repeated",
    )
    build.add_argument("--out", type=Path, required=True, metavar="DIR",
                       help="where the three files go")  # fmt: skip
    build.add_argument(
        "--data",
        type=Path,
        metavar="ROOT",
        help="for the gallery (default: where the run read them)",
    )
    build.add_argument("--title", default="Leaderboard", help="the board's heading")
    build.add_argument("--no-gallery", action="store_true", help="leave pictures out")
    _json(build)
    keep = _command(
        actions, "keep", "board:keep", "copy of runs what a gate needs, to be committed"
    )
    keep.add_argument("--runs", type=Path, required=True, metavar="DIR",
                      help="a folder with runs below it")  # fmt: skip
    keep.add_argument("--out", type=Path, required=True, metavar="DIR", help="a new folder")
    check = _command(
        actions,
        "check",
        "board:check",
        "compare a candidate with a baseline, sample by sample; exit code 1 if worse",
    )
    check.add_argument("--baseline", type=Path, required=True, metavar="DIR",
                       help="runs to hold against")  # fmt: skip
    check.add_argument("--candidate", type=Path, required=True, metavar="DIR",
                       help="runs of the change")  # fmt: skip
    check.add_argument(
        "--max-loss",
        type=float,
        default=0.02,
        metavar="X",
        help="a loss that fails even if it could be chance (default %(default)s)",
    )
    check.add_argument("--level", type=float, default=0.95, help="of the interval (default 0.95)")
    check.add_argument(
        "--data", type=Path, metavar="ROOT", help="default: where the runs read them"
    )
    _json(check)


def _add_train(commands: Any) -> None:
    parser = _command(commands, "train", "train:train", "train a model, and evaluate it",
                      epilog='example: harness train --method sft --config pocket_cpu --model '
                      'pocket --train-tasks "reason_seg(split=train)" --data ROOT --out DIR '
                      "--eval-tasks reason_seg")  # fmt: skip
    parser.add_argument("--method", metavar="SPEC",
                        help="a trainer; see `harness list trainers`")  # fmt: skip
    parser.add_argument("--model", metavar="SPEC", help="what to start from")
    parser.add_argument("--train-tasks", action="append", metavar="SPECS",
                        help="NAME or NAME(split=…), several with commas or repeated")  # fmt: skip
    parser.add_argument("--data", type=Path, metavar="ROOT",
                        help="the folder that holds one folder a benchmark")  # fmt: skip
    parser.add_argument("--out", type=Path, metavar="DIR", help="a new folder for the training")
    # Not `config`: a name is looked up beside the method, and its keys are settings as well.
    parser.add_argument(
        "--config", dest="configuration", metavar="FILE|NAME",
        help="a TOML file with settings and options, or one that the method brings",
    )  # fmt: skip
    parser.add_argument("--set", action="append", metavar="KEY=VALUE",
                        help="a setting of the trainer; may be repeated")  # fmt: skip
    parser.add_argument("--eval-tasks", action="append", metavar="SPECS",
                        help="evaluate the checkpoint on these")  # fmt: skip
    parser.add_argument("--every", type=int, metavar="N",
                        help="evaluate while training too, every N steps")  # fmt: skip
    parser.add_argument("--strict-split", action="store_true", help="refuse if some of "
                        "--eval-tasks would be trained on")  # fmt: skip
    _judge(parser)
    parser.add_argument("--resume", action="store_true", help="go on with the training in DIR")
    parser.add_argument("--seed", type=int, help="of everything that is drawn (default 0)")
    parser.add_argument("--keep-state", action="store_true",
                        help="keep the optimiser's state when finished")  # fmt: skip
    parser.add_argument("--quiet", action="store_true", help="no progress")
    _json(parser)


def _add_explain(commands: Any) -> None:
    parser = _command(
        commands,
        "explain",
        "explain:explain",
        "one sample of a run: question, reply, answer, score, picture; or a training's rollouts",
        epilog="examples: harness explain runs/saliency/reason_seg SAMPLE --image sample.png\n"
        "          harness explain TRAINING --out rollouts.html",
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="a run folder, or a training's")
    parser.add_argument("sample", nargs="?", metavar="SAMPLE", help="its official id; of a "
                        "training, only this one's rollouts")  # fmt: skip
    parser.add_argument(
        "--data", type=Path, metavar="ROOT", help="default: where the run read them"
    )
    parser.add_argument(
        "--image", type=Path, metavar="FILE.png", help="write truth and prediction over the picture"
    )
    parser.add_argument("--out", type=Path, metavar="FILE.html", help="of a training: its page "
                        "(default: RUN/rollouts.html)")  # fmt: skip
    parser.add_argument("--groups", type=int, metavar="N", help="of a training: prompts that are "
                        "shown, spread over its steps (default 24)")  # fmt: skip
    _json(parser)


def _add_doctor(commands: Any) -> None:
    parser = _command(commands, "doctor", "doctor:doctor", "what this machine has and lacks")
    _json(parser)


def _with_config(
    parser: argparse.ArgumentParser, given: argparse.Namespace, arguments: Sequence[str] | None
) -> argparse.Namespace:
    """Parse again with a TOML file's values as defaults, so that what is typed wins."""
    from harness.cli.config import LISTS, read_config

    values = read_config(given.config, known=vars(given))
    # argparse appends what is typed to a default that is a list; here it replaces it.
    typed = [name for name in LISTS if isinstance(getattr(given, name, None), list)]
    _set_defaults(parser, {name: value for name, value in values.items() if name not in typed})
    return parser.parse_args(arguments)


def _set_defaults(parser: argparse.ArgumentParser, values: dict[str, Any]) -> None:
    for action in parser._actions:  # no public way leads to the parsers of subcommands
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                _set_defaults(child, values)
    parser.set_defaults(**values)


if __name__ == "__main__":
    raise SystemExit(main())
