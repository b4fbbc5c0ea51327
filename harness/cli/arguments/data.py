"""Arguments of `harness data`, `harness doctor` and `harness completion`."""

from harness.cli.arguments.shared import Commands, Options, actions_of, command


def add_data(commands: Commands) -> None:
    """Add `harness data` and its actions."""
    actions = actions_of(commands, "data", "make, check and describe benchmarks' files")
    make = command(actions, "make", "write a generated world in official layouts")
    make.option("world", "the name of the world", choices=["shapes"])
    make.option("--out DIR", "a new folder, or a world to add tasks to", required=True)
    make.option("--seed", "seed of the world (default 0)", default=0)
    make.option("--size N", "samples per split and benchmark (default 24)", default=24)
    about = "only these benchmarks, by name (default: all)"
    make.option("--tasks LIST", about, repeated=True)
    make.json()
    about = "fetch a benchmark's files from the Hugging Face hub, at a recorded commit"
    fetch = command(actions, "fetch", about)
    fetch.option("task TASK", "see `harness list tasks`")
    fetch.data()
    about = "a commit or branch (default: the one fetched before, or else the card's)"
    fetch.option("--revision NAME", about)
    about = "fetch only this one of several repositories; may be repeated"
    fetch.option("--only FOLDER", f"{about} (`harness list tasks TASK`)", repeated=True)
    fetch.flag("--quiet", "print no progress")
    fetch.json()
    check = command(actions, "check", "check every file of a benchmark")
    _add_tasks(check)
    about = "fail if the numbers of samples or videos are not the published ones"
    check.flag("--strict", about)
    about = "the first and the last (default), all of them and of images too, or none"
    about = f"frames to decode: {about}"
    check.option("--decode", about, default="ends", choices=("ends", "all", "none"))
    check.json()
    about = "write a first description of a table of your own (docs/tasks/table.md)"
    draft = command(actions, "init", about, function="cli.data:draft")
    draft.option("table FILE", "JSON lines, JSON, Parquet, CSV or TSV")
    draft.option("--name NAME", "the benchmark's name (default: the file's)")
    draft.json()
    info = command(actions, "info", "sizes, splits, licence and one example")
    _add_tasks(info)
    info.json()


def _add_tasks(action: Options) -> None:
    action.option("task TASK", "one task, or use --tasks", nargs="?")
    action.tasks_and_data()


def add_doctor(commands: Commands) -> None:
    """Add `harness doctor`."""
    parser = command(commands, "doctor", "check this machine: packages, devices, sandboxes")
    about = "only test the sandbox for code that models write, tier by tier"
    parser.flag("--sandbox", about)
    about = "only check a checkpoint (a folder, or a name in the hub's cache) for missing parts"
    parser.option("--checkpoint FOLDER", about)
    parser.json()


def add_completion(commands: Commands) -> None:
    """Add `harness completion`."""
    parser = command(
        commands,
        "completion",
        "print a script that completes commands and options in a shell",
        "bash: harness completion bash > ~/.local/share/bash-completion/completions/harness\n"
        "zsh:  harness completion zsh > ~/.zfunc/_harness   (fpath+=~/.zfunc before compinit)\n"
        "fish: harness completion fish > ~/.config/fish/completions/harness.fish",
    )
    parser.option("shell", "the shell", choices=("bash", "zsh", "fish"))
