// Elements without markup in text: whatever comes from models, tools and people goes in as text nodes.

export function el(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "data") Object.assign(made.dataset, value);
    else if (name === "value") made.value = value;
    else made.setAttribute(name === "className" ? "class" : name, value === true ? "" : String(value));
  }
  made.append(...children.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== false));
  return made;
}

// Put children in place of those that are there.
export function fill(parent, ...children) {
  keepFocus(parent, () => parent.replaceChildren(...children.flat(Infinity).filter(Boolean)));
}

// Draw something anew in `parent`: what had the focus gives it to the element of the same key.
export function keepFocus(parent, draw) {
  const had = document.activeElement;
  const key = parent.contains(had) ? had.dataset.key : undefined;
  draw();
  if (key !== undefined && !had.isConnected) parent.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus();
}

export const $ = (id) => document.getElementById(id);

// A value as people read it: text as it is, the rest as JSON.
export function shown(value, indent) {
  return typeof value === "string" ? value : JSON.stringify(value, null, indent);
}

export function short(value, limit = 160) {
  const text = shown(value) ?? "";
  return text.length > limit ? `${text.slice(0, limit - 1)}…` : text;
}
