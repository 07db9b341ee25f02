"""A forest seen: rules to read, a picture, and a page that holds both. Everything here reads only a `Forest`."""

from hardwood.draw._explorer_page import explain_page as explain_page
from hardwood.draw._plot import plot as plot
from hardwood.draw._report import report as report
from hardwood.draw._routes import routes as routes
from hardwood.draw._svg import svg as svg
from hardwood.draw._text import text as text
