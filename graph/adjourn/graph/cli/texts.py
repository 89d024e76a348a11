"""What the command line says to people, in English and Chinese. One table: key -> language -> text.

Errors that keep what they are about as attributes are in `ERRORS`; what they say in English they say themselves. Those that say
it in their message alone are in `refusals`, help is in `help_texts`, what a run itself says in `adjourn.nodes.texts`.
"""

import re
from collections.abc import Mapping
from typing import Any

from adjourn.checkpoints.errors import AdjournError
from adjourn.graph.captions import filled, word
from adjourn.graph.refusals import refusal

LANGUAGES = ("en", "zh")

TEXTS: dict[str, dict[str, str]] = {
    "run": {"en": "run", "zh": "运行"},
    "thread": {"en": "thread", "zh": "会话"},
    "graph": {"en": "graph", "zh": "图"},
    "step": {"en": "step {step}", "zh": "第 {step} 步"},
    "steps": {"en": "{steps:step|steps}", "zh": "{steps} 步"},
    "started_by": {"en": "started by {by}", "zh": "发起人 {by}"},
    "forked_from": {"en": "forked from {run}", "zh": "分叉自 {run}"},
    "tokens": {"en": "{input} + {output} tokens", "zh": "{input} + {output} 个 token"},
    "active": {"en": "worked {seconds} s", "zh": "工作 {seconds} 秒"},
    "attempts": {"en": "{attempts:attempt|attempts}", "zh": "尝试 {attempts} 次"},
    "text_discarded": {"en": "(what was said above does not count: {reason})", "zh": "（以上文字作废：{reason}）"},
    "waiting": {"en": "waiting for a person", "zh": "等待人工处理"},
    "question": {"en": "question", "zh": "问题"},
    "arguments": {"en": "arguments", "zh": "参数"},
    "default": {"en": "default {default}", "zh": "默认 {default}"},
    "open_questions": {"en": "open questions", "zh": "待回答的问题"},
    "answered": {"en": "{state} by {by}, {at}", "zh": "{state}，{by}，{at}"},
    "answer_taken": {"en": "{state} by {by}", "zh": "{state}，{by}"},
    "answer_counted": {"en": "agreed to by {by}; others have to as well", "zh": "{by} 已同意，还需要其他人同意"},
    "answer_expired": {"en": "expired: nobody answered in time", "zh": "已过期：无人及时答复"},
    "see_help": {"en": "{message} (see {command} --help)", "zh": "{message}（见 {command} --help）"},
    "by_system": {
        "en": "{person} is the system's user; --by NAME says who answers",
        "zh": "{person} 是系统用户名；用 --by NAME 说明是谁在回答",
    },
    "nobody": {"en": "nobody", "zh": "无人"},
    "somebody": {"en": "(no name)", "zh": "（未署名）"},
    "input": {"en": "input", "zh": "输入"},
    "context": {"en": "context", "zh": "上下文"},
    "answer": {"en": "answer", "zh": "回答"},
    "flow": {"en": "flow", "zh": "流程"},
    "error": {"en": "error", "zh": "错误"},
    "go_on": {"en": "answer it, here or in any other process, with", "zh": "在此处或任何其他进程中回答并继续："},
    "try_again": {"en": "try again with", "zh": "重试命令："},
    "look": {"en": "see all of it with", "zh": "查看全部经过："},
    "look_inside": {"en": "look inside with", "zh": "直接查看数据库："},
    "alternatives.confirm_risky": {
        "en": "instead of --approve: --edit {id}.FIELD=VALUE, or --reject {id} --reason TEXT",
        "zh": "也可以不用 --approve，改用 --edit {id}.FIELD=VALUE 或 --reject {id} --reason TEXT",
    },
    "alternatives.outcome_unknown": {
        "en": "action is one of: {words}",
        "zh": "action 可取：{words}",
    },
    "still_open": {
        "en": "what was answered is stored; the rest is still open. Answer it with",
        "zh": "已给出的回答已保存；其余问题仍待回答：",
    },
    "cost": {"en": "cost {cost}", "zh": "费用 {cost}"},
    "metrics.runs": {"en": "{runs:run|runs}, {ended} of them ended", "zh": "{runs} 次运行，其中 {ended} 次已结束"},
    "metrics.each": {
        "en": "on average {steps} steps and {seconds} s of work",
        "zh": "平均 {steps} 步，工作 {seconds} 秒",
    },
    "metrics.questions": {
        "en": "{asked:question|questions}: {open} open, {answered} answered ({given}), {carried} carried to an answer ({through})",
        "zh": "{asked} 个问题：{open} 个待回答，{answered} 个已回答（{given}），{carried} 个最终得出结果（{through}）",
    },
    "runs.head": {
        "en": "RUN|STATUS|STEPS|BY|AGE|THREAD|INPUT",
        "zh": "运行|状态|步数|发起人|时长|会话|消息",
    },
    "history.head": {
        "en": "NO|TIME|STEP|RAN|NEXT|CHECKPOINT|WHAT",
        "zh": "序号|时间|步骤|已执行|下一步|检查点|说明",
    },
    "tools.head": {"en": "TOOL|EFFECT|ASKS|ABOUT", "zh": "工具|作用|询问|说明"},
    "metrics.stop_head": {"en": "STOPPED|RUNS|SHARE", "zh": "停止原因|运行数|占比"},
    "metrics.tool_head": {
        "en": "TOOL|CALLS|RAN|FAILED|RATE|MEAN|P50|P95|SLOWEST",
        "zh": "工具|调用|执行|失败|失败率|平均|P50|P95|最慢",
    },
    "metrics.model_head": {
        "en": "MODEL|STEPS|TOKENS IN|TOKENS OUT|COST|P50|P95",
        "zh": "模型|步数|输入 token|输出 token|费用|P50|P95",
    },
    "follow.waits": {
        "en": "it waits for a person; to see the questions, and how to go on:",
        "zh": "运行正在等待人工处理；查看问题和继续的方法：",
    },
    "follow.silent": {
        "en": "nobody has driven it since {since}; when its process has died, go on with",
        "zh": "自 {since} 起没有进程在执行该运行；如果其进程已退出，可继续：",
    },
    "page_written": {"en": "written to {file}", "zh": "已写入 {file}"},
    "no_runs": {"en": "no runs", "zh": "没有运行记录"},
    "more_runs": {"en": "there are more; --limit N shows them", "zh": "还有更多记录，可用 --limit N 查看"},
    "more_checkpoints": {
        "en": "there are older ones; --limit N shows them",
        "zh": "还有更早的检查点，可用 --limit N 查看",
    },
    "queued": {"en": "queued", "zh": "排队"},
    "leased": {
        "en": "run {run} is held by {owner} until {until}; if that process has died, try again then",
        "zh": "运行 {run} 由 {owner} 持有至 {until}；如果该进程已退出，请届时再试",
    },
    "nothing_to_recover": {
        "en": "nothing to recover: no run of this app has lost its process",
        "zh": "没有需要恢复的运行：该应用没有失去进程的运行",
    },
    "taken": {"en": "run {run}: another process was first", "zh": "运行 {run}：已被其他进程接管"},
    "ended_before": {"en": "had ended before", "zh": "此前已经结束"},
    "tools": {"en": "tools", "zh": "工具"},
    "asks_for": {"en": "asks a person for {fields}", "zh": "向人询问 {fields}"},
    "confirms": {"en": "needs agreement", "zh": "需要确认"},
    "confirms_sometimes": {"en": "needs agreement, by arguments", "zh": "视参数需要确认"},
    "effect_by_arguments": {"en": "read or write, by arguments", "zh": "读或写，视参数而定"},
    "form.required": {"en": "a value is needed", "zh": "必须填写"},
    "form.secret": {"en": "is not shown", "zh": "不会显示"},
    "form.secret_wrong": {"en": "it does not fit what is asked for", "zh": "不符合要求"},
    "form.default": {"en": "Enter: {default}", "zh": "回车：{default}"},
    "form.optional": {"en": "Enter: leave it out", "zh": "回车：不填"},
    "form.choose": {"en": "number or name", "zh": "编号或名称"},
    "form.choose_several": {"en": "numbers, with spaces between", "zh": "编号，以空格分隔"},
    "form.keys": {"en": "(arrow keys or number, then Enter)", "zh": "（方向键或编号，回车确认）"},
    "form.keys_several": {"en": "(arrow keys, space marks, then Enter)", "zh": "（方向键移动，空格选中，回车确认）"},
    "form.filter": {"en": "(arrow keys, or type to filter, then Enter)", "zh": "（方向键，或输入文字筛选，回车确认）"},
    "form.lines": {"en": "Alt-Enter: new line", "zh": "Alt-回车：换行"},
    "form.leave_out": {"en": "(leave it out)", "zh": "（不填）"},
    "form.yes": {"en": "yes", "zh": "是"},
    "form.no": {"en": "no", "zh": "否"},
    "form.null": {"en": "(none)", "zh": "（无）"},
    "form.item": {"en": "item {number}", "zh": "第 {number} 项"},
    "form.end": {"en": "Enter: no more", "zh": "回车：结束"},
    "form.json": {"en": "as JSON, such as {example}", "zh": "JSON 格式，例如 {example}"},
    "form.begin": {
        "en": "Ctrl-C or Ctrl-D leaves; the question then stays open",
        "zh": "Ctrl-C 或 Ctrl-D 离开；问题仍然保留",
    },
    "expires": {"en": "expires {at} (in {left})", "zh": "{at} 过期（还剩 {left}）"},
    "expires_in": {"en": "expires in {left}", "zh": "{left} 后过期"},
    "all_expired": {
        "en": "nobody answered in time; let it go on with",
        "zh": "无人及时答复；可用以下命令继续：",
    },
    "overdue": {"en": "its time passed at {at}", "zh": "已于 {at} 过期"},
    "approvals": {"en": "{given} of {needed} agreed{who}", "zh": "已同意 {given}/{needed}{who}"},
    "approvals.of": {"en": "to agree: {needed} of {of}", "zh": "需要同意：{of} 中的 {needed} 人"},
    "approvals.anybody": {"en": "to agree: {needed:person|people}", "zh": "需要 {needed} 人同意"},
    "expired_on": {"en": "run {run}: nobody answered in time; it goes on", "zh": "运行 {run}：无人及时答复，继续执行"},
    "form.wrong": {"en": "not accepted: {why}", "zh": "无效：{why}"},
    "form.reason": {"en": "reason", "zh": "原因"},
    "form.left": {"en": "left as it is: the question stays open", "zh": "未作回答：问题仍然保留"},
    "form.action.approve": {"en": "approve: run it as it is", "zh": "同意：按原样执行"},
    "form.action.edit": {"en": "edit: run it with other arguments", "zh": "修改：用其他参数执行"},
    "form.action.reject": {"en": "reject: never run it", "zh": "拒绝：不执行"},
    "form.action.happened": {"en": "happened: it took effect, with this result", "zh": "已生效：填写结果"},
    "form.action.run": {"en": "run: it did not happen, run it", "zh": "执行：尚未生效，重新执行"},
    "form.action.leave": {"en": "leave: nobody knows, leave it", "zh": "搁置：无法确定，不再执行"},
    "pruned": {
        "en": "{runs:run|runs} and {threads:whole thread|whole threads} taken away; {shortened:thread|threads} lost old runs",
        "zh": "已删除 {runs} 次运行、{threads} 个完整会话；另有 {shortened} 个会话删除了旧运行",
    },
    "would_prune": {
        "en": "would take away {runs:run|runs} and {threads:whole thread|whole threads}; {shortened:thread|threads} would lose old runs",
        "zh": "将删除 {runs} 次运行、{threads} 个完整会话；另有 {shortened} 个会话将删除旧运行",
    },
    "forks_stay": {
        "en": "threads that were forked from it hold copies; take these away with: adjourn forget {threads}",
        "zh": "由它分叉出的会话仍保留副本；可用 adjourn forget {threads} 删除",
    },
    "forgotten": {
        "en": "thread {thread}: everything taken away, {runs:run|runs}",
        "zh": "会话 {thread}：全部数据已删除，共 {runs} 次运行",
    },
    "would_forget": {
        "en": "thread {thread}: everything would be taken away, {runs:run|runs}",
        "zh": "会话 {thread}：将删除全部数据，共 {runs} 次运行",
    },
    "forget.sure": {"en": "take it away for good", "zh": "永久删除"},
    "forget.left": {"en": "nothing was changed", "zh": "未作任何改动"},
    "migrated": {
        "en": "schema version {version}; it was {before}",
        "zh": "数据库结构版本 {version}；此前为 {before}",
    },
    "up_to_date": {
        "en": "schema version {version}; nothing to do",
        "zh": "数据库结构版本 {version}；无需升级",
    },
    "imported_none": {
        "en": "nothing to import: every thread is here already",
        "zh": "没有可导入的会话：都已在此",
    },
    "imported": {
        "en": "thread {thread}: {checkpoints:checkpoint|checkpoints}",
        "zh": "会话 {thread}：{checkpoints} 个检查点",
    },
    "serve.listens": {
        "en": "the inbox of {graph} is at {url} (Ctrl-C ends the server; its runs are handed back)",
        "zh": "{graph} 的收件箱：{url}（Ctrl-C 结束服务，运行会交还）",
    },
    "worker.works": {
        "en": "drives the runs of {graph} in {store} (Ctrl-C ends it; its runs are handed back)",
        "zh": "正在驱动 {store} 中 {graph} 的运行（Ctrl-C 结束，运行会交还）",
    },
    "worker.gone": {
        "en": "drove {taken:run|runs}; {left:run|runs} still at work, left to the lease",
        "zh": "已驱动 {taken} 次运行；{left} 次仍在执行，等租约到期后由他人接管",
    },
    "doctor.version": {"en": "tables of version {count}", "zh": "表结构版本 {count}"},
    "doctor.working": {"en": "{count:run is|runs are} being driven", "zh": "{count} 次运行正在执行"},
    "doctor.waiting": {"en": "{count:run waits|runs wait} for people", "zh": "{count} 次运行在等人"},
    "doctor.queued": {
        "en": "{count:run waits|runs wait} to be driven: adjourn worker",
        "zh": "{count} 次运行在等待被驱动：adjourn worker",
    },
    "doctor.oldest": {
        "en": "the longest of these has waited {count} s; start a worker where it is a minute or more",
        "zh": "其中等待最久的已等 {count} 秒；超过一分钟时请启动 worker",
    },
    "doctor.dead": {
        "en": "{count:run lost its|runs lost their} process: go on with adjourn worker or adjourn recover",
        "zh": "{count} 次运行的进程已死：用 adjourn worker 或 adjourn recover 继续",
    },
    "doctor.dying": {
        "en": "{count:running run has|running runs have} lost an owner before",
        "zh": "{count} 次进行中的运行曾失去过执行者",
    },
    "doctor.failed": {
        "en": "{count:run has|runs have} failed: adjourn resume RUN tries one again",
        "zh": "{count} 次运行失败：用 adjourn resume RUN 重试",
    },
    "doctor.overdue": {
        "en": "{count:question is|questions are} overdue, and nobody has looked",
        "zh": "{count} 个问题已过期，但还没有进程处理",
    },
    "doctor.settled": {
        "en": "{count:run waits|runs wait} with no question open: adjourn worker or adjourn recover RUN",
        "zh": "{count} 次运行没有未答的问题却仍在等待：adjourn worker 或 adjourn recover RUN",
    },
    "doctor.clock": {
        "en": "the clocks of this machine and the database are {count} s apart",
        "zh": "本机与数据库的时钟相差 {count} 秒",
    },
    "demo.stand_in": {
        "en": "A bundled stand-in plays the model: rules, no network and no key. "
        "A real one: adjourn demo --model openai:NAME",
        "zh": "由内置的替身扮演模型：按规则应答，不需要网络和密钥。使用真实模型：adjourn demo --model openai:NAME",
    },
    "demo.model": {"en": "The model is {model}.", "zh": "使用模型 {model}。"},
    "demo.workspace": {"en": "Its folder is {directory}.", "zh": "工作目录：{directory}"},
    "demo.message": {
        "en": "Look at the recent errors of the payment service, and compare them with what the runbooks say",
        "zh": "看看支付服务最近报错，顺便对照一下文档里的处理建议",
    },
    "demo.message.flow": {
        "en": "Open a production database for the payment service.",
        "zh": "给支付服务开通一个生产数据库。",
    },
    "demo.message.data": {
        "en": "Look at the recent errors in the logs, and compare them with what the documents say",
        "zh": "看看日志里最近的报错，顺便对照一下文档里的处理建议",
    },
    "demo.stopped": {
        "en": "The run has stopped for a person and holds no process. Go on in this or another terminal with",
        "zh": "运行已停下等待人工，不占用任何进程。可在本终端或另一个终端继续：",
    },
}  # fmt: skip


# class -> Chinese, with the attributes of the error filled in; what stands in [] is left out where one of its values is empty
ERRORS: dict[str, str] = {
    "RunNotFound": "此存储中没有运行 {run_id}；用 adjourn runs 查看已有的运行",
    "CheckpointNotFound": "运行 {run_id} 没有检查点[ {checkpoint_id}]；用 adjourn history {run_id} 查看已有的检查点",
    "WouldRepeat": "从检查点 {checkpoint_id} 分叉运行 {run_id} 会重复此后已执行的写操作：{calls}；请从更晚的检查点分叉，"
    "或用 --repeat-writes 允许重复",
    "InterruptNotFound": "运行 {run_id} 没有问题 {interrupt_id}[；待回答的问题：{known}]",
    "RunBusy": "运行 {run_id} 正在执行或等待执行[（{owner}，租约至 {until}）]；请等它结束，或在租约到期后用 recover 恢复",
    "InvalidAnswer": "对 {interrupt_id} 的回答未被接受：{problems}",
    "AlreadyAnswered": "问题 {interrupt_id} 已处理（{state}[，{by}][，{at}]），未作任何改动",
    "Expired": "问题 {interrupt_id} 在此回答之前已过期[（{at}）]，未作任何改动。请回答其余问题，或让运行继续：adjourn recover {run_id}",
    "WrongGraph": "运行 {run_id} 属于图 {stored}，而当前应用是 {given}；请用 --app FILE.py:NAME 指定启动它的应用",
    "LeaseLost": "运行 {run_id} 现由其他进程执行；本进程的写入已被拒绝",
    "IllegalMove": "{of}：状态 {state} 下不能 {event}；未作任何改动",
    "StoredDataError": "{table} 的 {key}：{why}；该行已损坏，或被手工改动过",
    "KeyLost": "[运行 {run_id} 的]机密是用别的密钥封存的；请把该密钥加入 ADJOURN_KEY 或放回密钥文件，然后重试",
    "SchemaVersionError": "数据库结构版本是 {found}，本程序只支持到 {known}；请升级 adjourn",
    "ModelFailed": "模型 {model} 调用失败：{why}",
}  # fmt: skip
_OPTIONAL = re.compile(r"\[(.*?)\]")


def told(error: AdjournError, language: str) -> str:
    """What an error says, in Chinese where that is asked for and there is a text, else in English."""
    if language != "zh":
        return str(error)
    words = ERRORS.get(type(error).__name__)
    if words is None:
        return refusal(str(error), language)
    values = {key: _shown(key, value, language) for key, value in vars(error).items()}

    def piece(found: re.Match[str]) -> str:
        return found[1] if all(values[one] for one in re.findall(r"\{(\w+)\}", found[1])) else ""

    return _OPTIONAL.sub(piece, words).format_map(values)


def _shown(key: str, value: Any, language: str) -> Any:
    if key in ("state", "status"):
        return word(value, language)
    if isinstance(value, Mapping):
        told = [(field, refusal(str(why), language)) for field, why in value.items()]
        return "；".join(f"{field}：{why}" if field else why for field, why in told)
    if isinstance(value, tuple):
        return "、".join(map(str, value))
    return value


def text(key: str, language: str, **values: object) -> str:
    """The text for `key` in `language` (`"en"` or `"zh"`), with its values filled in.

    Raises `KeyError` for a key that is not in the table: that is a bug.
    """
    return filled(TEXTS[key][language], values)
