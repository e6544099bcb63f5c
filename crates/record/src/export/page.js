"use strict";
(() => {
  const events = [...document.querySelectorAll(".e")];
  const bar = document.querySelector(".bar");
  const field = bar.querySelector("input");
  const count = bar.querySelector("output");
  const types = new Map();
  for (const event of events) types.set(event.dataset.t, (types.get(event.dataset.t) || 0) + 1);
  const off = new Set();
  let failedOnly = false;
  const button = (text, pressed, act) => {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = text;
    if (pressed !== null) made.setAttribute("aria-pressed", String(pressed));
    made.addEventListener("click", () => act(made));
    bar.insertBefore(made, count);
    return made;
  };
  const press = (made, on) => made.setAttribute("aria-pressed", String(on));
  const show = () => {
    const wanted = field.value.trim().toLowerCase();
    let shown = 0;
    for (const event of events) {
      const fits = !off.has(event.dataset.t) && (!failedOnly || event.classList.contains("bad"))
        && (!wanted || event.textContent.toLowerCase().includes(wanted));
      event.hidden = !fits;
      if (fits) shown += 1;
    }
    for (const gap of document.querySelectorAll(".gap")) gap.hidden = shown < events.length;
    count.textContent = shown === events.length ? `${events.length} events` : `${shown} of ${events.length} events`;
  };
  let waiting = 0;
  field.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(show, 120);
  });
  for (const [type, number] of [...types].sort((one, other) => other[1] - one[1])) {
    button(`${type} ${number}`, true, (made) => {
      if (off.delete(type)) press(made, true);
      else {
        off.add(type);
        press(made, false);
      }
      show();
    });
  }
  const failed = button("failed only", null, (made) => {
    failedOnly = !failedOnly;
    made.style.fontWeight = failedOnly ? "700" : "";
    show();
  });
  failed.hidden = !events.some((event) => event.classList.contains("bad"));
  button("open all", null, (made) => {
    const open = made.textContent === "open all";
    for (const event of events) if (!event.hidden) event.open = open;
    made.textContent = open ? "close all" : "open all";
  });
  button("dark / light", null, () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
  bar.hidden = false;
  show();
})();
