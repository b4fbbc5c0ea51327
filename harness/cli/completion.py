"""`harness completion`: a shell's script, made by shtab from the parser itself."""

from argparse import SUPPRESS, Namespace

from harness.errors import MissingDependency


def completion(arguments: Namespace) -> int:
    """Print the script that completes commands, options and files in a shell."""
    try:
        import shtab
    except ModuleNotFoundError as error:
        raise MissingDependency.package("shtab", extra="completion") from error
    from harness.cli.main import build_parser

    parser = build_parser()
    for action in parser._actions:  # shtab leaves out what help leaves out
        if action.help == SUPPRESS:
            action.help = None
    print(shtab.complete(parser, shell=arguments.shell))
    return 0
