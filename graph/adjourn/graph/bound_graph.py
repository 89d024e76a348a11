"""One graph over one store: what everybody who begins, drives or changes its runs needs to know of both."""

import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from adjourn.checkpoints import journal
from adjourn.checkpoints.database import Database
from adjourn.checkpoints.errors import WrongGraph
from adjourn.checkpoints.records import Interrupt, RunRow
from adjourn.checkpoints.saver import SQLAlchemySaver
from adjourn.graph import starts
from adjourn.graph.graph_parts import (
    Graph,
    masker_of,
    may_answer_of,
    schemas_of,
    signature_of,
    tools_of,
)
from adjourn.graph.keys import check_openable, has_key_file, keyring_of, tools_with_secrets
from adjourn.graph.ledger_rows import row_id
from adjourn.graph.may_answer import MayAnswer, refusal
from adjourn.graph.own_graphs import adopted
from adjourn.graph.said import Message
from adjourn.nodes.sealing import Keyring


class BoundGraph:
    """A graph whose checkpoints are kept in a store, with its name, tools, masker, signature and keys.

    `rule` says who may answer questions; None: whoever the tools name. `lease_s`: for how long a run is claimed, in seconds.
    """

    def __init__(
        self,
        graph: Graph,
        database: Database,
        *,
        lease_s: float,
        may_answer: MayAnswer | None,
        key: str | Sequence[str] | None,
    ) -> None:
        graph = adopted(graph)
        self.database = database
        self.saver = SQLAlchemySaver(database, types=schemas_of(graph))
        self.graph: Graph = graph.copy({"checkpointer": self.saver})
        self.name = graph.get_name()
        self.tools = tools_of(graph)
        self.masker = masker_of(graph)
        self.signature = signature_of(graph)
        self.rule = may_answer or may_answer_of(graph)
        self.lease_s = lease_s
        self._key = key
        self._secret = tools_with_secrets(graph)
        self._keyring: Keyring | None = None
        if not has_key_file(database, key):  # a key that is missing or wrong is told now
            self._keyring = keyring_of(database, key, self._secret)

    def like(self, graph: Graph) -> "BoundGraph":
        """A specialist's graph over the same store, with the same settings."""
        rule = may_answer_of(graph) or self.rule
        return BoundGraph(graph, self.database, lease_s=self.lease_s, may_answer=rule, key=self._key)

    @property
    def keyring(self) -> Keyring:
        """What seals secrets, and keys digests. The key file is made with the first run."""
        if self._keyring is None:
            self._keyring = keyring_of(self.database, self._key, self._secret)
        return self._keyring

    async def may_answer(self, question: Interrupt, person: str | None) -> bool:
        """Whether this person may answer this question (C-51)."""
        return await refusal(question, person, self.rule) is None

    # -- its runs

    def new_row(
        self,
        said: Message,
        *,
        thread_id: str | None,
        by: str | None,
        run_id: str | None = None,
        priority: int = 0,
        context: Mapping[str, Any] | None = None,
    ) -> RunRow:
        """The row of a run that is about to start in this process. Raises what `starts.new_run` raises."""
        return starts.new_run(
            said.text,
            attached=said.attached,
            thread_id=thread_id,
            by=by,
            run_id=run_id,
            graph=self.name,
            signature=self.signature,
            owner=this_process(),
            lease_s=self.lease_s,
            priority=priority,
            context=context,
        )

    async def row(self, run_id: str) -> RunRow:
        """The row of a run of this graph. Raises `RunNotFound`, `WrongGraph`."""
        run = await self.database.aread(lambda connection: journal.read_run(connection, run_id))
        if run.graph != self.name:
            raise WrongGraph(run_id, run.graph, self.name)
        return run

    async def real_arguments(self, run: RunRow) -> dict[str, dict[str, Any]]:
        """The arguments of the calls that wait, by call id; tables hold them masked."""
        snapshot = await self.graph.aget_state({"configurable": {"thread_id": run.thread_id}})
        mine = snapshot.values.get("calls", ()) if snapshot.values.get("run_id") == run.id else ()
        return {row_id(call): call["arguments"] or {} for call in mine}

    def check_keys(
        self, run_id: str, real: Mapping[str, Mapping[str, Any]], asked: Iterable[Interrupt]
    ) -> None:
        """Raise `KeyLost` when a secret that the run goes on with cannot be opened: among the arguments of its calls, or
        among what people answered."""
        if self._secret:
            answers = [one.answer for one in asked if isinstance(one.answer, dict)]
            check_openable(self.keyring, run_id, [*real.values(), *answers])

    async def check_stored_keys(self, run: RunRow) -> None:
        """`check_keys`, with what is stored of the run."""
        if self._secret:
            asked = await self.database.aread(lambda connection: journal.read_interrupts(connection, run.id))
            self.check_keys(run.id, await self.real_arguments(run), asked)


def this_process() -> str:
    """What leases call this process; one that is forked later has a name of its own."""
    return f"{socket.gethostname()}:{os.getpid()}"
