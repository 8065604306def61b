// The search, and opening what a link leads to. The page is complete without them: the field shows only when this runs.
"use strict";

const field = document.getElementById("filter");
const found = document.getElementById("found");
const topics = [...document.querySelectorAll("details.chapter")];
const operations = [...document.querySelectorAll("details.operation[data-words]")].map((details) => ({
  details,
  words: details.dataset.words.toLowerCase(),
}));

function search() {
  const asked = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const { details, words } of operations) {
    const fits = asked.every((word) => words.includes(word));
    details.hidden = !fits;
    shown += fits;
  }
  for (const topic of topics) {
    const fits = topic.querySelector("details.operation[data-words]:not([hidden])") !== null;
    topic.hidden = asked.length > 0 && !fits;
    if (asked.length && fits) topic.open = true;
  }
  found.textContent = asked.length ? `${shown} of ${operations.length} endpoints` : "";
}

function open() {
  const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  if (target.closest("[hidden]")) {
    field.value = "";
    search();
  }
  for (let one = target; one; one = one.parentElement) {
    if (one.tagName === "DETAILS") one.open = true;
  }
  target.scrollIntoView();
}

field.addEventListener("input", search);
window.addEventListener("hashchange", open);
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey && document.activeElement !== field) {
    event.preventDefault();
    field.focus();
  } else if (event.key === "Escape" && document.activeElement === field) {
    field.value = "";
    search();
  }
});
document.querySelector(".filter").hidden = false;
open();
