// A run on the page: its step bar, its steps, its questions, its end. Only what changed is drawn anew.

import { closed, isSending, lateAnswer, lateAnswersTo } from "./answers.js";
import { post } from "./api.js";
import { el, fill, keepFocus, short, shown } from "./dom.js";
import { questionCard } from "./question.js";
import { has, say } from "./texts.js";

const LOOK = { ok: "done", running: "working", waiting: "waiting", repeated: "quiet", skipped: "quiet", dismissed: "quiet", cancelled: "quiet", expired: "quiet", declined: "no", denied: "no" };
const MARK = { done: "✓", working: "…", waiting: "?", quiet: "–", no: "⊘", bad: "✕" };
const BAR_GAP_PX = 16; // what the style sheet leaves above the bar, and as much below it
const look = (state) => LOOK[state] ?? "bad";

export class RunView {
  // `mayAnswer(question id)` says whether the reader may answer; `onChanged` is called after an action; `question` is the
  // id of the one that was chosen.
  constructor(parent, story, { mayAnswer, onChanged, question }) {
    this.question = question;
    this.sought = null;
    this.isStopping = false;
    this.story = story;
    this.mayAnswer = mayAnswer;
    this.onChanged = onChanged;
    this.steps = new Map();
    this.cards = new Map();
    this.parts = {
      head: el("header", { className: "run-head" }),
      bar: el("ol", { className: "bar", tabindex: "0", "aria-label": say("steps") }),
      steps: el("div", { className: "steps" }),
      questions: el("div", { className: "questions" }),
      end: el("div", { className: "end" }),
    };
    const { head, bar, steps, questions, end } = this.parts;
    fill(parent, el("article", { data: { run: story.id } }, head, bar, steps, questions, end));
    this.drawAll();
  }

  drawAll() {
    for (const step of this.story.steps.keys()) this.drawStep(step);
    this.drawRest();
  }

  // After an event; `step` is the one that it changed.
  draw(step) {
    if (this.story.steps.has(step)) this.drawStep(step);
    this.drawRest();
  }

  drawRest() {
    this.drawHead();
    this.drawBar();
    this.drawQuestions();
    this.drawEnd();
  }

  drawHead() {
    const { story } = this;
    const reason = story.stopReason && story.stopReason !== "answered" && story.stopReason !== story.status ? ` · ${say(`reason.${story.stopReason}`)}` : "";
    const facts = [story.id, story.thread && say("thread", { id: story.thread }), story.by && say("started_by", { by: story.by })];
    const canStop = ["running", "interrupted", "failed"].includes(story.status);
    this.isStopping &&= canStop;
    fill(this.parts.head,
      el("p", { className: "facts" },
        el("span", { className: `chip ${story.status}`, data: { status: story.status } }, say(`status.${story.status}`), reason),
        el("span", { className: "quiet" }, facts.filter(Boolean).join(" · "))),
      el("h2", {}, story.input),
      canStop && this.isStopping && this.confirmation(),
      canStop && !this.isStopping && el("div", { className: "buttons" },
        button("cancel", () => this.askToStop(true)),
        story.status === "failed" && button("retry", (made) => this.send("retry", made), "primary")));
  }

  // Nothing undoes a stop: one click is not enough, and the focus is on what does nothing.
  confirmation() {
    const stop = button("stop", (made) => this.send("cancel", made), "danger");
    const keep = button("keep", () => this.askToStop(false));
    keep.setAttribute("aria-describedby", "sure");
    const onkeydown = (event) => event.key === "Escape" && this.askToStop(false);
    return el("div", { className: "buttons", role: "group", "aria-labelledby": "sure", onkeydown }, el("p", { id: "sure" }, say("sure")), stop, keep);
  }

  askToStop(yes) {
    this.isStopping = yes;
    this.drawHead();
    this.parts.head.querySelector(`[data-key=${yes ? "keep" : "cancel"}]`).focus();
  }

  async send(path, made) {
    made.disabled = true;
    try {
      await post(`runs/${encodeURIComponent(this.story.id)}/${path}`);
      this.problem = "";
    } catch (problem) {
      this.problem = problem.said ?? String(problem);
      made.disabled = false;
      this.drawEnd();
    }
    this.onChanged();
  }

  drawBar() {
    const items = [];
    for (const step of this.story.steps.values()) {
      const working = !step.done && this.story.status === "running";
      items.push(el("li", { className: `model ${working ? "working" : "done"}` },
        el("a", { href: `#step-${step.step}`, data: { key: `bar-${step.step}` }, onclick: goTo }, say("step", { step: step.step }))));
      for (const call of step.calls.values()) {
        const kind = look(call.state);
        items.push(el("li", { className: `call ${kind}`, data: { call: call.id, state: call.state } },
          el("span", { className: "mark", "aria-hidden": "true" }, MARK[kind]), call.name,
          el("span", { className: "unseen" }, ` ${say(`call.${call.state}`)}`)));
      }
    }
    if (!["running", "interrupted"].includes(this.story.status)) {
      const kind = { finished: "done", failed: "bad", cancelled: "quiet" }[this.story.status];
      items.push(el("li", { className: `finish ${kind}` }, say(`status.${this.story.status}`)));
    }
    fill(this.parts.bar, items);
  }

  drawStep(number) {
    const step = this.story.steps.get(number);
    const before = this.steps.get(number);
    const opened = new Set([...(before?.querySelectorAll("details[open]") ?? [])].map((one) => one.dataset.call));
    const drawn = el("section", { className: "step", id: `step-${number}`, tabindex: "-1", hidden: this.isAnswer(step), "aria-labelledby": `step-title-${number}` },
      el("h3", { id: `step-title-${number}` }, say("step", { step: number })),
      step.discarded && el("p", { className: "quiet" }, say("discarded", { reason: step.discarded })),
      step.text && el("p", { className: "said" }, step.text),
      !step.text && !step.done && this.story.status === "running" && el("p", { className: "quiet pulse" }, say("thinking")),
      [...step.calls.values()].map((call) => drawCall(call, opened.has(call.id))),
      step.settled.map((one) => drawSettled(one)));
    if (before) before.replaceWith(drawn);
    else this.parts.steps.append(drawn);
    this.steps.set(number, drawn);
  }

  // The last turn's text stands below as the answer.
  isAnswer(step) {
    return step.calls.size === 0 && step.settled.length === 0 && this.story.answer !== "" && this.story.answer.trim() === step.text.trim();
  }

  drawQuestions() {
    const open = this.story.status === "interrupted" ? this.story.questions : new Map();
    for (const [id, card] of this.cards) if (!open.has(id)) closed(card.asked);
    const late = lateAnswersTo(this.story.id).map((one) => [one.asked.question.id, one.asked.question]);
    const wanted = new Map([...open, ...late]);
    for (const [id, card] of this.cards) {
      if (wanted.has(id)) continue;
      card.element.remove();
      if (!isSending(id)) this.cards.delete(id); // else what becomes of it is not known yet
    }
    keepFocus(this.parts.questions, () => wanted.forEach((question) => this.drawQuestion(question)));
    this.seek();
  }

  // Mark this question alone, and bring it into view as soon as it is drawn; with the focus, if that is asked for.
  goTo(id, withFocus) {
    this.question = id;
    this.sought = id && { withFocus };
    for (const [one, card] of this.cards) card.element.classList.toggle("chosen", one === id);
    this.seek();
  }

  seek() {
    const card = this.sought && this.cards.get(this.question)?.element;
    if (!card) return;
    const { withFocus } = this.sought;
    this.sought = null;
    card.style.scrollMarginTop = `${this.parts.bar.offsetHeight + BAR_GAP_PX}px`; // the bar stays above it
    card.scrollIntoView({ block: withFocus ? "start" : "nearest" });
    if (withFocus) card.focus({ preventScroll: true });
  }

  drawQuestion(question) {
    const before = this.cards.get(question.id);
    const asked = { run_id: this.story.id, question, may_answer: this.mayAnswer(question.id) };
    const late = lateAnswer(question.id);
    const isSame = before && before.late === late && before.asked.question === question && before.asked.may_answer === asked.may_answer;
    if (isSame || isSending(question.id)) return;
    const element = questionCard(asked, () => {
      this.drawQuestions();
      this.onChanged();
    });
    element.classList.toggle("chosen", question.id === this.question);
    if (before) before.element.replaceWith(element);
    if (!element.isConnected) this.parts.questions.append(element);
    this.cards.set(question.id, { element, asked, late });
  }

  drawEnd() {
    const { story } = this;
    const last = [...story.steps.values()].at(-1);
    if (last && this.isAnswer(last) && !this.steps.get(last.step)?.hidden) this.drawStep(last.step);
    fill(this.parts.end,
      this.problem && el("p", { className: "wrong", role: "alert" }, this.problem),
      story.status === "failed" && el("p", { className: "wrong" }, story.error),
      story.answer && el("section", { className: "answer", "aria-labelledby": "answer-title" },
        el("h3", { id: "answer-title" }, say("answer")), el("p", { className: "said" }, story.answer)));
  }
}

// `onPressed` gets the button.
function button(word, onPressed, className = "") {
  return el("button", { type: "button", className, data: { key: word }, onclick: (event) => onPressed(event.currentTarget) }, say(word));
}

function goTo(event) {
  event.preventDefault(); // the hash names the run
  document.querySelector(event.currentTarget.getAttribute("href"))?.focus();
}

function drawCall(call, isOpen) {
  const kind = look(call.state);
  const told = call.message ?? (call.data === undefined || call.data === null ? "" : call.data);
  const took = call.took === null || call.took === undefined ? "" : say("took", { ms: call.took });
  return el("details", { className: `tool ${kind}`, open: isOpen, data: { call: call.id, state: call.state } },
    el("summary", {},
      el("span", { className: "mark", "aria-hidden": "true" }, MARK[kind]),
      el("strong", {}, call.name),
      el("code", {}, call.arguments === null ? "?" : short(call.arguments, 90)),
      el("span", { className: "chip" }, say(`call.${call.state}`), call.code ? ` · ${call.code}` : ""),
      el("span", { className: "quiet" }, call.state === "running" && call.progress ? progress(call.progress) : took)),
    block("arguments", call.arguments), told !== "" && block("result", told));
}

function progress({ message, share }) {
  return share === null ? message : `${Math.round(share * 100)} % · ${message}`;
}

// Long ones scroll: they must be reachable by keyboard.
function block(word, value) {
  return [el("h4", {}, say(word)), el("pre", { tabindex: "0", role: "group", "aria-label": say(word) }, shown(value, 2))];
}

function drawSettled(one) {
  const key = `state.${one.state}`;
  const answer = one.answer === null || one.answer === undefined ? "" : short(one.answer, 200);
  const state = has(key) ? say(key) : one.state;
  const told = one.by ? say("settled", { state, by: one.by }) : say("settled_alone", { state }); // time has no name
  return el("p", { className: "settled" }, told, answer && " ", answer && el("code", {}, answer));
}
