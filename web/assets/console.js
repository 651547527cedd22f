"use strict";
// Keeps the page as it is on the server: takes the parts that changed (see /events) and puts them in place. Elements
// that did not change stay the same elements, so that focus, selection and scrolling survive.

const RETRY_MS = 5000;
// The markup with which an element came, for those that the page has touched since.
const came = new WeakMap();
let events = null;

// Makes the children of `target` those of `source`, but keeps every child that has the same id and the same markup.
function settle(target, source, highlight) {
  const wanted = new Set(Array.from(source.children, (child) => child.id));
  const known = new Map();
  for (const child of [...target.children]) {
    if (child.id && wanted.has(child.id)) known.set(child.id, child);
    else child.remove();
  }
  let place = target.firstElementChild;
  for (const fresh of [...source.children]) {
    const old = known.get(fresh.id);
    let child = fresh;
    if (old && (came.get(old) ?? old.outerHTML) === fresh.outerHTML) {
      child = old;
    } else {
      if (highlight && !(old?.classList.contains(fresh.classList[0]))) {
        came.set(fresh, fresh.outerHTML);
        fresh.classList.add("fresh");
      }
      if (old) {
        if (old === place) place = fresh;
        old.replaceWith(fresh);
      }
    }
    if (child === place) place = place.nextElementSibling;
    else target.insertBefore(child, place);
  }
}

function show(name, html) {
  const target = document.getElementById(name);
  if (!target) return;
  const source = document.createElement(target.tagName);
  source.innerHTML = html;
  // What comes first is what the page shows already: only later rows are news.
  settle(target, source, name === "rows" && target.dataset.live === "yes");
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
