// Requests to the server: JSON in and out, the token, and problems as errors with a sentence.

import { has, say } from "./texts.js";

const KEPT = "adjourn.token"; // of this tab alone
let askForToken = () => {};

export class Problem extends Error {
  constructor(status, kind, detail, { problems = {}, state } = {}) {
    super(detail);
    this.status = status;
    this.kind = kind;
    this.problems = problems; // of the fields of an answer
    this.state = state; // of a question that is settled
  }

  // In the reader's language where the page knows the kind; the server's own sentence beside it says more.
  get said() {
    const key = `problem.${this.kind}`;
    return has(key) ? `${say(key)} ${this.kind === "unreachable" ? "" : this.message}`.trim() : this.message;
  }
}

export function onTokenNeeded(ask) {
  askForToken = ask;
}

export function setToken(token) {
  sessionStorage.setItem(KEPT, token);
}

function signed(more, token) {
  return token ? { ...more, Authorization: `Bearer ${token}` } : more;
}

export async function raw(path, options = {}) {
  const token = sessionStorage.getItem(KEPT);
  let response;
  try {
    response = await fetch(path, { ...options, headers: signed(options.headers, token), cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "unreachable", String(error));
  }
  if (response.status === 401 && token === sessionStorage.getItem(KEPT)) askForToken(token !== null); // else there is another by now
  if (!response.ok) throw await problemOf(response);
  return response;
}

async function problemOf(response) {
  let body = {};
  try {
    body = await response.json();
  } catch {
    // a proxy's page, or nothing
  }
  const kind = String(body.type ?? "").replace("urn:adjourn:", "") || "unreachable";
  return new Problem(response.status, kind, body.detail ?? response.statusText, body);
}

export async function get(path) {
  return (await raw(path)).json();
}

export async function post(path, body, more = {}) {
  const options = { method: "POST", headers: { ...more } };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
  }
  return (await raw(path, options)).json();
}

// For an Idempotency-Key. Not crypto.randomUUID: a page that is not on loopback and not on TLS has none.
export function newKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((one) => one.toString(16).padStart(2, "0")).join("");
}
