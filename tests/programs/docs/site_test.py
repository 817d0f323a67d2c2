#!/usr/bin/env python3
"""The site that docs/site.sh makes: it builds without a warning, each of its links leads somewhere, its search finds what users look for, and no page
is wider than a telephone.

usage: site_test.py links|searches|browser FOLDER_OF_THE_PROJECT FOLDER_OF_THE_SITE
`links` builds the site into the folder, and also builds small trees that are bad on purpose. `searches` ranks searches.py by the index of the site, as
docs/site/static/search.js does. `browser` tries the same in headless Chromium, where the ranks must be the same, and measures each page at 390 pixels.
Ends with 77 (skipped) without Sphinx (WEFT_DOCS_VENV, or ~/.cache/weft-docs), Doxygen, or Chromium where that is needed.
"""
import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse

from searches import SEARCHES

VENV = pathlib.Path(os.environ.get("WEFT_DOCS_VENV") or pathlib.Path.home() / ".cache/weft-docs")


def skip(reason):
    print(f"skipped: {reason} (launchers/setup.sh docs installs it)")
    sys.exit(77)


class Page(html.parser.HTMLParser):
    """The links and the names of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.names = set(), set()
        self.feed(text)

    def handle_starttag(self, _, attributes):
        for key, value in attributes:
            if key in ("href", "src") and value:
                self.links.add(value)
            elif key in ("id", "name") and value:
                self.names.add(value)


def broken_links(site):
    """Links of the pages to files or names that are not there. Doxygen's own pages are targets alone."""
    pages = {}

    def page(path):
        if path not in pages:
            pages[path] = Page(path.read_text(errors="replace"))
        return pages[path]

    for path in sorted(site.rglob("*.html")):
        if "reference" in path.relative_to(site).parts[:1]:
            continue
        for link in page(path).links:
            if re.match(r"[a-z]+:", link):
                continue
            file, _, name = link.partition("#")
            target = (path.parent / urllib.parse.unquote(file.partition("?")[0])).resolve() if file else path
            if not target.is_file():
                yield f"{path.relative_to(site)}: nothing is at {link}"
            elif name and target.suffix == ".html" and urllib.parse.unquote(name) not in page(target).names:
                yield f"{path.relative_to(site)}: {link} names nothing on that page"


def made(tree, site):
    return subprocess.run(["bash", tree / "docs/site.sh", site], capture_output=True, text=True, env={**os.environ, "WEFT_DOCS_VENV": str(VENV)})


def small_tree(top, folder, page):
    """A tree with one page and one header."""
    tree = pathlib.Path(folder, "a tree")
    shutil.copytree(top / "docs/site", tree / "docs/site", ignore=shutil.ignore_patterns("__pycache__"))
    (tree / "include/weft/core").mkdir(parents=True)
    for name in ("docs/site.sh", "docs/reference.sh", "docs/Doxyfile", "docs/header_manual.awk", "include/weft/core/version.hpp"):
        shutil.copy(top / name, tree / name)
    (tree / "docs/a.md").write_text(f"# A page\n\n{page}\n")
    (tree / "docs/README.md").write_text("# The book\n\n## Learn\n\n- [A page](a.md): text\n")
    return tree


def try_links(top, site):
    for page, said in (("[x](../include/weft/core/version.hpp), [y](#a-page)", ""), ("[x](b.md)", "b.md"), ("[x](#no-name)", "no-name"),
                       ("[x](../include/none.hpp)", "none.hpp"), ("```no-language\nx\n```", "no-language")):
        with tempfile.TemporaryDirectory() as folder:
            result = made(small_tree(top, folder, page), f"{folder}/a site")
            if (result.returncode == 0) != (not said) or said not in result.stderr:
                sys.exit(f"site.sh: of a page with {page} it says {result.returncode}: {result.stdout}{result.stderr}")
            if not said and list(broken_links(pathlib.Path(folder, "a site"))):
                sys.exit(f"site.sh: {list(broken_links(pathlib.Path(folder, 'a site')))}")
            if not said:
                (pathlib.Path(folder) / "a site/docs/a.html").write_text('<a href="none.html"></a><a href="README.html#none"></a><a href="README.html"></a>')
                if len(list(broken_links(pathlib.Path(folder, "a site")))) != 2:
                    sys.exit("site_test.py: does not notice links that lead nowhere")
    result = made(top, site)
    if result.returncode or result.stderr:
        sys.exit(f"docs/site.sh ends with {result.returncode}, and says\n{result.stderr}")
    print(result.stdout.strip())
    bad = list(broken_links(site))
    first = (site / "docs/README.html").read_text()
    bad += [f"the navigation does not lead to {page.stem}" for page in sorted((top / "docs").glob("*.md"))
            if page.name != "README.md" and not re.search(rf'class="reference internal" href="{page.stem}\.html"', first)]
    bad += [f"{page} has no link back" for page in ("reference/index.html", "reference/gradient__reducer_8hpp.html")
            if "../docs/README.html" not in (site / page).read_text() and "../docs/README.html" not in (site / "reference/menudata.js").read_text()]
    bad += [f"the first page has no {part}" for part in ("copybutton.js", "theme-toggle", 'action="../search.html"') if part not in first]
    return bad


def ranked(index, query, language):
    """The pages for a query, best first: what search.js does, in other words."""
    shares = {}
    for word in re.findall(r"\w+", query):
        parts = [part for part in re.split(r"_+|(?<=[a-z])(?=[A-Z])", word) if part]
        for one, share in [(word, 1)] + ([(part, 0.5) for part in parts] if len(parts) > 1 else []):
            if one.lower() not in language.stopwords:
                stem = language.stem(one.lower())
                shares[stem] = max(shares.get(stem, 0), share)
    in_section, in_page = {}, {}
    for word, share in shares.items():
        same = [word] if word in index["terms"] else [term for term in index["terms"] if len(word) > 2 and term.startswith(word)]
        weights = {}
        for term in same:
            postings = index["terms"][term]
            for section, weight in zip(postings[::2], postings[1::2]):
                weights[section] = max(weights.get(section, 0), share * weight * (1 if term == word else 0.5))
        best = {}
        for section, weight in weights.items():
            page = index["sections"][section][0]
            in_section[section] = in_section.get(section, 0) + weight
            best[page] = max(best.get(page, 0), weight)
        for page, weight in best.items():
            in_page.setdefault(page, []).append((weight, share))
    scores = {}
    for section, weight in in_section.items():
        page = index["sections"][section][0]
        has = sum(share for _, share in in_page[page]) / sum(shares.values())
        scores[page] = max(scores.get(page, 0), (weight + 0.3 * sum(one for one, _ in in_page[page])) * has ** 2)
    return sorted((index["pages"][page][0] for page in scores), key=lambda name: (-scores[[one[0] for one in index["pages"]].index(name)], name))


def index_of(site):
    return json.loads((site / "_static/sections.js").read_text().removeprefix("Sections.set(").removesuffix(");\n"))


def short(page):
    return page.removeprefix("docs/") if page.startswith("docs/") else page


def try_searches(site):
    from sphinx.search.en import SearchEnglish
    index, language = index_of(site), SearchEnglish({})
    if len(SEARCHES) < 25:
        yield f"there are only {len(SEARCHES)} searches"
    for query, wanted in SEARCHES.items():
        first = [short(page) for page in ranked(index, query, language)[:3]]
        if not set(wanted) & set(first):
            yield f"{query!r}: none of {', '.join(wanted)} is among the first three, which are {', '.join(first)}"
    if ranked(index, "qwertyuiop", language) or not ranked(index, "checkpo", language):
        yield "a word that no page has finds a page, or the beginning of one none"


SEARCH_SCRIPT = """
const found = {}, one = await frame("/search.html?q=first", 1200);
const inside = one.contentWindow;
for (let tries = 0; tries < 600 && !one.contentDocument.querySelector("ul.search li a"); ++tries) await sleep(50);
const shown = one.contentDocument.querySelector("ul.search li a")?.getAttribute("href");
for (const query of %s) found[query] = inside.eval(`Search._performSearch(${JSON.stringify(query)})`).reverse().map(result => result[0]);
done({ shown, found });
"""
WIDTH_SCRIPT = """
const wide = [];
for (const page of %s) {
  const one = await frame("/" + page, 390);
  await sleep(20);
  await complete(one);
  const width = one.contentDocument.documentElement.scrollWidth;
  if (width > 390) wide.push([page, width]);
  one.remove();
}
done(wide);
"""


def try_browser(site):
    import browser
    from sphinx.search.en import SearchEnglish
    if not browser.program():
        skip("there is no Chromium")
    index, language = index_of(site), SearchEnglish({})
    seen = browser.run(site, SEARCH_SCRIPT % json.dumps(list(SEARCHES)))
    if not seen["shown"]:
        yield "the page of the search shows no result"
    for query in SEARCHES:
        ours, theirs = ranked(index, query, language)[:3], seen["found"][query][:3]
        if ours != theirs:
            yield f"{query!r}: the browser finds {theirs}, and the index has {ours}"
    if 'href="docs/errors.html#deadlines"' not in browser.from_disk(site / "search.html", "?q=deadline"):
        yield "read from the disk, the page of the search finds no deadline"
    pages = [page.relative_to(site).as_posix() for page in sorted(site.rglob("*.html")) if "reference" not in page.relative_to(site).parts[:1]]
    pages += [f"reference/{name}" for name in ("index.html", "annotated.html", "files.html", "gradient__reducer_8hpp.html", "communicator_8hpp.html",
                                              "classweft_1_1GradientReducer.html", "classweft_1_1Communicator.html")]
    (site / "wide.html").write_text("<p style='width: 500px'>too wide on purpose</p>")
    wide = dict(browser.run(site, WIDTH_SCRIPT % json.dumps(["wide.html", *pages])))
    (site / "wide.html").unlink()
    if wide.pop("wide.html", 0) < 500:
        yield "a page that is too wide on purpose was not noticed"
    for page, width in wide.items():
        yield f"{page} is {width} pixels wide on a telephone of 390"
    print(f"{len(pages)} pages at 390 pixels, {len(SEARCHES)} searches")


def main():
    mode, top, site = sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), pathlib.Path(sys.argv[3]).resolve()
    if not (VENV / "bin/sphinx-build").exists():
        skip(f"there is no {VENV}/bin/sphinx-build")
    if not shutil.which("doxygen"):
        skip("there is no doxygen")
    if pathlib.Path(sys.prefix).resolve() != VENV.resolve():  # which has Sphinx's way with words
        os.execv(VENV / "bin/python", [VENV / "bin/python", *sys.argv])
    if mode != "links" and not (site / "index.html").exists():
        sys.exit(f"there is no site in {site}: run `site_test.py links` before")
    bad = list({"links": lambda: try_links(top, site), "searches": lambda: try_searches(site), "browser": lambda: try_browser(site)}[mode]())
    print("\n".join(bad) if bad else f"site: {mode}: all is well")
    sys.exit(1 if bad else 0)


main()
