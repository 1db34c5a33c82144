"""Shows commands and options by subject; --help has at most twelve options of a command, --help-all every one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import click

OPTIONS = "Options"
"""The subject of an option that names none."""
_WIDEST = 34
"""Longest option whose explanation still begins on the same line, in characters."""


class SubjectOption(click.Option):
    """An option with a subject."""

    def __init__(self, *args: Any, subject: str = OPTIONS, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.subject = subject

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Its names and what it does; a second name is shown by --help-all alone."""
        record = super().get_help_record(ctx)
        if record is None or len(self.opts) == 1 or self.secondary_opts or ctx.meta.get(__name__):
            return record
        return f"{self.opts[0]} {self.make_metavar(ctx)}", record[1]


class SubjectCommand(click.Command):
    """A command whose help has a section for each subject of its options.

    `common` has the names of the options that --help shows, with spaces between them; without it --help shows all.
    """

    def __init__(self, *args: Any, common: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._common = common.split()

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The command's options, and --help-all where --help does not show all of them."""
        params = super().get_params(ctx)
        if any(self._is_rare(param) and not getattr(param, "hidden", False) for param in params):
            params.append(_help_all())
        return params

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section for each subject."""
        sections: dict[str, list[tuple[str, str]]] = {OPTIONS: []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None and (ctx.meta.get(__name__) or not self._is_rare(param)):
                sections.setdefault(getattr(param, "subject", OPTIONS), []).append(record)
        for subject, records in sections.items():
            with formatter.section(subject):
                formatter.write_dl(records, col_max=_WIDEST)

    def _is_rare(self, param: click.Parameter) -> bool:
        return bool(self._common) and param.name not in self._common and not param.is_eager


def _help_all(hidden: bool = False) -> click.Option:
    return click.Option(
        ["--help-all"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_show_all,
        help="Show every option and exit.",
        hidden=hidden,
    )


def _show_all(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted or ctx.resilient_parsing:
        return
    ctx.meta[__name__] = True
    click.echo(ctx.get_help(), color=ctx.color)
    if isinstance(ctx.command, click.Group):
        for name in ctx.command.list_commands(ctx):
            command = ctx.command.get_command(ctx, name)
            if command is not None:
                below = command.make_context(name, [], ctx, resilient_parsing=True)
                click.echo(f"\n{below.get_help()}", color=ctx.color)
    ctx.exit()


class SubjectGroup(click.Group):
    """A group whose help has a section for each subject of its commands, given in the order of the help."""

    def __init__(
        self, *args: Any, subjects: Mapping[str, Collection[str]] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._subjects = subjects

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The group's options, and --help-all for those of its commands."""
        return [*super().get_params(ctx), _help_all()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, which takes --help-all also where its --help shows everything."""
        command = super().get_command(ctx, cmd_name)
        if command and all("--help-all" not in each.opts for each in command.get_params(ctx)):
            command.params.append(_help_all(hidden=True))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is meant; a word that is a command of a group below names that group."""
        if self.get_command(ctx, args[0]) is None:
            for name in self.list_commands(ctx):
                below = self.get_command(ctx, name)
                if isinstance(below, click.Group) and below.get_command(ctx, args[0]):
                    meant = f"{ctx.command_path} {name} {args[0]}"
                    raise click.UsageError(f"No such command {args[0]!r}: it is '{meant}'", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section for each subject."""
        for subject, names in (self._subjects or {"Commands": self.list_commands(ctx)}).items():
            shown = [(name, self.get_command(ctx, name)) for name in names]
            limit = formatter.width - 6 - max(map(len, names))
            with formatter.section(subject):
                formatter.write_dl(
                    [(name, each.get_short_help_str(limit)) for name, each in shown if each]
                )


@click.command("help", short_help="Show what a command does: help fleet report.")
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def help_(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Show the help of a command, as its --help does."""
    shown = ctx.find_root()
    for word in words:
        command = (
            shown.command.get_command(shown, word)
            if isinstance(shown.command, click.Group)
            else None
        )
        if command is None:
            raise click.UsageError(f"{shown.command_path} has no command {word!r}", shown)
        shown = command.make_context(word, [], shown, resilient_parsing=True)
    click.echo(shown.get_help(), color=ctx.color)
