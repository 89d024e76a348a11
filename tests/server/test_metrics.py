"""`/metrics` of a server: what Prometheus reads, and who may."""

from server import served_app
from server.conftest import Api
from server.test_access import TOKENS, WANG

from adjourn.graph.server import Access


def test_prometheus_reads_how_the_store_stands(serve):
    api: Api = serve(served_app.plain).api()
    api.start()
    answer = api.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert 'adjourn_runs{status="finished"} 1' in answer.text.splitlines()
    assert answer.text.endswith("\n")


def test_c85_where_tokens_are_needed_it_needs_one_too(serve):
    served = serve(served_app.plain, access=Access(TOKENS))
    assert served.api().get("/metrics").status_code == 401
    assert served.api(WANG).get("/metrics").status_code == 200
