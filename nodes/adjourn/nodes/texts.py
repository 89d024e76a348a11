"""What the runtime says to users and models, in English and Chinese.

One table: key -> language -> text. `say` picks the user's language; a text that is not there in it is said in
English. `add_language` brings another one.
"""

import string
from collections.abc import Callable, Mapping

from adjourn.checkpoints.errors import UsageError

TEXTS: dict[str, dict[str, str]] = {
    "invalid_arguments": {
        "en": "The call of {tool} was not run: its arguments do not fit. {why}",
        "zh": "没有执行 {tool}：参数不符合要求。{why}",
    },
    "invalid_arguments.suggestion": {
        "en": "Correct the named fields and call {tool} again.",
        "zh": "请改正上述字段后重新调用 {tool}。",
    },
    "unparsable": {
        "en": "The call of {tool} was not run: its arguments are not one JSON object ({why}). The text was: {raw}",
        "zh": "没有执行 {tool}：参数不是一个 JSON 对象（{why}）。原文是：{raw}",
    },
    "unknown_tool": {
        "en": "There is no tool {tool!r}. The tools are: {known}.",
        "zh": "没有名为 {tool!r} 的工具。可用的工具：{known}。",
    },
    "output_cut": {
        "en": "The call of {tool} was not run: the output was cut off before the call was complete.",
        "zh": "没有执行 {tool}：输出在调用写完之前被截断。",
    },
    "tool_error": {"en": "{tool} failed: {why}", "zh": "{tool} 执行失败：{why}"},
    "not_found": {"en": "{tool} found nothing by that name: {why}", "zh": "{tool} 没有找到：{why}"},
    "permission_denied": {
        "en": "{tool} was refused by the system it talks to.",
        "zh": "{tool} 被它访问的系统拒绝。",
    },
    "not_permitted": {
        "en": "{tool} is not permitted here with these arguments. Do not try it again.",
        "zh": "不允许以这些参数执行 {tool}，请不要再次尝试。",
    },
    "ask.permission": {"en": "May {tool} run?", "zh": "是否允许执行 {tool}？"},
    "ask.doubtful": {
        "en": "The outcome of an identical call of {tool} is unknown. Run it again?",
        "zh": "之前有一次完全相同的 {tool} 调用结果不明。要再次执行吗？",
    },
    "unavailable": {
        "en": "{tool} could not reach the system it talks to.",
        "zh": "{tool} 无法连接到它访问的系统。",
    },
    "timeout": {
        "en": "{tool} did not answer within {seconds} s and was given up.",
        "zh": "{tool} 在 {seconds} 秒内没有返回，已放弃等待。",
    },
    "outcome_unknown": {
        "en": "It is not known whether {tool} took effect. It was not run again; check before you repeat it.",
        "zh": "无法确定 {tool} 是否已经生效。没有再次执行；重复之前请先核实。",
    },
    "rate_limited": {
        "en": "{tool} was asked to call less often: {why}",
        "zh": "{tool} 被要求降低调用频率：{why}",
    },
    "no_key": {
        "en": "{tool} was not run: it takes a secret, and there is no key to keep it with. Drive the graph with a Runner.",
        "zh": "没有执行 {tool}：它需要保密参数，但没有可用的密钥。请用 Runner 驱动这个图。",
    },
    "rate_limited.here": {
        "en": "{tool} was not run: it may run {rate}, and its turn would come too late. Go on without it, or call it later.",
        "zh": "没有执行 {tool}：它的频率上限是 {rate}，等不到它的次序。请先做其他事，或稍后再调用。",
    },
    "unavailable.busy": {
        "en": "{tool} was not run: earlier calls were given up and have not ended yet.",
        "zh": "没有执行 {tool}：之前被放弃的调用还没有结束。",
    },
    "cancelled": {"en": "{tool} was cancelled.", "zh": "{tool} 已被取消。"},
    "run_stopped": {
        "en": "{tool} was not run: the run had stopped.",
        "zh": "没有执行 {tool}：运行已经停止。",
    },
    "too_many_calls": {
        "en": "{tool} was not run: a step may hold {limit} calls.",
        "zh": "没有执行 {tool}：每一步最多 {limit} 个调用。",
    },
    "skipped_write_limit": {
        "en": "{tool} was not run: a step may hold {limit} writes.",
        "zh": "没有执行 {tool}：每一步最多 {limit} 个写操作。",
    },
    "skipped_after_failure": {
        "en": "{tool} was not run: an earlier write of this step did not succeed.",
        "zh": "没有执行 {tool}：同一步中前面的写操作没有成功。",
    },
    "timeout.run": {
        "en": "{tool} was given up: the time of the run is over.",
        "zh": "已放弃等待 {tool}：本次运行的时间已经用完。",
    },
    "repeated_call": {
        "en": "{tool} was not run: the same call succeeded before in this run, and nothing was written since. "
        "Its result is in 'data'.",
        "zh": "没有执行 {tool}：本次运行中同样的调用已经成功过，之后也没有写操作。它的结果见 'data'。",
    },
    "repeated_call.suggestion": {
        "en": "Use that result, call something else, or answer. Do not make this call again.",
        "zh": "请使用该结果、换一个调用，或者直接回答。不要再次发起这个调用。",
    },
    "repeated_call.copy": {
        "en": "{tool} was run once for two calls of this step with the same arguments: its result is that of call {twin}.",
        "zh": "这一步中有两个参数相同的 {tool} 调用，只执行了一次：结果与调用 {twin} 相同。",
    },
    "repeated_call.cycle": {
        "en": "{tool} was not run: the last calls go round in circles.",
        "zh": "没有执行 {tool}：最近的调用在原地打转。",
    },
    "tool_disabled": {
        "en": "{tool} was not run: it failed {times} times in a row and is switched off for the rest of this run.",
        "zh": "没有执行 {tool}：它已经连续失败 {times} 次，本次运行中不再可用。",
    },
    "tool_disabled.suggestion": {
        "en": "Go on without {tool}, or tell the user what could not be done.",
        "zh": "请不要再使用 {tool}，或者告诉用户哪些事情无法完成。",
    },
    "awaiting_user": {"en": "{tool} waits for a person.", "zh": "{tool} 正在等待人员处理。"},
    "user_declined": {
        "en": "A person declined {tool}: {why}. Do not try it again unless asked to.",
        "zh": "用户拒绝执行 {tool}：{why}。除非用户要求，不要再次尝试。",
    },
    "user_declined.no_reason": {"en": "no reason was given", "zh": "没有说明原因"},
    "user_dismissed": {
        "en": "{tool} was not run: the user went on without answering the question.",
        "zh": "没有执行 {tool}：用户没有回答问题，而是继续了对话。",
    },
    "expired": {
        "en": "{tool} was not run: nobody answered in time.",
        "zh": "没有执行 {tool}：无人及时答复。",
    },
    "edited": {
        "en": "A person changed the arguments; what ran is in 'ran', in place of {asked}.",
        "zh": "用户修改了参数；实际执行的参数见 'ran'，原先是 {asked}。",
    },
    "cut": {
        "en": "cut: {missing} of {total} characters are left out",
        "zh": "已截断：共 {total} 个字符，省略了 {missing} 个",
    },
    "ask.params_required": {
        "en": "{tool} needs {fields}.",
        "zh": "{tool} 需要填写：{fields}。",
    },
    "ask.outcome_unknown": {
        "en": "{tool} was started and its outcome was not recorded. Did it happen?",
        "zh": "{tool} 已经开始执行，但结果没有记录下来。它执行成功了吗?",
    },
    "skipped_in_serial_step": {
        "en": "{tool} was not run: it is not what this step of the flow does.",
        "zh": "没有执行 {tool}：流程的当前步骤不允许这个操作。",
    },
    "delegation": {"en": "{why}", "zh": "{why}"},
    "delegation.stopped": {
        "en": "{specialist} stopped before it had an answer ({reason}); what it found is in data.",
        "zh": "{specialist} 没有得出答案就停止了（{reason}）；已找到的内容在 data 中。",
    },
    "delegation.taken": {
        "en": "No run could begin for this task: its id {run} is taken by another run.",
        "zh": "无法为该任务开始运行：编号 {run} 已被其他运行占用。",
    },
    "delegation.failed": {
        "en": "{specialist} could not work: {why} Hand the task out again if it is still needed.",
        "zh": "{specialist} 无法工作：{why} 如果仍然需要，请重新委派。",
    },
    "delegation.refused": {
        "en": "The answer of {specialist} does not hold: {why} It is in data. Hand the task out again with what is wrong, if it is still needed.",
        "zh": "{specialist} 的回答未通过检查：{why} 回答在 data 中。如果仍然需要，请说明问题后重新委派。",
    },
    "delegation.cancelled": {
        "en": "The work of {specialist} was cancelled.",
        "zh": "{specialist} 的工作已被取消。",
    },
    "delegation.too_many": {
        "en": "No task can be handed out any more: {limit} were. Go on with what you have.",
        "zh": "不能再委派任务：已委派 {limit} 次。请用已有的内容继续。",
    },
    "flow.tool": {
        "en": "Step {place} of {of}, {step}. Call {tool} now; nothing else can be called in this step. {prompt}",
        "zh": "第 {place} 步（共 {of} 步）：{step}。现在请调用 {tool}；这一步不能调用其他工具。{prompt}",
    },
    "flow.loop": {
        "en": "Step {place} of {of}, {step}. {prompt} Answer when this step is done.",
        "zh": "第 {place} 步（共 {of} 步）：{step}。{prompt} 完成这一步后请给出回答。",
    },
    "flow.closing": {
        "en": "All steps are done. Tell the user what was done, from the results above. No tool can be called.",
        "zh": "所有步骤都已完成。请根据以上结果告诉用户做了什么。不能再调用工具。",
    },
    "flow.done": {"en": "Done: {done}.", "zh": "已完成：{done}。"},
    "flow.failed": {
        "en": "The flow stopped at “{step}”: {why} Done before: {done}.",
        "zh": "流程在“{step}”停止：{why} 此前已完成：{done}。",
    },
    "flow.nothing": {"en": "nothing", "zh": "无"},
    "flow.no_call": {"en": "The tool of this step was not called.", "zh": "没有调用这一步的工具。"},
    "stop.max_steps": {
        "en": "I stopped after step {steps} without a final answer.",
        "zh": "已执行 {steps} 步，仍没有得到最终答案，现在停止。",
    },
    "stop.timeout": {
        "en": "I stopped: the time for this run is over.",
        "zh": "本次运行的时间已经用完，现在停止。",
    },
    "stop.budget_spent": {
        "en": "I stopped: the budget for this run is spent.",
        "zh": "本次运行的预算已经用完，现在停止。",
    },
    "stop.loop_detected": {
        "en": "I stopped: the same calls came again and again.",
        "zh": "同样的调用反复出现，现在停止。",
    },
    "stop.too_many_fails": {
        "en": "I stopped: the calls of {fails} steps in a row all failed.",
        "zh": "连续 {fails} 步的调用全部失败，现在停止。",
    },
    "stop.no_evidence": {
        "en": "I stopped: there was no answer that rests on what the tools had to bring.",
        "zh": "没有得到以工具结果为依据的答案，现在停止。",
    },
    "stop.protocol_error": {
        "en": "I stopped: the model's output could not be used twice in a row.",
        "zh": "模型连续两次输出无法使用的内容，现在停止。",
    },
    "stop.cancelled": {"en": "The run was cancelled.", "zh": "运行已被取消。"},
    "stop.found": {"en": "What was found so far: {found}", "zh": "目前找到的内容：{found}"},
    "stop.nothing": {"en": "Nothing was found so far.", "zh": "目前没有找到任何内容。"},
    "model_refused": {"en": "The model declined to answer.", "zh": "模型拒绝回答。"},
    "runtime.refused": {
        "en": "Your last turn was not used: {problem}. Send it again.",
        "zh": "你的上一次输出没有被采用：{problem}。请重新输出。",
    },
    "runtime.cut": {
        "en": "Your last message was cut off. Go on exactly where it stops; repeat nothing.",
        "zh": "你的上一条消息被截断了。请从断开处继续，不要重复已有内容。",
    },
    "runtime.no_evidence": {
        "en": "Your answer was not used: it must rest on results of {missing}. Call that first.",
        "zh": "你的回答没有被采用：它必须以 {missing} 的结果为依据。请先调用它。",
    },
    "runtime.one_of": {"en": "one of {names}", "zh": "{names} 之一"},
    "runtime.steps_left": {
        "en": "Steps left, this one included: {left}.",
        "zh": "剩余步数（包括这一步）：{left}。",
    },
    "runtime.last_word": {
        "en": "No steps are left and the tools are switched off. Tell the user what was found and what is still open.",
        "zh": "步数已经用完，工具已关闭。请告诉用户找到了什么、还有什么没有完成。",
    },
}


LANGUAGES: list[tuple[str, Callable[[str], bool]]] = [
    ("zh", lambda text: any("\u4e00" <= character <= "\u9fff" for character in text))
]


def add_language(language: str, texts: Mapping[str, str], *, used_for: Callable[[str], bool]) -> None:
    """Say `texts` (key -> text, with the same `{values}` as in English) to users for whose message `used_for` is true.

    What is not among them is said in English. The language that was added last is asked first. Call it once in each
    process, where the app is made; again with the same language replaces what was added.
    Raises `UsageError` for a key that is not in `TEXTS`, or a value that the English text does not have.
    """
    for key, text in texts.items():
        if key not in TEXTS:
            raise UsageError(f"there is no text {key!r}; the keys are those of adjourn.nodes.texts.TEXTS")
        try:
            foreign = _values(text) - _values(TEXTS[key]["en"])
        except ValueError as error:
            raise UsageError(f"the text of {key!r} is no format string: {error}") from error
        if foreign:
            raise UsageError(f"the text of {key!r} has no value for {', '.join(sorted(foreign))}")
    for key, text in texts.items():
        TEXTS[key][language] = text
    LANGUAGES[:] = [(language, used_for), *(one for one in LANGUAGES if one[0] != language)]


def _values(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def say(key: str, language: str, **values: object) -> str:
    """The text for `key` in `language`, with its values filled in.

    Raises `KeyError` for a key that is not in the table: that is a bug, and a test reads every call site.
    """
    texts = TEXTS[key]
    return texts.get(language, texts["en"]).format(**values)


def language_of(text: str) -> str:
    """The language of a user's message: one that was added, else `"zh"` where it holds Chinese characters, else `"en"`."""
    return next((language for language, used_for in LANGUAGES if used_for(text)), "en")
