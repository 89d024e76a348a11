"""What an installed wheel must do: import its three parts, run, stop for a person, go on, and say so.

Run by itself, with nothing but the wheel and its dependencies.
"""

import subprocess
import sys
from pathlib import Path

from adjourn.graph import Runner, build_react
from adjourn.nodes import ScriptedModel, approve, tool
from adjourn.nodes.scripted import call, says

RESTARTED: list[str] = []


@tool(effect="write", confirm="Restart {service}?")
def restart(service: str) -> str:
    """Restart a service."""
    RESTARTED.append(service)
    return "restarted"


def main() -> None:
    """One run with a question, then the installed command."""
    model = ScriptedModel(turns=[says("", call("restart", {"service": "pay"}, id="c1")), "Done."])
    with Runner(build_react(model, [restart]), "sqlite:///smoke.db") as runner:
        run = runner.start_sync("Restart pay.")
        assert run.status == "interrupted", run
        assert not RESTARTED
        run = runner.resume_sync(run.id, {run.interrupts[0].id: approve()}, by="smoke")
        assert (run.status, run.answer, RESTARTED) == ("finished", "Done.", ["pay"]), run
    command = str(Path(sys.executable).with_name("adjourn"))
    shown = subprocess.run(
        [command, "show", run.id, "--store", "sqlite:///smoke.db"], capture_output=True, text=True, check=True
    )
    assert "answered" in shown.stdout, shown
    demo = subprocess.run([command, "demo"], capture_output=True, text=True, check=True)
    assert "adjourn resume" in demo.stdout, demo
    print("smoke: ok")


if __name__ == "__main__":
    main()
