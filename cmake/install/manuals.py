#!/usr/bin/env python3
"""Manuals and shell completions of a program, from what it prints for --help.

    manuals.py HELP2MAN FOLDER PROGRAM...     PROGRAM may have words before it that run it (qemu-aarch64 PROGRAM)

Writes FOLDER/man1/NAME.1 and NAME-COMMAND.1 by HELP2MAN, and FOLDER/bash/NAME, zsh/_NAME and fish/NAME.fish. Commands of a program
are the lower-case words that follow its name in the lines before --help's first empty one. Ends with 1 where it cannot read --help.
"""
import dataclasses
import os
import re
import shlex
import subprocess
import sys
import tempfile

FILES = re.compile(r"^(FILE|PATH|DIR)$")


@dataclasses.dataclass
class Option:
    long: str
    short: str
    value: str  # "FILE"; empty: it takes none
    text: str

    def names(self):
        return [name for name in ("-" + self.short if self.short else "", "--" + self.long if self.long else "") if name]


def refuse(problem):
    sys.exit(f"manuals.py: {problem}")


class Help:
    """What one program, or one command of it, prints for --help."""

    def __init__(self, program, command=""):
        self.command = command
        self.name = os.path.basename(program[-1])
        made = subprocess.run([*program, *([command] if command else []), "--help"], capture_output=True, text=True)
        if made.returncode != 0 or "\n\n" not in made.stdout:
            refuse(f"{' '.join(program)} {command} --help ended with {made.returncode} and said '{made.stdout[:60]}'")
        self.text = made.stdout
        usage, _, self.rest = self.text.partition("\n\n")
        self.usage = [re.sub(r"\s{3,}.*", "", line) for line in usage.split("\n")]
        self.about = re.split(r"(?<=\w)[.:](?=\s)", self.rest)[0].replace("\n", " ")
        self.options = list(self.read_options())

    def commands(self):
        words = [re.match(rf"{self.name} ([a-z]\w*)\b", line) for line in self.usage]
        return [word.group(1) for word in words if word]

    def subjects(self):
        """The names that a program lists which takes one of them first: "...: all_reduce, ..., or all."."""
        listed = re.search(r": ((?:\w+, )+or \w+)\.", self.rest) if re.match(rf"{self.name} [A-Z]", self.usage[0]) else None
        return listed.group(1).replace("or ", "").split(", ") if listed else []

    def read_options(self):
        """The lines under "Options:". The texts of all begin where that of --help does."""
        column = re.search(r"^(  -h \[ --help \] +)\S", self.rest, re.M)
        if not column:
            return
        column = len(column.group(1))
        term, text = "", []
        lines = self.rest.partition("Options:\n")[2].partition("\n\n")[0].split("\n")
        for line in [*lines, "  -"]:
            if line.startswith("  -"):
                if term:
                    yield self.option(term, " ".join(text))
                term, text = line[:column].strip(), []
                if len(line) > column and line[column - 1] != " ":  # too long for its column
                    term, line = line.strip(), ""
            text += [line[column:].strip()] if line[column:].strip() else []

    def option(self, term, text):
        match = re.fullmatch(r"(?:-(\w) \[ --([\w-]+) \]|--([\w-]+)|-(\w))(?: (\S+))?", term)
        if not match:
            refuse(f"{self.name} {self.command} --help: '{term}' does not read as an option")
        return Option(match[2] or match[3] or "", match[1] or match[4] or "", match[5] or "", text)

    def as_gnu(self):
        """The same text in the form that help2man knows."""
        lines = ["Usage: " + self.usage[0], *("  or:  " + line for line in self.usage[1:]), ""]
        about, _, tail = self.rest.partition("Options:\n")
        lines += [about]
        if self.options:
            lines += ["Options:"]
            lines += [f"  {', '.join(o.names())}{' ' + o.value if o.value else ''}  {o.text}" for o in self.options]
            lines += ["", *tail.partition("\n\n")[2].split("\n")]
        head, title, examples = re.sub(r"^Example:", "Examples:", "\n".join(lines), flags=re.M).partition("Examples:\n")
        return head + title + re.sub(r"^  (?=\S)", "  $ ", examples, flags=re.M)  # $: help2man leaves the line alone


def manual(help2man, folder, program, page, version):
    title = "-".join(filter(None, [page.name, page.command]))
    status = re.search(r"^Exit status: (.*?)(?=\n\n|\Z)", page.as_gnu(), re.M | re.S)
    with tempfile.TemporaryDirectory() as work:
        for name, text in (("help", page.as_gnu().replace(status.group(0), "") if status else page.as_gnu()),
                           ("version", f"{title} {version}\n")):
            open(f"{work}/{name}", "w").write(text)
        if status:
            open(f"{work}/include", "w").write("[EXIT STATUS]\n" + status.group(1))
        open(f"{work}/{title}", "w").write(f'#!/bin/sh\ncat {shlex.quote(work)}/"${{1#--}}"\n')
        os.chmod(f"{work}/{title}", 0o755)
        about = page.about[0].lower() + page.about[1:]
        subprocess.run([help2man, "--no-info", "--section=1", f"--name={about}", f"--opt-include={work}/include", f"--manual=weft {version}",
                        f"--source=weft {version}", f"--output={folder}/man1/{title}.1", f"{work}/{title}"], check=True)


def bash(program, pages, subjects):
    name = f"_{program.replace('-', '_')}"
    cases, values, files = [], [], []
    for page in pages:
        names = " ".join(n for o in page.options for n in o.names())
        cases.append(f'    {page.command or "*"}) options="{names}" ;;')
        values += [n for o in page.options if o.value and not FILES.match(o.value) for n in o.names()]
        files += [n for o in page.options if FILES.match(o.value) for n in o.names()]
    words = "command" if program == "weft-launch" else "file"  # what follows the options

    def case(names, what):
        return f"    {'|'.join(sorted(set(names)))}) {what}; return ;;\n" if names else ""

    return (f"# bash completion of {program}, made from its --help\n{name}() {{\n"
            "  local word=${COMP_WORDS[COMP_CWORD]} options\n"
            "  case ${COMP_WORDS[COMP_CWORD - 1]} in\n"
            + case(files, 'COMPREPLY=($(compgen -f -- "$word"))') + case(values, "COMPREPLY=()") + "  esac\n"
            "  case ${COMP_WORDS[1]} in\n" + "\n".join(sorted(cases, key=lambda line: "*)" in line)) + "\n  esac\n"
            '  if [[ $word == -* ]]; then COMPREPLY=($(compgen -W "$options" -- "$word"))\n'
            f'  elif [ "$COMP_CWORD" -eq 1 ]; then COMPREPLY=($(compgen -W "{" ".join(subjects)}" -- "$word"))\n'
            f'  fi\n  [ ${{#COMPREPLY[@]}} -gt 0 ] || [[ $word == -* ]] || COMPREPLY=($(compgen -A {words} -- "$word"))\n}}\n'
            f"complete -o filenames -F {name} {program}\n")


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def zsh(program, pages, subjects):
    out = [f"#compdef {program}", f"# zsh completion of {program}, made from its --help", 'case "$words[2]" in']
    for page in sorted(pages, key=lambda page: not page.command):
        out.append(f"  {page.command or '*'}) _arguments -s \\")
        for option in page.options:
            text = re.sub(r"([\[\]:\\])", r"\\\1", option.text)
            value = f":{option.value.replace(':', ' ')}:{'_files' if FILES.match(option.value) else ''}" if option.value else ""
            out += [f"    {quoted(f'{n}[{text}]{value}')} \\" for n in option.names()]
        out.append(f"    '1: :({' '.join(subjects)})' '*: :_files' ;;" if subjects else "    '*: :_files' ;;")
    return "\n".join([*out, "esac", ""])


def fish(program, pages, subjects):
    out = [f"# fish completion of {program}, made from its --help"]
    out += [f"complete -c {program} -n __fish_use_subcommand -a {word}" for word in subjects]
    for page in pages:
        known = " ".join(p.command for p in pages if p.command)
        when = f"'__fish_seen_subcommand_from {page.command}'" if page.command else f"'not __fish_seen_subcommand_from {known}'" if known else ""
        for o in page.options:
            words = [f"complete -c {program}", f"-n {when}" if when else "", f"-s {o.short}" if o.short else "", f"-l {o.long}" if o.long else "",
                     "" if not o.value else "-r" if FILES.match(o.value) else "-x", f"-d {quoted(o.text)}"]
            out.append(" ".join(filter(None, words)))
    return "\n".join([*out, ""])


def main():
    if len(sys.argv) < 4:
        refuse("usage: manuals.py HELP2MAN FOLDER PROGRAM...")
    help2man, folder, *program = sys.argv[1:]
    first = Help(program)
    commands = first.commands()
    pages = [first] + [page for page in (Help(program, command) for command in commands) if page.text != first.text]
    if not any(page.options for page in pages):
        refuse(f"{program[-1]} --help lists no options")
    version = subprocess.run([*program, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    for part in ("man1", "bash", "zsh", "fish"):
        os.makedirs(f"{folder}/{part}", exist_ok=True)
    for page in pages:
        manual(help2man, folder, program, page, version)
    subjects = commands or first.subjects()
    for part, write, file in (("bash", bash, first.name), ("zsh", zsh, "_" + first.name), ("fish", fish, first.name + ".fish")):
        open(f"{folder}/{part}/{file}", "w").write(write(first.name, pages, subjects))


if __name__ == "__main__":
    main()
