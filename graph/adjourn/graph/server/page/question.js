// One question as a form: open, or settled before what was typed could be sent.

import { draftOf, forget, keep, lateAnswer, send, whyLate } from "./answers.js";
import { el, shown } from "./dom.js";
import { field, group, Wrong } from "./fields.js";
import { has, say, time } from "./texts.js";

const WRONG = '[aria-invalid="true"]';

// `asked` is {run_id, question, may_answer}; `onSettled` is called when the answer was taken or somebody was first, and
// when the reader is done with what came too late.
export function questionCard(asked, onSettled) {
  const { question } = asked;
  const late = lateAnswer(question.id);
  const head = `q-${question.id}`;
  const card = el("section", { className: late ? "question late" : "question", tabindex: "-1", "aria-labelledby": head, data: { question: question.id } },
    el("header", {},
      el("h3", { id: head }, say(`type.${question.type}`)),
      el("span", { className: "chip waiting" }, question.path ? `${question.path} · ` : "", question.tool || "?")),
    question.reason && el("p", { className: "reason" }, question.reason),
    context(question),
    question.expires_at && !late && el("p", { className: "hint" }, say("expires", { at: time(question.expires_at) })),
    approvals(question.approvals));
  if (late) card.append(tooLate(question, whyLate(late), onSettled));
  else card.append(asked.may_answer ? form(asked, onSettled) : el("p", { className: "hint" }, say("not_yours")));
  return card;
}

// What was typed, to be read and copied.
function tooLate(question, why, onSettled) {
  const body = bodyOf(question);
  body.restore(draftOf(question.id));
  for (const one of body.element.querySelectorAll("input, select, textarea")) {
    if (one.matches("select, [type=radio], [type=checkbox]")) one.disabled = true;
    else one.readOnly = true;
  }
  const close = () => {
    forget(question.id);
    onSettled();
  };
  // the key of the button that sent it: it takes over the focus
  const button = el("button", { type: "button", data: { key: `send-${question.id}` }, onclick: close }, say("close"));
  const stay = (event) => event.preventDefault(); // Enter in its only field would send it
  return el("form", { onsubmit: stay }, body.element, el("p", { className: "wrong", role: "alert" }, why), el("div", { className: "buttons" }, button));
}

function context(question) {
  const value = question.type === "custom" ? question.payload?.value : question.arguments;
  if (value === undefined || value === question.reason || (value && typeof value === "object" && !Object.keys(value).length)) return null;
  return el("dl", { className: "arguments" }, typeof value === "object" && value !== null
    ? Object.entries(value).map(([name, one]) => [el("dt", {}, name), el("dd", {}, shown(one))])
    : [el("dd", {}, shown(value))]);
}

function approvals(record) {
  if (!record) return null;
  const names = record.given.map((one) => one.by).join(", ");
  const told = say("approvals", { given: record.given.length, needed: record.needed });
  const who = record.of.length ? ` ${say("approvers", { of: record.of.join(", ") })}` : "";
  return el("p", { className: "hint" }, told, names && ` (${names})`, who);
}

function form(asked, onSettled) {
  const { question } = asked;
  const body = bodyOf(question);
  const status = el("p", { className: "wrong", role: "alert" });
  const button = el("button", { type: "submit", className: "primary", data: { key: `send-${question.id}` } });
  const label = () => {
    const key = `send.${body.action?.()}`;
    button.textContent = say(has(key) ? key : "send");
  };
  label();
  const made = el("form", { novalidate: true }, body.element, status, el("div", { className: "buttons" }, button));
  body.restore(draftOf(question.id));
  label();
  made.addEventListener("input", () => {
    keep(question.id, body.raw());
    label();
  });
  made.addEventListener("submit", async (event) => {
    event.preventDefault();
    body.clear();
    status.textContent = "";
    let answer;
    try {
      answer = body.read();
    } catch (error) {
      if (!(error instanceof Wrong)) throw error;
      status.textContent = error.message;
      made.querySelector(WRONG)?.focus();
      return;
    }
    button.disabled = true;
    button.textContent = say("sending");
    try {
      await send(asked, answer);
      onSettled();
    } catch (problem) {
      button.disabled = false;
      label();
      if (!lateAnswer(question.id)) tell(problem, status, body);
      made.querySelector(`${WRONG}, [type="submit"]`).focus(); // a button that was disabled has lost it
      if (lateAnswer(question.id) || problem.status === 409) onSettled();
    }
  });
  return made;
}

function tell(problem, status, body) {
  const places = Object.entries(problem.problems ?? {});
  for (const [place, why] of places) body.complain(place, why);
  const unplaced = places.filter(([place]) => place === "" || !body.knows(place)).map(([, why]) => why);
  status.textContent = places.length ? [say("wrong_answer"), ...unplaced].join(" ") : problem.said ?? String(problem);
}

function bodyOf(question) {
  const schema = question.response_schema ?? {};
  if (schema.oneOf) return verdict(question, schema);
  if (schema.type === "object" && schema.properties) return known(group(schema, schema));
  return known(single(schema));
}

// Anything that is not an object: one field that is the whole answer.
function single(schema) {
  const only = field("answer", schema, schema, { required: true, path: "" });
  return {
    element: only.element, read: only.read, raw: only.raw, clear: only.clear,
    restore: (raw) => raw !== undefined && only.restore(raw),
    complain: (where, why) => only.complain(where, why),
  };
}

function known(body) {
  return { ...body, knows: (place) => body.element.querySelector(`[data-path="${CSS.escape(place)}"]`) !== null };
}

// One of several actions, each with fields of its own.
function verdict(question, schema) {
  const name = `action-${question.id}`;
  const variants = schema.oneOf.map((one) => {
    const { action, ...properties } = one.properties;
    const rest = { ...one, properties, required: (one.required ?? []).filter((word) => word !== "action") };
    const fields = group(rest, schema, { values: { arguments: question.arguments } });
    const word = one.title ?? action.const;
    const input = el("input", { type: "radio", name, value: word, id: `${name}-${word}` });
    const panel = el("div", { className: "panel", hidden: true }, fields.element);
    return { word, input, fields, panel };
  });
  const current = () => variants.find((one) => one.input.checked);
  const show = () => variants.forEach((one) => (one.panel.hidden = !one.input.checked || !one.fields.element.childElementCount));
  const choices = variants.map((one) =>
    el("label", { className: "choice tall", for: one.input.id, data: { action: one.word } }, one.input,
      el("span", {}, el("strong", {}, say(`action.${one.word}`)), el("small", {}, say(`hint.${one.word}`)))));
  const element = el("fieldset", { className: "field", data: { path: "action" }, onchange: show },
    el("legend", {}, say("decide")), el("div", { className: "choices" }, choices), variants.map((one) => one.panel));
  const body = {
    element,
    action: () => current()?.word,
    raw: () => ({ action: current()?.word, fields: variants.map((one) => one.fields.raw()) }),
    restore(raw) {
      if (!raw) return;
      variants.forEach((one, place) => {
        one.input.checked = one.word === raw.action;
        one.fields.restore(raw.fields[place]);
      });
      show();
    },
    clear: () => variants.forEach((one) => one.fields.clear()),
    complain: (where, why) => current()?.fields.complain(where.startsWith("arguments") || !isField(where) ? where : `arguments.${where}`, why),
    read() {
      const chosen = current();
      if (!chosen) {
        variants[0].input.focus();
        throw new Wrong(say("wrong.action"));
      }
      return { action: chosen.word, ...chosen.fields.read() };
    },
  };
  // what the tool's own types say is told by the argument's name alone
  const isField = (where) => element.querySelector(`[data-path="${CSS.escape(`arguments.${where}`)}"]`) !== null;
  return { ...body, knows: (place) => isField(place) || element.querySelector(`[data-path="${CSS.escape(place)}"]`) !== null };
}
