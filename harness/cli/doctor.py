"""`harness doctor`: check what this machine lacks, such as packages, devices and programs.

It answers within two seconds. `--sandbox` starts and tests a worker of each tier of the sandbox
instead; `--checkpoint` checks a checkpoint's files instead.
"""

from argparse import Namespace
from dataclasses import asdict

from harness import machine
from harness.cli.output import show_json
from harness.errors import MissingDependency, ModelError, SandboxUnavailable, UsageError


def doctor(arguments: Namespace) -> int:
    """Print the findings, each with its fix; exit code 0 if nothing that is needed is missing.

    With `--sandbox` one usable tier is enough.
    """
    if arguments.checkpoint and arguments.sandbox:
        raise UsageError("harness doctor", expected="--checkpoint or --sandbox", found="both")
    if arguments.checkpoint:
        findings, code = [*machine.checkpoint(arguments.checkpoint)], ModelError.exit_code
    elif arguments.sandbox:
        findings, code = [*machine.sandbox()], SandboxUnavailable.exit_code
    else:
        findings = [*machine.core(), *machine.optional(), *machine.hardware()]
        code = MissingDependency.exit_code
    if arguments.sandbox:
        is_lacking = all(finding.fix for finding in findings)
    else:
        is_lacking = any(finding.needed and finding.fix for finding in findings)
    code = code if is_lacking else 0
    if arguments.json:
        show_json([asdict(finding) for finding in findings])
        return code
    from harness.cli.tables import show_columns, wrap_lines

    show_columns(
        [(_mark(finding), finding.name, finding.state, finding.about) for finding in findings]
    )
    print()
    for finding in findings:
        if finding.fix:
            print("\n".join(wrap_lines(f"{finding.name}: {finding.fix}", indent=4)))
    return code


def _mark(finding: machine.Finding) -> str:
    if not finding.fix:
        return "✓"
    return "✗" if finding.needed else "–"
