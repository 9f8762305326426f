"""The server of a page: what it answers, to whom, and that it sees a run go on."""

import json
import socket
from contextlib import closing
from http.server import ThreadingHTTPServer

import pytest
from pages import cdfl_run, data_of, section_of, serving

from flcluster.cli import main
from flcluster.errors import UserError
from flcluster.report.html.live import server


@pytest.fixture
def run(tmp_path):
    return cdfl_run(tmp_path / "run")


def test_the_page_and_its_data(run):
    with serving(run) as ask:
        status, text, headers = ask("/")
        assert status == 200 and headers["Content-Type"] == "text/html; charset=utf-8"
        assert data_of(text)["live"] is True and "connect-src 'self'" in text
        status, text, headers = ask("/data.json")
        assert status == 200 and json.loads(text)["title"] == "CDFL: Digits, K = 2"
        assert ask("/data.json", If_None_Match=headers["ETag"])[:2] == (304, "")


def test_it_is_seen_by_this_machine_alone_and_asked_by_its_own_name():
    with server([], port=0) as made:
        assert made.server_address[0] == "127.0.0.1"


def test_other_sites_cannot_read_through_a_readers_browser(run):
    """A name that somebody else points at 127.0.0.1 is refused (DNS rebinding)."""
    with serving(run) as ask:
        assert ask("/data.json", Host="evil.example:80")[0] == 403
        assert ask("/data.json", Host="localhost:1234")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD"])
def test_it_only_reads(run, method):
    with serving(run) as ask:
        status, _, headers = ask("/", method)
        assert status == 405 and headers["Allow"] == "GET"


@pytest.mark.parametrize("path", ["/../summary.json", "/%2e%2e/a", "/summary.json", "//etc/passwd", "/?", "/x"])
def test_no_path_leads_to_a_file(run, path):
    with serving(run / "..") as ask:
        status, text, _ = ask(path)
        assert status == 404 and "algorithm" not in text


def test_a_run_is_seen_to_go_on(run):
    """Also without a summary, and with a line that is only half there."""
    (run / "summary.json").unlink()
    lines = (run / "metrics.csv").read_text().splitlines(keepends=True)
    (run / "metrics.csv").write_text("".join(lines[:3]) + lines[3][:4])
    with serving(run) as ask:
        told = json.loads(ask("/data.json")[1])
        assert told["state"] == "a run goes on"
        assert section_of(told, "curves")["blocks"][0]["groups"][0]["x"]["update"] == [0, 6]
        row = section_of(told, "ran")["blocks"][0]
        assert dict(zip(row["heads"], row["rows"][0], strict=True))["Status"] == "running"
        (run / "metrics.csv").write_text("".join(lines))
        told = json.loads(ask("/data.json")[1])
        assert section_of(told, "curves")["blocks"][0]["groups"][0]["x"]["update"] == [0, 6, 12, 18, 24]


def test_a_folder_may_be_empty_at_first_and_files_may_be_broken(tmp_path):
    (tmp_path / "runs").mkdir()
    with serving(tmp_path / "runs") as ask:
        assert json.loads(ask("/data.json")[1])["title"] == "Waiting for a run"
        path = cdfl_run(tmp_path / "runs" / "one")
        assert json.loads(ask("/data.json")[1])["title"] == "CDFL: Digits, K = 2"
        (path / "clients.csv").write_text("update,client,status\n1,x,accepted\n")
        (block,) = json.loads(ask("/data.json")[1])["sections"][0]["blocks"]
        assert "clients.csv, line 2, column client: 'x' is no number" in block["lines"][0]


def test_a_run_that_is_yet_to_come_is_waited_for(tmp_path, capsys, monkeypatch):
    with serving(tmp_path / "soon") as ask:
        told = json.loads(ask("/data.json")[1])
        assert told["title"] == "Waiting for a run" and "soon is not there yet" in json.dumps(told)
        cdfl_run(tmp_path / "soon")
        assert json.loads(ask("/data.json")[1])["title"] == "CDFL: Digits, K = 2"
    monkeypatch.setattr(ThreadingHTTPServer, "serve_forever", lambda self: None)
    assert main(["watch", "never", "--port", "0"]) == 0
    assert "never is not there yet: the page waits for it" in capsys.readouterr().out


def test_mistakes_say_what_to_do(run):
    with pytest.raises(UserError, match="is not a directory"):
        server([run / "metrics.csv"])
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match="give another --port"):
            server([run], port=port)
    with pytest.raises(UserError, match="give another --port"):
        server([run], port=70_000)
