// This script searches the page of contents, opens the endpoint that a link leads to, and copies examples. The pages are complete without
// it: the search field and the buttons show only when the script runs.
"use strict";

// "invite", "invited" and "invitations" have one stem. It is cut, not looked up: a stem only has to begin words that belong together.
function stem(word) {
  const cut = word.replace(/(?:ations?|ations|ating|ated|ates?|ings?|ers?|ed|es|e|s)$/, "");
  return cut.length >= 3 ? cut : word;
}

function searching(filter) {
  const field = document.getElementById("filter");
  const found = document.getElementById("found");
  const topics = [...document.querySelectorAll("[data-topic]")].map((element) => ({
    element,
    // The list of topics beside shows what is found, too: a keyboard has less to pass.
    entry: document.querySelector(`nav a[href="/docs/${element.id.replace("tag-", "")}"]`).parentElement,
    words: `${element.querySelector("summary").textContent} ${element.dataset.topic}`.toLowerCase(),
    operations: [...element.querySelectorAll(".operations li")].map((one) => ({ element: one, words: one.textContent.toLowerCase() })),
  }));
  const guides = [...document.querySelectorAll("[data-guide]")].map((element) => ({
    element,
    words: `${element.closest("details").querySelector("h3").textContent} ${element.textContent} ${element.dataset.guide}`.toLowerCase(),
  }));
  const place = topics[0].element.previousSibling;
  const count = topics.reduce((sum, topic) => sum + topic.operations.length, 0);

  // A word of the endpoint's own counts more than one of its topic. An endpoint must have each word that was asked for in one of both.
  function worth(asked, operation, topic) {
    let sum = 0;
    for (const word of asked) {
      if (operation.includes(word)) sum += 2;
      else if (topic.includes(word)) sum += 1;
      else return 0;
    }
    return sum;
  }

  function search() {
    const asked = field.value.toLowerCase().split(/\s+/).filter(Boolean).map(stem);
    let shown = 0;
    const ranked = topics.map((topic) => {
      let best = 0;
      for (const { element, words } of topic.operations) {
        const one = asked.length ? worth(asked, words, topic.words) : 1;
        element.hidden = one === 0;
        shown += one > 0;
        best += one;
      }
      topic.element.hidden = topic.entry.hidden = best === 0;
      topic.element.open = asked.length > 0;
      return { element: topic.element, average: asked.length ? best / topic.operations.length : 1 };
    });
    // The topic of which most is found comes first. Without a question, the order is that of the page.
    ranked.sort((a, b) => b.average - a.average);
    let after = place;
    for (const { element } of ranked) {
      after.after(element);
      after = element;
    }
    let read = 0;
    for (const { element, words } of guides) {
      element.hidden = !asked.every((word) => words.includes(word));
      read += !element.hidden;
    }
    for (const part of document.querySelectorAll(".guides, #guides")) {
      part.hidden = !part.querySelector("[data-guide]:not([hidden])");
      part.open = asked.length > 0;
    }
    document.getElementById("chapters").hidden = shown === 0;
    found.textContent = asked.length ? `${read} of ${guides.length} guides, ${shown} of ${count} endpoints` : "";
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
  for (let folded = target.closest("details"); folded; folded = folded.parentElement.closest("details")) folded.open = true;
  target.scrollIntoView();
}

function copying(example) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(example.querySelector("code").textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  // The button stands in its block, and lines go around it.
  example.prepend(button);
}

if (navigator.clipboard) document.querySelectorAll("pre.example").forEach(copying);
const filter = document.querySelector(".filter");
if (filter) searching(filter);
window.addEventListener("hashchange", open);
open();
