"""The app of the soak: reads that fail at times, and a write of every kind, in a script without an end.

Each real execution of a write adds a line `TOOL RUN CALL KEY` to the file EFFECTS.
"""

import asyncio
import os
import random
import time
from pathlib import Path
from typing import Any

from adjourn.graph import Limits, build_react
from adjourn.graph.graph_parts import Graph
from adjourn.nodes import Happened, ScriptedModel, Tool, ToolContext, ToolError, tool
from adjourn.nodes.scripted import call, says

NAME = "soak"
TURNS = 600  # more than any thread comes to
ANSWERS = 0.3  # of the turns end a run
LONG_S, SHORT_S = 0.3, 0.02  # a kill or a cancel finds somebody in the middle of it

dice = random.Random()


def moment() -> float:
    """Seconds that something takes."""
    return LONG_S if dice.random() < 0.1 else dice.random() * SHORT_S


def lines(effects: Path) -> set[str]:
    """The keys of the writes that have happened."""
    return {line.split()[3] for line in effects.read_text().splitlines()} if effects.exists() else set()


def tools(effects: Path) -> list[Tool]:
    """A read, and a write of every kind."""

    def act(context: ToolContext) -> str:
        line = f"{context.tool} {context.run_id} {context.call_id} {context.idempotency_key}\n".encode()
        file = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, line)
        os.close(file)
        return f"{context.tool} {context.call_id}"

    def happened(context: ToolContext) -> Happened | bool:
        there = context.idempotency_key in lines(effects)
        return Happened(f"{context.tool} {context.call_id}") if there else False

    async def in_time(context: ToolContext) -> str:
        """It may be killed before and behind what it does."""
        await asyncio.sleep(moment())
        done = act(context)
        await asyncio.sleep(moment())
        return done

    @tool(effect="read")
    async def look(what: str) -> str:
        """Look."""
        await asyncio.sleep(moment())
        if dice.random() < 0.1:
            raise ToolError("nothing to see")
        return what

    @tool(effect="write")
    def pay(what: str, context: ToolContext) -> str:
        """Pay."""
        time.sleep(moment())
        done = act(context)
        time.sleep(moment())
        return done

    @tool(effect="write", idempotent=True)
    async def put(what: str, context: ToolContext) -> str:
        """Put."""
        return await in_time(context)

    @tool(effect="write", confirm="Send {what}?")
    async def send(what: str, context: ToolContext) -> str:
        """Send."""
        return await in_time(context)

    @tool(effect="write", ask_for=("amount",))
    def fill(what: str, amount: int, context: ToolContext) -> str:
        """Fill."""
        time.sleep(moment())
        return act(context)

    @tool(effect="write", verify=happened)
    async def book(what: str, context: ToolContext) -> str:
        """Book."""
        return await in_time(context)

    return [look, pay, put, send, fill, book]


def script() -> list[Any]:
    """Turns of one to four calls, and answers; the same in every process."""
    fixed = random.Random(20261130)
    names = ("look", "look", "look", "pay", "put", "send", "fill", "book")
    turns: list[Any] = []
    for number in range(TURNS):
        if fixed.random() < ANSWERS:
            turns.append(says(f"answer {number}", usage=(100, 10)))
            continue
        chosen = fixed.sample(names, fixed.randint(1, 4))
        calls = [
            call(name, {"what": f"{number}.{place}"}, id=f"t{number}c{place}")
            for place, name in enumerate(chosen)
        ]
        turns.append(says("", *calls, usage=(100, 10), delay_s=0.01))
    return turns


def graph(effects: Path) -> tuple[Graph, ScriptedModel]:
    """The app, and its model: it keeps its requests, which somebody has to throw away."""
    model = ScriptedModel(turns=script(), by_history=True)
    limits = Limits(max_steps=40, max_active_s=None, max_fails_in_row=20)
    return build_react(model, tools(effects), limits=limits, name=NAME), model
