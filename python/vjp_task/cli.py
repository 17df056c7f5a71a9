"""The command line: `python -m vjp_task <command> ...`."""

import argparse
from collections.abc import Sequence

from vjp_task import audit, bundle, draw, judge, record, reward, seal, selfcheck
from vjp_task.guard import command as guard
from vjp_task.log_report import command as log_report

# Each module has HELP, add_arguments(parser) and run(arguments) -> exit code.
COMMANDS = {
    "selfcheck": selfcheck,
    "draw": draw,
    "record": record,
    "audit": audit,
    "bundle": bundle,
    "seal": seal,
    "judge": judge,
    "reward": reward,
    "guard": guard,
    "report": log_report,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command named in `argv` and returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m vjp_task", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, module in COMMANDS.items():
        command = commands.add_parser(name, help=module.HELP, description=module.__doc__)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    arguments = parser.parse_args(argv)
    return arguments.run(arguments)
