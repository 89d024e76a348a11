// From events to the run as it is shown. No DOM in here.

export function newStory(runId) {
  return {
    id: runId, status: "running", stopReason: null, input: "", by: null, thread: "", answer: "", error: null,
    steps: new Map(), questions: new Map(), number: 0,
  };
}

function stepOf(story, step) {
  if (!story.steps.has(step)) {
    story.steps.set(step, { step, text: "", attempt: 0, discarded: null, done: false, calls: new Map(), settled: [] });
  }
  return story.steps.get(step);
}

const TAKE = {
  run_started(story, event) {
    story.input = event.input;
    story.by = event.started_by;
    story.thread = event.thread_id;
  },
  step_started(story, event) {
    goesOn(story);
    stepOf(story, event.step);
  },
  text_delta(story, event) {
    const step = stepOf(story, event.step);
    if (step.done) return;
    if (event.attempt !== step.attempt) step.text = "";
    step.attempt = event.attempt;
    step.discarded = null;
    step.text += event.text;
  },
  text_discarded(story, event) {
    const step = stepOf(story, event.step);
    step.text = "";
    step.discarded = event.reason;
  },
  message(story, event) {
    const step = stepOf(story, event.step);
    step.text = event.text;
    step.discarded = null;
    step.done = true;
  },
  tool_call(story, event) {
    const calls = stepOf(story, event.step).calls;
    calls.set(event.call_id, { id: event.call_id, name: event.name, arguments: event.arguments, state: "running" });
  },
  tool_progress(story, event) {
    const call = stepOf(story, event.step).calls.get(event.call_id);
    if (call) call.progress = { message: event.message, share: event.share };
  },
  tool_result(story, event) {
    goesOn(story);
    const calls = stepOf(story, event.step).calls;
    const call = calls.get(event.call_id) ?? { id: event.call_id, name: event.name, arguments: null };
    const { outcome, data, message, error_code, took_ms } = event;
    calls.set(event.call_id, { ...call, state: outcome, data, message, code: error_code, took: took_ms });
  },
  loop_interrupt(story, event) {
    story.status = "interrupted";
    story.questions = new Map(event.interrupts.map((one) => [one.id, one]));
    for (const call of stepOf(story, event.step).calls.values()) {
      if (call.state === "running") call.state = "waiting"; // itself, or a specialist that works inside it
    }
  },
  interrupt_answered(story, event) {
    const step = stepOf(story, event.step);
    step.settled.push({ id: event.interrupt_id, state: event.state, by: event.by, answer: event.answer });
    if (event.state === "open") return; // one approval of several
    story.questions.delete(event.interrupt_id);
    const call = step.calls.get(event.call_id);
    if (call?.state === "waiting" && event.state === "answered") call.state = "running";
    if (story.questions.size === 0) goesOn(story);
  },
  run_finished(story, event) {
    story.status = event.status;
    story.stopReason = event.stop_reason;
    story.answer = event.answer;
    story.questions.clear();
  },
  run_failed(story, event) {
    story.status = "failed";
    story.error = event.message;
  },
};

// What the inbox knows of the open questions: those of specialists are settled by events of their own runs.
export function setQuestions(story, questions) {
  if (story.status !== "interrupted") return;
  const ids = new Set(questions.map((one) => one.id));
  for (const id of [...story.questions.keys()]) if (!ids.has(id)) story.questions.delete(id);
  for (const one of questions) {
    const held = story.questions.get(one.id);
    // a card that is drawn anew loses the focus: only for what it shows of others' approvals
    if (!held || JSON.stringify(held.approvals ?? null) !== JSON.stringify(one.approvals ?? null)) story.questions.set(one.id, one);
  }
}

function goesOn(story) {
  story.status = "running";
  story.error = null;
}

export function take(story, event) {
  if (event.number !== null) story.number = event.number;
  TAKE[event.type]?.(story, event);
}
