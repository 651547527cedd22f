"use strict";
// Keeps the page as it is on the server: takes the parts that changed (see /events) and puts them in place. Elements
// that did not change stay the same elements, so that focus, selection and scrolling survive.

const RETRY_MS = 5000;
const FRESH_MS = 2500;
let events = null;

// Makes `target` equal to `source`, changing as little as possible. Children with an id are told apart by it, the
// others by their place.
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
  const added = settleChildren(target, source);
  // What comes first is what the page shows already: only what comes later is news.
  if (name === "rows" && target.dataset.live === "yes") added.forEach(greet);
  target.dataset.live = "yes";
}

function say(connected) {
  const live = document.getElementById("live");
  live.hidden = false;
  live.className = connected ? "live on" : "live off";
  live.textContent = connected ? "Live" : "Not live";
  const notes = document.getElementById("notes");
  if (connected) {
    notes.replaceChildren();
  } else if (!notes.firstChild) {
    const note = document.createElement("p");
    note.className = "status bad";
    const what = document.createElement("strong");
    what.textContent = "Connection lost";
    const since = new Date().toLocaleTimeString();
    note.append(what, ` This page shows the state of ${since}. Trying again…`);
    notes.append(note);
  }
}

function listen() {
  const source = new EventSource("/events" + location.search);
  events = source;
  source.addEventListener("open", () => say(true));
  source.addEventListener("parts", (event) => {
    for (const [name, html] of Object.entries(JSON.parse(event.data))) show(name, html);
  });
  source.addEventListener("error", () => {
    if (events !== source) return;
    say(false);
    // The browser tries again by itself, unless the answer was an error: too many watchers, or a proxy's page.
    if (source.readyState === EventSource.CLOSED) setTimeout(() => events === source && listen(), RETRY_MS);
  });
}

// A page that is being left says nothing of a lost connection; one that is come back to listens again.
addEventListener("pagehide", () => {
  events?.close();
  events = null;
});
addEventListener("pageshow", () => {
  if (!events) listen();
});
