"""adversarial"""
import asyncio, json
import pytest
from runs.shop import Shop, LIMITS
from adjourn.graph import Runner, build_react, Limits
from adjourn.nodes import ScriptedModel, approve, tool
from adjourn.nodes.scripted import call, says
from adjourn.checkpoints.errors import *

async def test_fork_from_every_checkpoint_of_a_complex_run_and_cancel_and_message(house):
    shop = Shop()
    R={"service_id": "svc-pay-001", "environment": "prod"}
    turns=[says("", call("search_docs",{"query":"a"},id="x1"), call("query_logs",{},id="x2"), call("nope",{},id="x3"), call("restart_service",R,id="x4"), call("publish_release",{"service_id":"s","version":"1"},id="x5")),
           says("", call("search_docs",{"query":"b"},id="x1"), call("restart_service",{**R,"environment":"staging"},id="x2")), "done","more","more"]
    r=house.runner(turns, shop)
    run=await r.start("go",thread_id="t")
    while run.status=="interrupted":
        ans={}
        for q in run.interrupts:
            ans[q.id]={"environment":"prod","service_id":"svc-pay-001"} if q.type=="params_required" else approve()
        run=await r.resume(run.id,ans)
    assert run.status=="finished", run
    points=[p for p in await r.history(run.id,limit=None) if p.next]
    assert len(points)>8
    for p in points:
        # cancel the fork while it waits; then message
        f=await r.fork(run.id,p.id,repeat_writes=True)
        n=0
        if f.status=="interrupted":
            c=await r.cancel(f.id); assert c.status=="cancelled"
            assert all(one.result is not None for one in c.calls)
            m=await r.start("and now",thread_id=f.thread_id); assert m.status in("finished","interrupted"), m
        f=await r.fork(run.id,p.id,repeat_writes=True)
        while f.status=="interrupted":
            n+=1; assert n<6
            ans={q.id:({"environment":"prod","service_id":"svc-pay-001"} if q.type=="params_required" else approve()) for q in f.interrupts}
            f=await r.resume(f.id,ans)
        assert f.status=="finished",(p,f)
        m=await r.fork(run.id,p.id,message="hm",repeat_writes=True)
        assert m.status in ("finished","interrupted"),(p,m.row.error)
        ev=[e.number for e in await r.events(f.id)]
        assert ev==list(range(1,len(ev)+1))
        assert {c.outcome for c in f.calls}<= {"ok","invalid","repeated"}, (p,[(c.call_id,c.outcome) for c in f.calls])

async def test_fork_of_dismissed_and_cancelled(house):
    R={"service_id": "svc-pay-001", "environment": "prod"}
    r=house.runner([says("",call("restart_service",R,id="r")),"done","x","y"])
    a=await r.start("1",thread_id="a"); await r.cancel(a.id)
    f=await r.fork(a.id); assert f.status=="interrupted"
    b=await r.start("1",thread_id="b"); await r.start("never",thread_id="b")
    f=await r.fork(b.id); assert f.status=="interrupted" and f.row.input=="1"
    d=await r.resume(f.id,{f.interrupts[0].id:approve()}); assert d.status=="finished"

async def test_fork_with_own_deleted_message(house):
    r=house.runner(["a"])
    run=await r.start("1",thread_id="a", run_id="r"*200)
    h=await r.history(run.id)
    f=await r.fork(run.id,h[-1].id); assert f.answer=="a"
