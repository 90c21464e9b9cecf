// The data of the report, unpacked once, with the accessors of all views.
async function unpack(id) {
  // The details come after this script in the file, so that the first view need not wait for them.
  if (!document.getElementById(id)?.nextSibling && document.readyState === "loading") {
    await new Promise((done) => document.addEventListener("DOMContentLoaded", done, { once: true }));
  }
  const node = document.getElementById(id);
  const packed = node.textContent.trim();
  node.textContent = "";
  const stream = new Blob([bytesOf(packed)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

function bytesOf(packed) {
  if (typeof Uint8Array.fromBase64 === "function") return Uint8Array.fromBase64(packed);
  const letters = atob(packed);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

// Rules that decide whatever the threshold is.
const STAYS = new Set([
  "exact-copy", "unchanged", "other-figures", "turned-round", "other-title", "common-on-host", "too-short-to-compare", "no-signature",
]);

class Data {
  constructor(raw) {
    Object.assign(this, raw);
    this.count = raw.pages.key.length;
    this.all = Array.from({ length: this.count }, (_, i) => i);
    this.matched = this.all.filter((i) => raw.pages.similarity[i] !== null && raw.pages.match[i] >= 0);
    this.details = null;
    this.loading = null;
    this.fresh = this.outcomes.indexOf("new");
    this.copies = this.outcomes.indexOf("duplicate");
    this.source = {
      ...raw.pages, count: this.count, kept: this.fresh,
      original: (i) => (raw.pages.match[i] < 0 ? -1 : raw.stored.host[raw.pages.match[i]]),
      words: (i) => [raw.pages.key[i], raw.pages.title[i], this.storedKey(i) ?? "", this.storedTitle(i)],
      bodies: (i) => [raw.pages.text[i], raw.pages.match[i] < 0 ? -1 : raw.stored.text[raw.pages.match[i]]],
    };
  }

  // Texts and numbers that only some views show.
  load() {
    this.loading ??= unpack("details").then((details) => { this.details = details; });
    return this.loading;
  }

  outcome(i) { return this.outcomes[this.pages.outcome[i]]; }
  reason(i) { return this.reasons[this.pages.reason[i]]; }
  spider(i) { return this.spiders[this.pages.spider[i]]; }
  crawl(i) { return this.crawls[this.pages.crawl[i]]; }
  host(i) { return this.hosts[this.pages.host[i]]; }
  isDropped(i) { return this.pages.outcome[i] !== this.fresh; }
  isCopy(i) { return this.pages.outcome[i] === this.copies; }
  key(i) { return this.pages.key[i]; }
  title(i) { return this.pages.title[i]; }
  text(i) { return this.details === null || this.pages.text[i] < 0 ? null : this.details.texts[this.pages.text[i]]; }
  storedKey(i) { return this.pages.match[i] < 0 ? null : this.stored.key[this.pages.match[i]]; }
  storedTitle(i) { return this.pages.match[i] < 0 ? "" : this.stored.title[this.pages.match[i]]; }
  storedText(i) {
    const at = this.pages.match[i] < 0 ? -1 : this.stored.text[this.pages.match[i]];
    return this.details === null || at < 0 ? null : this.details.texts[at];
  }
  hasTexts(i) { return this.pages.text[i] >= 0 && this.pages.match[i] >= 0 && this.stored.text[this.pages.match[i]] >= 0; }

  // Whether a page would be dropped with another threshold: the other rules stay as they are.
  wouldDrop(i, threshold) {
    return STAYS.has(this.reason(i)) ? this.isDropped(i) : this.pages.line[i] >= threshold;
  }

  // The distance of a page from a threshold.
  gap(i, threshold) {
    const { similarity, line } = this.pages;
    return Math.abs((STAYS.has(this.reason(i)) ? similarity[i] : line[i]) - threshold);
  }
}
