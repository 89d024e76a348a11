// The dialog that asks for a token. It covers the page, so it has a language switch of its own.

import { setToken } from "./api.js";
import { el, fill } from "./dom.js";
import { say } from "./texts.js";

const SENDABLE = /^[!-~]+$/; // a header holds nothing else

export class Door {
  // `languages()` makes the language switch; `onEntered` is called when there is a token to try.
  constructor(element, { languages, onEntered }) {
    this.element = element;
    this.languages = languages;
    this.onEntered = onEntered;
    this.isUnknown = false;
    this.typed = "";
  }

  // `isUnknown`: a token was sent, and the server does not know it.
  ask(isUnknown) {
    if (this.element.open) return;
    this.isUnknown = isUnknown;
    this.typed = "";
    this.draw();
    this.element.showModal();
  }

  // Also anew in another language; what was typed stays.
  draw() {
    const wrong = el("p", { className: "wrong", id: "token-wrong", role: "alert" }, this.isUnknown && say("token_unknown"));
    const input = el("input", {
      type: "password", id: "token", autocomplete: "current-password", required: true, autofocus: true, value: this.typed,
      "aria-describedby": wrong.id, "aria-invalid": String(this.isUnknown), oninput: () => (this.typed = input.value),
    });
    const form = el("form", { method: "dialog" },
      el("label", { for: "token" }, say("token")), input, wrong,
      el("button", { type: "submit", className: "primary" }, say("enter")));
    form.addEventListener("submit", (event) => this.enter(event));
    fill(this.element, el("header", {}, el("h2", { id: "door-title" }, say("door")), this.languages()), form);
  }

  enter(event) {
    const token = this.typed.trim();
    if (SENDABLE.test(token)) {
      setToken(token);
      this.onEntered(); // the dialog closes by itself
      return;
    }
    event.preventDefault();
    this.isUnknown = true;
    this.draw();
    this.element.querySelector("input").focus();
  }
}
