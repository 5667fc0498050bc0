"""Self-contained HTML pages: a base template, plots that work offline, a check for both, and a look through Chromium.

    page = pages("torchport.check")                    # templates beside that package, and base.html.j2 from here
    html = page.render("verdict.html.j2", title="...", lang="en", plot=plot("roofline", figure, "Roofline"))
    save(Path("verdict.html"), html)                   # refuses a page that would load anything from elsewhere

Needs the extra `torchport[report]` (Jinja2, Plotly); torch is not used.
"""

from torchport.pages.browser import Look, find_chromium, look
from torchport.pages.offline import foreign, unlinked_numbers
from torchport.pages.page import Pages, evidence_link, pages, plot, save

__all__ = [
    "Look",
    "Pages",
    "evidence_link",
    "find_chromium",
    "foreign",
    "look",
    "pages",
    "plot",
    "save",
    "unlinked_numbers",
]
