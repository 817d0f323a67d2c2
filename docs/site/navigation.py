"""The navigation: each list of docs/README.md becomes a part of it, under the heading above the list."""
import re

ITEM = re.compile(r"(?:- |\d+\. )\[([^\]]+)\]\(([\w./-]+)\.md\)")


def parts_of(text):
    """(heading, [(title, page)]) of each list whose items begin with a link to a page."""
    for heading, body in re.findall(r"^## (.*)\n((?:(?!^## ).*\n?)*)", text, re.M):
        items = [ITEM.match(line).groups() for line in body.split("\n") if ITEM.match(line)]
        if items:
            yield heading, items


def add(app, name, source):
    if name != app.config.root_doc:
        return
    for heading, items in parts_of(source[0]):
        entries = "\n".join(f"{title.replace('`', '')} <{page}>" for title, page in items)
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {heading}\n\n{entries}\n```\n"


def setup(app):
    app.connect("source-read", add)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
