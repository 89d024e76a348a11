"""A lease that is renewed late: its owner has handed the run back."""

from store.stored_runs import run_row

from adjourn.checkpoints import journal, leases
from adjourn.checkpoints.database import Database
from adjourn.checkpoints.lifecycle import RunEvent


def test_c91_a_renewal_that_comes_behind_the_hand_back_takes_nothing(url: str) -> None:
    database = Database(url)
    row = run_row("run_a", lease_owner="a")

    def renewed() -> bool:
        return database.write(
            lambda connection: leases.renew(connection, row.id, row.fence, lease_s=30, active_ms=1)
        )

    try:
        database.write(lambda connection: journal.insert_run(connection, row))
        assert renewed()
        database.write(lambda connection: leases.release(connection, row.id, row.fence, active_ms=1))
        assert not renewed()
        fence = database.write(
            lambda connection: leases.claim(connection, row.id, RunEvent.RECOVER, owner="b", lease_s=30)
        )
        assert fence == row.fence + 1
    finally:
        database.close()
