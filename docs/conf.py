"""The documentation site: one command, no network.

    python -m sphinx -W docs docs/_build/html

Cells of the pages run once and are kept in ``docs/_cache``; a page runs again when its code changes. Runs of the
gallery are shown if they are there: ``limitlab run NAME`` and ``limitlab run all`` leave them in ``limitlab-runs``, and
LIMITLAB_RUNS names another folder, such as that of a report.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

import limitlab  # noqa: E402

project, author, copyright = "limitlab", "The limitlab developers", "The limitlab developers"
version = release = limitlab.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "numpydoc",
    "sphinxcontrib.bibtex",
    "mathml",
    "made_pages",
    "class_tables",
]
root_doc = "index"
exclude_patterns = ["_build", "_cache", "_ext", "extending/skeletons"]
templates_path: list[str] = []

# Text. Formulas become MathML when the site is built, so that a page needs no script from elsewhere.
html_math_renderer = "mathml"
myst_enable_extensions = ["dollarmath", "deflist", "attrs_inline"]
myst_heading_anchors = 3
myst_links_external_new_tab = False
bibtex_bibfiles = ["../src/limitlab/references.bib"]
bibtex_default_style = "unsrt"
bibtex_reference_style = "author_year"

# Cells.
nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE / "_cache")
nb_execution_timeout = 300
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True

# Docstrings.
default_role = "py:obj"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_default_options = {"undoc-members": False}
python_maximum_signature_line_length = 80
python_use_unqualified_type_names = True
add_module_names = False
numpydoc_show_class_members = False
numpydoc_attributes_as_param_list = True
numpydoc_xref_param_type = False
toc_object_entries = False
autosummary_generate = False

# Pages.
html_theme = "pydata_sphinx_theme"
html_title = "limitlab"
html_static_path = ["_static"]
html_css_files = ["limitlab.css"]
html_js_files = ["formulas.js"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "limitlab"},
    "navigation_with_keys": False,
    "show_prev_next": True,
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
    "show_toc_level": 2,
}
html_context = {"default_mode": "light"}
