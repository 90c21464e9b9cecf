// The data of the report, unpacked once, and what all views ask of them.
async function unpack() {
  const packed = document.getElementById("packed").textContent.trim();
  const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
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
    this.members = raw.stored.key.map(() => []);
    for (const i of this.all) {
      if (raw.pages.match[i] >= 0 && this.isDropped(i)) this.members[raw.pages.match[i]].push(i);
    }
  }

  outcome(i) { return this.outcomes[this.pages.outcome[i]]; }
  reason(i) { return this.reasons[this.pages.reason[i]]; }
  spider(i) { return this.spiders[this.pages.spider[i]]; }
  crawl(i) { return this.crawls[this.pages.crawl[i]]; }
  isDropped(i) { return this.outcome(i) !== "new"; }
  key(i) { return this.pages.key[i]; }
  title(i) { return this.pages.title[i]; }
  text(i) { return this.pages.text[i] < 0 ? null : this.texts[this.pages.text[i]]; }
  storedKey(i) { return this.pages.match[i] < 0 ? null : this.stored.key[this.pages.match[i]]; }
  storedTitle(i) { return this.pages.match[i] < 0 ? "" : this.stored.title[this.pages.match[i]]; }
  storedText(i) {
    const at = this.pages.match[i] < 0 ? -1 : this.stored.text[this.pages.match[i]];
    return at < 0 ? null : this.texts[at];
  }

  // Whether a page would be dropped with another threshold: the other rules stay as they are.
  wouldDrop(i, threshold) {
    return STAYS.has(this.reason(i)) ? this.isDropped(i) : this.pages.line[i] >= threshold;
  }

  // How far a page is from the line.
  gap(i, threshold) {
    const { similarity, line } = this.pages;
    return Math.abs((STAYS.has(this.reason(i)) ? similarity[i] : line[i]) - threshold);
  }
}
