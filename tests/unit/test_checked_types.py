"""Checked parameter types (C-83): whatever a model gives, what gets through is inside, on the list, and harmless."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import httpx
import pytest
import requests
from hypothesis import example, given
from hypothesis import strategies as st

from adjourn.nodes import ArgumentList, HostIn, PathInside, UrlIn, tool


def taken(kind, value):
    """What a tool with one parameter of this type gets, or what the model is told."""

    @tool(effect="read")
    def takes(value: kind) -> str:
        """Take it."""
        return ""

    wrong = takes.problems({"value": value}).wrong
    return wrong.get("value", str(wrong)) if wrong else takes.parameters.values({"value": value})["value"]


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A folder with links: one that stays inside, and several that lead out."""
    top = tmp_path_factory.mktemp("tree")
    root, outside = top / "root", top / "root-outside"
    (root / "a" / "b").mkdir(parents=True)
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (root / "a" / "file").write_text("inside")
    (root / "in").symlink_to(root / "a")
    (root / "out").symlink_to(outside)
    (root / "a" / "up").symlink_to("../..")
    (root / "a" / "file-out").symlink_to(outside / "secret")
    (root / "loop").symlink_to(root / "loop")
    return root


def test_c83_a_path_inside_comes_absolute_with_its_links_followed(tree):
    for given_, expected in {
        "a/file": tree / "a" / "file",
        "in/file": tree / "a" / "file",
        "in/b/new/x.txt": tree / "a" / "b" / "new" / "x.txt",
        ".": tree,
        "./a//b/": tree / "a" / "b",
        str(tree / "a"): tree / "a",
    }.items():
        assert taken(Annotated[Path, PathInside(tree)], given_) == expected.resolve()
    assert taken(Annotated[str, PathInside(tree)], "a") == str((tree / "a").resolve())


@pytest.mark.parametrize(
    "given_",
    [
        "../root-outside/secret",
        "a/../../root-outside/secret",
        "a/..",
        "out/secret",
        "out",
        "a/up/root-outside/secret",
        "a/file-out",
        "/etc/passwd",
        "//etc/passwd",
        "~root/x",
        "~",
        "a\x00b",
        "a\nb",
        "a\\..\\b",
        "C:\\x",
        "",
        "\ud800",
        "x/" * 3000,
        "y" * 300 + "/z",
    ],
)
def test_c83_a_path_that_leads_out_is_refused_with_what_to_do(tree, given_):
    said = taken(Annotated[Path, PathInside(tree)], given_)
    assert isinstance(said, str)
    assert "must" in said or "Invalid JSON" in said
    assert str(tree) not in said  # a path of the host


def test_c83_a_neighbour_whose_name_begins_alike_is_outside(tree):
    assert "inside" in taken(Annotated[Path, PathInside(tree)], str(tree) + "-outside/secret")


def test_c83_a_path_that_must_exist(tree):
    there = Annotated[Path, PathInside(tree, must_exist=True)]
    assert taken(there, "a/file") == (tree / "a" / "file").resolve()
    assert "nothing is there" in taken(there, "a/nothing")


_PARTS = st.sampled_from(
    ["a", "b", "in", "out", "up", "loop", "file", "file-out", "..", ".", "", "~", "secret", "%2e%2e", "root"]
)


@given(st.lists(_PARTS, max_size=8).map("/".join) | st.text(max_size=40))
@example("a/up/root/a/file")
def test_c83_no_path_leads_out(tree, given_):
    value = taken(Annotated[Path, PathInside(tree)], given_)
    if isinstance(value, Path):
        root = os.path.realpath(tree)
        assert os.path.commonpath([os.path.realpath(value), root]) == root
        assert (value.read_text() if value.is_file() else "") != "secret"


GIT = ArgumentList(commands=("log", "status"), options=("-n", "--oneline", "--since"))


def test_c83_arguments_that_may_be_given():
    kind = Annotated[list[str], GIT]
    for words in (["log"], ["status", "--oneline"], ["log", "-n", "5", "--since=1 week; rm -rf /", "$(id)"]):
        assert taken(kind, words) == words
    assert taken(Annotated[list[str], ArgumentList()], []) == []


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["push"],
        ["log", "--output=/etc/passwd"],
        ["log", "-nfoo"],
        ["log", "--", "x"],
        ["log", "-"],
        ["log", "a\x00b"],
        ["log", "\ud800"],
        ["log"] + ["x"] * 100,
        ["log", "x" * 5000],
        "log --oneline",
        ["log", 5],
        ["-n", "log"],
    ],
)
def test_c83_other_arguments_are_refused(words):
    said = taken(Annotated[list[str], GIT], words)
    assert said != words


@given(st.lists(st.text(max_size=12), max_size=6))
def test_c83_an_option_is_one_of_the_list(words):
    value = taken(Annotated[list[str], GIT], ["log", *words])
    if isinstance(value, list):
        assert value == ["log", *words]
        for word in words:
            assert not word.startswith("-") or word.partition("=")[0] in GIT.options


def test_c83_a_word_is_one_argument_and_no_shell_sees_it():
    words = taken(Annotated[list[str], ArgumentList()], ["a b", "$(id)", "; ls", "*", "'\""])
    shown = subprocess.run(
        [sys.executable, "-c", "import sys, json; print(json.dumps(sys.argv[1:]))", *words],
        capture_output=True,
        check=True,
    )
    assert json.loads(shown.stdout) == words


HOSTS = ("api.example.com", "*.example.org", "[::1]")


def test_c83_hosts_of_the_list():
    for name in ("api.example.com", "API.Example.COM", "a.example.org", "b.a.example.org"):
        assert taken(Annotated[str, HostIn(*HOSTS)], name) == name.lower()


@pytest.mark.parametrize(
    "name",
    [
        "example.com",
        "example.org",
        "api.example.com.",
        "api.example.com:80",
        "https://api.example.com",
        "user@api.example.com",
        "api.example.com/x",
        "evilexample.org",
        ".example.org",
        "-.example.org",
        "a..example.org",
        "api.example.com\n",
        "аpi.example.com",  # a Cyrillic a
        "ａpi.example.com",  # a wide a, which normalisation turns into an a
        "api。example.com",
        "127.0.0.1",
        "0x7f.1",
        "",
    ],
)
def test_c83_other_hosts_are_refused(name):
    assert "must be one of" in taken(Annotated[str, HostIn(*HOSTS)], name)


WEB = UrlIn("api.example.com", "*.example.org", schemes=("https", "http"))


def test_c83_urls_of_the_list():
    for given_, got in {
        "https://api.example.com": "https://api.example.com",
        "HTTPS://API.example.com/A?b=%20c#d": "https://api.example.com/A?b=%20c",
        "http://x.example.org:80/": "http://x.example.org:80/",
        "https://api.example.com//evil.com/@x": "https://api.example.com//evil.com/@x",
    }.items():
        assert taken(Annotated[str, WEB], given_) == got
    assert (
        taken(Annotated[str, UrlIn("a.com", ports=(8443,))], "https://a.com:8443/x") == "https://a.com:8443/x"
    )
    assert "port" in taken(Annotated[str, UrlIn("a.com", ports=(8443,))], "https://a.com/x")


@pytest.mark.parametrize(
    "url",
    [
        "https://api.example.com@evil.com/",
        "https://evil.com#@api.example.com/",
        "https://evil.com\\@api.example.com/",
        "https://api.example.com\\.evil.com/",
        "https://api.example.com.evil.com/",
        "https://api.example.com./",
        "https://api.example.com:444/",
        "https://api.example.com:/",
        "https://user:pass@api.example.com/",
        "https://api.example.com%2eevil.com/",
        "https://api%2eexample.com/",
        "https:api.example.com",
        "https:/api.example.com",
        "//api.example.com/",
        "ftp://api.example.com/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "https://api.example.com/a b",
        "https://api.exa\tmple.com/",
        " https://api.example.com/",
        "https://ａpi.example.com/",
        "https://api。example.com/",
        "https://[::1]/",
        "https://127.0.0.1/",
        "https://2130706433/",
        "https://[api.example.com/",
        "https://api.example.com:99999/",
        "",
    ],
)
def test_c83_other_urls_are_refused(url):
    said = taken(Annotated[str, WEB], url)
    assert "must" in said
    assert not WEB.allows(url)


_URL_PIECES = st.sampled_from(
    [
        "https://",
        "http://",
        "api.example.com",
        "x.example.org",
        "evil.com",
        "@",
        ":",
        "/",
        "\\",
        "#",
        "?",
        ".",
        "%2e",
        "443",
        "80",
        "user",
        "[",
        "]",
        "::1",
        "。",
        ";",
        "&",
        "//",
        "*",
    ]
)


@given(st.lists(_URL_PIECES, max_size=8).map("".join) | st.text(max_size=30))
@example("https://api.example.com@evil.com/")
@example("https://x.example.org/;@evil.com")
def test_c83_every_parser_reads_an_accepted_url_alike(url):
    if not WEB.allows(url):
        return
    value = taken(Annotated[str, WEB], url)
    seen = urlsplit(value)
    with_requests = urlsplit(str(requests.Request("GET", value).prepare().url))
    for host, user in (
        (seen.hostname, seen.username),
        (httpx.URL(value).host, httpx.URL(value).userinfo.decode() or None),
        (with_requests.hostname, with_requests.username),
    ):
        assert user is None
        assert host == "api.example.com" or host.endswith(".example.org")


def test_c83_a_redirect_out_of_scope_is_told():
    assert WEB.allows("https://api.example.com/next")
    assert not WEB.allows("https://evil.com/")
    assert not WEB.allows("/next")  # the client makes it absolute first


@pytest.mark.parametrize(
    "hosts", [(), ("https://a.com",), ("a.com/x",), ("bücher.de",), ("a.com:80",), ("",)]
)
def test_c83_a_list_that_could_not_match_is_refused_when_it_is_made(hosts):
    with pytest.raises(ValueError):
        HostIn(*hosts)
    with pytest.raises(ValueError):
        UrlIn(*hosts)


def test_c83_the_model_is_told_what_it_may_give():
    @tool(effect="read")
    def fetch(
        path: Annotated[Path, PathInside("/srv/docs")],
        words: Annotated[list[str], GIT],
        url: Annotated[str, WEB],
        host: Annotated[str, HostIn("a.com")],
    ) -> str:
        """Fetch."""
        return ""

    told = {
        name: one["description"]
        for name, one in fetch.for_model["function"]["parameters"]["properties"].items()
    }
    assert "relative" in told["path"]
    assert "/srv" not in told["path"]
    assert "log, status" in told["words"]
    assert "api.example.com" in told["url"]
    assert "a.com" in told["host"]
