// This script searches the page of contents, and opens the endpoint that a link leads to. The pages are complete without it: the search
// field shows only when the script runs.
"use strict";

function searching(filter) {
  const field = document.getElementById("filter");
  const found = document.getElementById("found");
  const topics = [...document.querySelectorAll(".chapter")].filter((topic) => topic.querySelector("[data-words]"));
  const operations = [...document.querySelectorAll("[data-words]")].map((element) => ({
    element,
    words: element.dataset.words.toLowerCase(),
  }));

  function search() {
    const asked = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const { element, words } of operations) {
      const fits = asked.every((word) => words.includes(word));
      element.hidden = !fits;
      shown += fits;
    }
    for (const topic of topics) topic.hidden = topic.querySelector("[data-words]:not([hidden])") === null;
    found.textContent = asked.length ? `${shown} of ${operations.length} endpoints` : "";
  }

  field.addEventListener("input", search);
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey && document.activeElement !== field) {
      event.preventDefault();
      field.focus();
    } else if (event.key === "Escape" && document.activeElement === field) {
      field.value = "";
      search();
    }
  });
  filter.hidden = false;
}

function open() {
  const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  if (target.tagName === "DETAILS") target.open = true;
  target.scrollIntoView();
}

const filter = document.querySelector(".filter");
if (filter) searching(filter);
window.addEventListener("hashchange", open);
open();
