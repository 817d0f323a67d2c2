"""Sphinx's configuration of the site, which docs/site.sh builds. The pages are the Markdown files of the tree, as they are.

The root is the folder of the project, so that links between pages lead where they lead in the repository. docs/README.md is the first page, and
its lists are the navigation (navigation.py). Links to headers lead to Doxygen's pages, links to other files to pages that show them (files.py).
The search ranks sections (sections.py).
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
top = pathlib.Path(__file__).resolve().parents[2]

project = "weft"
author = "the authors of weft"
numbers = dict(re.findall(r"#define WEFT_VERSION_(MAJOR|MINOR|PATCH) (\d+)", (top / "include/weft/core/version.hpp").read_text()))
release = version = ".".join(numbers[part] for part in ("MAJOR", "MINOR", "PATCH"))
html_show_copyright = False

root_doc = "docs/README"
source_suffix = {".md": "markdown"}
include_patterns = ["docs/*.md", "docs/contributing/*.md", "CHANGELOG.md", "CONTRIBUTING.md", "bench/README.md", "bench/**/README.md", "examples/**/README.md", "launchers/**/README.md", "python/weft/README.md",
                    "src/**/README.md", "tools/README.md", "tools/**/README.md", "tests/emulation/README.md", "tests/fake_nccl/README.md"]
exclude_patterns = ["build", ".git", "shared", "**/.*"]
extensions = ["myst_parser", "sphinx_copybutton", "navigation", "files", "sections"]
myst_heading_anchors = 6
myst_links_external_new_tab = False
highlight_language = "none"
copybutton_prompt_text = "$ "
suppress_warnings = ["toc.not_included"]  # READMEs of rooms are reached from the pages that name them
smartquotes = False

html_theme = "furo"
html_title = f"weft {release}"
templates_path = ["templates"]
html_sidebars = {"**": ["sidebar/brand.html", "sidebar/search.html", "sidebar/scroll-start.html", "sidebar/navigation.html", "sidebar/reference.html",
                        "sidebar/scroll-end.html"]}
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_permalinks_icon = "#"
html_theme_options = {"navigation_with_keys": True}
