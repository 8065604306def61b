// The puzzle of a page. The page starts this script once more, as a worker, which computes beside it.

// SHA-256 (FIPS 180-4): the round constants.
const K = Int32Array.of(
  0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
  0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
  0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
  0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
  0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
  0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
  0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
  0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2
);
const FIRST = Int32Array.of(0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19);

// The first 32 bits of the hash of prefix, part and number: 40 bytes, so one block.
function hashing(prefix, part) {
  const w = new Int32Array(64);
  w.set(prefix);
  w[8] = part;
  w[10] = 0x80000000;
  w[15] = 320;
  return number => {
    w[9] = number;
    for (let i = 16; i < 64; i += 1) {
      const x = w[i - 15];
      const y = w[i - 2];
      w[i] = w[i - 16] + w[i - 7]
        + (((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3))
        + (((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10));
    }
    let a = FIRST[0];
    let b = FIRST[1];
    let c = FIRST[2];
    let d = FIRST[3];
    let e = FIRST[4];
    let f = FIRST[5];
    let g = FIRST[6];
    let h = FIRST[7];
    for (let i = 0; i < 64; i += 1) {
      const one = (h + (((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7))) + ((e & f) ^ (~e & g)) + K[i] + w[i]) | 0;
      const two = ((((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10))) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g;
      g = f;
      f = e;
      e = (d + one) | 0;
      d = c;
      c = b;
      b = a;
      a = (one + two) | 0;
    }
    return (a + FIRST[0]) >>> 0;
  };
}

function solved(prefix, part, bits) {
  const hash = hashing(prefix, part);
  const below = 2 ** (32 - bits);
  let number = 0;
  while (hash(number) >= below) number += 1;
  return number;
}

function compute({ data: { prefix, bits, parts } }) {
  const words = Int32Array.from(prefix.match(/.{8}/g), word => Number.parseInt(word, 16));
  for (let part = 0; part < parts; part += 1) postMessage(solved(words, part, bits));
}

function show(box) {
  const { form } = box.parentElement.querySelector("[name=solution]");
  const told = box.querySelector("[role=status]");
  const progress = box.querySelector("progress");
  const { puzzle, bits, script } = box.dataset;
  const numbers = [];
  // `sends`: nobody has anything to fill in, so the form goes by itself.
  let awaited = "sends" in box.dataset;
  let sent = false;
  let failed = false;
  const worker = new Worker(script);
  worker.addEventListener("message", ({ data }) => {
    numbers.push(data);
    progress.value = numbers.length;
    if (numbers.length < progress.max) return;
    form.elements.solution.value = numbers.join(".");
    told.textContent = box.dataset.solved;
    worker.terminate();
    if (awaited) form.requestSubmit();
  });
  worker.addEventListener("error", () => {
    failed = true;
    told.textContent = box.dataset.failed;
  });
  form.addEventListener("submit", event => {
    if (failed) return;
    // A solution counts once, so a second click must not take the first one's answer away.
    if (sent || !form.elements.solution.value) event.preventDefault();
    if (form.elements.solution.value) {
      sent = true;
    } else {
      awaited = true;
      told.textContent = box.dataset.awaited;
    }
  });
  box.hidden = false;
  worker.postMessage({ prefix: puzzle, bits: Number(bits), parts: progress.max });
}

if (self.document) {
  for (const box of document.querySelectorAll("[data-puzzle]")) show(box);
} else {
  self.addEventListener("message", compute);
}
