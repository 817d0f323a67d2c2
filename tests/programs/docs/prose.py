"""What a page says, as sentences: the part of docs_test.py that reads Markdown and the comments of headers.

Prose is what is left of a page without code blocks, HTML comments, and the rows of dashes in tables. A heading, a cell of a table, an item
of a list and a paragraph are read apart, so a sentence never runs from one into the next. Of a link only its text counts; a piece of code
in backticks is one word. A sentence ends at . ! or ? before a space and something that may begin one.
"""
import re

WORD = re.compile(r"[^\s]*[A-Za-z0-9][^\s]*")
END = re.compile(r"(?<=[.!?])[\"')*_]*\s+(?=[\"'(*_]*(?:[A-Z0-9`~@-]|[a-z]+[0-9_]|weft\b|docs/))")
NOT_AN_END = re.compile(r"\b(e\.g|i\.e|et al|vs|cf|no|approx)\.$", re.I)


def without_fences(text):
    """The lines of a page, with those of fenced code blocks and HTML comments empty."""
    text = re.sub(r"<!--.*?-->", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)
    fence = None
    for line in text.split("\n"):
        mark = re.match(r"\s*(```+|~~~+)", line)
        if fence:
            if mark and mark.group(1).startswith(fence):
                fence = None
            yield ""
        elif mark:
            fence = mark.group(1)
            yield ""
        else:
            yield line


def blocks(text):
    """(line number, text) of each paragraph, heading, item and cell."""
    held, begin, code, after_blank, in_list = [], 0, False, True, False

    def flush():
        if held:
            yield begin, " ".join(held)
            held.clear()

    for number, line in enumerate(without_fences(text), 1):
        stripped = line.strip()
        if not stripped:
            yield from flush()
            after_blank = True
            continue
        indented = line.startswith("    ")
        code = indented and (code or after_blank) and not in_list
        after_blank = False
        if code:
            continue
        if not line.startswith(" "):
            in_list = False
        item = re.match(r"\s*([-*+]|\d+\.)\s+(.*)", line)
        if stripped.startswith("#"):
            yield from flush()
            yield number, stripped.lstrip("# ")
        elif stripped.startswith("|"):
            yield from flush()
            for cell in re.split(r"(?<!\\)\|", stripped.strip("|")):
                if cell.strip(" :-"):
                    yield number, cell.strip()
        elif item:
            yield from flush()
            in_list = True
            begin = number
            held.append(item.group(2))
        else:
            if not held:
                begin = number
            held.append(stripped.lstrip("> "))
    yield from flush()


def plain(text):
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"``[^`]+``|`[^`]+`", "`code`", text)


def sentences(text):
    """The sentences of one block."""
    pieces, rest = [], plain(text)
    start = 0
    for end in END.finditer(rest):
        if NOT_AN_END.search(rest[start:end.start()].rstrip()):
            continue
        pieces.append(rest[start:end.start()])
        start = end.end()
    return pieces + [rest[start:]]


def words(sentence):
    return len(WORD.findall(sentence))


def page(text):
    """(line number, sentence) of a page."""
    for number, block in blocks(text):
        for sentence in sentences(block):
            yield number, sentence


def header(text):
    """(line number, sentence) of a header's comments: those that begin a line, and those behind a declaration. Code in them (more than
    one space after the slashes) is left out."""
    held, begin = [], 0

    def flush():
        joined = " ".join(held).replace(" - ", " ")
        held.clear()
        for sentence in sentences(joined) if joined else []:
            yield begin, sentence

    for number, line in enumerate(text.split("\n"), 1):
        own = re.match(r"\s*//[/!]?( ?)(.*)", line)
        behind = None if own else re.match(r'[^"]*\S\s*//[/!]?<? (.*)', line)
        if own:
            said = own.group(2).strip()
            if not said or own.group(2).startswith(" ") or re.match(r"(@|- |\d\. |WRONG)", said):
                yield from flush()
            if said and not own.group(2).startswith("  "):
                if not held:
                    begin = number
                held.append(re.sub(r"^(@\w+ |- )", "", said.strip()))
        else:
            yield from flush()
            if behind and not behind.group(1).startswith("NOLINT"):
                for sentence in sentences(behind.group(1)):
                    yield number, sentence
    yield from flush()
