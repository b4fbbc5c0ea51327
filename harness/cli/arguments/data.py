"""Arguments of `harness data`, `harness doctor` and `harness completion`."""

from harness.cli.arguments.shared import (
    Commands,
    Options,
    actions_of,
    add_data_root,
    add_json,
    add_tasks_and_data,
    command,
    flag,
    option,
)


def add_data(commands: Commands) -> None:
    """`harness data`."""
    actions = actions_of(commands, "data", "make, check and describe benchmarks' files")
    make = command(actions, "make", "write a generated world in official layouts")
    option(make, "world", "which world", choices=["shapes"])
    option(make, "--out DIR", "a new folder", required=True)
    option(make, "--seed", "of the world (default 0)", default=0)
    option(make, "--size N", "samples a split and benchmark (default 24)", default=24)
    about = "only these benchmarks, by name (default: all)"
    option(make, "--tasks LIST", about, repeated=True)
    add_json(make)
    about = "fetch a benchmark's files from the Hugging Face hub, at a recorded commit"
    fetch = command(actions, "fetch", about, function="fetch:fetch")
    option(fetch, "task TASK", "see `harness list tasks`")
    add_data_root(fetch)
    about = "a commit or branch (default: what was fetched before, or else what the card says)"
    option(fetch, "--revision NAME", about)
    about = "the one that goes there; may be repeated (`harness list tasks TASK`)"
    option(fetch, "--only FOLDER", f"of several repositories, {about}", repeated=True)
    flag(fetch, "--quiet", "no progress")
    add_json(fetch)
    check = command(actions, "check", "look at every file of a benchmark")
    _add_tasks(check)
    about = "other numbers of samples or videos than the published ones are an error"
    flag(check, "--strict", about)
    about = "the first and the last (default), all of them and of images too, or none"
    about = f"frames of videos that are decoded: {about}"
    option(check, "--decode", about, default="ends", choices=("ends", "all", "none"))
    add_json(check)
    info = command(actions, "info", "sizes, splits, licence and one example")
    _add_tasks(info)
    add_json(info)


def _add_tasks(action: Options) -> None:
    option(action, "task TASK", "one task, or use --tasks", nargs="?")
    add_tasks_and_data(action)


def add_doctor(commands: Commands) -> None:
    """`harness doctor`."""
    parser = command(commands, "doctor", "what this machine has and lacks")
    about = "test the sandbox for code that models write, tier by tier, and nothing else"
    flag(parser, "--sandbox", about)
    add_json(parser)


def add_completion(commands: Commands) -> None:
    """`harness completion`."""
    parser = command(
        commands,
        "completion",
        "print a script that completes commands and options in a shell",
        "bash: harness completion bash > ~/.local/share/bash-completion/completions/harness\n"
        "zsh:  harness completion zsh > ~/.zfunc/_harness   (fpath+=~/.zfunc before compinit)\n"
        "fish: harness completion fish > ~/.config/fish/completions/harness.fish",
    )
    option(parser, "shell", "the shell", choices=("bash", "zsh", "fish"))
