"""The benchmark's tables in both READMEs, made from the JSON that the benchmark wrote.

python tests/bench/readme_table.py [JSON FILE]
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
BEGIN, END = "<!-- bench -->", "<!-- /bench -->"

# What was aimed at, as the ratio of ours to theirs per superstep, by setting, supersteps and bytes of a message.
TARGETS = {
    ("NORMAL", 50, 300): 0.8,
    ("NORMAL", 200, 300): 0.5,
    ("NORMAL", 200, 5_000): 0.3,
    ("FULL", 50, 300): 0.75,
    ("FULL", 200, 300): 0.55,
    ("FULL", 200, 5_000): 0.4,
    ("PostgreSQL", 50, 300): 0.9,
    ("PostgreSQL", 200, 300): 0.65,
    ("PostgreSQL", 200, 5_000): 0.25,
}
NAMES = {"NORMAL": "SQLite, NORMAL", "FULL": "SQLite, FULL", "PostgreSQL": "PostgreSQL"}

TEXTS: Mapping[str, Mapping[str, str]] = {
    "README.md": {
        "head": "| | supersteps × message | ms per superstep: official, Adjourn | ratio (aim) | floors | async ratio | "
        "KB per superstep: official, Adjourn | `get_state`, ms: official, Adjourn |",
        "made": "Measured {date} on {system}, Python {python}, SQLite {sqlite}, {packages} (load {load} before, "
        "{load_behind} behind). A superstep appends one message; both sides run the same graph in `sync` durability with "
        "the same `synchronous`, in turns; ratios are medians of rounds, below 1 Adjourn is faster. "
        "Made by `.venv/bin/python tests/bench/bench_store.py --readme`.",
        "floors": "The floors are the ratios of a saver that keeps nothing, which is LangGraph's own time, and of the barest one: the "
        "same inserts in one transaction a superstep, and none of the checks ([`barest.py`](tests/bench/barest.py)).",
        "missed": "Missed: {rows}.",
        "met": "Every aim is met.",
        "growth": "The file grows with an exponent of {ours:.2f} in the number of supersteps (official {theirs:.2f}: 2 is "
        "with the square).",
        "crowds": "{short} new threads of four supersteps each: {short_ratio:.2f} of the official time; {at_once} threads "
        "at once: {at_once_ratio:.2f}.",
        "waiting": "{runs} interrupted runs in one file: the newest 20 in {api:.1f} ms by API and {sql:.2f} ms by SQL, all "
        "of one graph in {graph:.0f} ms, one run in {run:.1f} ms.",
    },
    "README.zh.md": {
        "head": "| | 超步数 × 消息大小 | 每超步毫秒：官方、Adjourn | 比值（目标） | 下限 | 异步比值 | 每超步 KB：官方、Adjourn | "
        "`get_state` 毫秒：官方、Adjourn |",
        "made": "测于 {date}，{system}，Python {python}，SQLite {sqlite}，{packages}（负载：之前 {load}，之后 {load_behind}）。"
        "每个超步追加一条消息；双方以 `sync` 持久性、相同的 `synchronous` 轮流运行同一个图；比值是各轮的中位数，小于 1 表示 Adjourn 更快。"
        "由 `.venv/bin/python tests/bench/bench_store.py --readme` 生成。",
        "floors": "“下限”是两个对照的比值：什么都不存的 saver（即 LangGraph 自身的用时），以及最简的 saver："
        "同样的插入，每个超步一个事务，不做任何检查（[`barest.py`](tests/bench/barest.py)）。",
        "missed": "未达到目标：{rows}。",
        "met": "目标全部达到。",
        "growth": "文件随超步数增长的指数为 {ours:.2f}（官方 {theirs:.2f}；2 表示按平方增长）。",
        "crowds": "{short} 个各四个超步的新会话：用时为官方的 {short_ratio:.2f}；{at_once} 个会话同时进行：{at_once_ratio:.2f}。",
        "waiting": "一个文件里有 {runs} 次中断的运行时：最新 20 次用 API 取需 {api:.1f} 毫秒，用 SQL 需 {sql:.2f} 毫秒，"
        "取某个图的全部需 {graph:.0f} 毫秒，取一次运行需 {run:.1f} 毫秒。",
    },
}


def table(shown: Mapping[str, Any], words: Mapping[str, str]) -> str:
    """The text between the markers of one README."""
    rows = [_row(one) for one in shown["supersteps"]]
    missed = [_label(one) for one in shown["supersteps"] if one["ratio"] > TARGETS[_key(one)]]
    told = [
        words["floors"],
        words["missed"].format(rows="; ".join(missed)) if missed else words["met"],
        words["growth"].format(**shown["growth"]["NORMAL"]),
        _crowds(shown["crowds"], words),
        _waiting(shown["waiting"], words),
        _circumstances(shown["circumstances"], words),
    ]
    return "\n".join([words["head"], "|---|---|---|---|---|---|---|---|", *rows, "", *told])


def _key(one: Mapping[str, Any]) -> tuple[str, int, int]:
    return one["setting"], one["steps"], one["size"]


def _label(one: Mapping[str, Any]) -> str:
    size = f"{one['size']} B" if one["size"] < 1000 else f"{one['size'] // 1000} KB"
    return f"{NAMES[one['setting']]}, {one['steps']} × {size}"


def _row(one: Mapping[str, Any]) -> str:
    setting, size = _label(one).rsplit(", ", 1)
    cells = (
        setting,
        size,
        f"{one['theirs']:.2f}, {one['ours']:.2f}",
        f"{one['ratio']:.2f} ({TARGETS[_key(one)]})",
        f"{one['ratio_nothing']:.2f}, {one['ratio_barest']:.2f}" if one["ratio_barest"] else "",
        f"{one['ratio_async']:.2f}",
        f"{one['their_bytes'] / 1000:.1f}, {one['our_bytes'] / 1000:.1f}",
        f"{one['their_state']:.2f}, {one['our_state']:.2f}",
    )
    return "| " + " | ".join(cells) + " |"


def _crowds(found: Mapping[str, Any], words: Mapping[str, str]) -> str:
    return words["crowds"].format(
        short=found["short"]["threads"],
        short_ratio=found["short"]["ratio"],
        at_once=found["at_once"]["threads"],
        at_once_ratio=found["at_once"]["ratio"],
    )


def _waiting(found: Mapping[str, Any], words: Mapping[str, str]) -> str:
    return words["waiting"].format(
        runs=found["runs"],
        api=found["newest 20, API"],
        sql=found["newest 20, SQL"],
        graph=found["all of one graph"],
        run=found["load one run"],
    )


def _circumstances(found: Mapping[str, Any], words: Mapping[str, str]) -> str:
    packages = ", ".join(f"{name} {number}" for name, number in found["packages"].items())
    given = {**found, "packages": packages, "load": found["load"][0], "load_behind": found["load_behind"][0]}
    return words["made"].format(**given)


def write_tables(shown: Mapping[str, Any]) -> None:
    """Put the tables between the markers of both READMEs."""
    if {_key(one) for one in shown["supersteps"]} != set(TARGETS):
        raise SystemExit("the READMEs show a whole run: leave --quick away")
    for name, words in TEXTS.items():
        path = ROOT / name
        before, _, rest = path.read_text(encoding="utf-8").partition(f"{BEGIN}\n")
        _, marker, behind = rest.partition(END)
        if not marker:
            raise SystemExit(f"{name} has no {BEGIN} ... {END}")
        path.write_text(f"{before}{BEGIN}\n{table(shown, words)}\n{END}{behind}", encoding="utf-8")
        print(f"written to {name}")


if __name__ == "__main__":
    given = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("bench_store.json")
    write_tables(json.loads(given.read_text(encoding="utf-8")))
