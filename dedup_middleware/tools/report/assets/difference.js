// What differs between two texts, at the level of words, Chinese ones included.
const WORDS_LIMIT = 40000;
const EDITS_LIMIT = 1200;

function wordsOf(text) {
  if (typeof Intl.Segmenter === "function") {
    const segmenter = new Intl.Segmenter(/[\u3040-\u30ff]/.test(text) ? "ja" : "zh", { granularity: "word" });
    return Array.from(segmenter.segment(text), (part) => part.segment);
  }
  return text.match(/[\p{Script=Han}]|[\p{L}\p{N}]+|\s+|[^\p{L}\p{N}\s]/gu) ?? [];
}

// The shortest edit script of Myers (Algorithmica 1986), as parts [kind, words]: "=", "-" or "+".
// Its time grows with the lengths times the edits, so both are bounded; null: too different.
function difference(a, b) {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const middle = edits(a.slice(start, a.length - end), b.slice(start, b.length - end));
  if (middle === null) return null;
  const parts = [];
  const add = (kind, words) => {
    if (!words.length) return;
    const last = parts[parts.length - 1];
    if (last && last[0] === kind) last[1].push(...words);
    else parts.push([kind, [...words]]);
  };
  add("=", a.slice(0, start));
  for (const [kind, text] of middle) add(kind, [text]);
  add("=", a.slice(a.length - end));
  return parts;
}

function edits(a, b) {
  const most = Math.min(a.length + b.length, EDITS_LIMIT);
  const at = new Int32Array(2 * most + 3);
  const middle = most + 1;
  const trace = [];
  for (let d = 0; d <= most; d++) {
    trace.push(at.slice(middle - d - 1, middle + d + 2));
    for (let k = -d; k <= d; k += 2) {
      const down = k === -d || (k !== d && at[middle + k - 1] < at[middle + k + 1]);
      let x = down ? at[middle + k + 1] : at[middle + k - 1] + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++;
      at[middle + k] = x;
      if (x >= a.length && x - k >= b.length) return walk(trace, a, b);
    }
  }
  return null;
}

function walk(trace, a, b) {
  const found = [];
  let x = a.length;
  let y = b.length;
  for (let d = trace.length - 1; d >= 0; d--) {
    const before = trace[d];
    const middle = d + 1;
    const k = x - y;
    const down = k === -d || (k !== d && before[middle + k - 1] < before[middle + k + 1]);
    const from = down ? k + 1 : k - 1;
    const startX = d === 0 ? 0 : before[middle + from];
    const startY = d === 0 ? 0 : startX - from;
    while (x > startX && y > startY && a[x - 1] === b[y - 1]) {
      found.push(["=", a[--x]]);
      y--;
    }
    if (d > 0) found.push(down ? ["+", b[--y]] : ["-", a[--x]]);
  }
  return found.reverse();
}

// The two texts as elements in which differences are marked, and the number of differing places.
function marked(stored, fresh) {
  const a = wordsOf(stored);
  const b = wordsOf(fresh);
  const parts = a.length + b.length > WORDS_LIMIT ? null : difference(a, b);
  const left = make("div", { class: "text" });
  const right = make("div", { class: "text" });
  if (parts === null) {
    left.append(stored);
    right.append(fresh);
    return { left, right, places: null };
  }
  let places = 0;
  let changed = false;
  for (const [kind, words] of parts) {
    const text = words.join("");
    if (kind === "=") {
      left.append(text);
      right.append(text);
      changed = false;
      continue;
    }
    places += changed ? 0 : 1;
    changed = true;
    if (kind === "-") left.append(make("del", {}, text));
    else right.append(make("ins", {}, text));
  }
  return { left, right, places };
}
