"""What the runtime says to users and models, in English and Chinese.

One table: key -> language -> text. `say` picks the user's language; a language that is not bundled is
answered in English. Other languages can be added with `TEXTS[key]["fr"] = ...`.
"""

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
    "stop.max_steps": {
        "en": "I stopped after {steps} steps without a final answer.",
        "zh": "已执行 {steps} 步，仍没有得到最终答案，现在停止。",
    },
    "stop.protocol_error": {
        "en": "I stopped: the model's output could not be used twice in a row.",
        "zh": "模型连续两次输出无法使用的内容，现在停止。",
    },
    "stop.cancelled": {"en": "The run was cancelled.", "zh": "运行已被取消。"},
    "stop.found": {"en": "What was found so far: {found}", "zh": "目前找到的内容：{found}"},
    "stop.nothing": {"en": "Nothing was found so far.", "zh": "目前没有找到任何内容。"},
}


def say(key: str, language: str, **values: object) -> str:
    """The text for `key` in `language`, with its values filled in.

    Raises `KeyError` for a key that is not in the table: that is a bug, and a test reads every call site.
    """
    texts = TEXTS[key]
    return texts.get(language, texts["en"]).format(**values)


def language_of(text: str) -> str:
    """`"zh"` when the text holds Chinese characters, else `"en"`."""
    return "zh" if any("\u4e00" <= character <= "\u9fff" for character in text) else "en"
