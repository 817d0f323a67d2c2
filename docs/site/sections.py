"""The index of the search: how well each section of the site answers each word, computed when the site is built. static/search.js adds up what it finds.

Sphinx's own search knows which pages have a word, not how often or where, and drops numbers: of the searches that tests/programs/docs tries it has a
third wrong. Here a section is ranked by BM25 (Robertson, Zaragoza 2009), with the words of headings counted more often. A word is stemmed as Sphinx
stems it in Python and in the browser. Names count as a whole and by their parts: NCCL_IB_HCA is also nccl, ib and hca.
"""
import collections
import json
import math
import pathlib
import re

import docutils.nodes

WORD = re.compile(r"\w+")
PARTS = re.compile(r"_+|(?<=[a-z])(?=[A-Z])")
IN_HEADING, IN_TITLE = 5, 3  # so many times a word of the text
K, B = 1.2, 0.6
OPENING = 150  # characters of a section that a result shows
WEIGHTS = {"docs/README": 0.7, "docs/findings-": 0.6, "docs/": 1.0}  # by the beginning of a page's name; what is no page of docs/ weighs 0.4


def words(text, lang):
    for word in WORD.findall(text):
        parts = [part for part in PARTS.split(word) if part]
        for one in [word, *parts] if len(parts) > 1 else [word]:
            if (lower := one.lower()) not in lang.stopwords:
                yield lang.stem(lower)


def own_text(section):
    """The text of a section without that of sections in it."""
    pieces = []
    for child in section.children:
        if not isinstance(child, (docutils.nodes.section, docutils.nodes.title, docutils.nodes.comment)):
            pieces.append(" ".join(text.astext() for text in child.findall(docutils.nodes.Text)))
    return " ".join(" ".join(pieces).split())


def collect(app, tree, name):
    title = tree.next_node(docutils.nodes.title)
    if title is None or app.builder.name != "html":
        return
    for section in tree.findall(docutils.nodes.section):
        heading = section.next_node(docutils.nodes.title).astext()
        first = section.parent is tree
        app.sections.append((name, title.astext(), "" if first else "#" + section["ids"][0], "" if first else heading, own_text(section)))


def index(sections, lang):
    """What search.js reads: pages, sections, and for each word the sections that have it, with their weights in hundredths."""
    counts, lengths = [], []
    for _, title, _, heading, text in sections:
        count = collections.Counter(words(text, lang))
        lengths.append(sum(count.values()))
        for word in words(heading, lang):
            count[word] += IN_HEADING
        for word in words(title, lang):
            count[word] += IN_TITLE if heading else IN_TITLE + IN_HEADING
        counts.append(count)
    having = collections.Counter(word for count in counts for word in count)
    usual = sum(lengths) / len(lengths)
    terms = collections.defaultdict(list)
    for number, (section, count, length) in enumerate(zip(sections, counts, lengths)):
        share = next((weight for prefix, weight in WEIGHTS.items() if section[0].startswith(prefix)), 0.4)
        for word, times in count.items():
            rarity = math.log(1 + (len(sections) - having[word] + 0.5) / (having[word] + 0.5))
            weight = share * rarity * times * (K + 1) / (times + K * (1 - B + B * length / usual))
            if (hundredths := round(100 * weight)) > 0:
                terms[word] += [number, hundredths]
    pages = sorted({(name, title) for name, title, *_ in sections})
    places = {name: place for place, (name, _) in enumerate(pages)}
    return {"pages": pages, "sections": [[places[name], anchor, heading, text[:OPENING]] for name, _, anchor, heading, text in sections],
            "terms": dict(sorted(terms.items()))}


def write(app, error):
    if error or app.builder.name != "html":
        return
    found = index(sorted(app.sections, key=lambda section: section[0]), app.builder.indexer.lang)
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    pathlib.Path(app.outdir, "_static", "sections.js").write_text(f"Sections.set({text});\n")


def add_script(app, name, *_):
    if name == "search":
        app.add_js_file("search.js")
        app.add_js_file("sections.js")


def setup(app):
    app.sections = []
    app.connect("doctree-resolved", collect)
    app.connect("html-page-context", add_script)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": False}
