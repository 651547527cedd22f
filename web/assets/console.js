"use strict";
// Keeps the page as it is on the server: takes the parts that changed (see /events) and puts them in place.

const RETRY_MS = 5000;
let events = null;

// Buttons for changes that both masters must confirm wait while the other one is away, and say so. Others wait only for what is typed.
function gate() {
  const reason = document.getElementById("status-line")?.dataset.gate ?? "";
  for (const button of document.querySelectorAll("button[data-both], button[data-unconfirmed]")) {
    const waits = "both" in button.dataset && reason !== "";
    button.disabled = waits || button.dataset.busy === "yes" || button.dataset.unconfirmed === "yes";
    if (waits) button.title = reason;
    else button.removeAttribute("title");
  }
  for (const note of document.querySelectorAll(".gate")) note.hidden = reason === "";
}

function say(connected) {
  const live = document.getElementById("live");
  live.hidden = false;
  live.className = connected ? "live on" : "live off";
  live.textContent = connected ? words.live : words.notLive;
  const lost = document.getElementById("lost");
  if (connected) {
    lost?.remove();
  } else if (!lost) {
    note("bad", words.lostTitle, words.lostText.replace("{0}", new Date().toLocaleTimeString(LANG)), "lost");
  }
}

function listen() {
  const source = new EventSource("/events" + location.pathname.replace(/\/$/, "") + (hasView ? location.search : ""));
  events = source;
  // A page is live once it shows what came: an open connection alone says nothing yet.
  source.addEventListener("parts", (event) => {
    for (const [name, html] of Object.entries(JSON.parse(event.data))) show(name, html);
    gate();
    say(true);
  });
  source.addEventListener("error", () => {
    if (events !== source) return;
    say(false);
    // The browser tries again by itself, unless the answer was an error: too many watchers, a proxy's page, or a login
    // that is over.
    if (source.readyState !== EventSource.CLOSED) return;
    ask("GET", "/api/me").catch(() => {});
    setTimeout(() => events === source && listen(), RETRY_MS);
  });
}

// The query of these is an ID, a layout or a template, and no part of a view.
const hasView = !["/explain", "/designer", "/designer/template"].includes(location.pathname);

// A page that is being left says nothing of a lost connection; one that is come back to listens again.
addEventListener("pagehide", () => {
  events?.close();
  events = null;
});
addEventListener("pageshow", () => {
  if (!events) listen();
});

localise(document);
gate();

const burger = document.querySelector(".burger");
burger.addEventListener("click", () => {
  const open = burger.getAttribute("aria-expanded") !== "true";
  burger.setAttribute("aria-expanded", String(open));
  document.getElementById("menu").classList.toggle("open", open);
});
