"""How databases of older versions become ones of this version: a plain ordered list."""

from adjourn.checkpoints.migrations.ordered import MIGRATIONS, Migration

__all__ = ["MIGRATIONS", "Migration"]
