"use strict";
// Where the patches of a slide lie: which one is under a point, and one small picture of all of them.

const MOST_PIXELS = 2e6; // of the small picture

class Lattice {
  // x, y: top-left corners; edge: of a patch; cell: of what is drawn of it, smaller where patches overlap. Level-0 pixels.
  constructor(x, y, edge, cell) {
    Object.assign(this, { x, y, edge, cell, length: x.length });
    let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
    for (let i = 0; i < x.length; i++) {
      left = Math.min(left, x[i]);
      right = Math.max(right, x[i]);
      top = Math.min(top, y[i]);
      bottom = Math.max(bottom, y[i]);
    }
    Object.assign(this, { left, top, right: right + edge, bottom: bottom + edge });
    this.index();
    this.rasterise();
  }

  // Buckets of one patch edge: a point lies in a patch whose corner is in its own bucket, or one to the left or above.
  index() {
    const column = (v) => Math.floor((v - this.left) / this.edge);
    const row = (v) => Math.floor((v - this.top) / this.edge);
    this.columns = column(this.right) + 1;
    const bucket = Int32Array.from(this.x, (x, i) => row(this.y[i]) * this.columns + column(x));
    this.start = new Int32Array(this.columns * (row(this.bottom) + 1) + 1);
    for (const b of bucket) this.start[b + 1]++;
    for (let b = 1; b < this.start.length; b++) this.start[b] += this.start[b - 1];
    const next = this.start.slice();
    this.members = new Int32Array(this.length);
    bucket.forEach((b, i) => (this.members[next[b]++] = i));
  }

  // The patch under a point; of several, the one whose centre is nearest; -1 where there is none.
  find(px, py) {
    const [column, row] = [Math.floor((px - this.left) / this.edge), Math.floor((py - this.top) / this.edge)];
    let [found, least] = [-1, Infinity];
    for (let r = Math.max(0, row - 1); r <= row; r++) {
      for (let c = Math.max(0, column - 1); c <= Math.min(column, this.columns - 1); c++) {
        const b = r * this.columns + c;
        for (let m = this.start[b]; m < (this.start[b + 1] ?? 0); m++) {
          const i = this.members[m];
          const [dx, dy] = [px - this.x[i], py - this.y[i]];
          if (dx < 0 || dy < 0 || dx >= this.edge || dy >= this.edge) continue;
          const far = Math.hypot(dx - this.edge / 2, dy - this.edge / 2);
          if (far < least) [found, least] = [i, far];
        }
      }
    }
    return found;
  }

  // owner: which patch a pixel of the small picture shows, -1 for none. One pixel a patch where patches share a lattice.
  rasterise() {
    const { x, y, cell } = this;
    const inset = (this.edge - cell) / 2;
    const off = (v, low) => Math.abs((v - low) / cell - Math.round((v - low) / cell));
    const shared = x.every((v, i) => off(v, this.left) < 0.02 && off(y[i], this.top) < 0.02);
    const cells = ((this.right - this.left) / cell) * ((this.bottom - this.top) / cell);
    const fine = shared ? 1 : Math.min(8, Math.max(1, Math.floor(Math.sqrt(MOST_PIXELS / cells))));
    const step = cell / fine;
    const [originX, originY] = [this.left + inset, this.top + inset];
    const width = Math.round((this.right - this.left - 2 * inset) / step);
    const height = Math.round((this.bottom - this.top - 2 * inset) / step);
    const owner = new Int32Array(width * height).fill(-1);
    for (let i = 0; i < x.length; i++) {
      const [c, r] = [Math.round((x[i] - this.left) / step), Math.round((y[i] - this.top) / step)];
      for (let dr = 0; dr < fine && r + dr < height; dr++) {
        const from = (r + dr) * width + c;
        owner.fill(i, from, Math.min(from + fine, (r + dr + 1) * width));
      }
    }
    this.raster = { owner, width, height, x: originX, y: originY, step };
  }
}

// (patch,): which of 256 colours a patch has, -1 where it is below the threshold (a share of the patches, by rank).
function tones(shade, rank, threshold) {
  const tone = new Int16Array(shade.length);
  for (let i = 0; i < shade.length; i++) {
    tone[i] = rank[i] < threshold ? -1 : Math.min(255, Math.max(0, Math.round(shade[i] * 255)));
  }
  return tone;
}

// The small picture as a canvas. colours: 256 of 0xRRGGBB. hidden: colour of patches below the threshold, or null.
function paint(raster, tone, colours, hidden) {
  const word = (rgb) => (0xff000000 | ((rgb & 255) << 16) | (rgb & 0xff00) | (rgb >> 16)) >>> 0; // bytes R, G, B, A
  const words = Uint32Array.from(colours, word);
  const below = hidden === null ? 0 : word(hidden);
  const pixels = new Uint32Array(raster.owner.length);
  for (let p = 0; p < pixels.length; p++) {
    const i = raster.owner[p];
    if (i >= 0) pixels[p] = tone[i] < 0 ? below : words[tone[i]];
  }
  const canvas = new OffscreenCanvas(raster.width, raster.height);
  const image = new ImageData(new Uint8ClampedArray(pixels.buffer), raster.width, raster.height);
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}
