"""What `--help` says in Chinese. One table: the English text, as `parser` and `options` have it -> the Chinese one.

A test looks that each command and option has both.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

CHINESE: dict[str, str] = {
    "Run tool-calling agents that stop for a person and go on exactly there.\n\n"
    "Exit status: 0 done, 2 wrong usage, 3 interrupted (waits for a person), 4 failed or cancelled by somebody else, "
    "5 busy or already answered, 130 cancelled by Ctrl-C.": "运行会调用工具的智能体：需要人时停下，之后从原处继续。\n\n"
    "退出码：0 完成，2 用法错误，3 等待人工，4 失败或被他人取消，5 正忙或已被回答，130 被 Ctrl-C 取消。",
    "Print the version.": "打印版本。",
    "Show this message and exit.": "显示本帮助。",
    "Try it: an operations assistant on a bundled incident, with no key and no server.": (
        "试用：内置故障数据上的运维助手，不需要密钥和服务器。"
    ),
    "Your own logs and documents. Without: the bundled incident.": "自己的日志和文档；不给则用内置的故障数据。",
    "The demo's folder. Without: ./adjourn-demo.": "演示的目录；不给则为 ./adjourn-demo。",
    "A real model, by OPENAI_API_KEY or OPENAI_BASE_URL.": "真实模型，经 OPENAI_API_KEY 或 OPENAI_BASE_URL。",
    "What to ask it.": "要问它的话。",
    "A flow of fixed steps in place of the free loop.": "用固定步骤的流程代替自由循环。",
    "A supervisor with two specialists in place of the free loop.": "用一个主管和两个专员代替自由循环。",
    "Print JSON, and errors as JSON on stderr.": "输出 JSON；错误以 JSON 写到 stderr。",
    "Language of texts. Without: the locale's.": "文字的语言；不给则按系统语言环境。",
    "Start a run and show it live. At a question it asks on a terminal, else prints how to go on.": (
        "启动一次运行并实时显示。遇到问题时，在终端上直接询问，否则打印继续的方法。"
    ),
    "What the run is to do.": "要这次运行做的事。",
    "The conversation to go on with. Without: a new one.": "要继续的会话；不给则新建。",
    "Go on from these messages alone, a list in OpenAI's shape, on a new thread.": (
        "只凭这些消息（OpenAI 格式的列表）在新会话中继续。"
    ),
    "With --history: a value that it waits for; may be given again.": "配合 --history：它所等待的值；可多次给出。",
    "Where it comes to wait for a worker, the highest is taken first.": "等待 worker 时，数值最高的先执行。",
    "What the run's tools and prompt need to know beside the message, as JSON or text; may be given again.": (
        "除消息之外，运行的工具和提示词需要知道的内容，写成 JSON 或文本；可多次给出。"
    ),
    "Who does this; stored with the run. Without: the system's user.": "操作人，随运行保存；不给则为系统用户。",
    "The database, as a SQLAlchemy URL.": "数据库，写成 SQLAlchemy 的 URL。",
    "The graph, or a function that builds it: FILE.py:NAME or module:NAME. "
    "Without: [tool.adjourn] app in ./pyproject.toml.": (
        "图，或构建它的函数：FILE.py:NAME 或 module:NAME；不给则取 ./pyproject.toml 中 [tool.adjourn] 的 app。"
    ),
    "Answer a run's questions and go on, or try a failed run again.\n\n"
    "ID is a question's id, or the unique beginning of one. Without answers it asks on a terminal.": (
        "回答运行的问题并继续，或重试失败的运行。\n\n"
        "ID 是问题的 id，或其唯一的开头。不给回答时，在终端上询问。"
    ),
    "A run's id, or the unique beginning of one.": "运行的 id，或其唯一的开头。",
    "Let this call run as it is.": "按原样执行这个调用。",
    "Let it run with this argument changed.": "改动这个参数后执行。",
    "Never run this call.": "不执行这个调用。",
    "Why it is rejected; the model is told.": "拒绝的原因，会告诉模型。",
    "Fill a field. Text for a text field, JSON for the others. Just FIELD=VALUE when one question is open; "
    "ID=VALUE where the answer is one value.": (
        "填写一个字段：文本字段写文本，其他写 JSON。只有一个待回答的问题时写 FIELD=VALUE 即可；回答只是一个值时写 ID=VALUE。"
    ),
    '{"ID": answer, ...}; - reads stdin.': '{"ID": 回答, ...}； - 表示读 stdin。',
    "List runs, newest first.": "列出运行，最新的在前。",
    "Only those that wait for a person.": "只列等待人工的。",
    "Only those of this status; may be given again.": "只列这个状态的；可多次给出。",
    "Only those of this conversation.": "只列这个会话的。",
    "Those of specialists too, which work for other runs.": "也列为其他运行工作的专员的运行。",
    "At most so many.": "最多这么多条。",
    "Show everything about a run: why it stands where it stands, steps, calls, questions, answers, how to go on.": (
        "显示一次运行的全部：为何停在此处、步骤、调用、问题、回答、如何继续。"
    ),
    "Model calls, tool calls and waiting as bars over time.": "以时间条显示模型调用、工具调用和等待。",
    "Write it as one page that loads nothing; - is stdout.": "写成一个不加载外部内容的网页； - 表示 stdout。",
    "Print the stored events of a run, one per line.": "打印运行已存储的事件，每行一个。",
    "Only those with a number above N.": "只要编号大于 N 的。",
    "Go on until the run waits or ends, whoever drives it.": "一直跟随，直到运行停下或结束，无论由谁执行。",
    "Report on many runs: steps, stop reasons, questions, failing and slow tools, tokens, cost.": (
        "汇总多次运行：步数、停止原因、问题、失败和缓慢的工具、token、费用。"
    ),
    "Only runs begun since: 7d, 12h, 2026-11-01. Without: all.": "只计此后开始的运行：7d、12h、2026-11-01；不给则全部。",
    "Only runs of this graph.": "只计这个图的运行。",
    "Only runs that called this tool, and its calls.": "只计调用过这个工具的运行，及其调用。",
    "Print the machine of the app's graph as mermaid text, and its tools with what they do.": (
        "以 mermaid 文本打印应用的状态机，并列出它的工具。"
    ),
    "List where a run stood after each superstep, newest first: the points where a fork can begin.": (
        "列出运行在每个超步之后的位置，最新的在前：可从这些位置分叉。"
    ),
    "Begin a new run where another one stood. The other one is left as it is.": (
        "从另一次运行的某个位置开始新的运行。原来的运行不变。"
    ),
    "Its number or id, as history shows it. Without: the newest.": "history 所列的序号或 id；不给则为最新的。",
    "Begin with this message; what was open there is closed in the fork.": "以这条消息开始；那里未决的问题在分叉中关闭。",
    "The new conversation's name.": "新会话的名称。",
    "Allow writes that the run has made since to be made again.": "允许重复该运行此后已执行的写操作。",
    "Stop a run, whoever drives it; its questions are closed.": "停止一次运行，无论由谁执行；它的问题随之关闭。",
    "Go on with runs whose process died.": "继续那些失去进程的运行。",
    "One run. Without: every run that lost its process.": "一次运行；不给则为所有失去进程的运行。",
    "Drive the runs that nobody drives: those that `serve --detached` accepts, and those of dead processes.\n\n"
    "Any number of workers may work on one store. On SIGTERM running steps end and runs are handed back.": (
        "执行无人执行的运行： `serve --detached` 接下的，以及失去进程的。\n\n"
        "同一存储上可以有任意多个 worker。收到 SIGTERM 时，做完手上的步骤并交还运行。"
    ),
    "Runs that it drives at once.": "同时执行的运行数。",
    "Runs of one person that all workers drive at once.": "所有 worker 同时执行的同一人的运行数。",
    "Runs of its graph that all workers drive at once.": "所有 worker 同时执行的该图的运行数。",
    "After so long a run of a dead worker is taken over.": "worker 失效这么久之后，其运行由他人接管。",
    "How long it waits at its end for steps in hand.": "结束时等待手上步骤的时间。",
    "Answers 200 on loopback there.": "在回环地址的这个端口上应答 200。",
    "Look whether a store is well: dead owners, what waits to be driven, overdue questions, clocks.": (
        "检查存储是否正常：失效的执行者、等待执行的运行、过期的问题、时钟。"
    ),
    "Serve runs over HTTP, with an inbox page for those that wait for people.\n\n"
    "On loopback nobody needs a token, and --by says who answers. On SIGTERM running steps end and runs are handed back.": (
        "通过 HTTP 提供运行，并有收件箱页面处理等待中的运行。\n\n"
        "在回环地址上不需要令牌，由 --by 说明谁在回答。收到 SIGTERM 时，做完手上的步骤并交还运行。"
    ),
    "Where to listen. Others than loopback need tokens.": "监听地址；回环以外的地址需要令牌。",
    "The port; 0 takes a free one.": "端口；0 表示任取一个空闲的。",
    "Who may come in, one on each line: person: token. Also ADJOURN_TOKENS holds such lines.": (
        "谁可以访问，每行一个 person: token；ADJOURN_TOKENS 也可以写这样的行。"
    ),
    "A further name that the server is called by, behind a proxy; may be given again.": (
        "服务器在代理后面的另一个名称；可多次给出。"
    ),
    "After so long a run of a dead server is taken over.": "服务器失效这么久之后，其运行由他人接管。",
    "Only accept runs and answers; `adjourn worker` drives them.": "只接受运行和回答，由 `adjourn worker` 执行。",
    "Take old runs away. What works, waits or can be tried again stays, with its thread.": (
        "清理旧的运行。执行中、等待中或可重试的运行及其会话会保留。"
    ),
    "Runs that ended so long ago: 30d, 12h, 90m.": "结束了这么久的运行：30d、12h、90m。",
    "So many newest runs of each thread stay.": "每个会话保留这么多次最新的运行。",
    "Failed runs go as well, and can then not be tried again.": "失败的运行也清理，之后不能再重试。",
    "Change nothing; say what would go.": "不作改动，只说明会删除什么。",
    "Take everything of a conversation away, for good: messages, checkpoints, runs, answers, events.": (
        "永久删除一个会话的全部数据：消息、检查点、运行、回答、事件。"
    ),
    "Ids of conversations.": "会话的 id。",
    "Do not ask first. Only a terminal is asked.": "不先询问。只有在终端上才会询问。",
    "Upgrade a database of an older version, as opening it would.": "升级旧版本的数据库，与打开它时相同。",
    "Bring threads of LangGraph's own SqliteSaver or PostgresSaver over, which stay there as they are.": (
        "迁入 LangGraph 自带的 SqliteSaver 或 PostgresSaver 中的会话，原处不变。"
    ),
    "Ids of conversations; or --all.": "会话的 id；或用 --all。",
    "Their database: sqlite:///FILE or postgresql://....": "它们的数据库：sqlite:///FILE 或 postgresql://...。",
    "Every thread of it.": "其中的所有会话。",
}
HEADINGS = {"Usage": "用法", "Arguments": "参数", "Options": "选项", "Commands": "命令"}

# The parser counts characters and breaks lines at spaces. So each character that is two columns wide has a second one behind
# it: a space, or where no line may end, this.
_NO_BREAK = "\x00"
_BOUND = frozenset("，。、；：） ")  # no line begins with it


def in_chinese(command: Any, params: Iterable[Any]) -> None:
    """Give a command of the parser its Chinese help: its own, that of its options, and the headings. Twice is once."""
    for one in (command, *params):
        if (words := getattr(one, "help", None)) in CHINESE:
            one.help = _measured(CHINESE[words])
    if "get_help" not in vars(command):
        command.short_help = (command.help or "").partition("。")[0]
        command.get_help = partial(_shown, command.get_help)


def _shown(get_help: Callable[[Any], str], context: Any) -> str:
    words = re.sub(r"([\u1100-\uffff]) ", r"\1", get_help(context))
    words = words.replace(_NO_BREAK, "")
    return re.sub(
        f"^({'|'.join(HEADINGS)}):", lambda found: f"{HEADINGS[found[1]]}：", words, flags=re.MULTILINE
    )


def _measured(words: str) -> str:
    return "".join(
        one + (_NO_BREAK if one == "（" or following in _BOUND else " ")
        if unicodedata.east_asian_width(one) in "WF"
        else one
        for one, following in zip(words, f"{words[1:]} ", strict=True)
    )
