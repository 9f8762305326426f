"use strict";
// Elements of the page, made of text alone: nothing that a run is called is ever read as mark-up.

/** Make an element with properties, and children that are elements or text. */
function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "data") Object.assign(made.dataset, value);
    else made[name] = value;
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

/** Put children into a parent, moving none that is in its place already: a reader's scroll and focus stay. */
function settle(parent, children) {
  const before = [...parent.childNodes];
  if (before.length === children.length && before.every((child, i) => child === children[i])) return;
  parent.replaceChildren(...children);
}

/** Make a labelled list to choose from, and say what is chosen. */
function selection(label, chosen) {
  const select = element("select", { ariaLabel: label });
  select.addEventListener("change", () => chosen(select.value));
  return { node: element("label", {}, label, select), select };
}

/** Offer names [[value, text], …] and keep what is chosen, if it is still there; return it. */
function offer(select, names, wanted) {
  const value = names.some(([name]) => name === wanted) ? wanted : names[0][0];
  const shown = JSON.stringify(names);
  if (select.dataset.shown !== shown) {
    select.replaceChildren(...names.map(([name, text]) => element("option", { value: name }, text)));
    select.dataset.shown = shown;
  }
  select.value = value;
  return value;
}
