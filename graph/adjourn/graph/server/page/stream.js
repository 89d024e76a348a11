// The events of one run: a stream that is taken up again where it broke, and opened again when the run went on.
// Not EventSource: that can send no token.

import { raw } from "./api.js";

const PAUSES_MS = [300, 700, 1500, 3000, 5000];

export class Follower {
  // `onEvent(event)` for each event, in order and once; `onState(connected)` when the connection comes or goes.
  constructor(runId, onEvent, onState) {
    this.runId = runId;
    this.number = 0;
    this.onEvent = onEvent;
    this.onState = onState;
    this.abort = new AbortController();
    this.wake = () => {};
    this.awake = false;
    this.loop();
  }

  close() {
    this.abort.abort();
    this.wake();
  }

  // There is something new, or there may be.
  nudge() {
    this.awake = true;
    this.wake();
  }

  async loop() {
    let failures = 0;
    while (!this.abort.signal.aborted) {
      try {
        await this.read();
        failures = 0;
        this.onState(true);
        await this.pause();
      } catch (error) {
        if (this.abort.signal.aborted) return;
        this.onState(false, error);
        if (error.status >= 400 && error.status < 500 && error.status !== 429) {
          await this.pause(); // it will not get better by itself
          continue;
        }
        await this.pause(PAUSES_MS[Math.min(failures++, PAUSES_MS.length - 1)]);
      }
    }
  }

  // Until it is nudged, or for so long.
  async pause(ms) {
    if (!this.awake && !this.abort.signal.aborted) {
      await new Promise((resolve) => {
        this.wake = resolve;
        if (ms !== undefined) setTimeout(resolve, ms);
      });
    }
    this.awake = false;
  }

  async read() {
    const headers = { Accept: "text/event-stream", "Last-Event-ID": String(this.number) };
    const path = `runs/${encodeURIComponent(this.runId)}/events`;
    const response = await raw(path, { headers, signal: this.abort.signal });
    if (response.status === 204) return;
    this.onState(true);
    for await (const data of frames(response.body)) this.take(JSON.parse(data));
  }

  take(event) {
    if (event.number !== null) {
      if (event.number <= this.number) return; // had it before the connection broke
      this.number = event.number;
    }
    this.onEvent(event);
    document.dispatchEvent(new CustomEvent("adjourn-event", { detail: event })); // for whoever extends the page
  }
}

// The data of each event of a Server-Sent Events stream.
export async function* frames(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return; // half an event at the end does not count
      rest += value;
      const blocks = rest.split(/\r\n\r\n|\n\n/);
      rest = blocks.pop();
      for (const block of blocks) {
        const lines = block.split(/\r\n|\n/).filter((line) => line.startsWith("data:"));
        if (lines.length) yield lines.map((line) => line.slice(5).replace(/^ /, "")).join("\n");
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
