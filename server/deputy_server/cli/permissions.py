"""``deputy permissions``: the rules in settings files that apply in this folder."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from deputy_agents.domain.rule import DecisionKind

if TYPE_CHECKING:
    from pathlib import Path

    from deputy_agents.domain.rule import Rule
    from deputy_agents.guidance.answered_rules import AnsweredRules

T = TypeVar("T")

permissions = typer.Typer(name="permissions", help="List and change permission rules.", no_args_is_help=True)

RuleText = Annotated[str, typer.Argument(metavar="RULE", help="tool or tool(pattern), as in 'shell(npm test)'.")]
User = Annotated[bool, typer.Option("--user", help="Your own file, for all folders: ~/.deputy/settings.json.")]
Shared = Annotated[bool, typer.Option("--shared", help="The file of this folder that others get too.")]
Action = Annotated[DecisionKind, typer.Option("--action", help="What the rule decides.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@permissions.command("list")
def list_rules(as_json: AsJson = False) -> None:
    """List the rules in settings files for this folder, and the file of each.

    Rules that an editor sends, and those that an answer added to one session, are not in files.

    Examples: `deputy permissions list` · `deputy permissions list --json | jq '.[].pattern'`
    """
    from deputy_agents.permission.rule_patterns import rule_text
    from deputy_agents.text import visible

    found = [(file, rule) for file in _checked(_files).values() for rule in _rules_in(file)]
    if as_json:
        rows = [
            {"tool": rule.tool, "pattern": rule.pattern, "action": rule.decision.value, "source": str(file)}
            for file, rule in found
        ]
        typer.echo(json.dumps(rows, ensure_ascii=False, indent=2))
        return
    for file, rule in found:
        typer.echo(visible(f"{rule.decision.value} {rule_text(rule)}  ({file})"))
    if not found:
        typer.echo("There are no rules in settings files for this folder.", err=True)


@permissions.command()
def add(rule: RuleText, action: Action = DecisionKind.ALLOW, user: User = False, shared: Shared = False) -> None:
    """Add a rule, by default to your personal file in this folder, .deputy/settings.local.json.

    Rules that deny win over those that ask, and those over rules that allow.

    Examples: `deputy permissions add 'shell(npm test)'` ·
    `deputy permissions add --action deny 'shell(git push *)' --user`
    """
    from pathlib import Path

    from deputy_agents.guidance.rule_files import keep_out_of_git
    from deputy_agents.guidance.settings_writer import add_rules
    from deputy_agents.permission.rule_patterns import parse_rule

    name = _scope(user=user, shared=shared)

    def write() -> "Path":
        file, parsed = _files()[name], parse_rule(rule, action)
        _check_tool(parsed)
        if name == "local":
            root = Path.cwd().resolve()
            if action is DecisionKind.ALLOW:
                _answered().add(root, [parsed])
            keep_out_of_git(root)
        add_rules(file, [parsed])
        return file

    typer.echo(f"Added to {_checked(write)}.", err=True)


@permissions.command()
def remove(rule: RuleText, action: Action = DecisionKind.ALLOW, user: User = False, shared: Shared = False) -> None:
    """Remove a rule from a settings file, by default from every file that has it.

    Examples: `deputy permissions remove 'shell(npm test)'` · `deputy permissions remove --action deny shell --user`
    """
    from pathlib import Path

    from deputy_agents.guidance.settings_writer import remove_rule
    from deputy_agents.permission.rule_patterns import parse_rule

    def write() -> "list[Path]":
        parsed, files = parse_rule(rule, action), _files()
        chosen = [files[_scope(user=user, shared=shared)]] if user or shared else list(files.values())
        removed = [file for file in chosen if remove_rule(file, parsed)]
        if files["local"] in removed:
            _answered().remove(Path.cwd().resolve(), parsed)
        return removed

    removed = _checked(write)
    if not removed:
        raise typer.BadParameter("no settings file has this rule. `deputy permissions list` shows all.")
    typer.echo(f"Removed from {', '.join(map(str, removed))}.", err=True)


def _scope(*, user: bool, shared: bool) -> str:
    if user and shared:
        raise typer.BadParameter("--user and --shared cannot be combined.")
    return "user" if user else "shared" if shared else "local"


def _files() -> "dict[str, Path]":
    from pathlib import Path

    from deputy_agents.guidance.rule_files import local_file
    from deputy_server.settings_files import Scope, file_of

    root = Path.cwd().resolve()
    return {"user": file_of(Scope.USER), "shared": file_of(Scope.PROJECT), "local": local_file(root)}


def _rules_in(file: "Path") -> "tuple[Rule, ...]":
    from deputy_agents.guidance.workspace_settings import read_workspace_settings

    read = read_workspace_settings(file.parent, parts=(file.name,))
    for problem in read.problems:
        typer.echo(str(problem), err=True)
    return read.rules


def _answered() -> "AnsweredRules":
    import os

    from deputy_server.storage import open_answers

    return open_answers(os.environ)


def _check_tool(rule: "Rule") -> None:
    from difflib import get_close_matches

    from deputy_agents.domain.errors import InvalidRequest
    from deputy_agents.session.builder import TOOL_NAMES

    # Names of agent definitions and of MCP servers are tools too.
    close = get_close_matches(rule.tool, sorted(TOOL_NAMES), n=1, cutoff=0.75)
    if rule.tool not in TOOL_NAMES and close:
        raise InvalidRequest(f"There is no tool {rule.tool}. Did you mean {close[0]}?")


def _checked(use: Callable[[], T]) -> T:
    from deputy_agents.domain.errors import DeputyError

    try:
        return use()
    except DeputyError as error:
        raise typer.BadParameter(str(error)) from None
    except OSError as error:
        raise typer.BadParameter(str(error)) from None
