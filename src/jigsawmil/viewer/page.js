"use strict";
// The page: what stands between Bokeh's models and the panes. Opacity, threshold, colours and hovering never ask the server.

const jigsawmil = (() => {
  const LAYERS = {
    attention: { colours: ["viridis", "magma", "inferno", "cividis"], chosen: "viridis" },
    evidence: { colours: ["RdBu_r", "PuOr_r", "BrBG_r"], chosen: "RdBu_r" },
    attribution: { colours: ["RdBu_r", "PuOr_r", "BrBG_r"], chosen: "RdBu_r" },
    jigsaw: { colours: ["cividis", "viridis", "magma", "inferno"], chosen: "cividis" },
  };
  const $ = (id) => document.getElementById(id);
  const panes = []; // {stage, source, state, info, data}
  let models, lattice = null;
  let looked = null; // width of the pane when the ranges were set, and the ranges if they were to show everything
  const settings = { layer: "attention", opacity: 0.6, threshold: 0 };
  const mouse = { x: 0, y: 0 };

  // given: Bokeh's models by name; called once, when the document is there.
  function attach(given) {
    models = given;
    settings.opacity = given.opacity.value;
    given.panes.forEach((state, i) => {
      panes.push({ stage: new Stage($(`canvas${i}`), view), source: given.sources[i], state, info: null });
    });
    const redraw = () => panes.forEach((pane) => pane.stage.redraw());
    tiles.arrived = redraw;
    for (const range of [given.x_range, given.y_range]) range.change.connect(() => { redraw(); place_hover(null); });
    new ResizeObserver(reshape).observe($("pane0"));
    const follow = (event) => Object.assign(mouse, { x: event.clientX, y: event.clientY });
    document.addEventListener("pointermove", follow, { capture: true }); // before Bokeh hears of it
    document.addEventListener("click", pressed);
    document.addEventListener("keydown", (event) => {
      const typing = event.composedPath()[0].matches?.("input, select, textarea");
      if (event.key === "f" && !typing) fit();
    });
    panes.forEach((_, i) => receive(i));
    tell();
    models.state.ready = true;
  }

  const view = () => {
    const { x_range: x, y_range: y } = models;
    return { left: x.start, right: x.end, top: y.end, bottom: y.start };
  };

  // scale: level-0 pixels a screen pixel.
  function look(x, y, scale) {
    const { clientWidth: width, clientHeight: height } = $("pane0");
    models.x_range.setv({ start: x - (scale * width) / 2, end: x + (scale * width) / 2 });
    models.y_range.setv({ start: y + (scale * height) / 2, end: y - (scale * height) / 2 });
    looked = { width, fitted: null };
  }

  // A pane of another size: as large as it was, or whole where it was whole.
  function reshape() {
    const { left, right, top, bottom } = view();
    const { clientWidth: width } = $("pane0");
    if (width === 0 || looked === null) return;
    if (looked.fitted === `${left} ${right} ${top}`) return fit();
    look((left + right) / 2, (top + bottom) / 2, (right - left) / looked.width);
  }

  function fit() {
    const info = panes[0].info;
    if (!info) return;
    const { width: w, height: h } = info.slide ?? {};
    const [x0, y0, x1, y1] = info.slide ? [0, 0, w, h] : [lattice.left, lattice.top, lattice.right, lattice.bottom];
    const { clientWidth: width, clientHeight: height } = $("pane0");
    look((x0 + x1) / 2, (y0 + y1) / 2, 1.06 * Math.max((x1 - x0) / width, (y1 - y0) / height));
    const { left, right, top } = view();
    looked.fitted = `${left} ${right} ${top}`;
  }

  // New maps for a pane; an empty info empties it.
  function receive(i) {
    const pane = panes[i];
    const info = pane.state.info;
    const before = panes[0].info;
    document.body.classList.toggle("compare", Boolean(models.panes[1].info.slide_id));
    pane.info = info.slide_id ? info : null;
    caption(i);
    if (!pane.info) return pane.stage.show(null, null);
    // plain arrays: Bokeh's know their shape, and lose it in map()
    pane.data = Object.fromEntries(Object.entries(pane.source.data).map(([name, column]) => [name, new Float32Array(column)]));
    if (i === 0) lattice = new Lattice(pane.data.x, pane.data.y, info.edge, info.cell);
    pane.stage.show(lattice, info.slide);
    recolour();
    reshape();
    if (i === 0 && before?.key !== info.key) fit();
    place_hover(null);
  }

  function caption(i) {
    const info = panes[i].info;
    $(`caption${i}`).textContent = info ? info.caption : "";
    $(`bar${i}`).hidden = !info;
  }

  // What is drawn of a patch: shade in [0, 1], and its rank among the patches, by which the threshold cuts.
  function values(pane, layer) {
    const { data } = pane;
    if (layer === "attention") return { shade: data.attention_rank, rank: data.attention_rank };
    if (layer === "evidence" || layer === "attribution") {
      const limit = pane.info[`${layer}_limit`] || 1;
      return { shade: data[layer].map((v) => 0.5 + v / limit / 2), rank: data[`${layer}_rank`] };
    }
    const limit = pane.info.shift_limit || 1;
    return { shade: data.shift.map((v) => v / limit), rank: data.shift_rank };
  }

  function recolour() {
    const { layer, threshold, opacity } = settings;
    const colours = PALETTES[LAYERS[layer].chosen];
    panes.forEach((pane, i) => {
      if (!pane.info) return;
      const shown = pane.info[layer] ?? true; // evidence, attribution and jigsaw may be missing
      const { shade, rank } = values(pane, layer);
      pane.stage.opacity = opacity;
      pane.stage.recolour(shade, shown ? rank : rank.map(() => -1), shown ? threshold : 0, colours);
      bar(i, colours, shown);
    });
  }

  function bar(i, colours, shown) {
    const { info } = panes[i];
    const stops = colours.filter((_, n) => n % 15 === 0).map((rgb) => "#" + rgb.toString(16).padStart(6, "0"));
    const words = {
      attention: ["least attended", "most attended"],
      evidence: [`against ${info.of}`, `for ${info.of}`],
      attribution: [`against ${info.of}`, `for ${info.of}`],
      jigsaw: ["predicted where it lies", `${short(info.shift_limit)} ${info.unit} away`],
    }[settings.layer];
    const [low, ramp, high] = $(`bar${i}`).children;
    const missing = {
      evidence: "this model does not define what each patch contributes",
      attribution: "start the viewer with --attribution to compute it",
      jigsaw: "this method has no jigsaw task of positions",
    };
    low.textContent = shown ? words[0] : missing[settings.layer];
    high.textContent = shown ? words[1] : "";
    ramp.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
    ramp.style.display = shown ? "" : "none";
  }

  function opacity(value) {
    settings.opacity = value;
    for (const pane of panes) {
      pane.stage.opacity = value;
      pane.stage.redraw();
    }
  }

  function threshold(percent) {
    settings.threshold = percent / 100;
    recolour();
  }

  function layer(name) {
    settings.layer = name;
    const { colours, chosen } = LAYERS[name];
    models.colours.setv({ options: colours, value: chosen });
    recolour();
  }

  function colours(name) {
    LAYERS[settings.layer].chosen = name;
    recolour();
  }

  // --- hovering and choosing

  function hover(i, x, y) {
    place_hover(lattice && panes[i].info ? lattice.find(x, y) : -1);
  }

  function place_hover(patch) {
    const tip = $("tip");
    const there = patch !== null && patch >= 0;
    tip.hidden = !there;
    tip.dataset.patch = there ? patch : "";
    const { left, right, top } = view();
    panes.forEach((pane, i) => {
      const box = $(`hover${i}`);
      box.hidden = !there || !pane.info;
      if (box.hidden) return;
      const zoom = $("pane0").clientWidth / (right - left);
      box.style.transform = `translate(${(lattice.x[patch] - left) * zoom - 1}px, ${(lattice.y[patch] - top) * zoom - 1}px)`;
      box.style.width = box.style.height = `${Math.max(4, lattice.edge * zoom)}px`;
    });
    if (!there) return;
    tip.replaceChildren(...describe(patch));
    const { offsetWidth: width, offsetHeight: height } = tip;
    const x = mouse.x + 18 + width > innerWidth ? mouse.x - 14 - width : mouse.x + 18;
    tip.style.transform = `translate(${x}px, ${Math.min(mouse.y + 14, innerHeight - height - 8)}px)`;
  }

  // Rows of the tip, a column a pane.
  function describe(patch) {
    const shown = panes.filter((pane) => pane.info);
    const rows = [[`patch ${patch}`, `x ${short(lattice.x[patch])}, y ${short(lattice.y[patch])}`]];
    if (shown.length > 1) rows.push(["", ...shown.map((pane) => pane.info.variant)]);
    const of = (read) => shown.map((pane) => read(pane.data, pane.info));
    rows.push(["attention", ...of((d) => d.attention[patch].toExponential(2))]);
    rows.push(["percentile", ...of((d) => (100 * d.attention_rank[patch]).toFixed(1))]);
    const signed = (name) => rows.push([name, ...of((d, info) => (info[name] ? (d[name][patch] > 0 ? "+" : "") + d[name][patch].toPrecision(3) : "–"))]);
    signed("evidence");
    if (shown[0].info.attribution) signed("attribution");
    rows.push(["jigsaw", ...of((d, info) => (info.jigsaw ? `${short(d.shift[patch])} ${info.unit} off` : "–"))]);
    return rows.map((cells) => {
      const row = document.createElement("div");
      row.append(...cells.map((text) => Object.assign(document.createElement("span"), { textContent: text })));
      return row;
    });
  }

  const short = (value) => Math.round(value).toLocaleString("en");

  function tap(i, x, y) {
    const patch = lattice && panes[i].info ? lattice.find(x, y) : -1;
    if (patch >= 0) models.state.patch = patch;
  }

  // A patch of the gallery: go there, near enough to see its neighbours.
  function pressed(event) {
    const button = event.composedPath().find((element) => element.dataset?.patch && element.matches("button"));
    if (event.composedPath().some((element) => element.id === "fit")) fit();
    if (!button || !lattice) return;
    const patch = Number(button.dataset.patch);
    const half = lattice.edge / 2;
    look(lattice.x[patch] + half, lattice.y[patch] + half, (16 * lattice.edge) / $("pane0").clientHeight);
    models.state.patch = patch;
  }

  // --- what the server has to say

  function tell() {
    const { notice, busy, headline } = models.state;
    $("headline").textContent = headline;
    $("busy").hidden = busy === "";
    $("busy-words").textContent = busy;
    $("notice").hidden = notice === "";
    $("notice").textContent = notice;
  }

  function search(text, source, filter) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = source.data.words.map((row, i) => (words.every((word) => row.includes(word)) ? i : -1));
    let typing = document.activeElement; // the table takes the focus when its rows change: back to the search
    while (typing?.shadowRoot?.activeElement) typing = typing.shadowRoot.activeElement;
    filter.indices = Array.from(rows).filter((i) => i >= 0);
    typing?.focus();
  }

  return { attach, receive, tell, hover, leave: () => place_hover(null), tap, opacity, threshold, layer, colours, search, look, view, panes, lattice: () => lattice };
})();
