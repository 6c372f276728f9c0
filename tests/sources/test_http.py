"""Catalogs behind an http address."""

import base64
import gzip
import hashlib
import subprocess
from pathlib import Path
from typing import Any

import pytest
from progress_samples import Ended, Recorder
from waiting import PATIENCE_S

from retrieve_cli.contracts.progress import showing
from retrieve_cli.errors import SourceFailed, UsageError
from retrieve_cli.http.addresses import same_server
from retrieve_cli.sources.remote.http import HttpFetcher
from retrieve_cli.sources.remote.transfer import intact, sweep
from retrieve_cli.storage import durable
from sources.servers import changes, fetching

LINES = b'{"id": "a", "name": "A"}\n{"id": "b", "name": "B"}\n'
OTHER = b'{"id": "c", "name": "C"}\n'
SHA1 = hashlib.sha1(LINES).hexdigest()


def fetcher(url: str, **settings: Any) -> HttpFetcher:
    return HttpFetcher(url, **{"sha1": "none", **fetching(settings, timeout_s=PATIENCE_S)})


def failure(url: str, target: Path, **settings: Any) -> SourceFailed:
    """The error of a fetch that leaves the folder as it was."""
    before = {path: path.read_bytes() for path in target.parent.iterdir() if path.is_file()}
    with pytest.raises(SourceFailed) as caught:
        fetcher(url, **settings).fetch(target)
    assert {path: path.read_bytes() for path in target.parent.iterdir() if path.is_file()} == before
    assert caught.value.hint
    return caught.value


# ------------------------------------------------------------------------------------------ what is written


def test_a_catalog_is_fetched_with_its_digest_beside_it(site, target: Path) -> None:
    fetcher(site.put("/c.jsonl", LINES)).fetch(target)
    assert target.read_bytes() == LINES
    assert intact(target) == SHA1
    assert subprocess.run(["sha1sum", "-c", "tools.jsonl.sha1"], cwd=target.parent).returncode == 0


@pytest.mark.parametrize("coded", [False, True])
def test_a_fetch_counts_the_bytes_that_travel_up_to_the_length_that_the_server_says(
    site, target: Path, coded: bool
) -> None:
    body = gzip.compress(LINES) if coded else LINES
    headers = {"Content-Encoding": "gzip"} if coded else {}
    url, recorder = site.put("/c.jsonl", body, headers=headers), Recorder()
    with showing(recorder):
        fetcher(url).fetch(target)
    [(name, ended)] = recorder.tasks.items()
    assert name.startswith("fetching http://127.0.0.1:")
    assert ended == Ended("bytes", len(body), len(body))


@pytest.mark.parametrize("headers", [{}, {"Content-Encoding": "gzip"}, {"Content-Type": "application/gzip"}])
@pytest.mark.parametrize("path", ["/c.jsonl", "/c.jsonl.gz"])
@pytest.mark.parametrize("chunks", [0, 7])
def test_gzip_is_unpacked_wherever_it_is_said(site, target: Path, path: str, headers: dict, chunks: int) -> None:
    fetcher(site.put(path, gzip.compress(LINES), headers=headers, chunks=chunks)).fetch(target)
    assert target.read_bytes() == LINES


def test_the_same_content_leaves_the_file_alone(site, target: Path) -> None:
    url = site.put("/c", LINES)
    assert changes(fetcher(url), target)
    assert not changes(fetcher(url), target)
    site.replace("/c", OTHER)
    assert changes(fetcher(url), target)
    assert target.read_bytes() == OTHER


# ---------------------------------------------------------------------------------------- asking for changes


MARKS = [{"ETag": '"v1"'}, {"ETag": 'W/"v1"'}, {"Last-Modified": "Wed, 01 Jan 2025 00:00:00 GMT"}]


@pytest.mark.parametrize("headers", MARKS)
def test_what_has_not_changed_is_not_sent_again(site, target: Path, headers: dict) -> None:
    url = site.put("/c", LINES, headers=headers)
    assert changes(fetcher(url), target)
    assert not changes(fetcher(url), target)
    sent = {"If-None-Match": headers.get("ETag"), "If-Modified-Since": headers.get("Last-Modified")}
    assert {name: site.last.headers[name] for name in sent} == sent
    assert target.read_bytes() == LINES


SPOILS: dict[str, tuple[str, bytes | None]] = {
    "target missing": ("", None),
    "target edited": ("", OTHER),
    "digest missing": (".sha1", None),
    "digest of another": (".sha1", b"0" * 40 + b"  tools.jsonl\n"),
    **{marks: (".http.json", marks.encode()) for marks in ("[]", "{}", "torn {", '{"etag": 1}')},
}
"""By what was done: which of the files, and what it holds then; None for one that is gone."""


@pytest.mark.parametrize("how", SPOILS)
def test_a_file_that_is_not_what_was_fetched_is_fetched_whole(site, target: Path, how: str) -> None:
    url = site.put("/c", LINES, headers={"ETag": '"v1"'})
    fetcher(url).fetch(target)
    suffix, content = SPOILS[how]
    spoilt = target.with_name(target.name + suffix)
    spoilt.unlink() if content is None else spoilt.write_bytes(content)
    fetcher(url).fetch(target)
    assert site.last.headers["If-None-Match"] is None
    assert target.read_bytes() == LINES
    assert intact(target) == SHA1


def test_a_crash_between_the_file_and_its_digest_is_healed(site, target: Path, monkeypatch) -> None:
    url = site.put("/c", LINES, headers={"ETag": '"v1"'})
    fetcher(url).fetch(target)
    site.replace("/c", OTHER, headers={"ETag": '"v2"'})

    def crash(path: Path, text: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(durable, "replace", crash)
        with pytest.raises(KeyboardInterrupt):
            fetcher(url).fetch(target)
    assert target.read_bytes() == OTHER
    assert intact(target) == ""
    fetcher(url).fetch(target)
    assert site.last.headers["If-None-Match"] is None
    assert intact(target) == hashlib.sha1(OTHER).hexdigest()


def test_what_a_killed_fetch_left_is_swept_away_and_nothing_else(site, target: Path) -> None:
    fetcher(site.put("/c", LINES)).fetch(target)
    kept = sorted(target.parent.iterdir())
    for name in (".tools.jsonl.part", ".other.jsonl.part", ".tools.jsonl.sha1.new"):
        (target.parent / name).write_bytes(b"half")
    sweep(target.parent)
    assert sorted(target.parent.iterdir()) == kept
    sweep(target.parent / "not there")


# ------------------------------------------------------------------------------------------------- digests


def encoded(digest: str) -> str:
    return base64.b64encode(bytes.fromhex(digest)).decode()


PROMISES = [
    ("X-Checksum-Sha1", SHA1),
    ("X-Checksum-Sha1", SHA1.upper()),
    ("Digest", f"SHA={encoded(SHA1)}"),
    ("Digest", f"sha-256=AAAA,sha={encoded(SHA1)}"),
    ("Repr-Digest", f"sha=:{encoded(SHA1)}:"),
]


@pytest.mark.parametrize(("name", "value"), PROMISES)
def test_a_download_is_held_to_the_digest_in_its_headers(site, target: Path, name: str, value: str) -> None:
    url = site.put("/c", LINES, headers={name: value})
    assert changes(fetcher(url, sha1="auto"), target)
    site.replace("/c", OTHER, headers={name: value})
    error = failure(url, target, sha1="auto")
    assert name in error.message
    assert SHA1 in error.message


@pytest.mark.parametrize("line", [SHA1, f"{SHA1}  c.jsonl\n", f"{SHA1} *c.jsonl\n", f"SHA1 (c.jsonl) = {SHA1}"])
def test_a_download_is_held_to_the_digest_beside_it(site, target: Path, line: str) -> None:
    url = site.put("/c.jsonl", LINES)
    site.put("/c.jsonl.sha1", line)
    assert changes(fetcher(url, sha1="auto"), target)
    site.replace("/c.jsonl", OTHER)
    assert "/c.jsonl.sha1 says" in failure(url, target, sha1="auto").message


def test_the_digest_of_a_gzip_file_is_that_of_the_file_as_it_is_served(site, target: Path) -> None:
    packed = gzip.compress(LINES)
    url = site.put("/c.jsonl.gz", packed)
    site.put("/c.jsonl.gz.sha1", hashlib.sha1(packed).hexdigest())
    assert changes(fetcher(url, sha1="auto"), target)
    site.replace("/c.jsonl.gz.sha1", SHA1)
    assert "has SHA-1" in failure(url, target, sha1="auto").message


def test_a_digest_holds_for_the_file_whether_or_not_it_is_compressed_on_the_way(site, target: Path) -> None:
    headers = {"Content-Encoding": "gzip", "X-Checksum-Sha1": SHA1}
    assert changes(fetcher(site.put("/c", gzip.compress(LINES), headers=headers), sha1="auto"), target)


def test_a_digest_that_is_given_is_the_one_that_counts(site, target: Path) -> None:
    url = site.put("/c", LINES, headers={"X-Checksum-Sha1": "0" * 40, "ETag": '"v1"'})
    assert changes(fetcher(url, sha1=SHA1.upper()), target)
    assert "the setting sha1" in failure(url, target, sha1="1" * 40).message


@pytest.mark.parametrize("name", ["c.jsonl", "./c.jsonl"])
def test_a_list_of_digests_is_read_for_the_files_own(site, target: Path, name: str) -> None:
    url = site.put("/c.jsonl", LINES)
    sums = site.put("/SUMS", f"{'0' * 40}  b.jsonl\n{SHA1}  {name}\n")
    assert changes(fetcher(url, sha1=sums), target)


@pytest.mark.parametrize("body", ["", "no digest", f"{SHA1}  a\n{SHA1}  b\n"])
def test_a_list_of_digests_that_does_not_know_the_file_or_is_not_there_is_no_proof(
    site, target: Path, body: str
) -> None:
    assert "404" in failure(site.put("/c", LINES), target, sha1=site.url + "/SUMS").message
    assert "holds no SHA-1" in failure(site.put("/c", LINES), target, sha1=site.put("/SUMS", body)).message


# ------------------------------------------------------------------------------------- what is no JSON Lines


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("<!DOCTYPE html><html><title>Oops</title></html>", "HTML"),
        ("\n  <html>\n", "HTML"),
        ('[{"id": "a"}]', "JSON array"),
        ('[\n{"id": "a"}\n]', "JSON array"),
        ('{\n "id": "a"\n}', "over several lines"),
        ('{"error": "not today"}', "error message"),
        ('{"errors": ["a"]}\n\n', "error message"),
        ('{"type": "about:blank", "title": "No", "status": 404, "detail": "gone"}', "error message"),
        ('{"message": "Not Found", "documentation_url": "x"}', "error message"),
        ("{}", "error message"),
        ("", "empty answer"),
        ("\ufeff\n \n", "empty answer"),
        ("id,name\na,A\n", "text that is not JSON"),
        ('"text"\n', "text that is not JSON"),
        (b"PK\x03\x04\x00\x1b[31m", "text that is not JSON"),
    ],
)
def test_what_is_no_json_lines_is_refused_with_what_it_says(site, target: Path, body: str | bytes, what: str) -> None:
    fetcher(site.put("/good", LINES)).fetch(target)
    error = failure(site.put("/c", body), target)
    assert what in error.message
    assert error.message.isprintable()
    assert len(error.message) < 400


@pytest.mark.parametrize(
    "body",
    [
        b"\xef\xbb\xbf" + LINES,
        b"\n \r\n" + LINES,
        LINES.strip(),
        LINES.replace(b"\n", b"\r\n"),
        b'{"error": "a tool of that name", "id": "e"}\n{"id": "a"}\n',
        b'{"title": "T", "type": "tool"}',
        LINES + b"not json\n",
    ],
)
def test_json_lines_are_kept_to_the_byte(site, target: Path, body: bytes) -> None:
    fetcher(site.put("/c", body, chunks=5)).fetch(target)
    assert target.read_bytes() == body


def test_a_page_to_sign_in_is_known_by_its_redirect(site, target: Path) -> None:
    site.put("/login", "<html>Sign in</html>")
    error = failure(site.put("/c", status=302, headers={"Location": "/login?next=/c"}), target)
    assert "/login" in error.message
    assert "token_env" in error.hint


# ----------------------------------------------------------------------------------- attempts, limits, cuts


@pytest.mark.parametrize("trouble", [{"status": status} for status in (408, 425, 429, 500, 503)] + [{"drop": True}])
def test_what_may_pass_is_tried_again(site, target: Path, trouble: dict) -> None:
    url = site.put("/c", b"wait", **trouble)
    site.put("/c", LINES)
    assert changes(fetcher(url, retries=1), target)
    assert len(site.asked) == 2


CUTS = [
    {"body": LINES, "sent": 30},
    {"body": LINES, "sent": 30, "chunks": 10},
    {"body": gzip.compress(LINES)[:-9]},
    {"body": gzip.compress(LINES)[:-9], "headers": {"Content-Encoding": "gzip"}},
]


@pytest.mark.parametrize("cut", CUTS)
def test_a_transfer_that_is_cut_short_is_noticed_and_tried_again(site, target: Path, cut: dict) -> None:
    url = site.put("/c", **cut)
    error = failure(url, target, retries=1)
    assert "cut short" in error.message
    assert "2 attempts" in error.message
    site.put("/c", LINES)
    assert changes(fetcher(url, retries=1), target)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 204, 206, 501, 505])
def test_what_will_not_pass_is_not_tried_again(site, target: Path, status: int) -> None:
    error = failure(site.put("/c", b"because", status=status), target, retries=5)
    assert str(status) in error.message
    assert len(site.asked) == 1


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("chunks", [0, 512])
def test_more_than_the_limit_is_refused_however_it_is_packed(site, target: Path, packed: bool, chunks: int) -> None:
    body = b'{"id": "a"}\n' + b" " * 3_000_000
    url = site.put("/c", gzip.compress(body) if packed else body, chunks=chunks)
    error = failure(url, target, max_bytes=100_000)
    assert "100000" in error.message
    assert "max_mb" in error.hint


def test_a_server_that_is_not_there_is_named(target: Path) -> None:
    error = failure("http://127.0.0.1:9/c?key=sesame", target, retries=1)
    assert "http://127.0.0.1:9/c" in error.message
    assert "refused" in error.message
    assert "sesame" not in error.message + error.hint


def test_a_file_that_cannot_be_written_is_the_reason(site, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SourceFailed, match="cannot write"):
        fetcher(site.put("/c", LINES)).fetch(tmp_path / "file" / "c.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(SourceFailed, match="cannot write"):
        fetcher(site.put("/c", LINES)).fetch(tmp_path / "folder.jsonl")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder.jsonl"]


# ---------------------------------------------------------------------------------- credentials, redirects


@pytest.mark.parametrize("user", ["zoe:sesame", "sesame"])
def test_a_user_in_the_address_is_refused_unseen_as_the_address_is_kept(user: str) -> None:
    with pytest.raises(UsageError) as caught:
        fetcher(f"https://{user}@example.org/c")
    assert "sesame" not in caught.value.message + caught.value.hint
    assert "user_env" in caught.value.hint


def test_a_refusal_without_credentials_says_how_to_give_them(site, target: Path) -> None:
    assert "token_env" in failure(site.put("/c", status=401), target).hint


@pytest.mark.parametrize(
    "settings", [{"token_env": "NOT_SET"}, {"user_env": "HOME", "password_env": "NOT_SET"}, {"token_env": "EMPTY"}]
)
def test_a_variable_that_is_not_set_is_named(site, target: Path, monkeypatch, settings: dict) -> None:
    monkeypatch.setenv("EMPTY", "")
    with pytest.raises(UsageError) as caught:
        fetcher(site.put("/c", LINES), **settings).fetch(target)
    assert list(settings.values())[-1] in caught.value.message
    assert site.asked == []


@pytest.mark.parametrize("token", ["two words", "tök", "a\nb"])
def test_a_token_that_no_header_can_carry_is_refused_unseen(target: Path, monkeypatch, token: str) -> None:
    monkeypatch.setenv("T", token)
    with pytest.raises(UsageError, match="variable T ") as caught:
        fetcher("http://127.0.0.1:9/", token_env="T").fetch(target)
    assert token not in caught.value.message + caught.value.hint


@pytest.mark.parametrize(
    "settings", [{"user_env": "A"}, {"password_env": "A"}, {"token_env": "A", "user_env": "B", "password_env": "C"}]
)
def test_credentials_that_do_not_go_together_are_refused(settings: dict) -> None:
    with pytest.raises(UsageError, match="user_env"):
        fetcher("https://example.org/c", **settings)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("http://h/a", "https://h/b", True),
        ("https://h/a", "https://h:443/b", True),
        ("https://h/a", "http://h/a", False),
        ("https://h/a", "https://h:8443/a", False),
        ("http://h:8080/a", "https://h/a", False),
        ("https://h/a", "https://h.evil/a", False),
        ("https://h/a", "https://H/a", True),
    ],
)
def test_credentials_follow_to_the_same_server_and_up_to_https_alone(one: str, other: str, same: bool) -> None:
    assert same_server(one, other) is same


@pytest.mark.parametrize("location", ["ftp://127.0.0.1/c", "file:///etc/passwd", "http://[", "data:,x"])
def test_a_redirect_to_what_is_no_web_address_is_refused(site, target: Path, location: str) -> None:
    assert "redirects to" in failure(site.put("/c", status=302, headers={"Location": location}), target).message


@pytest.mark.parametrize(
    "url",
    ["ftp://h/c", "file:///c", "c.jsonl", "http://", "http://[", "http://h:x/", "http://h/a b", "http://h/\n", ""],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        fetcher(url)
    assert "https://" in caught.value.hint
