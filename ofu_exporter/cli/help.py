"""Shows commands and options by subject; --help has a command's common options, --help-all every one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

OPTIONS = "Options"
"""The subject of an option that names none."""
_WIDEST = 34
"""Longest option whose explanation still begins on the same line, in characters."""


class SubjectOption(click.Option):
    """An option with a subject; a rare one is shown by --help-all alone."""

    def __init__(self, *args: Any, subject: str = OPTIONS, rare: bool = False, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.subject = subject
        self.rare = rare

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Its names and what it does; a second name is shown by --help-all alone."""
        record = super().get_help_record(ctx)
        if record is None or len(self.opts) == 1 or self.secondary_opts or ctx.meta.get(__name__):
            return record
        return f"{self.opts[0]} {self.make_metavar(ctx)}", record[1]


class SubjectCommand(click.Command):
    """A command whose help has a section for each subject of its options."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The command's options, and --help-all where --help does not show all of them."""
        params = super().get_params(ctx)
        if any(_is_rare(param) and not getattr(param, "hidden", False) for param in params):
            params.append(_help_all())
        return params

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section for each subject."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and (ctx.meta.get(__name__) or not _is_rare(param)):
                sections.setdefault(getattr(param, "subject", OPTIONS), []).append(record)
        for subject, records in sections.items():
            with formatter.section(subject):
                formatter.write_dl(records, col_max=_WIDEST)


def _is_rare(param: click.Parameter) -> bool:
    return bool(getattr(param, "rare", False))


def _help_all() -> click.Option:
    return click.Option(
        ["--help-all"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_show_all,
        help="Show every option and exit.",
    )


def _show_all(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        ctx.meta[__name__] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


class SubjectGroup(click.Group):
    """A group whose help has a section for each subject of its commands."""

    subjects: Mapping[str, tuple[str, ...]] = {}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section for each subject."""
        for subject, names in self.subjects.items():
            shown = [(name, self.get_command(ctx, name)) for name in names]
            limit = formatter.width - 6 - max(map(len, names))
            with formatter.section(subject):
                formatter.write_dl(
                    [(name, each.get_short_help_str(limit)) for name, each in shown if each]
                )
