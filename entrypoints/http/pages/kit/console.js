// Pages of the console are complete without this script. Account pages and sign-in pages do not load it.

// Ask is a dialog, to which the form of the head moves while it is open: by its keys, by a click, and with the first letter. What is typed goes
// by that form with its token, so it stands in no address. Without this script the form stays where it is, and Enter asks.
for (const sought of document.querySelectorAll("[data-suggests]")) {
  const form = sought.form, place = form.parentElement, sheet = form.nextElementSibling, dialog = place.nextElementSibling;
  const key = sought.nextElementSibling;
  let pause, asked = 0, before;
  const clear = () => { sheet.hidden = true; asked += 1; };
  const open = () => {
    if (!dialog.open) {
      before = document.activeElement;
      dialog.append(form, sheet);
      dialog.showModal();
    }
    sought.focus();
  };
  const suggest = async () => {
    const mine = asked += 1;
    if (!sought.value.trim()) return clear();
    const body = new URLSearchParams(new FormData(form));
    const answer = await fetch(sought.dataset.suggests, { method: "POST", body }).catch(() => null);
    if (mine !== asked) return;
    // Whoever has signed out meanwhile is led to the sign-in page, and that is no suggestion.
    if (!answer?.ok || answer.redirected) return clear();
    sheet.innerHTML = await answer.text();
    if (mine === asked) sheet.hidden = false;
  };
  key.hidden = false;
  key.textContent = /Mac|iPhone|iPad/.test(navigator.platform) ? "\u2318K" : "Ctrl K";
  document.addEventListener("keydown", event => {
    const held = event.ctrlKey || event.metaKey;
    const asks = event.key.toLowerCase() === "k" && held && !event.altKey && !event.shiftKey;
    if (!asks && (event.key !== "/" || held || event.target.matches("input, textarea, select"))) return;
    event.preventDefault();
    open();
    sought.select();
  });
  sought.addEventListener("click", open);
  sought.addEventListener("input", event => {
    // Letters that are put together of several keys would be lost by the move.
    if (event.isComposing) return;
    open();
    clearTimeout(pause);
    pause = setTimeout(suggest, 120);
  });
  sought.addEventListener("compositionend", () => sought.dispatchEvent(new Event("input")));
  form.addEventListener("submit", () => { clearTimeout(pause); clear(); });
  const shut = () => {
    clearTimeout(pause);
    clear();
    dialog.close();
    place.append(form, sheet);
    before.focus();
  };
  dialog.addEventListener("cancel", shut);
  // A browser closes a dialog also without asking, and the form belongs into the head.
  dialog.addEventListener("close", () => { if (!dialog.open && form.parentElement === dialog) shut(); });
  dialog.addEventListener("click", event => { if (event.target === dialog) shut(); });
  dialog.addEventListener("keydown", event => {
    if (event.key === "Escape") {
      // A search field would empty itself.
      event.preventDefault();
      shut();
    }
    if (sheet.hidden || !["ArrowDown", "ArrowUp"].includes(event.key)) return;
    event.preventDefault();
    const places = [sought, ...sheet.querySelectorAll("a, button")];
    const next = places.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
    places[Math.max(0, Math.min(next, places.length - 1))].focus();
  });
}

// The panel that an address opens is where its reader wanted to be.
for (const panel of document.querySelectorAll("[data-opened]")) {
  panel.scrollIntoView({ block: "center" });
  panel.querySelector("select, textarea, input:not([type=hidden]), button")?.focus({ preventScroll: true });
}

// The first sign-in appears: asked for after 2, 4, 8, and then every 10 seconds, until the answer says that it is over.
for (const place of document.querySelectorAll("[data-awaits]")) {
  const until = Date.now() + 600_000;
  let shown = "", newest = "";
  // Nothing moves under a button that somebody is about to press: what is new waits until they have left it.
  const show = focused => {
    if (newest !== shown && !place.contains(focused)) place.innerHTML = shown = newest;
  };
  place.addEventListener("focusout", event => show(event.relatedTarget));
  let wait = 2, timer;
  const look = async () => {
    timer = 0;
    try {
      const answer = await fetch(place.dataset.awaits, { redirect: "error" });
      if (answer.ok) newest = await answer.text();
    } catch { /* The next one may arrive. */ }
    show(document.activeElement);
    if (newest.includes("data-over")) document.querySelector("[data-look]").hidden = true;
    else if (Date.now() > until) document.querySelector("[data-lost]").hidden = false;
    else timer = setTimeout(look, (wait = Math.min(wait * 2, 10)) * 1000);
  };
  timer = setTimeout(look, wait * 1000);
  // Whoever comes back from the application's tab sees at once what has come of it.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden || !timer) return;
    clearTimeout(timer);
    wait = 1;
    look();
  });
}

// A whole program as one paste into a shell: files are written, all else is run. FrameworkLines.script gives the same text.
for (const button of document.querySelectorAll("button[data-copy-all]")) {
  if (!navigator.clipboard) continue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    const parts = [...button.closest("details").querySelectorAll("[data-part]")].map(({ dataset: { part }, textContent }) => {
      const folder = part.split("/").slice(0, -1).join("/");
      const made = folder ? `mkdir -p "${folder}"\n` : "";
      return part ? `${made}cat > "${part}" <<'END'\n${textContent}\nEND` : textContent;
    });
    await navigator.clipboard.writeText(`${parts.join("\n")}\n`);
    turned(button);
    setTimeout(() => turned(button), 2000);
  });
}

// A choice fills a field in, unless somebody has written something else there.
for (const choices of document.querySelectorAll("[data-fills]")) {
  const filled = document.getElementById(choices.dataset.fills);
  const known = new Set(["", ...[...choices.querySelectorAll("[data-fill]")].map(one => one.dataset.fill)]);
  choices.addEventListener("change", event => {
    if (known.has(filled.value.trim())) filled.value = event.target.dataset.fill ?? "";
  });
}

// A swatch and the field before it say the same color.
for (const swatch of document.querySelectorAll("input[type=color]")) {
  const field = swatch.previousElementSibling;
  swatch.hidden = false;
  swatch.addEventListener("input", () => { field.value = swatch.value; });
  field.addEventListener("input", () => { if (/^#[0-9a-f]{6}$/i.test(field.value)) swatch.value = field.value; });
}

for (const here of document.querySelectorAll(".tabs [aria-current]")) {
  here.scrollIntoView({ block: "nearest", inline: "center" });
}

for (const all of document.querySelectorAll("input[data-all]")) {
  const boxes = [...all.closest("fieldset").querySelectorAll("input:not([data-all])")];
  const follow = () => { all.checked = boxes.every(box => box.checked); };
  all.addEventListener("change", () => { for (const box of boxes) box.checked = all.checked; });
  for (const box of boxes) box.addEventListener("change", follow);
  follow();
}

for (const button of document.querySelectorAll("button[data-ticks]")) {
  button.addEventListener("click", event => {
    event.preventDefault();
    const ticked = button.dataset.ticks.split(" "), set = button.closest("fieldset");
    for (const box of set.querySelectorAll("[type=checkbox]:not([data-all])")) {
      box.checked = ticked[0] === "*" || ticked.includes(box.value);
      box.dispatchEvent(new Event("change"));
    }
    for (const bundle of set.querySelectorAll(".bundle")) bundle.open = bundle.querySelector(":checked") !== null;
  });
}

for (const sieve of document.querySelectorAll("input[data-sift]")) {
  sieve.hidden = false;
  const bundles = [...document.getElementById(sieve.dataset.sift).querySelectorAll(".bundle")].map(one => [one, one.open]);
  sieve.addEventListener("input", () => {
    const wanted = sieve.value.trim().toLowerCase();
    for (const [bundle, open] of bundles) {
      const labels = [...bundle.querySelectorAll("label:not(:has([data-all]))")];
      for (const label of labels) label.hidden = !label.textContent.toLowerCase().includes(wanted);
      bundle.hidden = labels.every(label => label.hidden);
      bundle.open = wanted ? true : open;
    }
  });
}

// Rows of a form are added and taken away in place. The ids of a new row have its number where its template has {n}.
for (const button of document.querySelectorAll("button[data-adds]")) {
  const rows = button.previousElementSibling;
  const template = rows.querySelector("template");
  let number = rows.children.length - 1;
  button.addEventListener("click", event => {
    event.preventDefault();
    number += 1;
    template.insertAdjacentHTML("beforebegin", template.innerHTML.replaceAll("{n}", number));
    template.previousElementSibling.querySelector("input").focus();
  });
  rows.addEventListener("click", event => {
    if (!event.target.matches("[data-removes]")) return;
    event.preventDefault();
    event.target.closest("fieldset").remove();
    button.focus();
  });
}
