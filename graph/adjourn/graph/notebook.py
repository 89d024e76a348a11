"""A waiting run in a notebook: the form if ipywidgets is there, else what to write."""

import sys
from importlib.util import find_spec
from typing import Any

from adjourn.checkpoints.lifecycle import InterruptType
from adjourn.checkpoints.records import Interrupt
from adjourn.graph.captions import caption
from adjourn.graph.fields import example
from adjourn.graph.run import Run
from adjourn.nodes.texts import language_of


def form_of(run: Run, *, by: str | None = None) -> Any:
    """The form of a waiting run that knows its runner; None without ipywidgets."""
    if find_spec("ipywidgets") is None:
        return None
    from adjourn.graph.notebook_form import NotebookForm

    return NotebookForm(run, run.runner, by=by)


def form_in_cell(run: Run) -> Any:
    """The form that a waiting run is shown as; None where no person could use it: outside of a kernel."""
    if run.runner is None or not run.interrupts or not _in_kernel():
        return None
    return form_of(run)


def _in_kernel() -> bool:
    ipython = sys.modules.get("IPython")  # whoever shows a run there has imported it
    return ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None


def how_to_answer(run: Run) -> str:
    """What to write to answer the open questions of a run, where there is no form."""
    language = language_of(run.row.input)
    lines = [caption("form.waits", language, run=run.id, count=len(run.interrupts))]
    for one in run.interrupts:
        lines += [f"  {one.type} {one.tool}: {one.asked}", f"    {_call(run, one)}"]
    return "\n".join(lines)


def _call(run: Run, question: Interrupt) -> str:
    schema = question.response_schema
    answer = _ACTIONS.get(question.type) or repr(example(schema, schema))
    return f'runner.resume_sync("{run.id}", {{"{question.id}": {answer}}}, by="YOU")'


_ACTIONS: dict[str, str] = {
    InterruptType.CONFIRM_RISKY: "approve()",  # or edit(arguments), or reject(reason)
    InterruptType.OUTCOME_UNKNOWN: '{"action": "leave"}',
}
