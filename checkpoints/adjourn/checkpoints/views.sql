-- The views of an Adjourn database. Each is one question that people ask.
-- Words with an @ are said differently by each database: see views.py.

CREATE VIEW v_threads AS
-- Every conversation, newest first. `waits` is 1 while a person is asked something.
SELECT
    t.thread_id,
    t.step,
    CASE
        WHEN EXISTS (
            SELECT 1 FROM interrupts i JOIN runs r ON r.id = i.run_id
            WHERE r.thread_id = t.thread_id AND i.state = 'open'
        ) THEN 1
        WHEN EXISTS (
            SELECT 1 FROM namespaces n JOIN checkpoint_writes w ON w.namespace = n.id
            WHERE n.thread = t.id AND n.ns = '' AND w.checkpoint_id = t.checkpoint_id AND w.channel = '__interrupt__'
        ) AND NOT EXISTS (
            SELECT 1 FROM namespaces n JOIN checkpoint_writes w ON w.namespace = n.id
            WHERE n.thread = t.id AND n.ns = '' AND w.checkpoint_id = t.checkpoint_id AND w.channel = '__resume__'
        ) THEN 1
        ELSE 0
    END AS waits,
    t.checkpoint_id,
    t.created_at,
    t.updated_at
FROM threads t
ORDER BY t.updated_at DESC;

CREATE VIEW v_messages AS
-- The conversation of each thread as it stands now, in order: the `messages` channel of its newest checkpoint.
-- SELECT * FROM v_messages WHERE thread_id = 'ops-1'
SELECT
    t.thread_id,
    row_number() OVER (PARTITION BY t.id ORDER BY @place) AS position,
    m.role,
    m.name,
    m.content,
    m.tool_call_id,
    m.tool_calls,
    m.message_id
FROM threads t
JOIN namespaces n ON n.thread = t.id AND n.ns = ''
JOIN checkpoints c ON c.namespace = n.id AND c.checkpoint_id = t.checkpoint_id
CROSS JOIN @ranges(c.channels)
WHERE @is_ranges(c.channels)
ORDER BY t.thread_id, position;

CREATE VIEW v_checkpoints AS
-- Every checkpoint, newest first: where it stands in the graph, what it came from, where its values are.
SELECT
    t.thread_id,
    n.ns,
    c.checkpoint_id,
    c.parent_id,
    c.source,
    c.step,
    c.ts,
    c.channels,
    c.metadata
FROM checkpoints c
JOIN namespaces n ON n.id = c.namespace
JOIN threads t ON t.id = n.thread
ORDER BY c.checkpoint_id DESC;

CREATE VIEW v_runs AS
-- Every run, newest first. A run that waits has the stop reason `ask_user` until it goes on.
SELECT
    id,
    thread_id,
    parent_run_id,
    forked_from,
    path,
    graph,
    started_by,
    status,
    coalesce(stop_reason, CASE WHEN status = 'interrupted' THEN 'ask_user' END) AS stop_reason,
    steps,
    input_tokens,
    output_tokens,
    cost,
    active_ms,
    CASE WHEN ended_at IS NULL THEN @ms(created_at, updated_at) ELSE @ms(created_at, ended_at) END AS wall_ms,
    input,
    answer,
    error,
    lease_owner,
    created_at,
    updated_at,
    ended_at
FROM runs
ORDER BY created_at DESC;

CREATE VIEW v_steps AS
-- Every step of every run, in order: one model call, and how many tool calls it asked for.
SELECT
    s.run_id,
    r.thread_id,
    s.step,
    s.path,
    s.model,
    s.latency_ms,
    s.input_tokens,
    s.output_tokens,
    s.cached_tokens,
    s.cache_write_tokens,
    s.reasoning_tokens,
    s.cost,
    s.calls,
    s.started_at,
    s.ended_at
FROM steps s
JOIN runs r ON r.id = s.run_id
ORDER BY r.created_at, s.run_id, s.step;

CREATE VIEW v_flow_steps AS
-- The steps of every flow, in order: how far each run has come. `ended_at` NULL: not reached, or the step in hand.
SELECT
    f.run_id,
    r.thread_id,
    r.graph,
    f.position,
    f.step,
    f.status,
    f.reason,
    f.started_at,
    f.ended_at
FROM flow_steps f
JOIN runs r ON r.id = f.run_id
ORDER BY r.created_at, f.run_id, f.position;

CREATE VIEW v_calls AS
-- The ledger: every tool call, in the order in which the model asked for it. `digest` is the same for the same
-- tool and arguments; `raw` is the text of arguments that did not parse; `started_at` NULL: it never ran.
SELECT
    c.run_id,
    r.thread_id,
    c.step,
    c.position,
    c.batch,
    c.call_id,
    c.tool,
    c.effect,
    c.outcome,
    c.error_code,
    c.attempts,
    c.took_ms,
    c.arguments,
    c.raw,
    c.digest,
    c.result,
    c.error,
    c.planned_at,
    c.started_at,
    c.ended_at
FROM calls c
JOIN runs r ON r.id = c.run_id
ORDER BY r.created_at, c.run_id, c.step, c.position;

CREATE VIEW v_waiting AS
-- Every question that waits for a person, oldest first. `expires_at` NULL: it waits until it is answered.
-- `approvals` tells who has to agree and who did, where more than one person's yes is needed.
SELECT
    i.id,
    i.run_id,
    r.thread_id,
    i.type,
    i.tool,
    i.arguments,
    i.reason,
    i.payload,
    i.response_schema,
    i.path,
    r.started_by,
    i.approvals,
    i.created_at,
    i.expires_at
FROM interrupts i
JOIN runs r ON r.id = i.run_id
WHERE i.state = 'open'
ORDER BY i.created_at, i.position;

CREATE VIEW v_answers AS
-- Every question that was closed: how, by whom, and after how long.
SELECT
    i.id,
    i.run_id,
    r.thread_id,
    i.step,
    i.call_id,
    i.path,
    i.type,
    i.tool,
    i.arguments,
    i.reason,
    i.payload,
    i.state,
    i.answer,
    i.answered_by,
    i.approvals,
    @ms(i.created_at, i.closed_at) AS waited_ms,
    i.created_at,
    i.closed_at
FROM interrupts i
JOIN runs r ON r.id = i.run_id
WHERE i.state <> 'open'
ORDER BY i.closed_at;

CREATE VIEW v_events AS
-- What was sent to listeners, in order.
SELECT e.run_id, r.thread_id, e.number, e.type, e.step, e.path, e.data, e.at
FROM events e
JOIN runs r ON r.id = e.run_id
ORDER BY r.created_at, e.run_id, e.number;

CREATE VIEW v_tools AS
-- Per tool, slowest first: how often it ran, how often it failed, how long it took. `failed` counts failed and
-- unknown calls; calls that never ran (denied, declined, skipped ...) count in `calls` only. Half of the calls took
-- at most `p50_ms`, 95 of 100 at most `p95_ms`.
SELECT
    tool,
    count(*) AS calls,
    sum(CASE WHEN started_at IS NOT NULL THEN 1 ELSE 0 END) AS ran,
    sum(CASE WHEN outcome IN ('failed', 'unknown') THEN 1 ELSE 0 END) AS failed,
    round(
        1.0 * sum(CASE WHEN outcome IN ('failed', 'unknown') THEN 1 ELSE 0 END)
        / nullif(sum(CASE WHEN started_at IS NOT NULL THEN 1 ELSE 0 END), 0),
        4
    ) AS failure_rate,
    round(avg(took_ms), 1) AS mean_ms,
    min(CASE WHEN place * 100 >= timed * 50 THEN took_ms END) AS p50_ms,
    min(CASE WHEN place * 100 >= timed * 95 THEN took_ms END) AS p95_ms,
    max(took_ms) AS slowest_ms
FROM (
    SELECT
        tool,
        outcome,
        started_at,
        took_ms,
        row_number() OVER (PARTITION BY tool, took_ms IS NULL ORDER BY took_ms) AS place,
        count(took_ms) OVER (PARTITION BY tool) AS timed
    FROM calls
) ranked
GROUP BY tool
ORDER BY p95_ms DESC, tool;

CREATE VIEW v_models AS
-- Per model, slowest first: how many turns it brought, its tokens (of the input, `cached_tokens` were computed
-- before), what they cost, and the time from a request to its end signal.
SELECT
    model,
    count(*) AS steps,
    coalesce(sum(input_tokens), 0) AS input_tokens,
    coalesce(sum(cached_tokens), 0) AS cached_tokens,
    coalesce(sum(output_tokens), 0) AS output_tokens,
    sum(cost) AS cost,
    min(CASE WHEN place * 100 >= timed * 50 THEN latency_ms END) AS p50_ms,
    min(CASE WHEN place * 100 >= timed * 95 THEN latency_ms END) AS p95_ms
FROM (
    SELECT
        model,
        input_tokens,
        cached_tokens,
        output_tokens,
        cost,
        latency_ms,
        row_number() OVER (PARTITION BY model ORDER BY latency_ms) AS place,
        count(*) OVER (PARTITION BY model) AS timed
    FROM steps
) ranked
GROUP BY model
ORDER BY p95_ms DESC, model;

CREATE VIEW v_stop_reasons AS
-- Why runs ended, and how many wait.
SELECT coalesce(stop_reason, CASE WHEN status = 'interrupted' THEN 'ask_user' ELSE status END) AS stop_reason,
    count(*) AS runs
FROM runs
GROUP BY coalesce(stop_reason, CASE WHEN status = 'interrupted' THEN 'ask_user' ELSE status END)
ORDER BY runs DESC;

CREATE VIEW v_metrics AS
-- The numbers of all runs, one a row. Shares are between 0 and 1; NULL: nothing to count yet.
SELECT 'runs' AS metric, 1.0 * count(*) AS value FROM runs
UNION ALL
SELECT 'steps per run', round(avg(steps), 2) FROM runs WHERE status IN ('finished', 'cancelled')
UNION ALL
SELECT 'tool calls', 1.0 * count(*) FROM calls
UNION ALL
SELECT 'tool failure rate',
    round(
        1.0 * sum(CASE WHEN outcome IN ('failed', 'unknown') THEN 1 ELSE 0 END)
        / nullif(sum(CASE WHEN started_at IS NOT NULL THEN 1 ELSE 0 END), 0),
        4
    )
FROM calls
UNION ALL
SELECT 'questions', 1.0 * count(*) FROM interrupts
UNION ALL
SELECT 'questions answered',
    round(1.0 * sum(CASE WHEN state = 'answered' THEN 1 ELSE 0 END) / nullif(count(*), 0), 4)
FROM interrupts
UNION ALL
SELECT 'questions answered and carried to the end',
    round(
        1.0 * sum(CASE WHEN i.state = 'answered' AND r.stop_reason = 'answered' THEN 1 ELSE 0 END)
        / nullif(count(*), 0),
        4
    )
FROM interrupts i
JOIN runs r ON r.id = i.run_id
UNION ALL
SELECT 'input tokens', 1.0 * sum(input_tokens) FROM runs
UNION ALL
SELECT 'output tokens', 1.0 * sum(output_tokens) FROM runs
UNION ALL
SELECT 'cost', 1.0 * sum(cost) FROM runs;
