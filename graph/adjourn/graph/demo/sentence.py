"""What a sentence of the user wishes, told by its words: the stand-in's whole understanding of language."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from adjourn.graph.demo.exchange import Exchange


def _words(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_LOG = _words(r"日志", r"\blogs?\b")
_ERROR = _words(
    r"报错|错误|异常|告警|故障|失败|挂了|怎么回事|发生了什么",
    r"\b(errors?|exceptions?|fail\w*|5xx|50\d|incident|outage|broken|down|wrong|what happened)\b",
)
_LOOK = _words(
    r"看看|看一下|查一下|查看|最近|分析|为什么",
    r"\b(check|show|look|recent|latest|last|why|analy[sz]e|investigate|what happened|what's wrong)\b",
)
_HOW = _words(r"怎么|如何|怎样", r"\bhow (do|to|should|can)\b", r"\bwhat (should|to do)\b")
_DOCS = _words(
    r"文档|手册|处理|建议|步骤|流程|规定",
    r"\b(docs?|documents?|documentation|runbooks?|playbooks?|guides?|advi[cs]e|recommend\w*|procedure|manual)\b",
    _HOW.pattern,
)
_RESTART = _words(r"重启", r"\b(restart|reboot)(ing|ed)?\b")
_NO_RESTART = _words(
    r"(不要|别|不用|无需|不必|禁止|不准|不能|不)[^，。,.]{0,4}重启",
    r"\b(don'?t|do not|without|no|never|not)\b[^,.;]{0,12}\brestart",
    r"只看|仅查看",
    r"\b(just look|look only|read.?only)\b",
)
_RESOURCE = _words(
    r"哪些(服务|数据库|资源|系统)",
    r"(服务|数据库|资源)(列表|清单)",
    r"谁负责|负责人|依赖(了)?(什么|哪些)",
    r"\b(which|what|list|show)\b[^.?]{0,20}\b(services|databases|resources)\b",
    r"\bwho owns\b|\bowner of\b|\bdepends? on\b",
)
_EVERYTHING = _words(r"哪些|列表|清单|所有|全部", r"\b(which|list|all|what|show)\b")
_DATABASE = _words(r"数据库", r"\bdatabases?\b|\bdbs?\b")
_ONLY_DOCS = _words(
    r"(只|仅)[^，。]{0,3}(文档|手册)",
    r"算了",
    r"(不|别|不用|不要)(再)?(看|查)?[^，。]{0,2}日志",
    r"\b(docs?|documents?|runbooks?) only\b|\bonly (the )?(docs?|documents?|runbooks?)\b",
    r"\b(never ?mind|forget|skip) (the )?logs?\b",
)
_ONLY_LOGS = _words(
    r"(只|仅)[^，。]{0,3}日志",
    r"(不|别|不用|不要)(再)?(看|查)?[^，。]{0,2}(文档|手册)",
    r"\bonly (the )?logs?\b|\blogs? only\b",
)
_GREETING = re.compile(
    r"^\W*(hi|hello|hey|thanks|thank you|good (morning|evening)|你好|您好|嗨|在吗|谢谢|早上好|下午好|晚上好)\W*$",
    re.IGNORECASE,
)
_ABILITY = _words(
    r"你(能|会|可以)(做|干)?(什么|啥)|你是谁|帮助", r"\bwhat can you do\b|\bwho are you\b|^\s*help\W*$"
)

_FILLER = _words(
    r"看看|看一下|查看|查一下|帮我|请问|请|顺便|对照一下|对照|一下|最近的?|文档里的?|文档|手册里的?|再|算了|只看|只查|告诉我|我想|那么?|吗|呢|的(?=\s|$)|现在|有没有",
    r"\b(please|check|look(ing)?|show|compare|tell|me|and|also|at|up|for|with|the|a|an|recent(ly)?|latest|docs?|documents?|documentation|in|of|our|what|say|says|see|just|can|you|could|i|we|is|are|to|about|against|it|them|any|only|never ?mind|how|why|do|does|did|should|runbooks?|playbooks?|manuals?)\b",
)
_ENVIRONMENTS = (
    (_words(r"生产|线上|正式", r"\bprod(uction)?\b|\blive\b"), ("prod", "production", "live")),
    (_words(r"预发|测试环境|测试", r"\b(staging|stage|test)\b"), ("staging", "stage", "test")),
)
_MINUTES = re.compile(
    r"(\d{1,5})\s*(?:个)?\s*(分钟|minutes?|mins?\b|小时|hours?|hrs?\b|天|days?)|(半)(?:个)?小时|(half an hour)|\b(?:last|past) (hour)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the user wants. Several may be true."""

    logs: bool = False
    docs: bool = False
    restart: bool = False
    resources: bool = False
    greeting: bool = False
    no_restart: bool = False
    no_docs: bool = False

    @property
    def anything(self) -> bool:
        """Whether the sentence holds a wish at all."""
        return self.logs or self.docs or self.restart or self.resources or self.greeting


def wishes_of(text: str) -> Wishes:
    """The wishes in `text`."""
    no_restart = _NO_RESTART.search(text) is not None
    no_docs = _ONLY_LOGS.search(text) is not None
    return Wishes(
        logs=_wants_logs(text),
        docs=_DOCS.search(text) is not None and not no_docs,
        restart=_RESTART.search(text) is not None and not no_restart and not _HOW.search(text),
        resources=_RESOURCE.search(text) is not None,
        greeting=_GREETING.search(text) is not None or _ABILITY.search(text) is not None,
        no_restart=no_restart,
        no_docs=no_docs,
    )


def _wants_logs(text: str) -> bool:
    if _ONLY_DOCS.search(text):
        return False
    if _LOG.search(text):
        return True
    # "how do I handle a 503" asks the documents; "check the recent errors" asks the logs
    return _ERROR.search(text) is not None and (_LOOK.search(text) is not None or not _HOW.search(text))


def whole_sentence(exchange: Exchange) -> str:
    """The sentence with the one before it, where it alone is no wish: `prod` after "which environment?"."""
    if wishes_of(exchange.text).anything or not exchange.earlier:
        return exchange.text
    if len(exchange.text) > 80 or exchange.text.rstrip().endswith(("?", "？")):
        return exchange.text  # a question of its own
    return f"{exchange.earlier[-1]} {exchange.text}"


def topic(text: str, earlier: Sequence[str] = ()) -> str:
    """What to search for: `text` without filler words; an earlier sentence's where nothing remains."""
    for sentence in (text, *reversed(earlier)):
        found = " ".join(
            re.sub(
                r"[\s，。！？、,.!?;；:：'\"]+",
                " ",
                _FILLER.sub(" ", sentence.replace("'s ", " ").replace("’s ", " ")),
            ).split()
        )
        if found:
            return found
    return text.strip()


def pattern_topic(pattern: str) -> str:
    """What to search for, from an error's pattern: its words, without fields and placeholders."""
    return topic(re.sub(r"\S*[=<(]\S*|\S*\)", " ", pattern)) or pattern


def wants_everything(text: str) -> bool:
    """Whether a list of all resources is meant."""
    return _EVERYTHING.search(text) is not None


def wants_databases(text: str) -> bool:
    """Whether databases are meant, not services."""
    return _DATABASE.search(text) is not None and "服务" not in text and "service" not in text.lower()


def speaks_chinese(text: str) -> bool:
    """Whether `text` holds Chinese characters."""
    return re.search(r"[\u4e00-\u9fff]", text) is not None


def minutes_in(text: str) -> int | None:
    """A time span that the sentence names, in minutes, at most a day; None: none."""
    found = _MINUTES.search(text)
    if found is None:
        return None
    if found[1] is None:
        return 60 if found[5] else 30
    unit = found[2].lower()
    factor = 1 if unit.startswith(("分", "m")) else 60 if unit.startswith(("小", "h")) else 1440
    return max(1, min(1440, int(found[1]) * factor))


def named_value(text: str, choices: Iterable[str]) -> str | None:
    """The one of `choices` that the sentence names, whole; None: none or several."""
    named = {choice for choice in choices if _names(text, choice)}
    return named.pop() if len(named) == 1 else None


def named_environment(text: str, choices: Sequence[str]) -> str | None:
    """The environment among `choices` that the sentence names, also by another word for it."""
    meant = [known for words, known in _ENVIRONMENTS if words.search(text)]
    by_word = [choice for known in meant for choice in choices if choice in known]
    return named_value(text, choices) or (by_word[0] if len(by_word) == 1 else None)


def named_file(text: str, choices: Sequence[str]) -> str | None:
    """The file among `choices` that the sentence names, by path, by name, or by name without suffix."""
    for part in ("full", "name", "stem"):
        called = {
            choice: choice if part == "full" else str(getattr(PurePosixPath(choice), part))
            for choice in choices
        }
        named = [choice for choice, name in called.items() if len(name) > 2 and _names(text, name)]
        if named:
            return named[0] if len(named) == 1 else None
    return None


def _names(text: str, value: str) -> bool:
    return (
        re.search(rf"(?<![A-Za-z0-9_-]){re.escape(value)}(?![A-Za-z0-9_-])", text, re.IGNORECASE) is not None
    )
