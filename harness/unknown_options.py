"""The error of an option that a command does not have, with the option that is probably meant.

That is the option with the nearest name, or the one that does what lmms-eval's option does.
"""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from harness.errors import UsageError

OTHER_PROGRAMS = {
    "limit": "--subset first<N>",
    "model-args": "--model NAME(key=value,…)",
    "gen-kwargs": "--model NAME(temperature=…,max_new_tokens=…)",
    "generation-config": "--model NAME(temperature=…,max_new_tokens=…)",
    "output-path": "--out DIR",
    "output-dir": "--out DIR",
    "work-dir": "--out DIR",
    "datasets": "--tasks SPECS",
    "dataset": "--tasks SPECS",
    "log-samples": "Every run keeps its samples.",
    "use-cache": "The same command resumes.",
    "reuse": "The same command resumes.",
    "resume": "The same command resumes.",
}
"""Options of lmms-eval, VLMEvalKit and EvalScope, each with our option, or a sentence, instead."""


def unknown_option(program: str, left_over: Sequence[str], known: Iterable[str]) -> UsageError:
    """Return the error for words on the command line that a command's parser left over.

    Args:
        program: `harness` and the command's name.
        left_over: The words: unknown options with their values.
        known: The options of the command.

    >>> str(unknown_option("harness eval", ["--limit", "8"], ["--subset"])).partition("found ")[2]
    '--limit 8. Use --subset first<N>.'
    >>> print(unknown_option("harness board", ["--runz"], ["--runs"]))
    harness board: expected options that `harness board --help` lists, found --runz. Use --runs.
    """
    option = next((word for word in left_over if word.startswith("-")), "")
    name = option.lstrip("-").partition("=")[0].replace("_", "-")
    known = [*known]
    instead = OTHER_PROGRAMS.get(name, "")
    if instead.startswith("-") and instead.split()[0] not in known:
        instead = ""  # this command lacks our option too
    if near := get_close_matches(f"--{name}", known, n=1, cutoff=0.75):
        instead = instead or near[0]
    elif not instead and program == "harness train" and name:
        instead = f"--set {name.replace('-', '_')}=VALUE, if the method has this setting"
    return UsageError(
        program,
        expected=f"options that `{program} --help` lists" if option else "no more arguments",
        found=" ".join(left_over),
        fix=f"Use {instead}." if instead.startswith("-") else instead,
    )
