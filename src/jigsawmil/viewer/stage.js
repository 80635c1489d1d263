"use strict";
// One pane: the slide's tiles and, above them, the overlay. Bokeh draws the rest on a transparent figure on top.

const EDGE = 512; // pixels of a tile
const MOST_TILES = 300; // kept, of all slides and panes
const AT_ONCE = 6; // requests
const LARGE = 10; // screen pixels: from here on patches are drawn one by one, to the exact place
const GLASS = "#ffffff"; // around a slide
const PAPER = "#ececea"; // where there is no slide: white is a colour of the maps
const FAINT = 0xdcdcd9; // patches below the threshold, on paper

// Tiles of all slides by their address: asked for when they are seen, the nearest to the middle first.
const tiles = {
  kept: new Map(),
  loading: 0,
  wanted: [],
  arrived: () => {},

  get(url) {
    const tile = this.kept.get(url);
    if (tile === undefined) return null;
    this.kept.delete(url); // and to the end again: the first is the one longest unseen
    this.kept.set(url, tile);
    return tile.ready ? tile.image : null;
  },

  // What a pane needs now, in place of what it needed before.
  want(urls, pane) {
    this.wanted = this.wanted.filter((w) => w.pane !== pane).concat(urls.map((url) => ({ url, pane })));
    this.load();
  },

  load() {
    while (this.loading < AT_ONCE && this.wanted.length > 0) {
      const { url } = this.wanted.shift();
      if (this.kept.has(url)) continue;
      const tile = { image: new Image(), ready: false };
      this.kept.set(url, tile);
      this.loading++;
      const over = (ready) => () => {
        tile.ready = ready;
        this.loading--;
        this.load();
        this.arrived();
      };
      tile.image.onload = over(true);
      tile.image.onerror = over(false);
      tile.image.src = url;
      if (this.kept.size > MOST_TILES) this.kept.delete(this.kept.keys().next().value);
    }
  },
};

class Stage {
  constructor(canvas, view) {
    Object.assign(this, { canvas, view, lattice: null, slide: null, picture: null, tone: null, opacity: 1 });
    this.redraw = () => {
      this.due ??= requestAnimationFrame(() => {
        this.due = null;
        this.draw();
      });
    };
  }

  // slide: {tiles: address, width, height, levels} or null.
  show(lattice, slide) {
    Object.assign(this, { lattice, slide, picture: null });
    this.redraw();
  }

  recolour(shade, rank, threshold, colours) {
    if (this.lattice === null) return;
    this.tone = tones(shade, rank, threshold);
    this.colours = colours.map((rgb) => "#" + rgb.toString(16).padStart(6, "0"));
    this.picture = paint(this.lattice.raster, this.tone, colours, this.slide ? null : FAINT);
    this.redraw();
  }

  draw() {
    const { canvas } = this;
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (width === 0 || height === 0) return;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    }
    const context = canvas.getContext("2d");
    const { left, top, right } = this.view();
    const zoom = (width * ratio) / (right - left); // device pixels a level-0 pixel
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = this.slide ? GLASS : PAPER;
    context.fillRect(0, 0, canvas.width, canvas.height);
    const box = (x, y, w, h) => {
      // edges on whole pixels: neighbours neither overlap nor leave a seam
      const [x0, y0] = [Math.round((x - left) * zoom), Math.round((y - top) * zoom)];
      return [x0, y0, Math.round((x + w - left) * zoom) - x0, Math.round((y + h - top) * zoom) - y0];
    };
    const seen = { left, top, right, bottom: top + canvas.height / zoom };
    if (this.slide) this.drawTiles(context, box, zoom, seen);
    if (this.picture) this.drawOverlay(context, box, zoom, seen);
  }

  drawTiles(context, box, zoom, seen) {
    const { width, height, levels } = this.slide;
    const level = Math.min(levels - 1, Math.max(0, Math.round(Math.log2(1 / zoom))));
    const step = EDGE * 2 ** level; // level-0 pixels a tile
    const last = (v, size) => Math.min(Math.ceil(size / step), Math.ceil(v / step));
    const middle = [(seen.left + seen.right) / 2, (seen.top + seen.bottom) / 2];
    const missing = [];
    context.imageSmoothingEnabled = true;
    context.save();
    context.beginPath();
    context.rect(...box(0, 0, width, height)); // the last tiles reach beyond the slide
    context.clip();
    for (let row = Math.max(0, Math.floor(seen.top / step)); row < last(seen.bottom, height); row++) {
      for (let column = Math.max(0, Math.floor(seen.left / step)); column < last(seen.right, width); column++) {
        const place = box(column * step, row * step, step, step);
        const tile = tiles.get(this.address(level, column, row));
        if (tile) {
          context.drawImage(tile, ...place);
        } else {
          this.drawCoarser(context, level, column, row, place);
          const far = Math.hypot((column + 0.5) * step - middle[0], (row + 0.5) * step - middle[1]);
          missing.push({ url: this.address(level, column, row), far });
        }
      }
    }
    context.restore();
    tiles.want(missing.sort((a, b) => a.far - b.far).map((m) => m.url), this);
  }

  // A part of the next coarser tile that is there, until the tile itself is.
  drawCoarser(context, level, column, row, place) {
    for (let up = 1; level + up < this.slide.levels; up++) {
      const factor = 2 ** up;
      const tile = tiles.get(this.address(level + up, Math.floor(column / factor), Math.floor(row / factor)));
      if (!tile) continue;
      const part = EDGE / factor;
      context.drawImage(tile, (column % factor) * part, (row % factor) * part, part, part, ...place);
      return;
    }
  }

  address(level, column, row) {
    return `${this.slide.tiles}/${level}/${column}_${row}.jpg`;
  }

  drawOverlay(context, box, zoom, seen) {
    const { lattice, tone } = this;
    const { raster, cell } = lattice;
    context.globalAlpha = this.opacity;
    context.imageSmoothingEnabled = false;
    if (cell * zoom < LARGE) {
      context.drawImage(this.picture, ...box(raster.x, raster.y, raster.width * raster.step, raster.height * raster.step));
    } else {
      const inset = (lattice.edge - cell) / 2;
      const faint = this.slide ? null : "#" + FAINT.toString(16);
      for (let i = 0; i < lattice.length; i++) {
        const [x, y] = [lattice.x[i] + inset, lattice.y[i] + inset];
        if (x > seen.right || y > seen.bottom || x + cell < seen.left || y + cell < seen.top) continue;
        context.fillStyle = tone[i] < 0 ? faint : this.colours[tone[i]];
        if (tone[i] >= 0 || faint) context.fillRect(...box(x, y, cell, cell));
      }
    }
    context.globalAlpha = 1;
  }
}
