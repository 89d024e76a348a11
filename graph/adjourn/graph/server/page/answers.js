// What becomes of the answers that are typed on this page. No DOM in here.

import { post } from "./api.js";
import { say } from "./texts.js";

const drafts = new Map(); // question id -> what was typed: kept while the page is open, whatever is drawn anew
const sending = new Set(); // question ids
const taken = new Set(); // ids of questions whose answer from this page the server took
const late = new Map(); // question id -> {asked, problem} where the question was settled before this page's answer

export const draftOf = (id) => drafts.get(id);
export const keep = (id, typed) => drafts.set(id, typed);
export const isSending = (id) => sending.has(id);
export const isTaken = (id) => taken.has(id);
export const lateAnswer = (id) => late.get(id);
export const lateAnswersTo = (runId) => [...late.values()].filter((one) => one.asked.run_id === runId);

// `asked` is {run_id, question}. Throws the `Problem` when the answer was not taken.
export async function send(asked, answer) {
  const { id } = asked.question;
  sending.add(id);
  try {
    await post(`runs/${encodeURIComponent(asked.run_id)}/answers`, { answers: { [id]: answer } });
    taken.add(id);
    drafts.delete(id);
  } catch (problem) {
    if (isSettled(problem)) late.set(id, { asked, problem });
    throw problem;
  } finally {
    sending.delete(id);
  }
}

// A question is not open any more: what was typed for it and not sent is too late, and must not vanish under the hands.
export function closed(asked) {
  const { id } = asked.question;
  if (drafts.has(id) && !sending.has(id) && !late.has(id)) late.set(id, { asked });
}

export function forget(id) {
  drafts.delete(id);
  late.delete(id);
}

// To who may see the run no more, a question that is settled is as if it had never been: 404.
function isSettled({ status, kind }) {
  return status === 404 || ["already_answered", "expired", "not_resumable"].includes(kind);
}

// Why an answer was too late. A run that was stopped settles its questions too, and nobody was first.
export function whyLate({ problem }) {
  const isTold = problem?.kind === "expired" || (problem?.kind === "already_answered" && problem.state === "answered");
  return say(isTold ? `problem.${problem.kind}` : "gone");
}
