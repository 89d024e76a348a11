"""What the stand-in says, in Chinese and English."""

from typing import Literal

Language = Literal["zh", "en"]

PHRASES: dict[str, dict[Language, str]] = {
    "stand_in": {
        "zh": "（我是演示用的替身，按固定规则应答，不是语言模型。）",
        "en": "(I am the demo's stand-in: I follow fixed rules and am no language model.) ",
    },
    "greeting": {
        "zh": "你好。我可以用这些工具：{tools}。试试：看看支付服务最近报错，顺便对照一下文档里的处理建议。",
        "en": "Hello. I can use these tools: {tools}. Try: Check the payment service's recent errors and compare them with the docs.",
    },
    "greeting_files": {
        "zh": "你好。我可以用这些工具：{tools}。请说出要看的日志文件，或要在文档里查的内容。",
        "en": "Hello. I can use these tools: {tools}. Name a log file to read, or something to look up in the documents.",
    },
    "no_tools": {
        "zh": "现在没有可用的工具，我查不了。",
        "en": "I have no tools now, so I cannot look anything up.",
    },
    "flow.created": {
        "zh": "数据库 {database} 已在 {environment} 为 {service_id} 创建，并已确认可用。",
        "en": "The database {database} was created for {service_id} in {environment}, and is ready.",
    },
    "start.team": {
        "zh": "我把任务同时交给查日志的和查文档的专员。",
        "en": "I hand this to the one who reads logs and the one who knows the documents, at once.",
    },
    "start.logs_docs": {"zh": "我同时查日志和文档。", "en": "I look at the logs and the documents at once."},
    "start.logs": {"zh": "我先看日志。", "en": "I look at the logs first."},
    "start.docs": {"zh": "我查一下文档。", "en": "I look it up in the documents."},
    "start.resources": {"zh": "我查一下服务表。", "en": "I look at the services table."},
    "start.restart": {
        "zh": "按你的要求，我提议重启 {service_id}（{environment}），需要有人同意。",
        "en": "As you ask, I propose to restart {service_id} in {environment}. Somebody has to agree.",
    },
    "next.docs": {
        "zh": "日志里有 {errors} 条错误，我按其中最多的一类去查文档。",
        "en": "The logs hold {errors} errors. I look up the most frequent kind in the documents.",
    },
    "next.restart": {
        "zh": "日志里有 {errors} 条错误，《{title}》第 {number} 步建议重启。我提议重启 {service_id}（{environment}），需要有人同意。",
        "en": "The logs hold {errors} errors, and step {number} of “{title}” advises a restart. I propose to restart {service_id} in {environment}. Somebody has to agree.",
    },
    "logs.window": {
        "zh": "日志 {source}：{start} 至 {end} 共 {lines} 条，其中错误 {errors} 条。",
        "en": "Log of {source}: {lines} entries from {start} to {end}, {errors} of them errors.",
    },
    "logs.untimed": {
        "zh": "日志 {source}（没有时间）：最后 {lines} 条，其中错误 {errors} 条。",
        "en": "Log of {source} (without times): the last {lines} entries, {errors} of them errors.",
    },
    "logs.empty": {"zh": "日志 {source} 里没有内容。", "en": "The log of {source} holds nothing."},
    "logs.span": {
        "zh": "这段时间里第一条错误在 {first}，最后一条在 {last}。",
        "en": "First error of this span at {first}, last at {last}.",
    },
    "logs.pattern": {"zh": "- {count} 次：{message}", "en": "- {count} times: {message}"},
    "logs.changes": {
        "zh": "第一条错误之前不久有这些变动，可能有关：",
        "en": "These changes came shortly before the first error and may be the cause:",
    },
    "logs.latest": {"zh": "最后几条：", "en": "The last lines:"},
    "docs.steps": {
        "zh": "最接近的文档《{title}》的步骤：",
        "en": "Steps of the closest document, “{title}”:",
    },
    "docs.excerpt": {
        "zh": "最接近的文档《{title}》{section}：",
        "en": "Closest document, “{title}”{section}:",
    },
    "docs.more": {"zh": "另见：{titles}。", "en": "See also: {titles}."},
    "docs.none": {
        "zh": "文档里没有找到与“{query}”有关的内容。",
        "en": "The documents hold nothing on “{query}”.",
    },
    "resources.row": {
        "zh": "- {id}（{name}）：环境 {envs}，负责人 {owner}，依赖 {depends_on}",
        "en": "- {id} ({name}): runs in {envs}, owned by {owner}, depends on {depends_on}",
    },
    "resources.none": {"zh": "服务表里没有符合的条目。", "en": "The services table holds nothing that fits."},
    "resources.which": {
        "zh": "要重启哪一个、在哪个环境？请告诉我服务 ID 和环境。",
        "en": "Which one should be restarted, and in which environment? Tell me its id and the environment.",
    },
    "restart.done": {
        "zh": "已重启 {service_id}（{environment}），累计重启 {restarts} 次。",
        "en": "{service_id} in {environment} was restarted; restarts so far: {restarts}.",
    },
    "restart.declined": {
        "zh": "没有重启：{message} 我不会再提。",
        "en": "Nothing was restarted. {message} I will not propose it again.",
    },
    "restart.not_done": {"zh": "重启没有完成：{message}", "en": "The restart did not go through: {message}"},
    "restart.manual": {
        "zh": "不重启的话，请人工处理文档里的其余步骤。",
        "en": "Without a restart, the other steps of the document remain, to be done by hand.",
    },
    "failed": {"zh": "{tool} 没有结果：{message}", "en": "{tool} brought nothing: {message}"},
    "waits": {"zh": "{tool} 还在等人回答。", "en": "{tool} still waits for a person."},
}


def phrase(key: str, language: Language, **values: object) -> str:
    """The phrase for `key`, its values filled in."""
    return PHRASES[key][language].format(**values)
