"""One table of good and bad objects: the models, the planner's validation and the API server must all agree on it."""

from tests.cases.bad import BAD, RULES, SCHEMA
from tests.cases.case import Bad, Body, Good, changed, slug
from tests.cases.good import GOOD

__all__ = ["BAD", "GOOD", "RULES", "SCHEMA", "Bad", "Body", "Good", "changed", "slug"]
