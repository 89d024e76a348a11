"""Parameter types for tools that take a path, a command's arguments, a host or a URL from a model (C-83). Pure.

`path: Annotated[Path, PathInside("/srv/docs")]` tells the model what it may give, and a call that gives something
else is answered `invalid_arguments` with what to do, before the tool runs. People's answers are checked alike.
"""

import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class _Checked:
    """What stands in an `Annotated` and checks what the model gave. Subclasses say how, and what they tell it."""

    description: str

    def _taken(self) -> CoreSchema:
        return core_schema.str_schema(strict=True)

    def _checked(self, given: Any) -> Any:
        """The value that the tool gets. Raises `ValueError`, whose text the model is told."""
        raise NotImplementedError

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        make = Path if source is Path else None

        def check(given: Any) -> Any:
            try:
                value = self._checked(given)
            except ValueError as error:
                raise PydanticCustomError("checked", "{why}", {"why": str(error)}) from None
            return value if make is None else make(value)

        return core_schema.no_info_after_validator_function(check, self._taken())

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(core_schema.no_info_after_validator_function(_same, self._taken())), **self._told()}

    def _told(self) -> dict[str, Any]:
        return {"description": self.description}


def _same(value: Any) -> Any:
    return value


# -- paths

_LONGEST_PATH, _LONGEST_NAME = 2048, 255  # characters, bytes: Linux takes 4096 and 255, the folder included


@dataclass(frozen=True)
class PathInside(_Checked):
    """A path inside one folder: `Annotated[Path, PathInside(root)]`, or `Annotated[str, ...]`.

    The model gives it relative to the folder; an absolute one is taken where it lies inside. The tool gets it
    absolute, with every symbolic link followed. Refused are `..`, a home directory, NUL and other control
    characters, backslashes, and whatever a link leads out of the folder. `must_exist`: something must be there.

    What is checked is the file system as it is then: a process that may change links in the folder while the tool
    works can still lead it out. `root` is followed when a path is checked, and need not exist before.
    """

    root: str | Path
    must_exist: bool = False

    @property
    def description(self) -> str:  # type: ignore[override]
        there = " Something must be there already." if self.must_exist else ""
        return f"A path inside the tool's folder, relative to it, such as 'notes/today.txt'. No '..', no '~'.{there}"

    def _checked(self, given: str) -> str:
        if not given or _CONTROL.search(given) or "\\" in given:
            raise ValueError("must be a path of plain characters with '/' between its parts")
        if len(given) > _LONGEST_PATH or any(len(part.encode()) > _LONGEST_NAME for part in given.split("/")):
            raise ValueError("must be a path that a file system takes; this one is too long")
        if ".." in given.split("/") or given.startswith("~"):
            raise ValueError("must stay inside the tool's folder: no '..' and no '~'")
        root = os.path.realpath(self.root)
        path = os.path.realpath(os.path.join(root, given))  # noqa: PTH118 - the same library
        inside = path == root or path.startswith(root.rstrip(os.sep) + os.sep)
        if not inside:
            raise ValueError("must stay inside the tool's folder: give it relative to the folder")
        if self.must_exist and not os.path.lexists(path):
            raise ValueError("must be a path where something is; nothing is there")
        return path


# -- arguments of a command


@dataclass(frozen=True)
class ArgumentList(_Checked):
    """The arguments of a command that is run without a shell: `Annotated[list[str], ArgumentList(...)]`.

    - `commands`: what the first word may be (of `git`: `status`, `log`); empty: there is no first word of that kind.
    - `options`: the words that may begin with `-`, as they stand; of `--since=DATE` give `--since`. Every other word
      that begins with `-` is refused, since a program takes it for an option wherever it stands.
    - `most`, `longest`: words, and characters of all of them.

    The tool hands the list to `subprocess.run([program, *words])`, never to a shell: no word is split or expanded.
    """

    commands: Collection[str] = ()
    options: Collection[str] = ()
    most: int = 64
    longest: int = 4096

    @property
    def description(self) -> str:  # type: ignore[override]
        first = f" The first is one of {', '.join(self.commands)}." if self.commands else ""
        options = ", ".join(self.options) if self.options else "none"
        return f"Words, each one argument of the command; nothing goes through a shell.{first} Options: {options}."

    def _taken(self) -> CoreSchema:
        return core_schema.list_schema(core_schema.str_schema(strict=True), strict=True)

    def _told(self) -> dict[str, Any]:
        return {"description": self.description, "maxItems": self.most, "minItems": 1 if self.commands else 0}

    def _checked(self, given: list[str]) -> list[str]:
        if len(given) > self.most or sum(map(len, given)) > self.longest:
            raise ValueError(f"must be at most {self.most} words and {self.longest} characters")
        if self.commands and (not given or given[0] not in self.commands):
            raise ValueError(f"the first word must be one of {', '.join(self.commands)}")
        for word in given[1 if self.commands else 0 :]:
            if "\x00" in word:
                raise ValueError("a word must be plain text without NUL")
            if word.startswith("-") and not self._is_option(word):
                allowed = ", ".join(self.options) or "none"
                raise ValueError(f"{word[:40]!r} is no option that may be given; the options are: {allowed}")
        return given

    def _is_option(self, word: str) -> bool:
        name, equals, _ = word.partition("=")
        return word in self.options or (bool(equals) and name.startswith("--") and name in self.options)


# -- hosts

_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_PORTS: Mapping[str, int] = {"http": 80, "https": 443, "ws": 80, "wss": 443, "ftp": 21}


@dataclass(frozen=True)
class HostIn(_Checked):
    """A host of a list: `Annotated[str, HostIn("api.example.com", "*.example.org")]`.

    `*.example.org` stands for every name below example.org, not for itself. An IP address is allowed only where it
    is listed as it stands. The tool gets the name in lower case. A name that is not ASCII is refused: some characters
    turn into others on their way to the resolver; list and give it in its `xn--` form. What a name leads to is the
    resolver's to say: a list of names keeps out no one who owns one of them.
    """

    hosts: tuple[str, ...]

    def __init__(self, *hosts: str) -> None:
        object.__setattr__(self, "hosts", _canonical(hosts))

    @property
    def description(self) -> str:  # type: ignore[override]
        return f"A host name, without scheme and port: one of {', '.join(self.hosts)}."

    def _checked(self, given: str) -> str:
        if not allows(self.hosts, given):
            raise ValueError(f"must be one of {', '.join(self.hosts)}, without scheme, port and final dot")
        return given.lower()


@dataclass(frozen=True)
class UrlIn(_Checked):
    """A URL at a host of a list: `Annotated[str, UrlIn("api.example.com")]`.

    - `schemes`: `https` alone unless said otherwise.
    - `ports`: those that may be named; empty: the scheme's own.

    Refused are names and passwords in it, other ports, and whatever two parsers read differently: backslashes,
    control characters, blanks, characters that are not ASCII (write them as `%`), an escaped host. See `HostIn` for
    hosts. The tool gets it with scheme and host in lower case and without its fragment.

    A redirect may lead elsewhere: let the client follow none, or follow one only where `allows(location)` says yes.
    """

    hosts: tuple[str, ...]
    schemes: tuple[str, ...] = field(default=("https",))
    ports: tuple[int, ...] = field(default=())

    def __init__(self, *hosts: str, schemes: Iterable[str] = ("https",), ports: Iterable[int] = ()) -> None:
        object.__setattr__(self, "hosts", _canonical(hosts))
        object.__setattr__(self, "schemes", tuple(one.lower() for one in schemes))
        object.__setattr__(self, "ports", tuple(ports))

    @property
    def description(self) -> str:  # type: ignore[override]
        ports = f" Ports: {', '.join(map(str, self.ports))}." if self.ports else ""
        return f"A URL ({', '.join(self.schemes)}) at one of {', '.join(self.hosts)}.{ports}"

    def allows(self, url: str) -> bool:
        """Whether this URL may be gone to, as of a redirect: an absolute one, as the client would request it."""
        try:
            self._checked(url)
        except ValueError:
            return False
        return True

    def _checked(self, given: str) -> str:
        if not given.isascii() or _CONTROL.search(given) or set(given) & set(' \\"<>^`{|}'):
            raise ValueError("must be a URL of plain characters; write others as %XX")
        try:
            parts = urlsplit(given)
            port = parts.port
        except ValueError:
            raise ValueError(f"must be a URL such as {self.schemes[0]}://{self.hosts[0]}/path") from None
        if parts.scheme not in self.schemes or not parts.netloc:
            raise ValueError(f"must begin with {' or '.join(f'{one}://' for one in self.schemes)}")
        if "@" in parts.netloc or "%" in parts.netloc:
            raise ValueError("must have no user name or password, and its host as it is")
        if port is not None and port not in (self.ports or (_PORTS.get(parts.scheme),)):
            raise ValueError(f"must name {_or_none(self.ports)}")
        if self.ports and port is None and _PORTS.get(parts.scheme) not in self.ports:
            raise ValueError(f"must name {_or_none(self.ports)}")
        if parts.netloc.endswith(":") or not allows(self.hosts, _host_of(parts)):
            raise ValueError(f"must be at one of {', '.join(self.hosts)}")
        return parts._replace(netloc=parts.netloc.lower(), fragment="").geturl()


def _host_of(parts: SplitResult) -> str:
    return parts.netloc.rpartition(":")[0] if parts.port is not None else parts.netloc


def _or_none(ports: tuple[int, ...]) -> str:
    return (
        f"one of the ports {', '.join(map(str, ports))}" if ports else "no other port than the scheme's own"
    )


def allows(hosts: Iterable[str], given: str) -> bool:
    """Whether a host is one of these, `*.` standing for one or more names below."""
    given = given.lower()
    if given in hosts:
        return True
    if len(given) > 253 or not all(_LABEL.fullmatch(label) for label in given.split(".")):
        return False
    return any(one.startswith("*.") and given.endswith(one[1:]) for one in hosts)


def _canonical(hosts: tuple[str, ...]) -> tuple[str, ...]:
    if not hosts:
        raise ValueError("name the hosts that may be given, such as 'api.example.com'")
    for one in hosts:
        if not one.isascii():
            raise ValueError(f"{one!r}: list a host in its ASCII form, xn--...")
        labels = one.lower().removeprefix("*.").split(".")
        if not all(_LABEL.fullmatch(label) for label in labels) and not re.fullmatch(
            r"\[[0-9a-fA-F:.]+\]", one
        ):
            raise ValueError(f"{one!r} is no host: no scheme, port or path, such as 'api.example.com'")
    return tuple(one.lower() for one in hosts)
