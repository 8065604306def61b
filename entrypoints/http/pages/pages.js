// Pages are complete without this script. Elements that need it are hidden until it runs.

function turned(button) {
  const { other, otherLabel } = button.dataset;
  button.dataset.other = button.textContent;
  button.textContent = other;
  if (otherLabel) {
    button.dataset.otherLabel = button.getAttribute("aria-label");
    button.setAttribute("aria-label", otherLabel);
  }
}

for (const button of document.querySelectorAll("button[data-show]")) {
  const input = document.getElementById(button.dataset.show);
  button.hidden = false;
  button.addEventListener("click", () => {
    input.type = input.type === "password" ? "text" : "password";
    turned(button);
  });
  // Password managers offer to save a field only if it is sent as a password.
  input.form.addEventListener("submit", () => { input.type = "password"; });
}

for (const button of document.querySelectorAll("button[data-copy]")) {
  if (!navigator.clipboard) continue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).innerText);
    turned(button);
    setTimeout(() => turned(button), 2000);
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

for (const here of document.querySelectorAll(".tabs [aria-current]")) {
  here.scrollIntoView({ block: "nearest", inline: "center" });
}

for (const button of document.querySelectorAll("button[data-print]")) {
  button.hidden = false;
  button.addEventListener("click", () => window.print());
}

for (const all of document.querySelectorAll("input[data-all]")) {
  const boxes = [...all.closest("fieldset").querySelectorAll("input:not([data-all])")];
  const follow = () => { all.checked = boxes.every(box => box.checked); };
  all.addEventListener("change", () => { for (const box of boxes) box.checked = all.checked; });
  for (const box of boxes) box.addEventListener("change", follow);
  follow();
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

for (const menu of document.querySelectorAll(".menu")) {
  document.addEventListener("click", event => { if (!menu.contains(event.target)) menu.open = false; });
  menu.addEventListener("keydown", event => {
    if (event.key !== "Escape" || !menu.open) return;
    menu.open = false;
    menu.firstElementChild.focus();
  });
}

// The page leaves by itself when all of its frames have loaded. Nobody waits longer than said.
for (const onward of document.querySelectorAll("[data-seconds]")) {
  setTimeout(() => location.replace(onward.querySelector("a").href), onward.dataset.seconds * 1000);
}

document.querySelector("form[data-leave]")?.submit();

// A sign-in by a password says whether this browser could make a passkey, so that nobody is offered one in vain.
const makesPasskeys = document.querySelector("[data-makes-passkeys]");
if (makesPasskeys && window.PublicKeyCredential) {
  PublicKeyCredential.isUserVerifyingPlatformAuthenticatorAvailable?.().then(available => { if (available) makesPasskeys.value = "yes"; }, () => {});
}
