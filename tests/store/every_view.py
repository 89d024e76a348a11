"""The names of the views, in the order of `views.sql`."""

import re
from pathlib import Path

from adjourn.checkpoints import views

TEXT = Path(views.__file__).with_name("views.sql").read_text(encoding="utf-8")
VIEWS = re.findall(r"^CREATE VIEW (\w+)", TEXT, re.MULTILINE)
