"""Links of pages to what is no page: a header leads to Doxygen's page of it, a report to a copy of it, a folder to its README or to a list of its
files, any other file to a page that shows it.
"""
import html
import os
import pathlib
import shutil
import xml.etree.ElementTree as xml

import docutils.nodes
import sphinx.addnodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_for_filename
from pygments.util import ClassNotFound

REFERENCE = "reference"  # the folder of Doxygen's pages in the site
TOP = pathlib.Path(__file__).resolve().parents[2]


def doxygen_pages(tags):
    """header below include -> file name of its page, from Doxygen's tag file."""
    found = {}
    for unit in xml.parse(tags).getroot().iterfind("compound[@kind='file']"):
        header = pathlib.Path(unit.findtext("path"), unit.findtext("name")).relative_to(TOP).as_posix()
        found[header] = unit.findtext("filename")
    return found


def target_of(app, path):
    """Where a link to the file or folder `path` of the tree leads, from the root of the site."""
    if path in app.doxygen:
        return f"{REFERENCE}/{app.doxygen[path]}"
    if path.startswith("docs/reports/"):
        app.reports.add(path)
        return path
    if (TOP / path / "README.md").exists():
        return f"{path}/README.html"
    app.shown.add(path)
    return f"files/{path}.html"


def lead(app, tree):
    """Replaces the links of a page to files, which are downloads to MyST, and to folders, which it does not know."""
    page = pathlib.PurePosixPath(app.env.docname).parent
    for link in [*tree.findall(sphinx.addnodes.download_reference), *tree.findall(sphinx.addnodes.pending_xref)]:
        path = os.path.normpath(page / link["reftarget"])
        if isinstance(link, sphinx.addnodes.pending_xref) and not (TOP / path).is_dir():
            continue
        up = os.path.relpath(target_of(app, path), page)
        text = docutils.nodes.inline("", "", *(link.children or [docutils.nodes.Text(path)]))
        link.replace_self(docutils.nodes.reference("", "", text, refuri=up, internal=True))


def shown_file(path):
    text = (TOP / path).read_text()
    try:
        lexer = get_lexer_for_filename(path)
    except ClassNotFound:
        lexer = TextLexer()
    return highlight(text, lexer, HtmlFormatter(cssclass="highlight"))


def shown_folder(app, path):
    """A list of the files below a folder, each with a page of its own."""
    rows = []
    for file in sorted(file for file in (TOP / path).rglob("*") if file.is_file() and file.suffix != ".pyc"):
        target = os.path.relpath(target_of(app, file.relative_to(TOP).as_posix()), pathlib.PurePosixPath("files", path).parent)
        rows.append(f'<li><a href="{html.escape(target)}">{html.escape(file.relative_to(TOP / path).as_posix())}</a></li>')
    return f"<ul>{''.join(rows)}</ul>"


def shown_files(app):
    """The pages that show files and folders; a folder adds its files."""
    done = set()
    while left := sorted(app.shown - done):
        for path in left:
            done.add(path)
            body = shown_folder(app, path) if (TOP / path).is_dir() else shown_file(path)
            name = html.escape(path)
            yield f"files/{path}", {"title": name, "body": f"<h1><code>{name}</code></h1>\n{body}"}, "page.html"


def prepare(app):
    app.doxygen = doxygen_pages(os.environ["WEFT_SITE_TAGS"])  # which site.sh names
    app.shown, app.reports = set(), set()


def finish(app, error):
    if error:
        return
    for report in app.reports:
        target = pathlib.Path(app.outdir, report)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(TOP / report, target)


def setup(app):
    app.connect("builder-inited", prepare)
    app.connect("doctree-read", lead, priority=400)  # before Sphinx collects downloads
    app.connect("html-collect-pages", shown_files)
    app.connect("build-finished", finish)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
