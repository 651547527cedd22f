"use strict";
// The designers, live: whatever is typed, dragged or pressed goes to the server, and what it makes of it comes back whole. Nothing
// is worked out here but how long the pieces of the picture are while somebody drags.

const design = document.getElementById("design");
const DESIGN_DELAY_MS = 150;
// As far apart two knobs hang beside each other.
const KNOB_PX = 28;
// The newest state of the form has the highest number: answers about older ones are dropped.
let turn = 0;
let waiting = null;

const designForm = () => document.getElementById("design-form");
const widthFields = () => [...designForm().querySelectorAll("input[name=width]")];

// Draws again what the form says now, after a moment in which more may be typed.
function later() {
  turn += 1;
  clearTimeout(waiting);
  waiting = setTimeout(redraw, DESIGN_DELAY_MS);
}

async function redraw(pressed, focus) {
  clearTimeout(waiting);
  turn += 1;
  const mine = turn;
  const query = new URLSearchParams(new FormData(designForm()));
  if (pressed?.name) query.append(pressed.name, pressed.value);
  try {
    const answer = await fetch(`${designForm().dataset.part}?${query}`, { headers: { Accept: "text/html" }, credentials: "same-origin" });
    if (answer.status === 401) location.assign(`/login?next=${encodeURIComponent(location.pathname + location.search)}`);
    if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).detail ?? answer.statusText);
    const html = await answer.text();
    if (mine !== turn) return;
    show("design", html);
    asServed();
    place();
    refuse();
    history.replaceState(null, "", `${location.pathname}?${new URLSearchParams(new FormData(designForm()))}`);
    if (focus) document.getElementById(focus)?.focus();
  } catch (error) {
    if (mine === turn) note("bad", words.failed, error instanceof TypeError ? words.unreachable : error.message);
  }
}

// Fields that were typed into keep what was typed, whatever the new HTML says; a row that moved must not.
function asServed() {
  for (const field of designForm().elements) {
    const served = field.nodeName === "SELECT" ? field.querySelector("option[selected]")?.value : field.defaultValue;
    if (served !== undefined && field.value !== served && field.type !== "hidden") field.value = served;
  }
}

// A layout that is refused cannot be registered.
function refuse() {
  const button = document.querySelector("#register button[type=submit]");
  if (!button) return;
  button.dataset.unconfirmed = document.getElementById("definition") ? "no" : "yes";
  gate();
}

// Puts pieces and borders where the widths say; a template has none.
function place() {
  const picture = document.getElementById("bitmap");
  if (!picture) return;
  const counts = widthFields().map((field) => Math.min(Math.max(Math.trunc(Number(field.value)) || 0, 0), 128));
  const total = Math.max(1, Number(designForm().elements.bits.value) || 0, counts.reduce((sum, count) => sum + count, 0));
  const slices = document.querySelectorAll("#bitmap > svg > svg");
  const length = picture.querySelector("svg").clientWidth;
  // Where the last knob of each level hangs.
  const levels = [];
  let at = 0;
  counts.forEach((count, nth) => {
    slices[nth]?.setAttribute("x", `${(at * 100) / total}%`);
    slices[nth]?.setAttribute("width", `${(count * 100) / total}%`);
    at += count;
    const border = document.getElementById(`border-${nth}`);
    if (!border) return;
    const rest = counts[nth + 1];
    const x = (at * length) / total;
    const level = [...levels, -Infinity].findIndex((last) => x - last >= KNOB_PX);
    levels[level] = x;
    border.style.left = `${(at * 100) / total}%`;
    border.style.setProperty("--level", level);
    border.setAttribute("aria-valuenow", count);
    border.setAttribute("aria-valuemax", Math.max(count + rest - 1, 1));
    border.setAttribute("aria-valuetext", `${border.dataset.left} ${count}, ${border.dataset.right} ${rest}`);
  });
  picture.style.setProperty("--levels", Math.max(levels.length - 1, 0));
  return { counts, total };
}

// Gives the field on the left of a border so many bits, and what is left of both to the one on its right.
function move(border, wanted) {
  const nth = Number(border.id.slice("border-".length));
  const [left, right] = widthFields().slice(nth, nth + 2);
  const both = Number(left.value) + Number(right.value);
  const bits = Math.min(Math.max(wanted, 1), both - 1);
  if (!Number.isInteger(bits) || bits < 1 || bits === Number(left.value)) return;
  [left.value, right.value] = [bits, both - bits];
  place();
  later();
}

// Of a list that something else than a hand sets, e.g. an aid to writing, some browsers say `change` alone.
for (const said of ["input", "change"]) {
  design.addEventListener(said, (event) => {
    if (event.target.name === "width") place();
    if (event.target.form === designForm()) later();
  });
}

design.addEventListener("submit", (event) => {
  event.preventDefault();
  const button = event.submitter;
  const nth = Number(button?.value);
  const focus = { up: `row-${nth - 1}-part`, down: `row-${nth + 1}-part`, remove: `row-${Math.max(nth - 1, 0)}-part` };
  redraw(button, button?.name === "add" ? `row-${widthFields().length}-width` : focus[button?.name]);
});

design.addEventListener("pointerdown", (event) => {
  const border = event.target.closest(".border");
  if (!border || event.button !== 0) return;
  event.preventDefault();
  border.focus();
  border.setPointerCapture(event.pointerId);
});

design.addEventListener("pointermove", (event) => {
  const border = event.target.closest?.(".border");
  if (!border?.hasPointerCapture(event.pointerId)) return;
  const frame = document.getElementById("bitmap").getBoundingClientRect();
  const { counts, total } = place();
  const before = counts.slice(0, Number(border.id.slice("border-".length))).reduce((sum, count) => sum + count, 0);
  move(border, Math.round(((event.clientX - frame.left) * total) / frame.width) - before);
});

const STEPS = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -4, PageUp: 4, Home: -128, End: 128 };
design.addEventListener("keydown", (event) => {
  const border = event.target.closest(".border");
  const step = STEPS[event.key];
  if (!border || !step) return;
  event.preventDefault();
  move(border, Number(border.getAttribute("aria-valuenow")) + step);
});

addEventListener("resize", place);
place();
