// The page: lists on the left, asked for every two seconds; the chosen run on the right, live.

import { closed, isSending, isTaken, lateAnswer } from "./answers.js";
import { get, newKey, onTokenNeeded, post } from "./api.js";
import { Door } from "./door.js";
import { $, el, fill, short } from "./dom.js";
import { questionCard } from "./question.js";
import { RunView } from "./runview.js";
import { newStory, setQuestions, take } from "./story.js";
import { Follower } from "./stream.js";
import { currentLanguage, LANGUAGES, say, setLanguage, time } from "./texts.js";

const LOOK_MS = 2000;
const LOOK_HIDDEN_MS = 15000;

const page = {
  me: null, runs: [], questions: [], damaged: [], drawn: "", known: null, // the ids of the questions; null: not asked yet
  chosen: null, // {kind, id} and {story, view, follower, question} of a run, or {asked, shows} of a question alone
  timer: 0, lookedAt: 0, looking: false, again: false,
};

// -- the lists

async function look() {
  if (page.looking) {
    page.again = true;
    return;
  }
  page.looking = true;
  clearTimeout(page.timer);
  const at = performance.now();
  try {
    page.me ??= await get("me");
    const [inbox, runs] = await Promise.all([get("inbox"), get("runs?limit=50")]);
    page.questions = inbox.questions;
    page.lookedAt = at;
    page.runs = runs.runs;
    page.damaged = [...new Set([...inbox.damaged, ...runs.damaged])];
    connected(true);
    announceNew();
    drawLists();
    tendToChosen();
  } catch (problem) {
    if (problem.status !== 401) connected(false);
  } finally {
    page.looking = false;
    const wait = page.again ? 0 : document.hidden ? LOOK_HIDDEN_MS : LOOK_MS;
    page.again = false;
    page.timer = setTimeout(look, wait);
  }
}

function connected(yes) {
  const text = say(yes ? "live" : "offline");
  const place = $("connection");
  place.className = yes ? "on" : "off";
  if (place.textContent !== text) place.textContent = text;
}

function announceNew() {
  const ids = new Set(page.questions.map((one) => one.question.id));
  if (page.known) {
    const fresh = page.questions.find((one) => !page.known.has(one.question.id));
    if (fresh) announce(say("said.question", { reason: fresh.question.reason || say(`type.${fresh.question.type}`) }));
  }
  page.known = ids;
  document.title = ids.size ? `(${ids.size}) Adjourn` : "Adjourn";
}

function announce(text) {
  $("announcer").textContent = text;
}

function drawLists(force = false) {
  const { chosen } = page;
  const now = JSON.stringify([page.me, page.questions, page.runs, page.damaged, currentLanguage(), chosen?.id, chosen?.question]);
  if (now === page.drawn && !force) return;
  page.drawn = now;
  $("person").textContent = page.me ? say("you_are", { person: page.me.person ?? say("unnamed") }) : "";
  $("graph").textContent = page.me?.graph ?? "";
  const waiting = page.questions.map((one) => entry(`q-${one.question.id}`, one.mine ? `#run/${one.run_id}/${one.question.id}` : `#question/${one.question.id}`,
    one.question.id === (chosen?.kind === "question" ? chosen.id : chosen?.question), one.question.reason || say(`type.${one.question.type}`), "waiting",
    [one.question.tool, one.started_by, time(one.asked_at)].filter(Boolean).join(" · ")));
  fill($("waiting"), waiting.length || !page.me ? waiting : el("li", { className: "hint" }, say("none_waiting")));
  const runs = page.runs.map((one) => entry(`r-${one.id}`, `#run/${one.id}`, chosen?.kind === "run" && one.id === chosen.id, short(one.input, 90), one.status,
    [say(`status.${one.status}`), one.started_by, time(one.created_at)].filter(Boolean).join(" · ")));
  runs.push(...page.damaged.map((why) => el("li", { className: "hint" }, say("damaged", { why }))));
  fill($("runs"), runs.length || !page.me ? runs : el("li", { className: "hint" }, say(page.me.sees_all ? "no_runs" : "no_runs_of_yours")));
}

function entry(key, href, isCurrent, title, status, facts) {
  const again = () => href === location.hash && choose(); // no change of the hash tells of it
  return el("li", {}, el("a", { href, data: { key }, className: status, "aria-current": isCurrent && "true", onclick: again },
    el("span", { className: `dot ${status}`, "aria-hidden": "true" }), el("span", { className: "title" }, title),
    el("small", { className: "quiet" }, facts)));
}

// -- the chosen run

// A link may have been cut in the middle of a character.
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function choose() {
  const [kind, id, question] = location.hash.slice(1).split("/").map(decoded);
  if (page.chosen?.kind !== kind || page.chosen.id !== id) {
    page.chosen?.follower?.close();
    page.chosen = null;
    if (kind === "run" && id) openRun(id);
    else if (kind === "question" && id) openQuestion(id);
    else fill($("run"), el("p", { className: "hint empty" }, say("choose")));
  }
  if (page.chosen) bringIntoView(page.chosen, question);
  drawLists(true);
}

// Where the columns stand one below the other, the lists would hide what was chosen; beside them nothing jumps but to a
// question that is out of sight.
function bringIntoView(chosen, question) {
  const isBelow = $("run").offsetTop > $("lists").offsetTop;
  if (isBelow) {
    $("run").focus({ preventScroll: true });
    $("run").scrollIntoView();
  }
  if (chosen.kind !== "run") return;
  chosen.question = question;
  chosen.view.goTo(question, isBelow);
}

function drawRun(chosen) {
  chosen.view = new RunView($("run"), chosen.story, { mayAnswer, onChanged: changed, question: chosen.question });
}

function openRun(id) {
  const chosen = { kind: "run", id, story: newStory(id), frame: 0, changed: new Set(), heardAt: 0 };
  page.chosen = chosen;
  drawRun(chosen);
  chosen.follower = new Follower(id, (event) => heard(chosen, event), (yes, problem) => {
    if (page.chosen !== chosen) return;
    if (problem?.status === 404) fill($("run"), el("p", { className: "hint empty" }, say("no_such_run", { id })));
    else if (problem?.status !== 401) connected(yes);
  });
}

function heard(chosen, event) {
  if (page.chosen !== chosen) return;
  take(chosen.story, event);
  chosen.heardAt = performance.now();
  chosen.changed.add(event.step);
  if (event.type === "run_finished" || event.type === "run_failed") announce(say("said.ended", { status: say(`status.${chosen.story.status}`) }));
  if (event.type === "interrupt_answered" || event.type === "loop_interrupt" || event.type.startsWith("run_")) look();
  // one drawing for all that came since the last frame; a hidden tab has no frames
  if (!chosen.frame) chosen.frame = document.hidden ? setTimeout(() => drawChosen(chosen), 50) : requestAnimationFrame(() => drawChosen(chosen));
}

function drawChosen(chosen) {
  chosen.frame = 0;
  if (page.chosen !== chosen) return;
  for (const step of chosen.changed) if (chosen.story.steps.has(step)) chosen.view.drawStep(step);
  chosen.changed.clear();
  chosen.view.drawRest();
}

function mayAnswer(id) {
  return page.questions.find((one) => one.question.id === id)?.may_answer ?? true; // the server has the last word
}

function changed() {
  page.chosen?.follower?.nudge();
  look();
}

// The lists may know that the chosen run went on, or that a question of it has more approvals now.
function tendToChosen() {
  const { chosen } = page;
  if (!chosen) return;
  if (chosen.kind === "question") {
    drawQuestion(chosen);
    return;
  }
  const run = page.runs.find((one) => one.id === chosen.id);
  if (!run || run.last_event > chosen.follower.number || run.status === "running") chosen.follower.nudge();
  // asked before the last event was heard, the inbox may not know of a question yet
  const mine = page.questions.filter((one) => one.run_id === chosen.id);
  if (page.lookedAt > chosen.heardAt) setQuestions(chosen.story, mine.map((one) => one.question));
  if (!chosen.frame) chosen.view.drawQuestions(); // else all is drawn soon, the steps above them first
}

// A question of somebody else's run: what is asked is all that is shown of it.
function openQuestion(id) {
  page.chosen = { kind: "question", id, asked: null, shows: null };
  drawQuestion(page.chosen);
}

function drawQuestion(chosen) {
  const listed = page.questions.find((one) => one.question.id === chosen.id);
  if (!listed && chosen.asked) closed(chosen.asked);
  chosen.asked = listed ?? lateAnswer(chosen.id)?.asked ?? chosen.asked;
  const shows = whatToShow(chosen.id, listed);
  if (shows === chosen.shows) return; // a form that is drawn anew loses the focus
  chosen.shows = shows;
  if (shows !== "open" && shows !== "late") {
    fill($("run"), el("p", { className: "hint empty" }, shows && say(shows)));
    return;
  }
  const { asked } = chosen;
  const facts = [asked.run_id, asked.started_by && say("started_by", { by: asked.started_by })].filter(Boolean).join(" · ");
  fill($("run"), el("article", {}, el("p", { className: "facts quiet" }, facts), questionCard(asked, () => {
    drawQuestion(chosen);
    look();
  })));
}

function whatToShow(id, listed) {
  if (lateAnswer(id)) return "late";
  if (listed || isSending(id)) return "open";
  if (!page.known) return ""; // the list is not here yet
  return isTaken(id) ? "sent" : "gone";
}

// -- what stands still but for the language

function drawFrame() {
  document.documentElement.lang = currentLanguage() === "zh" ? "zh-CN" : "en";
  $("skip").textContent = say("skip");
  $("skip").onclick = (event) => {
    event.preventDefault(); // the hash names the run
    $("run").focus();
  };
  $("waiting-title").textContent = say("waiting");
  $("runs-title").textContent = say("runs");
  $("lists").setAttribute("aria-label", say("runs"));
  fill($("language"), languages());
  drawComposer();
}

function languages() {
  return el("div", { className: "languages", role: "group", "aria-label": say("language") }, Object.entries(LANGUAGES).map(([word, name]) =>
    el("button", { type: "button", lang: word, data: { key: `lang-${word}` }, "aria-pressed": String(word === currentLanguage()), onclick: () => speak(word) }, name)));
}

function speak(word) {
  setLanguage(word);
  drawFrame();
  drawLists(true);
  if (page.chosen?.kind === "run") drawRun(page.chosen);
  else if (page.chosen) openQuestion(page.chosen.id);
  else choose();
  connected($("connection").className === "on");
  if ($("door").open) door.draw();
}

function drawComposer() {
  const typed = $("message")?.value ?? "";
  const input = el("textarea", { id: "message", rows: 2, data: { key: "message" }, value: typed });
  const button = el("button", { type: "submit", data: { key: "start" } }, say("start"));
  const wrong = el("p", { className: "wrong", role: "alert" });
  let key = newKey(); // sent again after a failure, it starts nothing twice
  $("composer").onsubmit = async (event) => {
    event.preventDefault();
    if (!input.value.trim() || button.disabled) return;
    button.disabled = true;
    wrong.textContent = "";
    try {
      const run = await post("runs", { message: input.value }, { "Idempotency-Key": key });
      key = newKey();
      input.value = "";
      location.hash = `#run/${run.id}`;
      look();
    } catch (problem) {
      wrong.textContent = problem.said ?? String(problem);
    }
    button.disabled = false;
  };
  input.oninput = () => (key = newKey());
  input.onkeydown = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $("composer").requestSubmit();
  };
  fill($("composer"), el("label", { for: "message" }, say("message")), input, button, wrong);
}

const door = new Door($("door"), { languages, onEntered: changed });
onTokenNeeded((isUnknown) => door.ask(isUnknown));
addEventListener("hashchange", choose);
addEventListener("online", changed);
document.addEventListener("visibilitychange", () => !document.hidden && changed());
drawFrame();
choose();
look().then(choose); // the lists that come now push down what was chosen
