"use strict";
// Puts new HTML in the place of old, changing as little as possible: elements that did not change stay the same elements,
// so that focus, selection, what was typed and scrolling survive. And puts the viewer's time zone into what it shows.

const FRESH_MS = 2500;
const LANG = document.documentElement.lang;
const dateAndTime = new Intl.DateTimeFormat(LANG, { dateStyle: "medium", timeStyle: "medium" });
const zone = new Intl.DateTimeFormat(LANG, { timeZoneName: "short" })
  .formatToParts(new Date())
  .find((part) => part.type === "timeZoneName")?.value;

// Makes `target` equal to `source`. Children with an id are told apart by it, the others by their place.
function settle(target, source) {
  for (const { name } of [...target.attributes]) {
    if (!source.hasAttribute(name)) target.removeAttribute(name);
  }
  for (const { name, value } of source.attributes) {
    if (target.getAttribute(name) !== value) target.setAttribute(name, value);
  }
  settleChildren(target, source);
}

// The same for what is inside of them. Returns the children that are new.
function settleChildren(target, source) {
  const wanted = new Set(Array.from(source.children, (child) => child.id));
  const known = new Map();
  for (const child of [...target.children]) {
    if (child.id && wanted.has(child.id)) known.set(child.id, child);
    else if (child.id) child.remove();
  }
  const added = [];
  let place = target.firstChild;
  for (const fresh of [...source.childNodes]) {
    const same = place && !place.id && place.nodeName === fresh.nodeName ? place : null;
    const old = fresh.id ? known.get(fresh.id) : same;
    if (old && old === place) place = place.nextSibling;
    else target.insertBefore(old ?? fresh, place);
    if (!old) added.push(fresh);
    else if (fresh.nodeType === Node.TEXT_NODE) old.data = fresh.data;
    else if (!old.isEqualNode(fresh)) settle(old, fresh);
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
  return added;
}

// Times in the viewer's own zone; UTC stays behind them.
function localise(root) {
  for (const time of root.querySelectorAll("time[data-as]")) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    const local = dateAndTime.format(at);
    time.title = `${local} ${zone}\n${time.title}`;
    if (time.dataset.as === "date") time.textContent = local;
    time.removeAttribute("data-as");
  }
}

// Draws the eye to a row that was not there before.
function greet(row) {
  if (row.nodeName !== "TR" || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  row.animate([{ backgroundColor: "var(--wait-ground)" }, { backgroundColor: "transparent" }], FRESH_MS);
}

function show(name, html) {
  const target = document.getElementById(name);
  if (!target) return;
  const source = document.createElement(target.tagName);
  source.innerHTML = html;
  localise(source);
  const added = settleChildren(target, source);
  // What comes first is what the page shows already: only what comes later is news.
  if (target.dataset.live === "yes") added.forEach(greet);
  target.dataset.live = "yes";
}
