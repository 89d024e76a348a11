// One field of a form: from its JSON Schema to a control, and from the control to a value.

import { el, shown } from "./dom.js";
import { has, say } from "./texts.js";

const FEW = 4; // choices that are shown side by side rather than in a list
let serial = 0;

export class Wrong extends Error {}

// What is wrong is said at its field already.
class Marked extends Wrong {
  constructor() {
    super(say("marked"));
  }
}

// `schema` with its `$ref` into `whole` followed; what stands beside the reference wins.
export function resolved(schema, whole) {
  let seen = schema ?? {};
  for (let depth = 0; seen.$ref && depth < 20; depth++) {
    const { $ref, ...beside } = seen;
    seen = { ...(whole.$defs?.[$ref.replace("#/$defs/", "")] ?? {}), ...beside };
  }
  return seen;
}

// A schema that also takes null, without the null.
function plain(schema, whole) {
  const seen = resolved(schema, whole);
  const kinds = (seen.anyOf ?? []).filter((one) => resolved(one, whole).type !== "null");
  if (seen.anyOf && kinds.length === 1) {
    const { anyOf, ...beside } = seen;
    return { schema: { ...resolved(kinds[0], whole), ...beside }, nullable: kinds.length < anyOf.length };
  }
  return { schema: seen, nullable: false };
}

function choicesOf(schema, whole) {
  if ("const" in schema) return [schema.const];
  if (schema.enum) return schema.enum;
  if (schema.type === "boolean") return [true, false];
  if (schema.anyOf) {
    const each = schema.anyOf.map((one) => choicesOf(resolved(one, whole), whole));
    return each.some((one) => one === null) ? null : each.flat();
  }
  return schema.type === "null" ? [null] : null;
}

const WORDS = new Map([[true, "yes"], [false, "no"], [null, "nothing"]]);
const worded = (value) => (WORDS.has(value) ? say(WORDS.get(value)) : shown(value));

// Gives {element, read(), restore(raw), raw(), complain(path, why)}.
// `read` gives undefined where an optional field is left empty, and throws `Marked`.
export function field(name, declared, whole, { required, value, path = name }) {
  const { schema, nullable } = plain(declared, whole);
  const start = value !== undefined ? value : schema.default;
  const id = `field-${++serial}`;
  const error = el("p", { className: "wrong", id: `${id}-wrong`, hidden: true });
  const made = control(schema, whole, { id, required, start, nullable, path, name });
  const given = schema.title && !isMadeFromName(schema.title, name) ? schema.title : null;
  const title = given ?? (has(`field.${name}`) ? say(`field.${name}`) : name);
  const marks = [
    given && path !== "" && el("code", {}, name),
    !made.isObject && el("span", { className: "quiet" }, say(required ? "required" : "optional")),
  ];
  const hints = [schema.description, made.hint, bounds(schema)].filter(Boolean);
  const hint = el("p", { className: "hint", id: `${id}-hint` }, hints.join(" "));
  made.describe?.(`${id}-hint ${id}-wrong`);
  const head = made.isGroup ? el("legend", {}, title, " ", marks) : el("label", { for: id }, title, " ", marks);
  const parts = made.isGroup ? [head, hints.length > 0 && hint, ...made.elements, error] : [head, ...made.elements, hints.length > 0 && hint, error];
  const element = el(made.isGroup ? "fieldset" : "div", { className: "field", data: { path } }, parts);

  function complain(why) {
    error.textContent = why;
    error.hidden = !why;
    made.invalid(Boolean(why));
  }

  return {
    element, path, raw: made.raw, restore: made.restore,
    complain(where, why) {
      if (where === path) complain(why);
      else made.complain?.(where, why);
    },
    clear() {
      complain("");
      made.clear?.();
    },
    read() {
      try {
        const found = made.read();
        if (found === undefined && required) throw new Wrong(say("wrong.required"));
        if (found !== undefined) check(found, schema);
        return found;
      } catch (wrong) {
        if (!(wrong instanceof Wrong) || wrong instanceof Marked) throw wrong; // a field within this one says it
        complain(wrong.message);
        throw new Marked();
      }
    },
  };
}

// pydantic makes "Service Id" of service_id: the name itself says the same, and is what people know
function isMadeFromName(title, name) {
  return title.toLowerCase().replace(/\s/g, "") === name.toLowerCase().replace(/_/g, "");
}

function bounds(schema) {
  const { minimum: low, maximum: high } = schema;
  return low === undefined && high === undefined ? "" : `${low ?? ""}–${high ?? ""}`;
}

// What can be said in the reader's language before the server says it in its own.
function check(value, schema) {
  const { minimum = -Infinity, maximum = Infinity, minLength = 0, maxLength = Infinity, pattern } = schema;
  if (typeof value === "number" && (value < minimum || value > maximum)) throw new Wrong(say("wrong.range", { range: bounds(schema) }));
  if (typeof value !== "string") return;
  const length = [...value].length;
  if (length < minLength) throw new Wrong(say("wrong.short", { limit: minLength }));
  if (length > maxLength) throw new Wrong(say("wrong.long", { limit: maxLength }));
  if (pattern && !matches(pattern, value)) throw new Wrong(say("wrong.pattern", { pattern }));
}

function matches(pattern, value) {
  try {
    return new RegExp(pattern, "u").test(value);
  } catch {
    return true; // not a pattern that browsers know: the server has the last word
  }
}

function control(schema, whole, how) {
  if (schema.writeOnly) return secret(schema, how);
  const choices = choicesOf(schema, whole);
  if (choices) return choices.length <= FEW ? radios(choices, how) : list(choices, how);
  const kind = Array.isArray(schema.type) ? schema.type.find((one) => one !== "null") : schema.type;
  if (kind === "integer" || kind === "number") return number(schema, kind, how);
  if (kind === "string") return text(schema, how);
  if (kind === "object" && schema.properties && how.path.split(".").length < 6) return object(schema, whole, how);
  if (kind === "array") {
    const items = plain(schema.items ?? {}, whole).schema;
    const listed = choicesOf(items, whole);
    if (listed) return checks(listed, how);
    if (items.type === "string") return lines(how);
  }
  return json(kind === undefined && !schema.anyOf && !schema.oneOf, how);
}

function radios(choices, { id, required, start }) {
  const inputs = choices.map((value, place) =>
    el("input", { type: "radio", name: id, id: `${id}-${place}`, value: String(place), checked: start !== undefined && same(value, start), required }));
  const labels = inputs.map((input, place) => el("label", { className: "choice", for: input.id }, input, el("span", {}, worded(choices[place]))));
  const chosen = () => inputs.find((one) => one.checked);
  return {
    isGroup: true,
    elements: [el("div", { className: "choices" }, labels)],
    read: () => (chosen() ? choices[Number(chosen().value)] : undefined),
    raw: () => chosen()?.value,
    restore: (raw) => inputs.forEach((one) => (one.checked = one.value === raw)),
    invalid: (yes) => inputs.forEach((one) => one.setAttribute("aria-invalid", yes)),
    describe: (ids) => inputs.forEach((one) => one.setAttribute("aria-describedby", ids)),
  };
}

function list(choices, { id, required, start }) {
  const options = choices.map((value, place) => el("option", { value: place, selected: start !== undefined && same(value, start) }, worded(value)));
  const input = el("select", { id, required }, el("option", { value: "" }, say("pick")), options);
  return { ...simple(input), read: () => (input.value === "" ? undefined : choices[Number(input.value)]) };
}

function number(schema, kind, { id, required, start }) {
  const input = el("input", {
    type: "number", id, required, value: start ?? "", min: schema.minimum, max: schema.maximum,
    step: kind === "integer" ? 1 : "any", inputmode: kind === "integer" ? "numeric" : "decimal",
  });
  return {
    ...simple(input),
    read() {
      if (input.validity.badInput) throw new Wrong(say("wrong.number"));
      if (input.value.trim() === "") return undefined;
      const value = Number(input.value);
      if (!Number.isFinite(value)) throw new Wrong(say("wrong.number"));
      if (kind === "integer" && !Number.isInteger(value)) throw new Wrong(say("wrong.integer"));
      return value;
    },
  };
}

function text(schema, { id, required, start, name }) {
  const isLong = (schema.maxLength ?? 0) > 120 || name === "reason" || (typeof start === "string" && (start.length > 80 || start.includes("\n")));
  const input = isLong
    ? el("textarea", { id, rows: 3, required, value: start ?? "" })
    : el("input", { type: "text", id, required, value: start ?? "", autocomplete: "off" });
  return { ...simple(input), read: () => (input.value === "" ? undefined : input.value) };
}

// `said` makes the complaint: the browser's own quotes what was typed
function parsed(words, said = (why) => say("wrong.json", { why })) {
  try {
    return JSON.parse(words);
  } catch (error) {
    throw new Wrong(said(error.message));
  }
}

// what only a person knows: not shown while it is typed, and never offered again
function secret(schema, { id, required }) {
  const input = el("input", { type: "password", id, required, autocomplete: "off" });
  const read = () => (input.value === "" ? undefined : schema.type === "string" ? input.value : parsed(input.value, () => say("wrong.secret")));
  return { ...simple(input), raw: () => "", read };
}

function lines({ id, required, start }) {
  const input = el("textarea", { id, rows: 3, required, value: (start ?? []).join("\n") });
  const read = () => {
    const found = input.value.split("\n").filter((one) => one !== "");
    return found.length ? found : undefined;
  };
  return { ...simple(input), hint: say("one_a_line"), read };
}

function checks(choices, { id, start }) {
  const inputs = choices.map((value, place) =>
    el("input", { type: "checkbox", id: `${id}-${place}`, value: String(place), checked: (start ?? []).some((one) => same(one, value)) }));
  const labels = inputs.map((input, place) => el("label", { className: "choice", for: input.id }, input, el("span", {}, worded(choices[place]))));
  return {
    isGroup: true,
    elements: [el("div", { className: "choices" }, labels)],
    read: () => {
      const found = inputs.filter((one) => one.checked).map((one) => choices[Number(one.value)]);
      return found.length ? found : undefined;
    },
    raw: () => inputs.map((one) => one.checked),
    restore: (raw) => inputs.forEach((one, place) => (one.checked = Boolean(raw?.[place]))),
    invalid: (yes) => inputs.forEach((one) => one.setAttribute("aria-invalid", yes)),
    describe: (ids) => inputs.forEach((one) => one.setAttribute("aria-describedby", ids)),
  };
}

function json(isFree, { id, required, start }) {
  const input = el("textarea", { id, rows: 4, required, value: start === undefined ? "" : shown(start, 2), spellcheck: "false", className: "code" });
  return {
    ...simple(input),
    hint: say(isFree ? "free" : "as_json"),
    read() {
      if (input.value.trim() === "") return undefined;
      try {
        return parsed(input.value);
      } catch (wrong) {
        if (isFree) return input.value;
        throw wrong;
      }
    },
  };
}

function object(schema, whole, { path, start }) {
  const inner = group(schema, whole, { path, values: start });
  return {
    isGroup: true,
    isObject: true,
    elements: [inner.element],
    read: inner.read,
    raw: inner.raw,
    restore: inner.restore,
    invalid: () => {},
    complain: inner.complain,
    clear: inner.clear,
  };
}

function simple(input) {
  return {
    elements: [input],
    raw: () => input.value,
    restore: (raw) => (input.value = raw ?? ""),
    invalid: (yes) => input.setAttribute("aria-invalid", yes),
    describe: (ids) => input.setAttribute("aria-describedby", ids),
  };
}

// The fields of an object: `read` gives the object and throws `Marked` after each wrong field was marked.
export function group(schema, whole, { path = "", values = {} } = {}) {
  const required = new Set(schema.required ?? []);
  const fields = Object.entries(schema.properties ?? {}).map(([name, one]) => [
    name,
    field(name, one, whole, { required: required.has(name), value: values?.[name], path: path ? `${path}.${name}` : name }),
  ]);
  const each = (work) => fields.forEach(([name, one]) => work(one, name));
  return {
    element: el("div", { className: "fields" }, fields.map(([, one]) => one.element)),
    raw: () => Object.fromEntries(fields.map(([name, one]) => [name, one.raw()])),
    restore: (raw) => each((one, name) => raw && name in raw && one.restore(raw[name])),
    complain: (where, why) => each((one) => (where === one.path || where.startsWith(`${one.path}.`)) && one.complain(where, why)),
    clear: () => each((one) => one.clear()),
    read() {
      const found = {};
      let wrong = null;
      each((one, name) => {
        try {
          const value = one.read();
          if (value !== undefined) found[name] = value;
        } catch (error) {
          if (!(error instanceof Wrong)) throw error;
          wrong = error;
        }
      });
      if (wrong) throw wrong;
      return found;
    },
  };
}

const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);
