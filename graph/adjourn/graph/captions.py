"""What reports and pictures of a run say to people, in English and Chinese. One table: key -> language -> text."""

from collections.abc import Mapping

CAPTIONS: dict[str, dict[str, str]] = {
    # states of runs and questions, and stop reasons: in English they are the words that the database holds
    "word.running": {"en": "running", "zh": "运行中"},
    "word.interrupted": {"en": "interrupted", "zh": "等待人工"},
    "word.finished": {"en": "finished", "zh": "已完成"},
    "word.cancelled": {"en": "cancelled", "zh": "已取消"},
    "word.failed": {"en": "failed", "zh": "失败"},
    "word.ask_user": {"en": "ask_user", "zh": "待回答"},
    "word.answered": {"en": "answered", "zh": "已回答"},
    "word.max_steps": {"en": "max_steps", "zh": "达到步数上限"},
    "word.timeout": {"en": "timeout", "zh": "超时"},
    "word.too_many_fails": {"en": "too_many_fails", "zh": "失败次数过多"},
    "word.loop_detected": {"en": "loop_detected", "zh": "检测到循环"},
    "word.no_evidence": {"en": "no_evidence", "zh": "缺少依据"},
    "word.budget_spent": {"en": "budget_spent", "zh": "预算用尽"},
    "word.protocol_error": {"en": "protocol_error", "zh": "模型输出无法解析"},
    "word.dismissed": {"en": "dismissed", "zh": "被新消息取代"},
    "word.open": {"en": "open", "zh": "待回答"},
    "word.approved": {"en": "approved", "zh": "已同意"},
    "word.expired": {"en": "expired", "zh": "已过期"},
    "form.by": {"en": "your name", "zh": "姓名"},
    "form.approve": {"en": "approve", "zh": "同意"},
    "form.edit": {"en": "edit", "zh": "修改"},
    "form.reject": {"en": "reject", "zh": "拒绝"},
    "form.happened": {"en": "it happened", "zh": "已生效"},
    "form.run": {"en": "run it", "zh": "执行"},
    "form.leave": {"en": "leave it", "zh": "搁置"},
    "form.submit": {"en": "submit", "zh": "提交"},
    "form.answer": {"en": "answer", "zh": "回答"},
    "form.needed": {"en": "a value is needed", "zh": "必须填写"},
    "form.optional": {"en": "(optional)", "zh": "（可不填）"},
    "form.waits": {
        "en": "run {run} waits for {count:answer|answers}:",
        "zh": "运行 {run} 等待 {count} 个回答：",
    },
    "asks.agreed": {"en": "{given} of {needed} agreed{of}{who}", "zh": "已同意 {given}/{needed}{of}{who}"},
    "asks.expires": {"en": "expires {at}", "zh": "{at} 过期"},
    "why.answered": {
        "en": "It came to an answer after {steps:step|steps}.",
        "zh": "执行 {steps} 步后得出回答。",
    },
    "why.max_steps": {
        "en": "It made {steps:model call|model calls}, as many as it may, and had no final answer.",
        "zh": "已执行 {steps} 次模型调用，达到上限，仍没有最终回答。",
    },
    "why.timeout": {
        "en": "Its time was over: it had worked {active} s, and {wall} had passed since it began.",
        "zh": "时间用完：已工作 {active} 秒，距开始已过 {wall}。",
    },
    "why.too_many_fails": {
        "en": "Every call failed, {steps:step|steps} in a row: {calls}.",
        "zh": "连续 {steps} 步的调用全部失败：{calls}。",
    },
    "why.loop_detected": {
        "en": "It asked for the same again and again: {calls}.",
        "zh": "反复请求同样的调用：{calls}。",
    },
    "why.no_evidence": {
        "en": "It answered again and again without what its tools had to bring.",
        "zh": "多次在没有所需工具结果的情况下作答。",
    },
    "why.budget_spent": {
        "en": "Its budget was spent: {tokens:token|tokens}, cost {cost}, without what runs that worked for it spent.",
        "zh": "预算用完：{tokens} 个 token，费用 {cost}（不含为它工作的子运行）。",
    },
    "why.protocol_error": {
        "en": "The model's output could not be used, twice in a row.",
        "zh": "模型连续两次输出无法使用的内容。",
    },
    "why.dismissed": {
        "en": "A new message came on its thread and took its place{by}.",
        "zh": "同一会话收到新消息，取代了该运行{by}。",
    },
    "why.cancelled": {"en": "It was cancelled{by}.", "zh": "已被取消{by}。"},
    "why.failed": {
        "en": "It gave up and can be resumed: {error}",
        "zh": "运行失败，可以重试：{error}",
    },
    "why.interrupted": {
        "en": "It has waited for a person since {since}: {questions} open.",
        "zh": "自 {since} 起等待人工处理：{questions} 个问题待回答。",
    },
    "why.flow_failed": {
        "en": "Its flow stopped at the step “{step}”: {reason}",
        "zh": "流程停在步骤“{step}”：{reason}",
    },
    "why.queued": {
        "en": "It has waited for a worker since {since}; `adjourn recover` drives it at once.",
        "zh": "自 {since} 起等待 worker 执行；可用 `adjourn recover` 立即执行。",
    },
    "why.running": {
        "en": "It is at work, driven by {owner}.",
        "zh": "正在运行，由 {owner} 执行。",
    },
    "why.lost": {
        "en": "It is at work, but nobody has driven it since {since}; `adjourn recover` goes on with it.",
        "zh": "处于运行状态，但自 {since} 起没有进程在执行；可用 `adjourn recover` 继续。",
    },
    "by": {"en": " by {by}, {at}", "zh": "（{by}，{at}）"},
    "at": {"en": ", {at}", "zh": "（{at}）"},
    "no_name": {"en": "(no name)", "zh": "（未署名）"},
    "step": {"en": "step {step}", "zh": "第 {step} 步"},
    "timeline": {"en": "Timeline", "zh": "时间线"},
    "timeline.alt": {
        "en": "Timeline of run {run}: {rows:row|rows}, {length} long, {folds:stretch without work is|stretches without work are} drawn shorter",
        "zh": "运行 {run} 的时间线：{rows} 行，全长 {length}，其中 {folds} 段空闲时间缩短显示",
    },
    "timeline.empty": {"en": "Nothing has happened yet.", "zh": "尚无任何步骤。"},
    "legend.model": {"en": "model", "zh": "模型"},
    "legend.call": {"en": "tool", "zh": "工具"},
    "legend.failed": {"en": "failed", "zh": "失败"},
    "legend.wait": {"en": "waiting for a person", "zh": "等待人工"},
    "legend.fold": {"en": "drawn shorter than it was", "zh": "缩短显示"},
    "waited": {"en": "waited {time}", "zh": "等待 {time}"},
    "goes_on": {"en": "goes on", "zh": "进行中"},
    "not_run": {"en": "did not run", "zh": "未执行"},
    "page.skip": {"en": "Skip to the steps", "zh": "跳到步骤"},
    "page.steps": {"en": "Steps", "zh": "步骤"},
    "page.thread": {"en": "thread", "zh": "会话"},
    "page.graph": {"en": "graph", "zh": "图"},
    "page.started_by": {"en": "started by", "zh": "发起人"},
    "page.began": {"en": "began", "zh": "开始"},
    "page.ended": {"en": "ended", "zh": "结束"},
    "page.worked": {"en": "worked", "zh": "工作时间"},
    "page.tokens": {"en": "tokens in + out", "zh": "输入 + 输出 token"},
    "page.token": {"en": "tokens", "zh": "token"},
    "page.cost": {"en": "cost", "zh": "费用"},
    "page.path": {"en": "path", "zh": "路径"},
    "page.input": {"en": "Input", "zh": "输入"},
    "page.context": {"en": "Context", "zh": "上下文"},
    "page.answer": {"en": "Answer", "zh": "回答"},
    "page.arguments": {"en": "arguments", "zh": "参数"},
    "page.result": {"en": "result", "zh": "结果"},
    "page.error": {"en": "error", "zh": "错误"},
    "page.answered": {"en": "answer", "zh": "答复"},
    "page.open": {"en": "waiting for a person", "zh": "等待人工处理"},
    "page.attempts": {"en": "{attempts:attempt|attempts}", "zh": "尝试 {attempts} 次"},
    "page.characters": {"en": "{count:character|characters}", "zh": "{count} 个字符"},
    "page.cut": {
        "en": "… {count:more character is|more characters are} in the database",
        "zh": "……其余 {count} 个字符见数据库",
    },
    "page.audit": {"en": "Who did what", "zh": "操作记录"},
    "page.audit.at": {"en": "when", "zh": "时间"},
    "page.audit.action": {"en": "what", "zh": "操作"},
    "page.audit.by": {"en": "who", "zh": "操作人"},
    "page.made": {
        "en": "As it stood at {at}. The database holds all of it.",
        "zh": "截至 {at} 的状态；完整数据在数据库中。",
    },
}


class Counted(int):
    """A number that brings its noun: `f"{Counted(1):run|runs}"` is `1 run`, of any other number `2 runs`."""

    def __format__(self, form: str) -> str:
        one, is_noun, many = form.partition("|")
        return f"{int(self)} {one if self == 1 else many}" if is_noun else super().__format__(form)


def filled(words: str, values: Mapping[str, object]) -> str:
    """A text of a table with its values filled in; the whole numbers among them bring their nouns."""
    return words.format(**{key: Counted(one) if type(one) is int else one for key, one in values.items()})


def caption(key: str, language: str, **values: object) -> str:
    """The text for `key` in `language` (`"en"` or `"zh"`, else English), with its values filled in.

    Raises `KeyError` for a key that is not in the table: that is a bug.
    """
    texts = CAPTIONS[key]
    return filled(texts.get(language, texts["en"]), values)


def word(stored: str, language: str) -> str:
    """A state or a stop reason in a language; any other word as it is."""
    return caption(f"word.{stored}", language) if f"word.{stored}" in CAPTIONS else stored


_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def length(ms: float) -> str:
    """A time in its two largest units: `2 d 3 h`, `4 min 10 s`, `1.25 s`, `312 ms`."""
    if ms < 1_000:
        return f"{ms:.0f} ms"
    if ms < 60_000:
        return f"{ms / 1000:.2f}".rstrip("0").rstrip(".") + " s"
    for place, (size, unit) in enumerate(_UNITS):
        if ms >= size:
            smaller, word = _UNITS[place + 1]
            rest = int(ms % size // smaller)
            return f"{int(ms // size)} {unit}" + (f" {rest} {word}" if rest else "")
    return f"{ms:.0f} ms"


def moment(time: str) -> str:
    """A stored time to the second: `2026-11-29 23:01:03Z`."""
    return f"{time[:10]} {time[11:19]}Z" if time else ""
