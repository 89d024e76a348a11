"""Sentences that people are refused with, in other words: the parser's in plain ones, and all in Chinese.

Most errors say what is wrong where it is found, in English, which is also what programs are told. So a sentence is known by
its own words: `{gap}` stands for what differs, and what stands in a gap may be a sentence of the table itself.

What only code of one's own meets (a tool that cannot be one, a graph that is built wrongly) stays English: what it names is
Python.
"""

import re
from collections.abc import Mapping
from functools import cache

from adjourn.graph.captions import word

PLAIN: Mapping[str, str] = {
    "Invalid value for '{option}': Input should be a valid integer, unable to parse string as an integer": (
        "{option} takes a whole number"
    ),
    "Invalid value for '{option}': Input should be a valid number, unable to parse string as a number": (
        "{option} takes a number"
    ),
    "Invalid value for '{option}': Input should be greater than or equal to {least}": "{option} is at least {least}",
    "Invalid value for '{option}': Input should be less than or equal to {most}": "{option} is at most {most}",
    "Invalid value for '{option}': Value error, {given} is not one of {words}.": (
        "{option} is one of {words}, not {given}"
    ),
}

# what other libraries say
OTHERS: Mapping[str, str] = {
    # the parser
    "Missing argument '{name}'.": "缺少参数 {name}",
    "Missing option '{option}'.": "缺少选项 {option}",
    "No such option: {option}": "没有选项 {option}",
    "No such option: {option} (Possible options: {known})": "没有选项 {option}，是否想写 {known}？",
    "No such option: {option} Did you mean {known}?": "没有选项 {option}，是否想写 {known}？",
    "No such command {name}.": "没有命令 {name}",
    "No such command {name}. Did you mean {known}?": "没有命令 {name}，是否想写 {known}？",
    "Got unexpected extra argument(s) ({words})": "多余的参数：{words}",
    "Option '{option}' requires an argument.": "选项 {option} 需要一个值",
    "Option '{option}' does not take a value.": "选项 {option} 不带值",
    # the system
    "No such file or directory": "没有这个文件或目录",
    "Permission denied": "没有权限",
    "Is a directory": "这是一个目录",
    "Not a directory": "这不是目录",
    "Address already in use": "地址已被占用",
    # what checks values
    "Value error, {why}": "{why}",
    "{value} is not of type {kinds}": "{value} 的类型不是 {kinds}",
    "{value} is not one of {words}": "{value} 不在 {words} 之中",
    "{value} is less than the minimum of {least}": "{value} 小于最小值 {least}",
    "{value} is greater than the maximum of {most}": "{value} 大于最大值 {most}",
    "{value} is less than or equal to the minimum of {least}": "{value} 必须大于 {least}",
    "{value} is greater than or equal to the maximum of {most}": "{value} 必须小于 {most}",
    "{value} is too short": "{value} 太短",
    "{value} is too long": "{value} 太长",
    "{value} should be non-empty": "{value} 不能为空",
    "{value} does not match {pattern}": "{value} 不符合格式 {pattern}",
    "{value} has non-unique elements": "{value} 有重复的项",
    "{value} is not valid under any of the given schemas": "{value} 不符合任何一种允许的形式",
    "{name} is a required property": "缺少 {name}",
    "Additional properties are not allowed ({names} was unexpected)": "没有字段 {names}",
    "Additional properties are not allowed ({names} were unexpected)": "没有字段 {names}",
}

OWN: Mapping[str, str] = {
    "{option} takes a whole number": "{option} 必须是整数",
    "{option} takes a number": "{option} 必须是数字",
    "{option} is at least {least}": "{option} 不能小于 {least}",
    "{option} is at most {most}": "{option} 不能大于 {most}",
    "{option} is one of {words}, not {given}": "{option} 只能是 {words} 之一，不能是 {given}",
    # settings
    "--lang (or {variable}) is {words}, not {given}": "--lang（或 {variable}）只能是 {words}，不能是 {given}",
    "{file} cannot be read: {why}": "无法读取 {file}：{why}",
    '{file}: [tool.adjourn] app is a text such as "app.py:graph", not {given}': (
        '{file}：[tool.adjourn] 的 app 应是文本，如 "app.py:graph"，不能是 {given}'
    ),
    "--store: {why}": "--store：{why}",
    "there is no database {file}; --store names one, `adjourn run` makes one": (
        "没有数据库 {file}；用 --store 指定一个，或用 adjourn run 新建"
    ),
    "there is no folder {folder} for the database {file}": "数据库 {file} 所在的目录 {folder} 不存在",
    "the database {url} cannot be used: {why}": "数据库 {url} 无法使用：{why}",
    # the app
    "this command needs the app; {how}": "此命令需要应用；{how}",
    "name it with --app FILE.py:NAME, ADJOURN_APP, or [tool.adjourn] app in pyproject.toml": (
        "用 --app FILE.py:NAME、ADJOURN_APP 或 pyproject.toml 中 [tool.adjourn] 的 app 指定"
    ),
    "--app {app} names no object; write it as FILE.py:NAME or module:NAME": (
        "--app {app} 没有指明对象；写成 FILE.py:NAME 或 module:NAME"
    ),
    "--app {app}: there is no file {file}": "--app {app}：没有文件 {file}",
    "--app {app}: {file} is no Python file": "--app {app}：{file} 不是 Python 文件",
    "--app {app}: there is no module {module}; a file is named FILE.py:NAME": (
        "--app {app}：没有模块 {module}；文件要写成 FILE.py:NAME"
    ),
    "--app {app}: it has no {name}": "--app {app}：其中没有 {name}",
    "--app {app}: it has no {name}; its graphs are {graphs}": "--app {app}：其中没有 {name}；有的图是 {graphs}",
    "--app {app} is a StateGraph that was not compiled; give graph.compile(name=...)": (
        "--app {app} 是尚未编译的 StateGraph；请给出 graph.compile(name=...)"
    ),
    "--app {app} is {kind}, neither a graph nor a function that builds one": (
        "--app {app} 是 {kind}，既不是图，也不是构建图的函数"
    ),
    "--app {app} needs arguments ({names}); name a function that needs none": (
        "--app {app} 需要参数（{names}）；请指定不需要参数的函数"
    ),
    "--app {app} fails when it {does}: {why}": "--app {app} 在{does}时出错：{why}",
    "is imported": "导入",
    "builds the graph": "构建图",
    "--app {app}: {why}": "--app {app}：{why}",
    # runs and answers
    "the message is empty; say what the run is to do": "消息为空；请写明要做什么",
    "several runs begin with {beginning}: {ids}": "有多个运行以 {beginning} 开头：{ids}",
    "several questions begin with {beginning}: {ids}": "有多个问题以 {beginning} 开头：{ids}",
    "run {run} waits for answers to {questions}\ngive them like this: {command}": (
        "运行 {run} 在等待回答：{questions}\n这样回答：{command}"
    ),
    "run {run} waits for answers; give one for each of {ids}": "运行 {run} 在等待回答；请回答 {ids} 中的每一个",
    "run {run} has several open questions; write {flag} ID.FIELD=VALUE, ID one of {ids}": (
        "运行 {run} 有多个待回答的问题；写成 {flag} ID.FIELD=VALUE，ID 是 {ids} 之一"
    ),
    "--reason goes with --reject ID": "--reason 要和 --reject ID 一起用",
    "question {id} is answered twice on this command line; answer it once": "命令行里对问题 {id} 回答了两次；只能回答一次",
    "{flag} {id}: it is {type}, which is answered with --set {place}=VALUE": (
        "{flag} {id}：它的类型是 {type}，要用 --set {place}=VALUE 回答"
    ),
    "{flag} {given} has no value; write {flag} ID.FIELD=VALUE": "{flag} {given} 没有值；写成 {flag} ID.FIELD=VALUE",
    "{flag} {given} has no value; write {flag} {what}=VALUE": "{flag} {given} 没有值；写成 {flag} {what}=VALUE",
    "{flag} gives {field} of {id} twice; give it once": "{flag} 给了 {id} 的 {field} 两次；只能给一次",
    "{flag} {place}: there is no such field; it takes {fields}": "{flag} {place}：没有这个字段；可填的是 {fields}",
    "one value: {example}": "一个值：{example}",
    "{flag} {place}: it is secret, and a command line is seen by others; type it in the form on a terminal, or give it with "
    "--answers FILE.json or --answers - (stdin)": (
        "{flag} {place}：这是机密，而命令行会被他人看到；请在终端的表单里输入，或用 --answers FILE.json、--answers -（stdin）给出"
    ),
    "--set {place}: {why}": "--set {place}：{why}",
    "--edit {place}: {why}": "--edit {place}：{why}",
    "must be one of {words}, not {given}": "只能是 {words} 之一，不能是 {given}",
    "must be {kind}, not {given}": "必须是 {kind}，不能是 {given}",
    "--answers {file} is no JSON: {why}": "--answers {file} 不是 JSON：{why}",
    "an answer is an object, not {kind}": "回答应是对象，不能是 {kind}",
    "an answer is needed; null is none": "需要一个回答；null 不算",
    '--answers {file} takes an object {"ID": answer}, not {kind}': (
        '--answers {file} 应是对象 {"ID": 回答}，不能是 {kind}'
    ),
    "--answers {file}: {why}": "--answers {file}：{why}",
    "give either --set FIELD=VALUE or a MESSAGE with --history, not both": (
        "用 --history 时，--set FIELD=VALUE 和 MESSAGE 只能给一个"
    ),
    "--history {file} is no JSON: {why}": "--history {file} 不是 JSON：{why}",
    "--history {file}: {why}": "--history {file}：{why}",
    "checkpoint {checkpoint} is where run {run} ended, and nothing comes after it; name an earlier one (`adjourn history "
    "{run}`), or give a message": (
        "检查点 {checkpoint} 是运行 {run} 结束的地方，之后没有内容；请指定更早的（adjourn history {run}），或给出消息"
    ),
    "there is a thread {thread} already; name one that is new, or none": "会话 {thread} 已经存在；请换一个新名称，或不指定",
    "there is a thread {thread} by now; name another one, or none": "会话 {thread} 现在已经存在；请换一个名称，或不指定",
    "{what} has {count} characters; at most {most} are a name": "{what} 有 {count} 个字符；名称最多 {most} 个",
    "{what} holds a NUL character, which no name has": "{what} 含有 NUL 字符，名称里不能有",
    "{what} holds half of a surrogate pair, which is no text; send it again": "{what} 含有半个代理对，不是文本；请重新给出",
    "run {run} is {status}; {why}": "运行 {run} 的状态是{status}；{why}",
    "it cannot be resumed": "不能继续",
    "it has no open question": "它没有待回答的问题",
    "the app has no tool {tool} any more; resume it with the app that asked": "应用中已没有工具 {tool}；请用当时提问的应用继续",
    # who may
    "an unnamed person": "未署名的人",
    "{who} may not {what}": "{who} 不能{what}",
    "answer {id}: it needs a name (by=..., on the command line --by NAME)": "回答 {id}：需要署名（--by NAME）",
    "answer {id}: it takes {needed} of {people}": "回答 {id}：需要 {people} 中的 {needed} 人",
    "answer {id} ({tool})": "回答 {id}（{tool}）",
    # looking
    "--graph {graph} has no run in this store; those with runs are {known}": (
        "此存储中没有图 {graph} 的运行；有运行的图是 {known}"
    ),
    "--since is an age such as 7d or 12h, or a date such as 2026-11-01, not {given}": (
        "--since 是时长（如 7d、12h）或日期（如 2026-11-01），不能是 {given}"
    ),
    "--older-than is a number and a unit, such as 30d, 12h or 90m, not {given}": (
        "--older-than 是数字加单位，如 30d、12h、90m，不能是 {given}"
    ),
    "--html {file} is there already and is no page; name another file": "--html {file} 已经存在，且不是网页；请换一个文件",
    "--html {file} cannot be written: {why}": "无法写入 --html {file}：{why}",
    # keeping house
    "there is no thread {thread} in this store; nothing was changed": "此存储中没有会话 {thread}；未作任何改动",
    "name the threads to import, or give --all": "请写明要迁入的会话，或用 --all",
    "--from {url} is no database URL; write one like sqlite:///old.db": "--from {url} 不是数据库 URL；写成 sqlite:///old.db 的样子",
    "there is no file {file} to import from": "没有可供迁入的文件 {file}",
    "threads are imported from sqlite:///FILE and postgresql://..., not from {url}": (
        "会话可以从 sqlite:///FILE 和 postgresql://... 迁入，不能从 {url} 迁入"
    ),
    "the old store has no thread {thread}": "原存储中没有会话 {thread}",
    "thread {thread} exists in this store already; nothing of it was imported": "会话 {thread} 在此存储中已存在；没有迁入它的任何内容",
    "{place} holds no checkpoints of LangGraph's {saver}: {why}": "{place} 中没有 LangGraph 的 {saver} 的检查点：{why}",
    "reading {url} needs {package}: pip install {command}": "读取 {url} 需要 {package}：pip install {command}",
    # the database
    "{url} is not a database URL; write one like sqlite:///adjourn.db": "{url} 不是数据库 URL；写成 sqlite:///adjourn.db 的样子",
    "cannot use {url}: {why}": "无法使用 {url}：{why}",
    "cannot open {file}: it is a directory; name a file in it, as in {example}": (
        "无法打开 {file}：这是一个目录；请指定其中的文件，如 {example}"
    ),
    "cannot open {file}: there is no directory {folder}; create it, or name another file": (
        "无法打开 {file}：没有目录 {folder}；请创建它，或换一个文件"
    ),
    "cannot open {file}: it is a file, but no SQLite database; name another file": (
        "无法打开 {file}：它不是 SQLite 数据库；请换一个文件"
    ),
    "cannot open {file}: {why}": "无法打开 {file}：{why}",
    "{driver} needs {package}, which is not installed: {command}": "{driver} 需要 {package}，但没有安装：{command}",
    "there is no driver for {driver} databases; use sqlite, postgresql or mysql": (
        "没有 {driver} 数据库的驱动；请用 sqlite、postgresql 或 mysql"
    ),
    "{driver} is a driver for asyncio, and a store serves coroutines without one; write the URL as {url}": (
        "{driver} 是 asyncio 的驱动，存储不需要它；URL 请写成 {url}"
    ),
    "prepare_threshold can only be none in a store's URL: then no statement is prepared": (
        "存储的 URL 中 prepare_threshold 只能是 none，即不预编译语句"
    ),
    "the database holds tables that are not Adjourn's: {tables}; name another database": (
        "数据库中有不属于 Adjourn 的表：{tables}；请换一个数据库"
    ),
    "another process has been creating or upgrading this database for {seconds} s; try again when it has ended": (
        "另一个进程正在创建或升级此数据库，已等待 {seconds} 秒；请在它结束后重试"
    ),
    "the database cannot be written now: {why}": "数据库现在无法写入：{why}",
    "{why}; the file is damaged or was cut short: put a backup in its place, or save what can be read by "
    "`sqlite3 FILE .recover`": "{why}；文件已损坏或不完整：请换上备份，或用 `sqlite3 FILE .recover` 取出能读的部分",
    "{why}; the file and its folder must be writable even for a look, since the log is kept beside it: allow it, or "
    "copy the file to where it is": "{why}；即使只是查看，文件和所在目录也必须可写，因为日志就放在旁边：请开放写权限，或把文件复制到可写的地方",
    "{why}; nothing of it was stored: make room, then try again": "{why}；什么都没有写入：请腾出空间后重试",
    "{why}; nothing of it was stored: see whether its disk is full or broken, then try again": (
        "{why}；什么都没有写入：请检查磁盘是否已满或损坏，然后重试"
    ),
    "{why}; another program holds it: wait until it has ended, or end it": (
        "{why}；文件被另一个程序占用：请等它结束，或结束它"
    ),
    "the database cannot hold this: {why}; ids and names have at most 255 characters, and no NUL": (
        "数据库存不下：{why}；id 和名称最多 255 个字符，且不能有 NUL"
    ),
    "the connection was lost: {why}; MySQL ends it when a value is larger than its max_allowed_packet": (
        "连接已断开：{why}；值超过 max_allowed_packet 时 MySQL 会断开连接"
    ),
    # serving
    "the server needs {package}; install it: {command}": "服务器需要 {package}；安装：{command}",
    "cannot listen at {host}, port {port}: {why}": "无法在 {host} 的端口 {port} 上监听：{why}",
    "cannot listen at port {port}: {why}": "无法在端口 {port} 上监听：{why}",
    "the server could not start; what it wrote above tells why": "服务器无法启动；原因见它上面的输出",
    "others can reach {host}, so callers need tokens: name a file with --tokens, or set ADJOURN_TOKENS; or listen on 127.0.0.1": (
        "他人可以访问 {host}，因此需要令牌：用 --tokens 指定文件，或设置 ADJOURN_TOKENS；或者只监听 127.0.0.1"
    ),
    "the tokens in {file} cannot be read: {why}": "无法读取 {file} 中的令牌：{why}",
    "{place} holds no token; write one line for each person: `person: token`": (
        "{place} 中没有令牌；每人写一行：person: token"
    ),
    "{place}, entry {number}: write it as `person: token`": "{place} 第 {number} 条：写成 person: token",
    "{place}: {one} and {other} have the same token": "{place}：{one} 和 {other} 的令牌相同",
    "{place}: after sha256: stand 64 hexadecimal digits": "{place}：sha256: 之后应是 64 位十六进制数字",
    "{place}: a token has at least {least} characters": "{place}：令牌至少有 {least} 个字符",
    # keys
    "the key file {file} is empty; put the key back, or take the file away to begin anew": (
        "密钥文件 {file} 是空的；请放回密钥，或删除该文件重新开始"
    ),
    "the key file {file} cannot be used: {why}; make its folder writable, or set {variable}": (
        "密钥文件 {file} 无法使用：{why}；请让其目录可写，或设置 {variable}"
    ),
    "the key file {file} holds no key: {why}": "密钥文件 {file} 中没有密钥：{why}",
    "a key is 32 bytes as URL-safe base64, several with commas between them; {how}": (
        "密钥是 32 字节的 URL-safe base64，多个之间用逗号分隔；{how}"
    ),
    "make one with: {command}": "生成方法：{command}",
    # the demo
    "there is no flow {flow}; there is {flows}": "没有流程 {flow}；有 {flows}",
    "give one of --data, --flow and --supervisor: flow and team work on the bundled services": (
        "--data、--flow、--supervisor 只能给一个：流程和主管只处理内置的服务"
    ),
    "a model needs OPENAI_API_KEY, or OPENAI_BASE_URL for a server of your own; without, leave --model out": (
        "使用模型需要 OPENAI_API_KEY，自己的服务器则需要 OPENAI_BASE_URL；都没有时不要给 --model"
    ),
    "{folder} is no folder; --data takes a folder of logs and documents": "{folder} 不是目录；--data 是放日志和文档的目录",
    "the data folder {folder} that {file} names is gone": "{file} 所指的数据目录 {folder} 已不存在",
    "{file} does not hold the demo's settings; delete it to start anew": "{file} 中不是演示的设置；删除它可重新开始",
    '{file} is no services table: it takes a list of {"id", "name", "envs": [...]} objects': (
        '{file} 不是服务表：它应是 {"id", "name", "envs": [...]} 对象的列表'
    ),
}  # fmt: skip

CHINESE: Mapping[str, str] = {**OTHERS, **OWN}

_GAP = re.compile(r"\{(\w+)\}")


def in_plain_words(message: str) -> str:
    """What the parser says, as this program says things; any other message as it is."""
    return _reworded(message, PLAIN)


def refusal(message: str, language: str) -> str:
    """What is wrong with something, which is found in English, in a language that the table has it in."""
    return _reworded(message, CHINESE) if language == "zh" else message


def _reworded(message: str, table: Mapping[str, str]) -> str:
    fitting = ((sentence, _pattern(sentence).fullmatch(message)) for sentence in _by_words(*table))
    sentence, found = next((one for one in fitting if one[1]), ("", None))
    if found is None:
        return message
    inner = {gap: _inner(gap, words, table) for gap, words in found.groupdict().items()}
    return _GAP.sub(lambda gap: inner[gap[1]], table[sentence])


def _inner(gap: str, words: str, table: Mapping[str, str]) -> str:
    return word(words, "zh") if gap == "status" else _reworded(words, table)


@cache
def _by_words(*sentences: str) -> tuple[str, ...]:
    """Those that say most by themselves come first: `--app {app}: {why}` fits what a longer one says better."""
    return tuple(sorted(sentences, key=lambda one: -len(_GAP.sub("", one))))


@cache
def _pattern(sentence: str) -> re.Pattern[str]:
    words, *rest = _GAP.split(sentence)
    written, seen = re.escape(words), set[str]()
    for gap, behind in zip(rest[::2], rest[1::2], strict=True):
        written += f"(?P={gap})" if gap in seen else f"(?P<{gap}>.+?)"
        written += re.escape(behind)
        seen.add(gap)
    return re.compile(written, re.DOTALL)
